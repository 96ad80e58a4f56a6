"""How many outputs a node has and of which types: TensorFlow's operation definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Signatures:
    """Outputs of operations and functions.

    Parameters
    ----------
    op_defs : module
        TensorFlow's registry of operations.
    library : mapping of str to FunctionDef
        Functions that a node's operation type may name.
    type_name : callable
        Turns the number of a ``DType`` into its name.
    """

    def __init__(self, op_defs: Any, library: Mapping[str, Any], type_name: Any) -> None:
        self._op_defs = op_defs
        self._library = library
        self._type_name = type_name

    def _outputs(self, node: Any) -> list[tuple[str, list[int]]]:
        """Return name and types of each output argument of a node."""
        definition = self._op_defs.get(node.op)
        if definition is None:
            function = self._library.get(node.op)
            if function is None:
                return []
            definition = function.signature
        found: list[tuple[str, list[int]]] = []
        for argument in definition.output_arg:
            if argument.type_list_attr:
                types = list(node.attr[argument.type_list_attr].list.type)
            else:
                kind = node.attr[argument.type_attr].type if argument.type_attr else argument.type
                if argument.is_ref and kind < 100:
                    kind += 100  # types.proto: a reference type's number is 100 more
                types = [kind] * (node.attr[argument.number_attr].i if argument.number_attr else 1)
            found.append((argument.name, types))
        return found

    def output_dtypes(self, node: Any) -> list[str]:
        """Return the name of the type of each output of a node."""
        return [self._type_name(kind) if kind else "" for _, types in self._outputs(node) for kind in types]

    def output_names(self, op: str, types: Mapping[str, Any], count: int) -> list[str]:
        """Return the name of the argument that each output of an operation belongs to."""
        definition = self._op_defs.get(op)
        return [] if definition is None else _spread(definition.output_arg, types, count)

    def input_names(self, op: str, types: Mapping[str, Any], count: int) -> list[str]:
        """Return the name of the argument that each input of an operation belongs to."""
        definition = self._op_defs.get(op)
        return [] if definition is None else _spread(definition.input_arg, types, count)

    def is_stateful(self, op: str) -> bool:
        """Tell whether an operation keeps a state: a session leaves it on its device when the graph grows."""
        definition = self._op_defs.get(op)
        return definition is not None and bool(definition.is_stateful)

    def reference_inputs(self, op: str) -> list[int]:
        """Return which inputs of an operation are references to a variable."""
        definition = self._op_defs.get(op)
        return [] if definition is None else [i for i, argument in enumerate(definition.input_arg) if argument.is_ref]

    def type_attributes(self, node: Any) -> dict[str, Any]:
        """Return the values of the attributes of a node that are types, or lists of them."""
        found: dict[str, Any] = {}
        for name, value in node.attr.items():
            if value.type:
                found[name] = self._type_name(value.type)
            elif value.list.type:
                found[name] = [self._type_name(kind) for kind in value.list.type]
        return found

    def types_from_tensors(self, op: str, inputs: list[str | None], outputs: list[str | None]) -> dict[str, Any]:
        """Return type attributes as inputs and outputs tell them, for a node whose NodeDef is not there."""
        definition = self._op_defs.get(op)
        found: dict[str, Any] = {}
        if definition is None:
            return found
        for arguments, kinds in ((definition.input_arg, inputs), (definition.output_arg, outputs)):
            for argument, kind in zip(arguments, kinds, strict=False):
                if argument.type_list_attr or argument.number_attr:
                    if argument.type_attr and kind:
                        found.setdefault(argument.type_attr, kind.removesuffix("_ref"))
                    break
                if argument.type_attr and kind:
                    found.setdefault(argument.type_attr, kind.removesuffix("_ref"))
        return found

    def body(self, definition: Any) -> list[tuple[Any, list[str]]]:
        """Return the nodes of a function, each with its inputs as ``node:k`` (``node``: an argument).

        In a function's definition an input is ``node:output:index``, by the output argument's name.
        """
        nodes = {node.name: node for node in definition.node_def}
        offsets: dict[str, dict[str, int]] = {}
        return [(node, [self._flat(source, nodes, offsets) for source in node.input]) for node in definition.node_def]

    def results(self, definition: Any) -> list[str]:
        """Return what each output of a function is, as ``node:k``."""
        nodes = {node.name: node for node in definition.node_def}
        return [self._flat(definition.ret[argument.name], nodes, {}) for argument in definition.signature.output_arg]

    def _flat(self, source: str, nodes: Mapping[str, Any], offsets: dict[str, dict[str, int]]) -> str:
        name, _, rest = source.partition(":")
        if source.startswith("^") or not rest or name not in nodes:
            return source
        argument, _, index = rest.partition(":")
        if name not in offsets:
            total, starts = 0, {}
            for output, types in self._outputs(nodes[name]):
                starts[output] = total
                total += len(types)
            offsets[name] = starts
        return f"{name}:{offsets[name].get(argument, 0) + int(index or 0)}"


def _spread(arguments: Any, types: Mapping[str, Any], count: int) -> list[str]:
    """Return the argument of each of ``count`` tensors; where lists of unknown length follow, what is sure."""
    names: list[str] = []
    for position, argument in enumerate(arguments):
        if argument.type_list_attr:
            known = types.get(argument.type_list_attr)
            length = len(known) if isinstance(known, list) else count - len(names) - (len(arguments) - position - 1)
        elif argument.number_attr:
            length = count - len(names) - (len(arguments) - position - 1)
        else:
            length = 1
        names.extend([argument.name] * max(length, 0))
    return names[:count]
