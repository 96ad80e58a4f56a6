"""Which tensors of operations on a GPU are in host memory, and which edges therefore are copies.

The rules are those of ``MemoryTypesForNode`` in ``core/framework/memory_types.cc``, and of the passes that insert a
``_Send`` and a ``_Recv``: ``NeedSameDeviceSendRecv`` in ``graph_partition.cc`` and ``EnsureMemoryTypes`` in
``core/common_runtime/memory_types.cc`` (read in 2.21).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import networkx as nx

from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.devices import device_type
from jupyter_placement.kernel_table import KernelRow, kernel_for

_HANDLE = "resource"
_ALWAYS_ON_HOST = frozenset({"string", "string_ref", _HANDLE})  # kDataTypesAlwaysOnHost
_CALLS = frozenset({"SymbolicGradient", "PartitionedCall", "StatefulPartitionedCall", "While"})


class HostMemory:
    """Find the tensors in host memory, node by node; :meth:`mark_edges` then marks the edges.

    Parameters
    ----------
    graph : networkx.MultiDiGraph
        That of a Placement.
    """

    def __init__(self, graph: nx.MultiDiGraph[str]) -> None:
        self._graph = graph
        self._inputs: dict[str, set[int]] = {}
        self._outputs: dict[str, set[int]] = {}

    def add_node(
        self,
        node: str,
        rows: Sequence[KernelRow] | None,
        signatures: Signatures,
        types: dict[str, Any],
        inputs: list[str | None],
    ) -> None:
        """Find which inputs and outputs of a node are in host memory, and mark it if that is all that it makes.

        A handle of a variable is no value: a node that makes only handles is not marked.

        Parameters
        ----------
        node : str
            Its id.
        rows : sequence of dict or None
            Kernels of its operation type.
        signatures : Signatures
            Of operations.
        types : dict
            Its type attributes.
        inputs : list of str or None
            Types of its inputs.
        """
        data = self._graph.nodes[node]
        kind = device_type(data["device"]) if data["device"] else None
        if kind is None or kind == "CPU":
            return
        op, dtypes = data["op"], data["dtype"]
        outputs: list[str | None] = dtypes if isinstance(dtypes, list) else [] if dtypes is None else [dtypes]
        row = kernel_for(rows, types, kind) if rows is not None and op not in _CALLS else None
        if row is not None:
            always = _ALWAYS_ON_HOST
        else:
            always = _ALWAYS_ON_HOST if data["compiled"] is not None else _ALWAYS_ON_HOST | {"int32"}
        host = row["host"] if row is not None else ()
        taken = signatures.input_names(op, types, len(inputs)) if host else []
        given = signatures.output_names(op, types, len(outputs)) if host else []
        self._inputs[node] = {at for at, name in enumerate(taken) if name in host}
        self._inputs[node] |= {at for at, one in enumerate(inputs) if one in always}
        self._outputs[node] = {at for at, name in enumerate(given) if name in host}
        self._outputs[node] |= {at for at, one in enumerate(outputs) if one in always}
        if outputs and len(self._outputs[node]) == len(outputs) and any(one != _HANDLE for one in outputs):
            data["memory"] = "host"

    def mark_edges(self) -> None:
        """Mark the tensors in host memory with an end on no CPU, and say which edges are copies.

        A tensor that both ends have in host memory is handed over within a task, not copied, although the devices may
        differ. One that an operation on a GPU makes in host memory and another there takes from device memory is
        copied, although both are on one device; and the other way round.
        """
        if not self._inputs:
            return
        nodes = self._graph.nodes
        tasks = {data["device"]: str(data["device"]).split("/device:")[0] for _, data in nodes(data=True)}
        for producer, consumer, key, edge in self._graph.edges(keys=True, data=True):
            if edge["control"] or edge["dtype"] == _HANDLE:
                continue
            source, target = nodes[producer]["device"], nodes[consumer]["device"]
            on_cpu = device_type(source or "") == "CPU", device_type(target or "") == "CPU"
            if source is None or target is None or all(on_cpu):
                continue
            output = int((edge["tensor"] or ":0").rpartition(":")[2])
            given = on_cpu[0] or output in self._outputs.get(producer, ())
            taken = on_cpu[1] or key in self._inputs.get(consumer, ())
            if given and taken:
                edge["memory"] = "host"
                edge["transfer"] = tasks[source] != tasks[target]
            elif given and not on_cpu[0]:
                edge["memory"], edge["transfer"] = "to_device", True
            elif taken and not on_cpu[1]:
                edge["memory"], edge["transfer"] = "to_host", True
