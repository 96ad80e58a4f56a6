"""Functions for ``tf.compat.v1.device(...)`` that choose a device for each operation as it is made.

TensorFlow calls such a function once for each operation that is added to a graph, in a ``tf.Graph`` and inside
``tf.function`` alike, and takes what it returns as the requested device. ``tf.device`` of TensorFlow 2 takes no
function, and eager operations have no graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from jupyter_placement.devices import parse_device

DeviceFunction = Callable[[Any], str]

VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable", "TemporaryVariable"})
_KEEP = ""
_TYPES = ("CPU", "GPU", "TPU")


def variables_on(device: str, others: str = _KEEP) -> DeviceFunction:
    """Put variables on one device and all other operations on another.

    In a ``tf.Graph`` the variables' own operations go to ``device``. Operations that read or assign a variable take
    its resource, so TensorFlow keeps them with it whatever they ask for: nothing is asked for them. In a
    ``tf.function`` that only uses variables made outside, there is no variable to put: only ``others`` has an effect.

    Parameters
    ----------
    device : str
        Where variables go.
    others : str
        Where everything else goes; by default nothing is asked for it.

    Raises
    ------
    ValueError
        When one of them is no device name.

    Examples
    --------
    >>> from types import SimpleNamespace as Op
    >>> choose = variables_on("CPU:0", others="GPU:0")
    >>> choose(Op(type="VarHandleOp", name="w")), choose(Op(type="MatMul", name="y"))
    ('/device:CPU:0', '/device:GPU:0')
    """
    if not device:
        raise ValueError("variables_on needs a device for the variables, such as CPU:0")
    first, second = _checked(device), _checked(others)

    def choose(op: Any) -> str:
        if op.type in VARIABLES:
            return first
        return _KEEP if _takes_variable(op) else second

    return choose


def round_robin(devices: Sequence[str], ops: Collection[str] = VARIABLES) -> DeviceFunction:
    """Deal operations of some types out over devices, one after the other.

    In a ``tf.Graph`` and inside ``tf.function`` alike each operation that is added counts; each tracing of a function
    goes on where the last one stopped.

    Parameters
    ----------
    devices : sequence of str
        At least one.
    ops : collection of str
        The operation types that are dealt out: variables by default. The others ask for nothing.

    Raises
    ------
    ValueError
        When there is no device, or one of them is no device name.

    Examples
    --------
    >>> from types import SimpleNamespace as Op
    >>> choose = round_robin(["GPU:0", "GPU:1"], ops={"MatMul"})
    >>> [choose(Op(type=kind, name="")) for kind in ("MatMul", "Relu", "MatMul", "MatMul")]
    ['/device:GPU:0', '', '/device:GPU:1', '/device:GPU:0']
    """
    names = _some(devices)
    kinds = frozenset(ops)
    count = 0

    def choose(op: Any) -> str:
        nonlocal count
        if op.type not in kinds:
            return _KEEP
        count += 1
        return names[(count - 1) % len(names)]

    return choose


def by_scope(scopes: Mapping[str, str], others: str = _KEEP) -> DeviceFunction:
    """Choose by name scope: the longest scope that an operation's name begins with decides.

    In a ``tf.Graph`` names are whole. Inside ``tf.function`` they begin within the function.

    Parameters
    ----------
    scopes : mapping of str to str
        Device by name scope, such as ``{"encoder": "GPU:0", "encoder/embedding": "CPU:0"}``.
    others : str
        Where everything else goes; by default nothing is asked for it.

    Raises
    ------
    ValueError
        When one of them is no device name.

    Examples
    --------
    >>> from types import SimpleNamespace as Op
    >>> choose = by_scope({"encoder": "GPU:0", "encoder/embedding": "CPU:0"})
    >>> [choose(Op(type="Add", name=name)) for name in ("encoder/add", "encoder/embedding/add", "encoder_2/add")]
    ['/device:GPU:0', '/device:CPU:0', '']
    """
    named = {scope.strip("/"): _checked(device) for scope, device in scopes.items()}
    rest = _checked(others)

    def choose(op: Any) -> str:
        scope = op.name
        while scope:
            if scope in named:
                return named[scope]
            scope = scope.rpartition("/")[0]
        return rest

    return choose


def balance_bytes(devices: Sequence[str]) -> DeviceFunction:
    """Put each variable on the device that has the fewest bytes of variables so far; the first of equals.

    In a ``tf.Graph`` that places the variables that are made under it. In a ``tf.function`` variables are made outside
    the graph, so it has no effect there.

    Parameters
    ----------
    devices : sequence of str
        At least one.

    Raises
    ------
    ValueError
        When there is no device, or one of them is no device name.

    Examples
    --------
    >>> from types import SimpleNamespace as Op
    >>> def variable(size):
    ...     shape = Op(dim=[Op(size=size)], unknown_rank=False)
    ...     return Op(type="VariableV2", name="", get_attr=lambda key: shape if key == "shape" else Op(size=4))
    >>> choose = balance_bytes(["GPU:0", "GPU:1"])
    >>> [choose(variable(size)) for size in (100, 60, 30, 20)]
    ['/device:GPU:0', '/device:GPU:1', '/device:GPU:1', '/device:GPU:1']
    """
    names = _some(devices)
    loads = [0] * len(names)

    def choose(op: Any) -> str:
        if op.type not in VARIABLES:
            return _KEEP
        least = loads.index(min(loads))
        loads[least] += _variable_bytes(op)
        return names[least]

    return choose


def _takes_variable(op: Any) -> bool:
    return any(one.dtype.name == "resource" or one.dtype.name.endswith("_ref") for one in getattr(op, "inputs", ()))


def _variable_bytes(op: Any) -> int:
    """Return the size of a variable; one of unknown shape counts a single element."""
    shape, dtype = op.get_attr("shape"), op.get_attr("dtype")
    total = int(dtype.size)
    for dimension in () if shape.unknown_rank else shape.dim:
        total *= max(int(dimension.size), 1)
    return total


def _some(devices: Sequence[str]) -> list[str]:
    if not isinstance(devices, Sequence) or isinstance(devices, str) or not devices:
        raise ValueError('give the devices as a list with at least one, such as ["GPU:0", "GPU:1"]')
    return [_checked(device) for device in devices]


def _checked(device: str) -> str:
    """Write a device name in full form: what a function returns is not completed by TensorFlow."""
    # A word alone is taken for a device type: which may be none.
    word = isinstance(device, str) and device.isidentifier() and device.upper() not in _TYPES
    if not isinstance(device, str) or word or parse_device(device) is None:
        raise ValueError(f"{device!r} is no device name: write GPU:0, /device:GPU:0 or /job:worker/task:1/device:CPU:0")
    if not device or device.startswith("/"):
        return device
    return f"/device:{device}" if not device.startswith(("device:", "job:", "replica:", "task:")) else f"/{device}"
