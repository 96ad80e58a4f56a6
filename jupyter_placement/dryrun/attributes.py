"""The NodeDef behind each node of a placed graph, also of those that came out of functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jupyter_placement.capture.frames import Frame
from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.capture.lowering import Lowering, NumberedNames
from jupyter_placement.capture.private import private_tensorflow
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.dryrun.step_graph import StepNode


def node_defs(nodes: Sequence[StepNode], graphs: Mapping[str, CapturedGraph]) -> list[Any]:
    """Return the NodeDef of each node; ``None`` for a node that TensorFlow's lowering put in.

    Parameters
    ----------
    nodes : sequence of StepNode
        Of one Placement.
    graphs : mapping of str to CapturedGraph
        What it was made of, by the label that :func:`labelled` gives.
    """
    numbers: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        numbers.setdefault(node.graph, []).append(number)
    found: list[Any] = [None] * len(nodes)
    for label, graph in graphs.items():
        members = numbers.get(label, [])
        known = _definitions(graph, [nodes[number].name for number in members])
        for number in members:
            definition = known.get(nodes[number].name)
            if definition is not None and definition.op == nodes[number].op:
                found[number] = definition
    return found


def labelled(graphs: Sequence[CapturedGraph]) -> Iterable[tuple[str, CapturedGraph]]:
    """Give each graph with the label that a Placement's nodes have for it: the second of a name is numbered."""
    times: dict[str, int] = {}
    for graph in graphs:
        number = times[graph.label] = times.get(graph.label, 0) + 1
        yield (graph.label if number == 1 else f"{graph.label}#{number}"), graph


def _definitions(graph: CapturedGraph, names: Sequence[str]) -> dict[str, Any]:
    library = {item.signature.name: item for item in graph.graph_def.library.function}
    lowering = Lowering(NumberedNames(names), library, Signatures(private_tensorflow().op_defs, library, str))
    frames = [Frame("", "", [(node, list(node.input)) for node in graph.graph_def.node])]
    found: dict[str, Any] = {}
    for frame in frames:  # grows while it is walked
        for node, inputs in frame.nodes:
            found[frame.prefix + node.name] = node
            frames.extend(lowering.lower(node, inputs, frame))
    return found
