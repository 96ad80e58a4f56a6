"""A GraphDef as nodes and edges, with its functions and control flow lowered as TensorFlow lowered them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jupyter_placement.capture.lowering import Frame, Lowering, NumberedNames, Reference, completed_request
from jupyter_placement.capture.signatures import Signatures

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
Source = tuple[str, int]


@dataclass
class NodeFacts:
    """What a GraphDef tells of a node.

    Attributes
    ----------
    op, requested : str
        Operation type and requested device.
    dtypes : list of str
        Of each output.
    shapes : list
        Of each output; ``None`` where unknown.
    colocated : list of str
        Colocation groups that the node asks for (``loc:@``) by the names that they are called by, other than its own.
    compiled : int or None
        Number of operations in the function that XLA compiles as a whole.
    types : dict
        Values of its type attributes, by name.
    source : (str, int) or None
        File and line that made it.
    copies : str or None
        The node whose request, and whose device if it has one before the placer begins, it takes over.
    """

    op: str
    requested: str = ""
    dtypes: list[str] = field(default_factory=list)
    shapes: list[Any] = field(default_factory=list)
    colocated: list[str] = field(default_factory=list)
    compiled: int | None = None
    types: dict[str, Any] = field(default_factory=dict)
    source: Source | None = None
    copies: str | None = None


@dataclass
class Structure:
    """Nodes by name, and the inputs of each: key, producer, and its output (-1 for a control edge).

    ``added`` are the nodes that lowering put in; of these only request, colocation and source are known. ``groups`` are
    the colocation groups that lowered nodes asked for.
    """

    nodes: dict[str, NodeFacts] = field(default_factory=dict)
    added: dict[str, NodeFacts] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    inputs: dict[str, list[tuple[int | str, str, int]]] = field(default_factory=dict)
    _controls: dict[str, int] = field(default_factory=dict)

    def add_control(self, consumer: str, producer: str) -> None:
        """Add a control edge, under the next free key."""
        number = self._controls[consumer] = self._controls.get(consumer, -1) + 1
        self.inputs.setdefault(consumer, []).append((f"^{number}", producer, -1))


def structure_of(
    graph_def: Any,
    names: Iterable[str],
    signatures: Signatures,
    shapes: dict[str, dict[str, list[Any]]],
    sources: dict[str, dict[str, Source]] | None = None,
) -> Structure:
    """Return nodes and edges of a GraphDef.

    Parameters
    ----------
    graph_def : GraphDef
        Before placement.
    names : iterable of str
        Every name that the placer logged for it, or that is in the graph after placement.
    signatures : Signatures
        Of operations and of the graph's library.
    shapes : dict of str to dict
        For each function (``""``: the graph itself) the shapes of each node's outputs.
    sources : dict of str to dict, optional
        For each function the file and line that made each node.
    """
    library = {item.signature.name: item for item in graph_def.library.function}
    lowering = Lowering(NumberedNames(names), library, signatures)
    top = Frame("", "", [(node, list(node.input)) for node in graph_def.node])
    structure = Structure()
    frames = [top]
    for frame in frames:  # grows while it is walked
        made = (sources or {}).get(frame.function, {})
        caller = structure.nodes.get(frame.call)
        inside = {node.name for node, _ in frame.nodes} if frame.prefix else set()
        for node, inputs in frame.nodes:
            name = frame.prefix + node.name
            facts = structure.nodes[name] = _facts(node, shapes.get(frame.function, {}), library, signatures)
            facts.requested = completed_request(facts.requested, frame.requested)
            facts.source = made.get(node.name) or (caller.source if caller is not None else None)
            facts.colocated = [frame.prefix + one if one in inside else one for one in facts.colocated]
            frames.extend(lowering.lower(node, inputs, frame))
            if node.name in frame.lowered:
                # What stands under its name now is a new node.
                structure.groups[name], facts.colocated = facts.colocated, []
    for frame in frames:
        for node, inputs in frame.nodes:
            consumer = frame.prefix + node.name
            edges = structure.inputs.setdefault(consumer, [])
            if node.name not in frame.lowered:
                data = [source for source in inputs if not source.startswith("^")]
                edges.extend((key, *frame.reference(source).resolve()) for key, source in enumerate(data))
            begin = frame.lowered.get(node.name) or consumer
            for source in inputs:
                if source.startswith("^"):
                    structure.add_control(begin, frame.reference(source[1:]).resolve()[0])
    for consumer, edge_key, reference in lowering.edges:
        structure.inputs.setdefault(consumer, []).append((edge_key, *reference.resolve()))
    for consumer, producer in lowering.controls:
        structure.add_control(consumer, producer)
    for name in lowering.added:
        structure.added[name] = _added(name, lowering, structure)
    return structure


def _added(name: str, lowering: Lowering, structure: Structure) -> NodeFacts:
    """Return request, colocation and source of a node that lowering put in."""
    added = lowering.added[name]
    caller = structure.nodes.get(added.call)
    facts = NodeFacts("", added.requested, source=caller.source if caller is not None else None)
    if added.as_call:
        facts.colocated.extend(structure.groups.get(added.call, ()))
    if added.beside is not None:
        facts.colocated.append(added.beside.resolve()[0])
    seen: set[str] = set()
    while added.like is not None and name not in seen:
        seen.add(name)
        name = added.like.resolve()[0]
        if name in lowering.added:
            added = lowering.added[name]
            facts.requested = added.requested
            continue
        known = structure.nodes.get(name)
        if known is not None:
            facts.requested = known.requested
            facts.copies = name
        break
    return facts


def parse_input(source: str) -> tuple[str, int]:
    """Split a node's input as a GraphDef writes it.

    Examples
    --------
    >>> parse_input("split:1"), parse_input("a"), parse_input("^init")
    (('split', 1), ('a', 0), ('init', -1))
    """
    if source.startswith("^"):
        return source[1:], -1
    name, _, index = source.rpartition(":")
    return (name, int(index)) if name and index.isdigit() else (source, 0)


def _facts(node: Any, shapes: dict[str, list[Any]], library: dict[str, Any], signatures: Signatures) -> NodeFacts:
    dtypes = signatures.output_dtypes(node)
    told = shapes.get(node.name)
    if told is None and "_output_shapes" in node.attr:
        told = [dimensions(shape) for shape in node.attr["_output_shapes"].list.shape]
    classes = [item.decode() for item in node.attr["_class"].list.s] if "_class" in node.attr else []
    compiled = None
    if node.op in _CALLS and node.attr["_XlaMustCompile"].b:
        body = library.get(node.attr["f"].func.name)
        compiled = 0 if body is None else len(body.node_def)
    return NodeFacts(
        node.op,
        node.device,
        dtypes,
        told if told is not None and len(told) == len(dtypes) else [None] * len(dtypes),
        [item[5:] for item in classes if item.startswith("loc:@") and item[5:] != node.name],
        compiled,
        signatures.type_attributes(node),
    )


def dimensions(shape: Any) -> list[int | None] | None:
    """Return the dimensions of a TensorShapeProto; ``None`` for an unknown rank or dimension."""
    return None if shape.unknown_rank else [dim.size if dim.size >= 0 else None for dim in shape.dim]


__all__ = ["NodeFacts", "Reference", "Structure", "dimensions", "parse_input", "structure_of"]
