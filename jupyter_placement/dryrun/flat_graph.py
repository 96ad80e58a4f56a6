"""A graph with the functions that it calls put in their place, for inferring shapes alone: it is never run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_placement.capture.private import private_tensorflow
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.capture.structure import parse_input

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_IFS = frozenset({"If", "StatelessIf"})
_CASES = frozenset({"Case", "StatelessCase"})
_WHILES = frozenset({"While", "StatelessWhile"})
_MOST = 200_000  # nodes; what is called beyond stays a call
_HANDLES = (20, 21)  # types.proto: DT_RESOURCE, DT_VARIANT

Shape = list[int | None] | None


@dataclass(frozen=True)
class LoopVariable:
    """A variable of a loop: the node that it enters by, and the tensor that the body makes of it."""

    enters: str
    after: str


class FlatGraph:
    """Put the bodies of functions, conditions and loops in the place of what calls them.

    A call becomes an ``IdentityN`` of its body's results, a condition ``Merge`` of its branches' results. A loop is its
    condition and its body once, for variables of the shapes that enter it, or of more general ones.

    Parameters
    ----------
    graph_def : GraphDef
        The graph and its library.
    inputs : mapping of str to list
        Shapes of arguments and placeholders of the graph itself.
    general : mapping of str to list
        Shapes of variables of loops, by ``LoopVariable.enters``, where they are not those that enter.

    Attributes
    ----------
    graph_def : GraphDef
        All in one. The nodes of the body with number n are called ``n/name``; 0 is the graph itself.
    functions : list of str
        Whose body each number is; ``""`` for the graph itself.
    loops : list of LoopVariable
        What has to be the same shape before and after.
    """

    def __init__(self, graph_def: Any, inputs: Mapping[str, Shape], general: Mapping[str, Shape]) -> None:
        self._inputs, self._general = inputs, general
        self._library = {item.signature.name: item for item in graph_def.library.function}
        self._signatures = Signatures(private_tensorflow().op_defs, self._library, lambda kind: "")
        self.graph_def = type(graph_def)()
        self.graph_def.library.CopyFrom(graph_def.library)
        self.graph_def.versions.CopyFrom(graph_def.versions)
        self.functions: list[str] = []
        self.loops: list[LoopVariable] = []
        self._waiting: list[tuple[int, list[tuple[Any, list[str]]], dict[str, str], tuple[str, ...]]] = []
        self._number("", [(node, list(node.input)) for node in graph_def.node], {}, ())
        while self._waiting:
            self._add(*self._waiting.pop())

    def _number(
        self, name: str, nodes: list[tuple[Any, list[str]]], arguments: dict[str, str], inside: tuple[str, ...]
    ) -> int:
        self.functions.append(name)
        self._waiting.append((len(self.functions) - 1, nodes, arguments, (*inside, name)))
        return len(self.functions) - 1

    def _add(
        self, number: int, nodes: list[tuple[Any, list[str]]], arguments: dict[str, str], inside: tuple[str, ...]
    ) -> None:
        for node, given in nodes:
            sources = [_reference(one, number, arguments) for one in given if not one.startswith("^")]
            name = f"{number}/{node.name}"
            if node.op == "_Retval" or self._lower(node, name, sources, inside):
                continue
            shape = self._inputs.get(node.name) if number == 0 else None
            if node.op == "_Arg" or (number == 0 and node.name in self._inputs):
                kind = node.attr["T" if node.op == "_Arg" else "dtype"].type
                self._placeholder(name, kind, shape)
                continue
            new = self.graph_def.node.add(name=name, op=node.op, input=sources)
            for key, value in node.attr.items():
                if not key.startswith("_"):  # colocation, and shapes that were inferred with less
                    new.attr[key].CopyFrom(value)

    def _lower(self, node: Any, name: str, sources: Sequence[str], inside: tuple[str, ...]) -> bool:
        """Put what a node calls in its place, where that can be done."""
        if node.op in _CALLS:
            results = self._bodies([node.attr["f"].func], sources, inside)
        elif node.op in _IFS:
            branches = [node.attr["then_branch"].func, node.attr["else_branch"].func]
            results = self._bodies(branches, sources[1:], inside)
        elif node.op in _CASES:
            results = self._bodies(list(node.attr["branches"].list.func), sources[1:], inside)
        elif node.op in _WHILES:
            return self._loop(node, name, sources, inside)
        else:
            return False
        types = list(node.attr["Tout"].list.type)
        if results is None or any(len(one) != len(types) for one in results):
            return False
        merged = [
            found[0] if len(found) == 1 else self._merge(f"{name}/merged/{index}", kind, found)
            for index, (kind, *found) in enumerate(zip(types, *results, strict=True))
        ]
        self._identities(name, types, merged)
        return True

    def _bodies(
        self, functions: Sequence[Any], sources: Sequence[str], inside: tuple[str, ...]
    ) -> list[list[str]] | None:
        """Add a body of each function; return their results; ``None``, and nothing added, if one cannot be."""
        definitions = [self._library.get(one.name) for one in functions]
        for definition in definitions:
            if definition is None or definition.signature.name in inside or definition.signature.attr:
                return None  # not there, it calls itself, or it is for several types
            if len(definition.signature.input_arg) != len(sources):
                return None
        size = len(self.graph_def.node) + sum(len(nodes) for _, nodes, _, _ in self._waiting)
        if size > _MOST:
            return None
        found = []
        for definition in definitions:
            if definition is None:
                return None
            arguments = {one.name: source for one, source in zip(definition.signature.input_arg, sources, strict=True)}
            number = self._number(definition.signature.name, self._signatures.body(definition), arguments, inside)
            found.append([_reference(one, number, arguments) for one in self._signatures.results(definition)])
        return found

    def _loop(self, node: Any, name: str, sources: Sequence[str], inside: tuple[str, ...]) -> bool:
        types = list(node.attr["T"].list.type)
        enters = [
            source if kind in _HANDLES else f"{name}/enters/{index}"
            for index, (kind, source) in enumerate(zip(types, sources, strict=True))
        ]
        results = self._bodies([node.attr["body"].func, node.attr["cond"].func], enters, inside)
        if results is None or len(results[0]) != len(types):
            return False
        for kind, source, enter, after in zip(types, sources, enters, results[0], strict=True):
            if kind in _HANDLES:
                continue
            known = enter in self._general
            new = self.graph_def.node.add(name=enter, op="PlaceholderWithDefault" if known else "Identity")
            new.input.append(source)
            new.attr["dtype" if known else "T"].type = kind
            if known:
                set_shape(new.attr["shape"].shape, self._general[enter])
            self.loops.append(LoopVariable(enter, after))
        self._identities(name, types, enters)
        return True

    def _merge(self, name: str, kind: int, sources: Sequence[str]) -> str:
        new = self.graph_def.node.add(name=name, op="Merge", input=sources)
        new.attr["T"].type = kind
        new.attr["N"].i = len(sources)
        return name

    def _identities(self, name: str, types: Sequence[int], sources: Sequence[str]) -> None:
        new = self.graph_def.node.add(name=name, op="IdentityN" if types else "NoOp", input=sources)
        if types:
            new.attr["T"].list.type.extend(types)

    def _placeholder(self, name: str, kind: int, shape: Shape) -> None:
        new = self.graph_def.node.add(name=name, op="Placeholder")
        new.attr["dtype"].type = kind
        set_shape(new.attr["shape"].shape, shape)


def set_shape(into: Any, shape: Shape) -> None:
    """Write a shape into a TensorShapeProto."""
    if shape is None:
        into.unknown_rank = True
        return
    for size in shape:
        into.dim.add(size=-1 if size is None else size)


def _reference(source: str, number: int, arguments: Mapping[str, str]) -> str:
    name, index = parse_input(source)
    return arguments.get(name, f"{number}/{name}:{index}")
