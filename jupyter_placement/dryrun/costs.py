"""What each operation of a step costs: floating point operations and bytes, as TensorFlow's Grappler counts them.

Grappler is not asked about the placed graph, which has cycles and functions, but about each different operation once:
its type, its attributes, and types, shapes and known values of its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_placement.dryrun.helper import Helper
from jupyter_placement.dryrun.step_graph import StepNode
from jupyter_placement.dryrun.values import Values

_NAMES = frozenset(("shared_name", "container"))
# Hand on, wait, or hold: nothing is computed, and Grappler's model is not for them.
_FREE = frozenset(
    (
        *("_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "Placeholder", "Const", "HostConst", "NoOp", "Assert"),
        *("VarHandleOp", "VariableV2", "Variable", "Identity", "IdentityN", "StopGradient", "Reshape", "ExpandDims"),
        *("Squeeze", "Shape", "ShapeN", "Size", "Rank", "ReadVariableOp", "VarIsInitializedOp", "PreventGradient"),
        *("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "ControlTrigger"),
        *("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile", "Case"),
    )
)


@dataclass(frozen=True)
class Cost:
    """What an operation does when it runs once.

    Attributes
    ----------
    flops : int
        Floating point operations.
    size : int
        Bytes from and to memory.
    """

    flops: int = 0
    size: int = 0


@dataclass
class Costs:
    """Costs of a step's operations.

    Attributes
    ----------
    of : list of Cost
        Of each node.
    counted : int
        Operations that Grappler counted.
    by_bytes : list of int
        Nodes that it did not: of these only the bytes of their tensors are known.
    unknown : list of int
        Nodes some tensor of which is of unknown size, so that what is counted is too little.
    error : str
        Why nothing was counted, or ``""``.
    """

    of: list[Cost]
    counted: int = 0
    by_bytes: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    error: str = ""


class Question:
    """Gather the different operations of steps, and ask for their costs once."""

    def __init__(self) -> None:
        import tensorflow as tf

        self._tf = tf
        self._graph = tf.compat.v1.GraphDef()
        self._names: dict[Any, str] = {}
        self._sources: dict[Any, str] = {}

    def add(self, nodes: Sequence[StepNode], definitions: Sequence[Any], values: Values) -> list[str | None]:
        """Add a step's operations; return the name under which each is asked about."""
        return [
            None if node.op in _FREE or definition is None else self._name(nodes, node, definition, values)
            for node, definition in zip(nodes, definitions, strict=False)
        ]

    def ask(self, helper: Helper, timeout: float) -> tuple[dict[str, list[int]], str]:
        """Return costs by name, and why there are none.

        Raises
        ------
        PlacementError
            When the helper process fails.
        """
        if not self._names:
            return {}, ""
        answer, _ = helper.request({"kind": "costs"}, self._graph.SerializeToString(), timeout)
        return answer["costs"], answer["error"]

    def _name(self, nodes: Sequence[StepNode], node: StepNode, definition: Any, values: Values) -> str | None:
        sources = []
        for taken in node.inputs:
            output = nodes[taken.node].outputs[taken.output]
            if output.size is None or output.dtype is None or output.dtype == "variant":
                return None
            value = values.of(taken.node, taken.output)
            sources.append((output.dtype, tuple(output.shape or ()), None if value is None else value.tobytes(), value))
        attributes = tuple(
            (name, definition.attr[name].SerializeToString(deterministic=True))
            for name in sorted(definition.attr)
            if not name.startswith("_") and name not in _NAMES
        )
        key = (node.op, attributes, tuple(source[:3] for source in sources))
        if key not in self._names:
            asked = self._graph.node.add(name=f"cost/{len(self._names)}", op=node.op)
            for name, _ in attributes:
                asked.attr[name].CopyFrom(definition.attr[name])
            asked.input.extend(self._source(*source) for source in sources)
            self._names[key] = asked.name
        return self._names[key]

    def _source(self, dtype: str, shape: tuple[int, ...], content: bytes | None, value: Any) -> str:
        key = (dtype, shape, content)
        if key in self._sources:
            return self._sources[key]
        name = self._sources[key] = f"input/{len(self._sources)}"
        kind = self._tf.dtypes.as_dtype(dtype)
        node = self._graph.node.add(name=name)
        node.attr["dtype"].type = kind.base_dtype.as_datatype_enum
        if content is not None:
            node.op = "Const"
            node.attr["value"].tensor.CopyFrom(self._tf.make_tensor_proto(value, kind.base_dtype, shape))
        else:
            # Grappler makes a tensor for each Placeholder (seen on 2.21: one of 40 GB ends the process).
            node.op = "VariableV2" if dtype.endswith("_ref") else "ImmutableConst"
            node.attr["shape"].shape.CopyFrom(self._tf.TensorShape(shape).as_proto())
        return name


def costs_of(nodes: Sequence[StepNode], names: Sequence[str | None], counted: dict[str, list[int]]) -> Costs:
    """Return what each operation costs: by what was counted, or by the bytes of its tensors.

    Parameters
    ----------
    nodes : sequence of StepNode
        The step.
    names : sequence of str or None
        The name under which each was asked about.
    counted : dict of str to list of int
        The answer.
    """
    found = Costs([])
    for number, node in enumerate(nodes):
        name = names[number] if number < len(names) else None
        # Of some operations with less than 512 bytes it says 0 and 0 (seen on 2.21), but every kernel takes its time.
        if name in counted and any(counted[name]):
            flops, size = counted[name]
            found.of.append(Cost(flops, size))
            found.counted += 1
            continue
        if node.op in _FREE or not node.device:
            found.of.append(Cost())
            continue
        sizes = [nodes[taken.node].outputs[taken.output].size for taken in node.inputs]
        sizes += [output.size for output in node.outputs]
        if not any(sizes) and None not in sizes:
            found.of.append(Cost())  # handles, or nothing at all
            continue
        if None in sizes:
            found.unknown.append(number)
        found.by_bytes.append(number)
        found.of.append(Cost(0, sum(size or 0 for size in sizes)))
    return found
