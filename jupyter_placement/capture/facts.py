"""What explanations rest on, kept with the Placement: kernels, types, colocation, how each graph was placed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.capture.host_memory import HostMemory
from jupyter_placement.capture.kernels import kernel_rows, no_gpu_kernels_note
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.kernel_table import KernelRow, signature
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
    - ``variables``: the name of the variable that an argument of a function is;
    - ``optimized``: nodes that TensorFlow's graph optimizer made after placing;
    - ``references``: by operation type, the inputs that are references to a variable;
    - ``placed_before``: the device of each node with a state that an earlier run of its session placed;
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
        self._before: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        self._optimized: list[str] = []
        self._memory = HostMemory(placement.graph)

    def add_graph(self, label: str, graph: CapturedGraph, prefix: str, signatures: Signatures) -> None:
        """Note how a graph was placed; ``prefix`` is what the ids of its nodes begin with."""
        for name, device in graph.placed_before.items():
            data = self._graph.nodes.get(prefix + name)
            if data is not None and data["device"] == device and signatures.is_stateful(data["op"]):
                self._before[prefix + name] = device
        self._variables.update((prefix + name, variable) for name, variable in graph.variables.items())
        kind = graph.follows and "data"
        self._graphs[label] = {"kind": kind or label.partition(":")[0], "called_on": graph.called_on}

    def add_eager(self, existing: list[str]) -> None:
        """Note that there are eager operations, and which of their tensors were there before."""
        self._graphs["eager"] = {"kind": "eager", "called_on": ""}
        self._existing = existing

    def add_optimized(self, node: str) -> None:
        """Note a node that TensorFlow's graph optimizer made after placing."""
        self._optimized.append(node)

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
        self._memory.add_node(node, self._kernels[op], signatures, types, self._inputs(node))

    def _inputs(self, node: str) -> list[str | None]:
        edges = self._graph.in_edges(node, keys=True, data=True)
        return [kind for _, kind in sorted((key, edge["dtype"]) for *_, key, edge in edges if not edge["control"])]

    def finish(self, lines: Sequence[str] = ()) -> None:
        """Put the facts into the Placement.

        Parameters
        ----------
        lines : sequence of str
            What else TensorFlow logged.
        """
        self._memory.mark_edges()
        self._meta["kernels"] = {op: rows for op, rows in sorted(self._kernels.items()) if rows is not None}
        self._meta["explain"] = {
            "graphs": self._graphs,
            "types": {key: types for key, types in self._types.items() if types},
            "types_of": self._types_of,
            "colocated": self._colocated,
            "copies": self._copies,
            "placed_before": self._before,
            "variables": self._variables,
            "optimized": self._optimized,
            "references": self._references,
            "existing": self._existing,
            "gpu": gpu_facts(lines),
            "note": no_gpu_kernels_note() if self._kernels else "",
        }
