"""Calls that are placed as one operation: what is inside is on no schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from jupyter_placement.dryrun.step_graph import StepNode

CALLS = frozenset(
    (
        *("PartitionedCall", "StatefulPartitionedCall", "RemoteCall", "TPUPartitionedCall", "SymbolicGradient"),
        *("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase"),
    )
)


def uncounted_calls(nodes: Sequence[StepNode], definitions: Sequence[Any]) -> Counter[str]:
    """Count the calls by the device that what is inside runs on; ``""`` where it may be on any.

    Parameters
    ----------
    nodes : sequence of StepNode
        The step.
    definitions : sequence of NodeDef or None
        Theirs.
    """
    found: Counter[str] = Counter()
    for node, definition in zip(nodes, definitions, strict=False):
        if node.op in CALLS:
            # XLA compiles a call for the device that the call is on (jit_compile=True); TensorFlow divides others.
            compiled = definition is not None and definition.attr["_XlaMustCompile"].b
            found[node.device if compiled else ""] += 1
    return found
