"""Orders in which a step's operations may run."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from jupyter_placement.dryrun.step_graph import StepNode


def breadth_first(nodes: Sequence[StepNode]) -> list[int]:
    """Return the nodes in the order of TensorFlow's executor for a GPU: who is ready first goes first.

    A GPU's kernels are cheap for the executor, which queues them (``executor.cc``, ``inline_ready``).
    """
    return _order(nodes, first=True)


def depth_first(nodes: Sequence[StepNode]) -> list[int]:
    """Return the nodes in an order in which what became ready last goes first."""
    return _order(nodes, first=False)


def _order(nodes: Sequence[StepNode], first: bool) -> list[int]:
    waits = [node.waits for node in nodes]
    ready = deque(number for number, count in enumerate(waits) if not count)
    order: list[int] = []
    while ready:
        number = ready.popleft() if first else ready.pop()
        order.append(number)
        for following in followers(nodes[number]):
            waits[following] -= 1
            if not waits[following]:
                ready.append(following)
    if len(order) < len(nodes):
        # A cycle that no NextIteration closes is no TensorFlow graph, but a file may hold one.
        there = set(order)
        order.extend(number for number in range(len(nodes)) if number not in there)
    return order


def followers(node: StepNode) -> list[int]:
    """Return the nodes that wait for a node, once for each edge."""
    return [*node.controls, *(use.node for use in node.users)]
