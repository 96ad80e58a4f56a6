"""How TensorFlow's placer compares and merges requested devices and device types.

The rules are those of ``MergeDevNames`` in ``device_name_utils.cc`` and of ``colocation_graph.cc`` (read in 2.21).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jupyter_placement.devices import DeviceSpec

OPEN = DeviceSpec()
# Device types by TensorFlow's priority of their factories; what is not known here comes between.
_PRIORITY = {"GPU": 210, "CPU": 70, "XLA_GPU": 50, "XLA_CPU": 50}


def rank(kind: str | None) -> int:
    """Return the priority of a device type."""
    return _PRIORITY.get(kind or "", 200)


def matches(device: DeviceSpec, spec: DeviceSpec) -> bool:
    """Tell whether a device is one that a request allows."""
    return all(wanted is None or wanted == given for wanted, given in zip(spec, device, strict=True))


def compatible(a: DeviceSpec, b: DeviceSpec) -> bool:
    """Tell whether two requests can both be met."""
    return all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))


def merged(a: DeviceSpec, b: DeviceSpec) -> DeviceSpec | None:
    """Merge two requests (``MergeDevNames`` with soft placement): types or numbers that differ are dropped."""
    if a == b or b == OPEN:
        return a
    if a == OPEN:
        return b
    if not compatible(a._replace(type=None, id=None), b._replace(type=None, id=None)):
        return None
    job = a.job if a.job is not None else b.job
    replica = a.replica if a.replica is not None else b.replica
    task = a.task if a.task is not None else b.task
    if a.type is not None and b.type is not None and a.type != b.type:
        return DeviceSpec(job, replica, task, None, None)
    kind = a.type if a.type is not None else b.type
    if a.id is not None and b.id is not None and a.id != b.id:
        return DeviceSpec(job, replica, task, kind, None)
    return DeviceSpec(job, replica, task, kind, a.id if a.id is not None else b.id)


def overridden(a: DeviceSpec, strong: DeviceSpec) -> DeviceSpec:
    """Return a request with the parts that a stronger one fixes."""
    if strong == OPEN or a == strong:
        return a
    return DeviceSpec(*(s if s is not None else own for own, s in zip(a, strong, strict=True)))  # type: ignore[arg-type]


def intersection(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    """Return the device types of both, in the order that the placer merges them to (``MergeSupportedDevices``)."""
    if a == b and list(a) == list(b):
        return a
    first, second = {k: v for k, v in a.items() if k in b}, {k: v for k, v in b.items() if k in a}
    if any(second.values()) and not any(first.values()):
        return second
    if any(first.values()) and any(second.values()) and list(first) != list(second):
        return dict.fromkeys(sorted(first, key=lambda kind: -rank(kind)), 0)
    return first


@dataclass
class Group:
    """Nodes that must be on one device.

    Attributes
    ----------
    members : list of str
        Their ids.
    strong : DeviceSpec
        What function arguments and the makers of variables ask for: it is not overridden.
    asked : DeviceSpec
        What all of them ask for.
    kinds : dict of str to int
        Device types that have a kernel for each of them, with priority.
    broken : bool
        Whether no device type has one for all.
    """

    members: list[str]
    strong: DeviceSpec = OPEN
    asked: DeviceSpec = OPEN
    kinds: dict[str, int] = field(default_factory=dict)
    broken: bool = False
