"""Variables of a step: their bytes on each device, the optimizer's slots told apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_placement.capture.structure import dimensions
from jupyter_placement.dryrun.step_graph import StepNode, tensor_size

_REFERENCES = frozenset(("VariableV2", "Variable", "TemporaryVariable"))
_HAND_ON = frozenset(("Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration"))
_APPLY = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]\w*")
# Keras names the scope of an update after the optimizer's class; TensorFlow 1's optimizers have Apply operations.
_OPTIMIZER = re.compile(
    r"(?:^|/)(?:adam|adamw|adamax|nadam|adagrad|adadelta|adafactor|ftrl|lamb|lion|momentum|muon|rm_?s_?prop|sgd"
    r"|\w*optimizer)(?:_\d+)?/"
)


@dataclass(frozen=True)
class Variable:
    """One variable.

    Attributes
    ----------
    node : int
        Number of the node that stands for it.
    device : str
        Where it lives.
    size : int or None
        Bytes; ``None`` if its shape is not known.
    key : str
        What two handles of the same variable have in common.
    slot : bool
        Whether it is the optimizer's: a slot, its counter, its rate.
    """

    node: int
    device: str
    size: int | None
    key: str
    slot: bool


def find_variables(nodes: Sequence[StepNode], definitions: Sequence[Any]) -> list[Variable]:
    """Return the variables of a step.

    Parameters
    ----------
    nodes : sequence of StepNode
        The step.
    definitions : sequence
        The NodeDef of each node, or ``None``.
    """
    found, seen = [], set()
    for number, node in enumerate(nodes):
        if node.op == "VarHandleOp":
            key, size = _handle(node, definitions[number])
            if (node.device, key) in seen:
                continue  # a variable has as many handles as it has users, in graphs of TensorFlow 1
            seen.add((node.device, key))
        elif node.op in _REFERENCES:
            key, size = node.id, node.outputs[0].size if node.outputs else None
        else:
            continue
        found.append(Variable(number, node.device, size, key, _is_slot(nodes, number)))
    return found


def _handle(node: StepNode, definition: Any) -> tuple[str, int | None]:
    """Return what two handles of the same variable have in common, and its bytes."""
    if definition is None:
        return node.id, None
    import tensorflow as tf

    attributes = definition.attr
    name = attributes["shared_name"].s.decode()
    dtype = tf.dtypes.as_dtype(attributes["dtype"].type).name
    size = tensor_size(dtype, dimensions(attributes["shape"].shape))
    return (f"{attributes['container'].s.decode()}/{name}" if name else node.id), size


def _is_slot(nodes: Sequence[StepNode], number: int) -> bool:
    """Tell whether only an optimizer's update uses a variable."""
    used, waiting, seen = False, [number], {number}
    handle = nodes[number].op not in _REFERENCES
    while waiting:
        for use in nodes[waiting.pop()].users:
            node = nodes[use.node]
            if handle and node.op in _HAND_ON:
                if use.node not in seen:
                    seen.add(use.node)
                    waiting.append(use.node)
                continue
            if _APPLY.fullmatch(node.op):
                return node.inputs[0].node not in seen
            if not _OPTIMIZER.search(node.name.lower()):
                return False
            used = True
    return used
