"""Why a node is where it is, as far as the capture itself can tell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from jupyter_placement.devices import device_type, satisfies, sort_key

_METADATA = frozenset({"Shape", "ShapeN", "Size", "Rank"})
_ARGUMENTS = frozenset({"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval"})


def default_device(devices: Iterable[str], task: str) -> str | None:
    """Return the device that TensorFlow takes when nothing decides: the first of the type with the highest priority.

    GPUs come before CPUs (``DeviceFactory`` priorities in ``tensorflow/core/common_runtime``).

    Examples
    --------
    >>> default_device(["/job:w/replica:0/task:0/device:CPU:0", "/job:w/replica:0/task:0/device:GPU:0"],
    ...                "/job:w/replica:0/task:0")
    '/job:w/replica:0/task:0/device:GPU:0'
    """
    mine = sorted((name for name in devices if name.startswith(task + "/")), key=sort_key)
    for kind in ("GPU", "CPU"):
        for name in mine:
            if device_type(name) == kind:
                return name
    return None


class DefaultDevices(dict[str, str | None]):
    """The default device of each task, worked out when it is first asked for.

    Examples
    --------
    >>> DefaultDevices(["/job:w/replica:0/task:0/device:CPU:0"])["/job:w/replica:0/task:0"]
    '/job:w/replica:0/task:0/device:CPU:0'
    """

    def __init__(self, devices: Iterable[str]) -> None:
        super().__init__()
        self._devices = list(devices)

    def __missing__(self, task: str) -> str | None:
        self[task] = default_device(self._devices, task)
        return self[task]

    def of(self, device: str | None) -> str | None:
        """Return the default device of the task that a device belongs to."""
        return None if device is None else self[device.split("/device:")[0]]


def followed_device(
    op: str | None, outputs: int, producers: Sequence[str | None], consumers: Sequence[str | None]
) -> str | None:
    """Return the device that the placer's heuristics put an operation on that requests none.

    ``placer.cc`` (TensorFlow 2.21): an operation without inputs and with one output goes to its consumers' device if
    they are all on one; one that only reads the shape of its input goes to the input's device.

    Parameters
    ----------
    op : str or None
        Operation type.
    outputs : int
        Number of its outputs.
    producers, consumers : sequence of (str or None)
        Assigned devices of the nodes before and behind it.

    Examples
    --------
    >>> followed_device("Const", 1, [], ["D1", "D1"]), followed_device("Const", 1, [], ["D0", "D1"])
    ('D1', None)
    >>> followed_device("Shape", 1, ["D1"], ["D0"])
    'D1'
    """
    if not producers and outputs == 1 and len(set(consumers)) == 1:
        return consumers[0]
    return producers[0] if op in _METADATA and producers else None


def placement_reason(
    device: str | None,
    requested: str,
    op: str | None,
    devices: Collection[str],
    default: str | None,
    beside: Collection[str | None] = (),
    follows: str | None = None,
) -> str:
    """Return the reason of a node's placement, ``"unknown"`` where more than the capture knows is needed.

    Parameters
    ----------
    device : str or None
        Assigned device.
    requested : str
        Requested device.
    op : str or None
        Operation type.
    devices : collection of str
        All devices that TensorFlow has.
    default : str or None
        The one of this task that it takes when nothing decides: see :func:`default_device`.
    beside : collection of str
        Devices of the nodes that it must be beside: ``loc:@`` groups, and the makers of its resources.
    follows : str or None
        Device of the node that the placer puts it with: see :func:`followed_device`.

    Examples
    --------
    >>> cpu, gpu = (f"/job:localhost/replica:0/task:0/device:{kind}:0" for kind in ("CPU", "GPU"))
    >>> placement_reason(cpu, "/gpu:0", "MatMul", [cpu], cpu)
    'fallback'
    >>> placement_reason(gpu, "/gpu:0", "MatMul", [cpu, gpu], gpu)
    'pinned'
    >>> placement_reason(gpu, "", "MatMul", [cpu, gpu], gpu), placement_reason(cpu, "", "MatMul", [cpu, gpu], gpu)
    ('default', 'unknown')
    """
    if device is None:
        return "unknown"
    if requested:
        if satisfies(device, requested):
            return "pinned"
        exists = any(satisfies(name, requested) for name in devices)
        return "colocated" if exists and device in beside else "fallback"
    if device in beside:
        return "colocated"
    if op in _ARGUMENTS or device == follows:
        return "followed"
    return "default" if device == default else "unknown"
