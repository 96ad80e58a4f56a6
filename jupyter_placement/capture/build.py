"""Make a Placement of what a recording found."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jupyter_placement.capture.eager_graph import add_eager
from jupyter_placement.capture.facts import PlacementFacts
from jupyter_placement.capture.graphs import Captured, CapturedGraph
from jupyter_placement.capture.records import LineCollector
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.capture.sources import UserFrames
from jupyter_placement.capture.structure import NodeFacts, Structure, parse_input, structure_of
from jupyter_placement.capture.tensors import tensor_bytes
from jupyter_placement.placement import Counts, Device, Placement

_FOLLOW_LIMIT = 100


def build_placement(captured: Captured, lines: LineCollector, devices: Sequence[Device]) -> Placement:
    """Make the Placement of a recording.

    Parameters
    ----------
    captured : Captured
        What was found.
    lines : LineCollector
        The placement log.
    devices : sequence of Device
        The devices that TensorFlow has.
    """
    placement = Placement(devices=list(devices), log=list(lines.lines))
    loose = [*captured.loose, *lines.pop()]
    placement.counts = Counts(lines.read, lines.matched, lines.duplicate, len(loose))
    facts = PlacementFacts(placement)
    labels: dict[str, int] = {}
    for graph in captured.graphs:
        number = labels[graph.label] = labels.get(graph.label, 0) + 1
        label = graph.label if number == 1 else f"{graph.label}#{number}"
        _GraphBuilder(placement, graph, label, facts).add()
    for record in loose:
        node = record.name if record.name not in placement.graph else f"log/{record.name}"
        placement.add_node(_unused(placement, node), name=record.name, op=record.op, device=record.device, graph="log")
    if captured.eager or captured.one_op_devices:
        add_eager(placement, captured, facts)
    facts.finish(lines.other)
    return placement


def id_prefix(placement: Placement, label: str, names: Collection[str]) -> str:
    """Return what the ids of a graph's nodes begin with: nothing, or its label where a name is taken already."""
    if placement.graph.nodes.keys().isdisjoint(names):
        return ""
    return label.removeprefix("function:") + "/"


def _unused(placement: Placement, node: str) -> str:
    number, unused = 1, node
    while unused in placement.graph:
        unused, number = f"{node}#{number + 1}", number + 1
    return unused


class _GraphBuilder:
    """Add one captured graph to a Placement."""

    def __init__(self, placement: Placement, graph: CapturedGraph, label: str, facts: PlacementFacts) -> None:
        import tensorflow as tf

        from jupyter_placement.capture.private import private_tensorflow

        self._placement = placement
        self._label = label
        self._graph = graph
        self._facts = facts
        self._frames = UserFrames()
        self._logged = {record.name: record for record in graph.records}
        self._placed = {} if graph.placed is None else {node.name: node for node in graph.placed.node}
        library = {item.signature.name: item for item in graph.graph_def.library.function}
        self._signatures = Signatures(private_tensorflow().op_defs, library, lambda kind: tf.dtypes.as_dtype(kind).name)
        self._structure: Structure = structure_of(
            graph.graph_def, [*self._logged, *self._placed], self._signatures, graph.shapes, graph.sources
        )
        self._add_placed_inputs()
        # Nodes of a library function that was not inlined are no operations of this graph.
        self._names = list(
            dict.fromkeys(
                [
                    *(node.name for node in graph.graph_def.node),
                    *(name for name in self._structure.nodes if name in self._logged or name in self._placed),
                    *self._logged,
                    *self._placed,
                ]
            )
        )

    def add(self) -> None:
        prefix = id_prefix(self._placement, self._label, self._names)
        for name in self._names:
            self._add_node(prefix, name)
        nodes = self._placement.graph
        for name in self._names:
            for key, producer, index in self._structure.inputs.get(name, ()):
                if prefix + producer in nodes:
                    self._add_edge(prefix, name, key, producer, index)
        self._facts.add_graph(self._label, self._graph, prefix, self._signatures)
        for name in self._names:
            known = self._structure.nodes.get(name)
            asked = known or self._structure.added.get(name)
            if asked is None and name not in self._logged and name in self._placed:
                self._facts.add_optimized(prefix + name)
            self._facts.add_node(
                prefix + name,
                self._signatures,
                known.types if known is not None and known.op == nodes.nodes[prefix + name]["op"] else None,
                [prefix + one for one in asked.colocated] if asked is not None else [],
                prefix + asked.copies if asked is not None and asked.copies else None,
            )

    def _add_placed_inputs(self) -> None:
        """Take the edges of nodes that only the graph after placement has from there."""
        for name, node in self._placed.items():
            if self._structure.inputs.get(name):
                continue
            data = [source for source in node.input if not source.startswith("^")]
            edges = self._structure.inputs[name] = []
            edges.extend((key, *parse_input(source)) for key, source in enumerate(data))
            for source in node.input:
                if source.startswith("^"):
                    self._structure.add_control(name, source[1:])

    def _device(self, name: str) -> str | None:
        if name in self._logged:
            return self._logged[name].device
        placed = self._placed.get(name)
        return placed.device or None if placed is not None else None

    def _add_node(self, prefix: str, name: str) -> None:
        facts = self._structure.nodes.get(name)
        asked = facts or self._structure.added.get(name)
        record, device = self._logged.get(name), self._device(name)
        placed: Any = self._placed.get(name)
        op = record.op if record is not None and record.op else (facts.op if facts is not None else placed.op)
        outputs = [self._output(name, index) for index in range(self._output_count(name, facts, op, placed))]
        dtypes, shapes = [one[0] for one in outputs], [one[1] for one in outputs]
        self._placement.add_node(
            prefix + name,
            name=name,
            op=op,
            device=device,
            requested=asked.requested if asked is not None else "",
            dtype=dtypes[0] if len(dtypes) == 1 else (dtypes or None),
            shape=shapes[0] if len(shapes) == 1 else (shapes or None),
            graph=self._label,
            source=self._frames.named(asked.source) if asked is not None else None,
            compiled=facts.compiled if facts is not None else None,
        )

    def _output_count(self, name: str, facts: NodeFacts | None, op: str | None, placed: Any) -> int:
        if facts is not None and facts.op == op:
            return len(facts.dtypes)
        if placed is not None:
            return len(self._signatures.output_dtypes(placed))
        return {"Switch": 2, "Merge": 2, "NoOp": 0}.get(op or "", 1 if facts is None and self._data_inputs(name) else 0)

    def _data_inputs(self, name: str) -> list[tuple[int | str, str, int]]:
        return [edge for edge in self._structure.inputs.get(name, ()) if not isinstance(edge[0], str)]

    def _output(self, name: str, index: int) -> tuple[str | None, Any]:
        """Return type and shape of an output; what lowering put in passes on those of its first input."""
        for _ in range(_FOLLOW_LIMIT):
            facts = self._structure.nodes.get(name)
            record = self._logged.get(name)
            if facts is not None and (record is None or record.op == facts.op):
                if 0 <= index < len(facts.dtypes):
                    return facts.dtypes[index] or None, facts.shapes[index]
                return None, None
            if record is not None and record.op == "Merge" and index == 1:
                return "int32", []
            sources = self._data_inputs(name)
            if not sources:
                break
            _, name, index = sources[0]
        placed = self._placed.get(name)
        types = self._signatures.output_dtypes(placed) if placed is not None else []
        return (types[index] or None if 0 <= index < len(types) else None), None

    def _add_edge(self, prefix: str, name: str, key: int | str, producer: str, index: int) -> None:
        if isinstance(key, str):
            self._placement.add_edge(prefix + producer, prefix + name, key, tensor=f"^{producer}")
            return
        dtype, shape = self._output(producer, index)
        self._placement.add_edge(
            prefix + producer,
            prefix + name,
            key,
            tensor=f"{producer}:{index}",
            dtype=dtype,
            shape=shape,
            bytes=tensor_bytes(dtype, shape),
        )
