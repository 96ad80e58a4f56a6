"""Why a node is where it is, as far as the capture itself can tell."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from jupyter_placement.devices import device_type, parse_device, satisfies, sort_key

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


def placement_reason(
    device: str | None,
    requested: str,
    op: str | None,
    devices: Collection[str],
    beside: Collection[str | None] = (),
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
    beside : collection of str
        Devices of the nodes that it must be beside: ``loc:@`` groups, and the makers of its resources.

    Examples
    --------
    >>> cpu, gpu = (f"/job:localhost/replica:0/task:0/device:{kind}:0" for kind in ("CPU", "GPU"))
    >>> placement_reason(cpu, "/gpu:0", "MatMul", [cpu])
    'fallback'
    >>> placement_reason(gpu, "/gpu:0", "MatMul", [cpu, gpu]), placement_reason(gpu, "", "MatMul", [cpu, gpu])
    ('pinned', 'default')
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
    if op in _ARGUMENTS:
        return "followed"
    spec = parse_device(device)
    task = "" if spec is None else device.split("/device:")[0]
    return "default" if device == default_device({*devices, device}, task) else "unknown"
