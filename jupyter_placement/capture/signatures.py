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
