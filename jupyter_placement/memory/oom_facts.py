"""The facts of an out-of-memory event: device, size, stage."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_placement.devices import full_device
from jupyter_placement.log import EventRecord, LogReader
from jupyter_placement.summary import readable_bytes

_ALLOCATOR = re.compile(r"(GPU|gpu)_(\d+)_|^(?:mkl)?(cpu)", re.ASCII)
_AS_TEXT = re.compile(r"trying to allocate ([\d.]+ ?[KMGT]i?B)")
_TYPE = re.compile(r"shape ?\[[\d, ]*\] and type (\w+)")
_BYTES = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("half", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float", "int32", "uint32"), 4),
    **dict.fromkeys(("double", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}
# What TensorFlow says when the card is so full that it cannot even start there.
_START = re.compile(
    r"CUDA runtime implicit initialization on GPU:(?P<gpu>\d+) failed\. Status: out of memory"
    r"|failed call to cu(?:DevicePrimaryCtxRetain|CtxCreate|Init)\b.*OUT_OF_MEMORY"
    r"|(?:Failed to create session|failed initializing StreamExecutor|Internal: no supported devices).*OUT_OF_MEMORY"
)


@dataclass(frozen=True)
class OomFacts:
    """What an out-of-memory event tells.

    Attributes
    ----------
    stage : str
        ``"start"``, ``"driver"``, ``"allocator"`` or ``"op"``.
    fatal : bool
        Whether something failed.
    device : str or None
        Full device name.
    node : str or None
        The operation that asked.
    size : int or None
        Bytes asked for.
    asked : str
        The same for people, with the shape where it is known.
    """

    stage: str
    fatal: bool
    device: str | None = None
    node: str | None = None
    size: int | None = None
    asked: str = ""


def facts_of(nodes: Sequence[str], details: Mapping[str, Any], lines: Sequence[str]) -> OomFacts:
    """Gather the facts of an event from its details, and from its lines what those do not tell.

    Examples
    --------
    >>> line = "OOM when allocating tensor with shape[1000,1000] and type double on /job:..."
    >>> facts_of((), {"stage": "op", "fatal": True, "shape": [1000, 1000], "allocator": "GPU_1_bfc"}, [line])
    OomFacts(stage='op', fatal=True, device='/job:localhost/replica:0/task:0/device:GPU:1', node=None, size=8000000, \
asked='7.6 MiB (shape 1000 x 1000)')
    """
    device = details.get("device") or _device_of(details.get("allocator", ""))
    shape = details.get("shape")
    size = details.get("bytes")
    text = "\n".join(lines)
    if size is None and shape is not None and (match := _TYPE.search(text)) and match[1] in _BYTES:
        size = math.prod(shape) * _BYTES[match[1]]
    asked = readable_bytes(size) if size is not None else ""
    if not asked and (match := _AS_TEXT.search(text)):
        asked = f"about {match[1]}"
    if shape:
        written = f"shape {' x '.join(map(str, shape))}"
        asked = f"{asked} ({written})" if asked else f"a tensor of {written}"
    node = nodes[0] if nodes else None
    return OomFacts(details.get("stage", "op"), bool(details.get("fatal", True)), device, node, size, asked)


def read_oom(text: str) -> list[EventRecord]:
    """Find the out-of-memory events in a log or in the message of an exception.

    Also those at the start, which name no allocator and no operation.

    Examples
    --------
    >>> text = "CUDA runtime implicit initialization on GPU:0 failed. Status: out of memory"
    >>> read_oom(text)[0].details
    {'stage': 'start', 'fatal': True, 'device': '/job:localhost/replica:0/task:0/device:GPU:0'}
    """
    reader = LogReader()
    reader.feed(text if text.endswith("\n") else f"{text}\n")
    events = [event for event in reader.finish().events if isinstance(event, EventRecord) and event.kind == "oom"]
    told = {line for event in events for line in event.lines}
    starts: dict[str | None, EventRecord] = {}
    for line in text.splitlines():
        match = _START.search(line)
        if match is not None and line.strip() not in told:
            device = full_device(f"GPU:{match['gpu']}") if match["gpu"] else None
            details = {"stage": "start", "fatal": True, **({"device": device} if device else {})}
            starts.setdefault(device, EventRecord("oom", None, details, (line.strip(),)))
    return [*starts.values(), *events]


def _device_of(allocator: str) -> str | None:
    match = _ALLOCATOR.search(allocator)
    if match is None:
        return None
    return full_device("CPU:0" if match[3] else f"GPU:{match[2]}")
