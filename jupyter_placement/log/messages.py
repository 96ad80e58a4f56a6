"""Each event in one or two plain sentences: what happened, to which node, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyter_placement.devices import DeviceSpec, device_type, parse_device, short_device
from jupyter_placement.log.records import EventRecord
from jupyter_placement.summary import readable_bytes, some_names

_SOFT = "tf.config.set_soft_device_placement(True), or allow_soft_placement=True in TensorFlow 1"


def explain_event(event: EventRecord) -> str:
    """Say what happened, to which node, and what to do.

    Examples
    --------
    >>> print(explain_event(EventRecord("device_ignored", "q_Dequeue",
    ...                                 {"requested": "/device:GPU:0", "kept": "/device:CPU:0", "because": "q"})))
    TensorFlow ignored that q_Dequeue asks for /device:GPU:0: it must be on the device of its input q, /device:CPU:0. \
Ask for the same device for both, or for none.
    """
    return _SENTENCES.get(event.kind, _other)(event, event.details)


def _subject(event: EventRecord) -> str:
    op = event.details.get("op")
    name = event.node or "An operation"
    return f"{name} ({op})" if op else name


def _no_kernel(event: EventRecord, details: dict[str, Any]) -> str:
    requested = details.get("requested")
    wanted = (device_type(requested) if requested else None) or "the chosen device"
    text = f"{_subject(event)}"
    if requested:
        text += f" asks for {requested}, but cannot run there:"
    else:
        text += " cannot run:"
    supported: dict[str, list[str]] = details.get("supported", {})
    culprits = [op for op, types in supported.items() if wanted not in types and op != details.get("op")]
    kernels = list(dict.fromkeys(kernel["device"] for kernel in details.get("kernels", [])))
    if culprits:
        text += (
            f" it must be on one device with {some_names(culprits)}, "
            f"which {'has' if len(culprits) == 1 else 'have'} no kernel for {wanted}."
        )
    else:
        text += f" TensorFlow has no kernel of it for {wanted}"
        text += f" and these types; there are kernels for {', '.join(kernels)}." if kernels else "."
    return f"{text} Put it on another device with tf.device{_or_soft(details)}."


def _unknown_device(event: EventRecord, details: dict[str, Any]) -> str:
    available = details.get("available", [])
    tasks = len({name.split("/device:")[0] for name in available}) > 1
    there = some_names([short_device(name, tasks) for name in available]) or "not told"
    text = (
        f"{_subject(event)} asks for {details.get('requested') or 'a device'}, which TensorFlow does not have; it has: "
        f"{there}."
    )
    wanted = parse_device(details.get("requested") or "")
    if wanted is not None and available and not any(_same_task(wanted, name) for name in available):
        return f"{text} No device is of that job, replica and task: leave these out of tf.device, or connect to them."
    return (
        f"{text} Correct the tf.device, check that TensorFlow sees the card "
        f"(tf.config.list_physical_devices()){_or_soft(details)}."
    )


def _same_task(wanted: DeviceSpec, name: str) -> bool:
    have = parse_device(name)
    return have is not None and all(asked in (None, there) for asked, there in zip(wanted[:3], have[:3], strict=True))


def _or_soft(details: dict[str, Any]) -> str:
    """Suggest soft placement, unless it was on, and TensorFlow failed all the same."""
    return "" if details.get("soft") else f", or let TensorFlow choose: {_SOFT}"


def _cannot_colocate(event: EventRecord, details: dict[str, Any]) -> str:
    if "with" in details:
        asked = details.get("requested")
        devices = f" ({' and '.join(asked)})" if isinstance(asked, list) else ""
        return (
            f"{event.node} and {details['with']} must be on one device, but ask for different ones{devices}. Ask for "
            f"the same device for both{_or_soft(details)}."
        )
    required = details.get("required", "another device")
    return (
        f"{_subject(event)} must be on one device with operations that require {required}, and cannot run there. Take "
        f"it or them out of tf.device{_or_soft(details)}."
    )


def _colocation_changed(event: EventRecord, details: dict[str, Any]) -> str:
    members = [member["name"] for member in details.get("members", [])]
    candidates = [short_device(name) for name in details.get("candidates", [])]
    asked = f", which asked for {details['requested']}," if details.get("requested") else ""
    group = f"The group of {some_names(members, 3)}" if members else "A group of operations"
    went = f" to {', '.join(candidates)}" if candidates else " to another device"
    supported: dict[str, list[str]] = details.get("supported", {})
    wanted = device_type(details["requested"]) if details.get("requested") else None
    culprits = [op for op, types in supported.items() if wanted and wanted not in types]
    why = f" no kernel of {some_names(culprits)} is for {wanted}" if culprits else " not all of them can run there"
    return (
        f"{group}{asked} must be on one device and was moved{went}, because{why}. Put the variable or table on that "
        "device yourself to silence the warning, or use operations that have a kernel."
    )


def _device_ignored(event: EventRecord, details: dict[str, Any]) -> str:
    return (
        f"TensorFlow ignored that {event.node} asks for {details['requested']}: it must be on the device of its input "
        f"{details['because']}, {details['kept']}. Ask for the same device for both, or for none."
    )


def _oom(event: EventRecord, details: dict[str, Any]) -> str:
    size = f" of {readable_bytes(details['bytes'])}" if "bytes" in details else ""
    shape = f" (a tensor of shape {details['shape']})" if "shape" in details else ""
    where = f" on {short_device(details['device'])}" if "device" in details else ""
    if not where and "allocator" in details:
        where = f" in {details['allocator']}"
    who = f" for {event.node}" if event.node else ""
    if details.get("stage") == "driver":
        return (
            f"The driver refused an allocation{size}; TensorFlow asks again for less. It is no failure by itself: "
            "other programs may hold the card's memory (see nvidia-smi)."
        )
    if not details.get("fatal", True):
        return (
            f"An allocation{size}{who}{where} did not fit and TensorFlow went on without it; it may be slower. More "
            "free memory would help."
        )
    return (
        f"Out of memory: an allocation{size}{shape}{who}{where} did not fit. Make the batch or the model smaller, or "
        "place part of it on another device."
    )


def _truncated(event: EventRecord, details: dict[str, Any]) -> str:
    return "The log is cut off here: placements may be missing. Read the whole output, written to a file."


def _other(event: EventRecord, details: dict[str, Any]) -> str:
    return f"{_subject(event)}: {event.kind.replace('_', ' ')}."


_SENTENCES: dict[str, Callable[[EventRecord, dict[str, Any]], str]] = {
    "no_kernel": _no_kernel,
    "unknown_device": _unknown_device,
    "cannot_colocate": _cannot_colocate,
    "colocation_changed": _colocation_changed,
    "device_ignored": _device_ignored,
    "oom": _oom,
    "truncated": _truncated,
}
