"""What moves between devices in a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_placement.dryrun.step_graph import StepNode


@dataclass
class Transfer:
    """All that goes from one device to another in a step.

    Attributes
    ----------
    source, target : str
        Full device names.
    tensors : int
        How many; one that several operations of the target need goes once.
    size : int
        Their bytes, as far as they are known.
    unknown : int
        How many of the tensors are of unknown size.
    signals : int
        Control edges: TensorFlow sends an empty tensor for each.
    """

    source: str
    target: str
    tensors: int = 0
    size: int = 0
    unknown: int = 0
    signals: int = 0


def find_transfers(nodes: Sequence[StepNode], times: Sequence[int]) -> list[Transfer]:
    """Return the transfers of a step by source and target.

    Parameters
    ----------
    nodes : sequence of StepNode
        The step.
    times : sequence of int
        How often each node runs.
    """
    found: dict[tuple[str, str], Transfer] = {}
    for number, node in enumerate(nodes):
        sent: set[tuple[int, str]] = set()
        for use in node.users:
            if not use.to or (use.output, use.to) in sent:
                continue
            sent.add((use.output, use.to))
            source = node.place(use.output)
            transfer = found.setdefault((source, use.to), Transfer(source, use.to))
            size = node.outputs[use.output].size
            transfer.tensors += times[number]
            transfer.size += (size or 0) * times[number]
            transfer.unknown += size is None
        if node.device:
            for target in sorted({nodes[user].device for user in node.controls} - {node.device, ""}):
                found.setdefault((node.device, target), Transfer(node.device, target)).signals += times[number]
    return sorted(found.values(), key=lambda one: (-one.size, one.source, one.target))
