"""Small whole numbers that a graph computes from its constants and shapes alone: sizes, axes, numbers of turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jupyter_placement.dryrun.step_graph import StepNode, Taken

_MOST = 1024
_DEPTH = 60
_WHOLE = frozenset(("int32", "int64", "bool", "uint8", "int8", "int16"))
_HANDED_ON = (
    "Identity StopGradient Enter RefEnter Snapshot EnsureShape PlaceholderWithDefault Switch Merge PreventGradient Cast"
)
_SAME = frozenset(_HANDED_ON.split())
_REDUCED = {"Max": "max", "Min": "min", "Prod": "prod", "Sum": "sum"}
_COMBINED = {
    "Add": "add",
    "AddV2": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "FloorDiv": "floor_divide",
    "FloorMod": "mod",
    "Minimum": "minimum",
    "Maximum": "maximum",
}


class Values:
    """Values of a step's tensors, as far as nothing has to run for them.

    Parameters
    ----------
    nodes : sequence of StepNode
        The step.
    definitions : sequence
        The NodeDef of each node, or ``None``.
    """

    def __init__(self, nodes: Sequence[StepNode], definitions: Sequence[Any]) -> None:
        self._nodes = nodes
        self._definitions = definitions
        self._known: dict[tuple[int, int], Any] = {}
        # What a loop's variable is when the loop ends, by the number of its Merge.
        self.ends: dict[int, int] = {}

    def forget(self) -> None:
        """Forget what was not known, after ``ends`` has grown."""
        self._known = {key: value for key, value in self._known.items() if value is not None}

    def of(self, number: int, output: int = 0, depth: int = 0) -> Any:
        """Return a tensor's value as a numpy array; ``None`` if it is not known. In a loop: of the first turn."""
        key = (number, output)
        if key not in self._known:
            node = self._nodes[number]
            whole = output < len(node.outputs) and node.outputs[output].dtype in _WHOLE
            self._known[key] = self._value(number, node, output, depth) if whole and depth < _DEPTH else None
        return self._known[key]

    def integer(self, taken: Taken) -> int | None:
        """Return the only element of a node's input."""
        value = self.of(taken.node, taken.output)
        return int(value.reshape(-1)[0]) if value is not None and value.size == 1 else None

    def _input(self, node: StepNode, position: int, depth: int) -> Any:
        if position >= len(node.inputs):
            return None
        taken = node.inputs[position]
        return self.of(taken.node, taken.output, depth + 1)

    def _shape(self, node: StepNode, position: int) -> Any:
        taken = node.inputs[position]
        shape = self._nodes[taken.node].outputs[taken.output].shape
        return None if shape is None or any(size is None for size in shape) else shape

    def _value(self, number: int, node: StepNode, output: int, depth: int) -> Any:
        import numpy as np

        op = node.op
        if op == "Const":
            return _constant(self._definitions[number], node)
        if op in _SAME:
            return self._input(node, 0, depth) if op != "Merge" or output == 0 else None
        if op == "Exit":
            return self._exit(node)
        if op in ("Shape", "ShapeN", "Size", "Rank"):
            shape = self._shape(node, output if op == "ShapeN" else 0) if node.inputs else None
            if shape is None:
                return None
            whole = np.array(shape, np.int64)
            return whole if op in ("Shape", "ShapeN") else np.array(whole.prod() if op == "Size" else len(shape))
        given = [self._input(node, position, depth) for position in range(len(node.inputs))]
        if not given or any(value is None for value in given):
            return None
        rule = _rule(op)
        if rule is None:
            return None
        try:
            result = rule(np, given, self._definitions[number])
        except (ValueError, IndexError, TypeError, ZeroDivisionError):
            return None  # the graph asks for what numpy does not do alike: then the value is not known
        return result if result is not None and result.size <= _MOST else None

    def _exit(self, node: StepNode) -> Any:
        import numpy as np

        for switch in node.inputs[:1]:
            for merge in self._nodes[switch.node].inputs[:1]:
                if merge.node in self.ends:
                    return np.array(self.ends[merge.node])
        return None


def _constant(definition: Any, node: StepNode) -> Any:
    import tensorflow as tf

    size = node.outputs[0].size
    if definition is None or size is None or size > 8 * _MOST:
        return None
    return tf.make_ndarray(definition.attr["value"].tensor)


def _rule(op: str) -> Callable[[Any, list[Any], Any], Any] | None:
    if op in _REDUCED:
        return lambda np, given, node: np.array(
            getattr(np, _REDUCED[op])(given[0], axis=tuple(given[1].reshape(-1).tolist()))
        )
    if op in _COMBINED:
        return lambda np, given, node: np.array(getattr(np, _COMBINED[op])(given[0], given[1]))
    return _RULES.get(op)


def _slice(np: Any, given: list[Any], node: Any) -> Any:
    """Take a part of a shape, as Python's indexing makes it: one number, or a range with open ends."""
    value, begin, end, stride = given
    masks = [node.attr[name].i for name in ("ellipsis_mask", "new_axis_mask")] if node is not None else [1]
    if value.ndim != 1 or begin.size != 1 or any(masks):
        return None
    if node.attr["shrink_axis_mask"].i & 1:
        return np.array(value[int(begin[0])])
    first = None if node.attr["begin_mask"].i & 1 else int(begin[0])
    last = None if node.attr["end_mask"].i & 1 else int(end[0])
    return value[first : last : int(stride[0])]


_RULES: dict[str, Callable[[Any, list[Any], Any], Any]] = {
    "StridedSlice": _slice,
    "Range": lambda np, given, node: np.arange(*(int(value) for value in given)) if given[1] < _MOST else None,
    "Pack": lambda np, given, node: np.stack(given) if all(value.ndim == 0 for value in given) else None,
    "ConcatV2": lambda np, given, node: np.concatenate(given[:-1], axis=int(given[-1])),
    "Reshape": lambda np, given, node: given[0].reshape(given[1]),
    "ExpandDims": lambda np, given, node: np.expand_dims(given[0], int(given[1])),
    "Squeeze": lambda np, given, node: given[0].squeeze(),
    "GatherV2": lambda np, given, node: np.take(given[0], given[1], axis=int(given[2])),
    "Fill": lambda np, given, node: np.full(given[0], given[1]) if given[0].prod() <= _MOST else None,
}
