"""TensorFlow's kernels as plain data: which device types have one for an operation, and what it keeps in host memory.

The rules are those of ``FindKernelRegistration`` and ``SupportedDeviceTypesForNode`` in
``tensorflow/core/framework/op_kernel.cc`` (read in 2.21).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import networkx as nx

# {"device": "GPU", "types": {"T": ["float32"]}, "host": ["shape"], "priority": 0, "label": ""}
KernelRow = dict[str, Any]
# The value of each type attribute that some kernel of the operation asks about: "float32", or a list of such names.
TypeAttributes = Mapping[str, Any]

_SYMBOLIC = ("XLA_CPU_JIT", "XLA_GPU_JIT", "XLA_TPU_JIT")


def fits(row: KernelRow, types: TypeAttributes) -> bool:
    """Tell whether a kernel takes these types; an attribute that is not known is taken to fit.

    Examples
    --------
    >>> row = {"device": "GPU", "types": {"T": ["float32", "float64"]}, "host": [], "priority": 0, "label": ""}
    >>> fits(row, {"T": "float32"}), fits(row, {"T": "string"}), fits(row, {"T": ["float32", "int32"]})
    (True, False, False)
    """
    for attribute, allowed in row["types"].items():
        value = types.get(attribute)
        if value is None:
            continue
        if value not in allowed if isinstance(value, str) else any(one not in allowed for one in value):
            return False
    return True


def kernel_for(rows: Sequence[KernelRow], types: TypeAttributes, kind: str) -> KernelRow | None:
    """Return the kernel that a device type runs an operation with: its own, else one for any device type.

    Examples
    --------
    >>> own = {"device": "GPU", "types": {"T": ["float32"]}, "host": [], "priority": 0, "label": ""}
    >>> any_ = {"device": "DEFAULT", "types": {"T": ["int32"]}, "host": ["x"], "priority": 0, "label": ""}
    >>> kernel_for([own, any_], {"T": "int32"}, "GPU")["device"], kernel_for([own], {"T": "int32"}, "GPU")
    ('DEFAULT', None)
    """
    for device in (kind, "DEFAULT") if kind not in _SYMBOLIC else (kind,):
        for row in rows:
            if row["device"] == device and not row["label"] and fits(row, types):
                return row
    return None


def supported_types(rows: Sequence[KernelRow] | None, types: TypeAttributes, kinds: Iterable[str]) -> dict[str, int]:
    """Return the device types that can run an operation, best first, each with its kernel's priority.

    Parameters
    ----------
    rows : sequence of dict or None
        Kernels of the operation type; ``None`` for a function, which any device runs.
    types : mapping
        Its type attributes.
    kinds : iterable of str
        Device types that TensorFlow has, best first.

    Examples
    --------
    >>> rows = [{"device": "CPU", "types": {}, "host": [], "priority": 1, "label": ""},
    ...         {"device": "GPU", "types": {}, "host": [], "priority": 0, "label": ""}]
    >>> supported_types(rows, {}, ["GPU", "CPU"]), supported_types(None, {}, ["GPU", "CPU"])
    ({'CPU': 1, 'GPU': 0}, {'GPU': 0, 'CPU': 0})
    """
    if rows is None:
        return dict.fromkeys(kinds, 0)
    found = [(kind, row["priority"]) for kind in kinds if (row := kernel_for(rows, types, kind)) is not None]
    return dict(sorted(found, key=lambda one: -one[1]))


def types_taken(rows: Sequence[KernelRow], types: TypeAttributes, kind: str) -> dict[str, list[str]]:
    """Return the values that a device type has kernels for, of each type attribute that keeps an operation off it.

    Examples
    --------
    >>> row = {"device": "GPU", "types": {"T": ["float32"]}, "host": [], "priority": 0, "label": ""}
    >>> types_taken([row], {"T": "int32"}, "GPU"), types_taken([], {"T": "int32"}, "GPU")
    ({'T': ['float32']}, {})
    """
    found: dict[str, set[str]] = {}
    for row in rows:
        if row["device"] in (kind, "DEFAULT") and not row["label"]:
            for attribute, allowed in row["types"].items():
                if not fits({**row, "types": {attribute: allowed}}, types):
                    found.setdefault(attribute, set()).update(allowed)
    return {attribute: sorted(allowed) for attribute, allowed in found.items()}


def signature(graph: nx.MultiDiGraph[str], node: str) -> str:
    """Write an operation's type with the types of its inputs and outputs.

    Examples
    --------
    >>> graph = nx.MultiDiGraph()
    >>> graph.add_node("a", op="Const", dtype="float32")
    >>> graph.add_node("b", op="Neg", dtype="float32")
    >>> _ = graph.add_edge("a", "b", 0, dtype="float32", control=False)
    >>> signature(graph, "b")
    'Neg(float32)->float32'
    """
    data = graph.nodes[node]
    inputs = sorted(
        (key, edge["dtype"]) for _, _, key, edge in graph.in_edges(node, keys=True, data=True) if not edge["control"]
    )
    return signature_of(data["op"], [kind for _, kind in inputs], data["dtype"])


def signature_of(op: str | None, inputs: Iterable[str | None], outputs: str | Iterable[str | None] | None) -> str:
    """Write an operation's type with the types of its inputs and outputs.

    Examples
    --------
    >>> signature_of("Merge", ["float32", None], ["float32", "int32"])
    'Merge(float32,?)->float32,int32'
    """
    given = outputs if isinstance(outputs, str) else ",".join(one or "?" for one in outputs or ())
    return f"{op}({','.join(kind or '?' for kind in inputs)})->{given}"
