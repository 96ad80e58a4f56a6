"""What explanations rest on, kept with the Placement: kernels, types, colocation, how each graph was placed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.capture.kernels import kernel_rows, no_gpu_kernels_note
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.devices import device_type
from jupyter_placement.kernel_table import KernelRow, kernel_for, signature
from jupyter_placement.placement import Placement

_ABOUT_GPUS = (
    "dlopen",
    "dynamic library",
    "cuda drivers",
    "cuInit",
    "driver version",
    "CUDA_ERROR",
    "forward compatibility",
)


def gpu_facts(lines: Sequence[str]) -> dict[str, Any]:
    """Return what may tell why TensorFlow uses no GPU."""
    if "tensorflow" not in sys.modules:
        return {}
    import tensorflow as tf

    return {
        "built_with_gpu": tf.test.is_built_with_cuda() or tf.test.is_built_with_rocm(),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "lines": [line for line in lines if any(word in line for word in _ABOUT_GPUS)][:20],
    }


class PlacementFacts:
    """Gather the facts of each graph; :meth:`finish` puts them into ``placement.meta``.

    ``meta["kernels"]`` holds the kernels of the operation types that are there. ``meta["explain"]`` holds

    - ``graphs``: for each captured graph its ``kind`` (``session``, ``function``, ``data``, ``eager``) and where it was
      ``called_on``;
    - ``types``: type attributes by an operation's signature, and ``types_of`` those of nodes that differ;
    - ``colocated``: the ``loc:@`` groups of each node that asks for some;
    - ``copies``: nodes that lowering put in, each with the node whose request it takes over;
    - ``references``: by operation type, the inputs that are references to a variable;
    - ``existing``: eager tensors that were there before the recording;
    - ``gpu``: why TensorFlow may use no GPU: how it was built, ``CUDA_VISIBLE_DEVICES``, the lines that tell;
    - ``note``: what this TensorFlow's registry lacks.

    Parameters
    ----------
    placement : Placement
        What is explained.
    """

    def __init__(self, placement: Placement) -> None:
        self._graph = placement.graph
        self._meta = placement.meta
        self._kernels: dict[str, list[KernelRow] | None] = {}
        self._asked: dict[str, frozenset[str]] = {}
        self._types: dict[str, dict[str, Any]] = {}
        self._types_of: dict[str, dict[str, Any]] = {}
        self._colocated: dict[str, list[str]] = {}
        self._references: dict[str, list[int]] = {}
        self._graphs: dict[str, dict[str, Any]] = {}
        self._existing: list[str] = []
        self._copies: dict[str, str] = {}
        self._host_outputs: dict[str, set[int]] = {}
        self._host_inputs: dict[str, set[int]] = {}

    def add_graph(self, label: str, graph: CapturedGraph) -> None:
        """Note how a graph was placed."""
        kind = graph.follows and "data"
        self._graphs[label] = {"kind": kind or label.partition(":")[0], "called_on": graph.called_on}

    def add_eager(self, existing: list[str]) -> None:
        """Note that there are eager operations, and which of their tensors were there before."""
        self._graphs["eager"] = {"kind": "eager", "called_on": ""}
        self._existing = existing

    def add_node(
        self,
        node: str,
        signatures: Signatures,
        types: dict[str, Any] | None,
        colocated: list[str],
        copies: str | None = None,
    ) -> None:
        """Note a node, whose edges must be there, and which of its tensors live in host memory.

        Parameters
        ----------
        node : str
            Its id.
        signatures : Signatures
            Of operations.
        types : dict or None
            Its type attributes; ``None``: what its tensors tell of them.
        colocated : list of str
            Ids of the ``loc:@`` groups that it asks for.
        copies : str or None
            Id of the node whose request, and whose device before placement, it takes over.
        """
        data = self._graph.nodes[node]
        op = data["op"]
        if colocated:
            self._colocated[node] = colocated
        if copies is not None:
            self._copies[node] = copies
        if op is None:
            return
        if op not in self._kernels:
            rows = self._kernels[op] = kernel_rows(op)
            self._asked[op] = frozenset(name for row in rows or () for name in row["types"])
            references = signatures.reference_inputs(op)
            if references:
                self._references[op] = references
        asked = self._asked[op]
        key = signature(self._graph, node)
        if types is None:
            types = self._types.get(key)
        if types is None:
            dtypes = data["dtype"]
            inputs = self._inputs(node)
            types = signatures.types_from_tensors(op, inputs, dtypes if isinstance(dtypes, list) else [dtypes])
        types = {name: value for name, value in types.items() if name in asked}
        known = self._types.setdefault(key, types)
        if known != types:
            self._types_of[node] = types
        self._mark_host_memory(node, data, signatures, types)

    def _inputs(self, node: str) -> list[str | None]:
        edges = self._graph.in_edges(node, keys=True, data=True)
        return [kind for _, kind in sorted((key, edge["dtype"]) for *_, key, edge in edges if not edge["control"])]

    def _mark_host_memory(self, node: str, data: Any, signatures: Signatures, types: dict[str, Any]) -> None:
        kind = device_type(data["device"]) if data["device"] else None
        rows = self._kernels[data["op"]]
        if kind is None or kind == "CPU" or rows is None:
            return
        row = kernel_for(rows, types, kind)
        if row is None or not row["host"]:
            return
        count = len(data["dtype"]) if isinstance(data["dtype"], list) else int(data["dtype"] is not None)
        outputs = signatures.output_names(data["op"], types, count)
        inputs = signatures.input_names(data["op"], types, len(self._inputs(node)))
        self._host_outputs[node] = {index for index, name in enumerate(outputs) if name in row["host"]}
        self._host_inputs[node] = {index for index, name in enumerate(inputs) if name in row["host"]}
        if count and len(self._host_outputs[node]) == count:
            data["memory"] = "host"

    def _mark_edges(self) -> None:
        """Mark the tensors that stay in host memory all the way although an end of theirs is on no CPU."""
        if not self._host_inputs:
            return
        on_cpu = {node for node, data in self._graph.nodes(data=True) if device_type(data["device"] or "") == "CPU"}
        for producer, consumer, key, edge in self._graph.edges(keys=True, data=True):
            if edge["control"] or (producer in on_cpu and consumer in on_cpu):
                continue
            output = int((edge["tensor"] or ":0").rpartition(":")[2])
            given = producer in on_cpu or output in self._host_outputs.get(producer, ())
            taken = consumer in on_cpu or key in self._host_inputs.get(consumer, ())
            if given and taken:
                edge["memory"] = "host"

    def finish(self, lines: Sequence[str] = ()) -> None:
        """Put the facts into the Placement.

        Parameters
        ----------
        lines : sequence of str
            What else TensorFlow logged.
        """
        self._mark_edges()
        self._meta["kernels"] = {op: rows for op, rows in sorted(self._kernels.items()) if rows is not None}
        self._meta["explain"] = {
            "graphs": self._graphs,
            "types": {key: types for key, types in self._types.items() if types},
            "types_of": self._types_of,
            "colocated": self._colocated,
            "copies": self._copies,
            "references": self._references,
            "existing": self._existing,
            "gpu": gpu_facts(lines),
            "note": no_gpu_kernels_note() if self._kernels else "",
        }
