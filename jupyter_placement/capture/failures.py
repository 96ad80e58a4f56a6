"""What TensorFlow's eager runtime says when hard placement fails.

The texts are those of ``placement_utils.cc`` and ``process_function_library_runtime.cc``, seen on TensorFlow 2.21; the
placer's own are read by the log reader.
"""

from __future__ import annotations

import re

from jupyter_placement.devices import satisfies
from jupyter_placement.log import EventRecord, parse_placement_error

_EAGER = re.compile(
    r"Could not satisfy device specification '([^']*)'.*?Supported device types \[([^\]]*)\]\. "
    r"All available devices \[([^\]]*)\]",
    re.DOTALL,
)
_FUNCTION = re.compile(r"Unable to find any devices for spec (\S+)")
_CALLED = re.compile(r"\[Op:(\w+)\]")


def placement_failure(text: str) -> EventRecord | None:
    """Read an error of hard placement; ``None`` for any other error.

    Examples
    --------
    >>> event = placement_failure(
    ...     "Could not satisfy device specification '/job:localhost/replica:0/task:0/device:GPU:3'. "
    ...     "enable_soft_placement=0. Supported device types [CPU]. All available devices "
    ...     "[/job:localhost/replica:0/task:0/device:CPU:0]. [Op:AddV2]")
    >>> event.kind, event.details["op"], event.details["available"]
    ('unknown_device', 'AddV2', ['/job:localhost/replica:0/task:0/device:CPU:0'])
    >>> placement_failure("Unable to find any devices for spec /device:GPU:3 [Op:__inference_f_40]").kind
    'unknown_device'
    """
    record = parse_placement_error(text)
    if record is not None:
        return record
    called = _CALLED.search(text)
    op = {"op": called[1]} if called is not None and not called[1].startswith("__") else {}
    lines = tuple(line for line in text.splitlines() if line.strip())
    eager = _EAGER.search(text)
    if eager is not None:
        available = [name.strip() for name in eager[3].split(",") if name.strip()]
        there = any(satisfies(name, eager[1]) for name in available)
        if not there:
            return EventRecord("unknown_device", None, {**op, "requested": eager[1], "available": available}, lines)
        types = [{"device": kind.strip(), "constraint": ""} for kind in eager[2].split(",") if kind.strip()]
        return EventRecord("no_kernel", None, {**op, "requested": eager[1], "kernels": types}, lines)
    function = _FUNCTION.search(text)
    if function is not None:
        return EventRecord("unknown_device", None, {**op, "requested": function[1], "available": []}, lines)
    return None
