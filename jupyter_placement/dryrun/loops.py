"""Loops of a placed graph: what is inside, and how often it runs, where the graph's constants tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jupyter_placement.dryrun.step_graph import StepNode
from jupyter_placement.dryrun.values import Values

_NEXT = frozenset(("NextIteration", "RefNextIteration"))
_ENTER = frozenset(("Enter", "RefEnter"))
_SWITCH = frozenset(("Switch", "RefSwitch"))
_HANDS_ON = frozenset(("Switch", "RefSwitch", "Identity"))


@dataclass
class Loop:
    """One loop.

    Attributes
    ----------
    condition : int
        Number of its LoopCond.
    nodes : set of int
        What runs in each turn, from the loop's variables on.
    unchanging : set of int
        What runs in each turn too, but takes nothing that changes: the read of a variable, what is made of it alone.
    turns : int or None
        How often; ``None`` if the graph does not tell.
    """

    condition: int
    nodes: set[int] = field(default_factory=set)
    unchanging: set[int] = field(default_factory=set)
    turns: int | None = None


def find_loops(nodes: list[StepNode], values: Values) -> list[Loop]:
    """Return the loops; their exits are made to wait for the body, as an order of the nodes needs it.

    Parameters
    ----------
    nodes : list of StepNode
        The step; one node is added for each loop, without a device, which stands for its last turn.
    values : Values
        Of its small tensors.
    """
    loops = []
    for number in range(len(nodes)):
        if nodes[number].op == "LoopCond":
            loop = Loop(number)
            _fill(nodes, loop)
            loops.append(loop)
    # The turns of a gradient's loop are known when those of the loop forward are.
    for _ in loops:
        open_loops = [loop for loop in loops if loop.turns is None]
        for loop in open_loops:
            loop.turns = _turns(nodes, values, loop)
        if all(loop.turns is None for loop in open_loops):
            break
        values.forget()
    return loops


def repeats(nodes: Sequence[StepNode], loops: Sequence[Loop], unchanging: bool = True) -> list[int]:
    """Return how often each node runs in a step; once, where a loop's turns are not known.

    Without what is ``unchanging`` it is how often each makes something new: the memory that a loop's lists keep.
    """
    times = [1] * len(nodes)
    for loop in loops:
        for number in loop.nodes | loop.unchanging if unchanging else loop.nodes:
            times[number] *= 1 if loop.turns is None else loop.turns
    return times


def carried(nodes: Sequence[StepNode], loops: Sequence[Loop]) -> set[int]:
    """Return the nodes that hand on, unchanged, what the last turn of a loop made."""
    found: set[int] = set()
    for loop in loops:
        for number in loop.nodes:
            node = nodes[number]
            if node.op == "Merge" and any(
                _behind(nodes, taken.node, "Merge") != number for last in node.back for taken in nodes[last].inputs[:1]
            ):
                waiting = [number]
                while waiting:
                    one = waiting.pop()
                    found.add(one)
                    waiting += [use.node for use in nodes[one].users if nodes[use.node].op in _HANDS_ON]
    return found


def _fill(nodes: list[StepNode], loop: Loop) -> None:
    switches = [use.node for use in nodes[loop.condition].users if nodes[use.node].op in _SWITCH]
    merges = [taken.node for switch in switches for taken in nodes[switch].inputs[:1]]
    own = set(switches)
    waiting = list(merges)
    loop.nodes.update(merges)
    last: list[int] = []
    exits: list[int] = []
    while waiting:
        number = waiting.pop()
        node = nodes[number]
        if node.op in _NEXT:
            last.append(number)
            continue
        following = node.controls + [use.node for use in node.users if number not in own or use.output == 1]
        if number in own:
            exits.extend(use.node for use in node.users if use.output == 0)
        for one in following:
            if one not in loop.nodes:
                loop.nodes.add(one)
                waiting.append(one)
    waiting = list(loop.nodes)
    while waiting:
        for taken in nodes[waiting.pop()].inputs:
            known = taken.node in loop.nodes or taken.node in loop.unchanging
            if not known and nodes[taken.node].op not in _ENTER:
                loop.unchanging.add(taken.node)
                waiting.append(taken.node)
    if last and exits:
        barrier = StepNode("", "", "", "", "", [], False, waits=len(last))
        for number in last:
            nodes[number].controls.append(len(nodes))
        for number in exits:
            nodes[number].waits += 1
            barrier.controls.append(number)
        nodes.append(barrier)


def _turns(nodes: Sequence[StepNode], values: Values, loop: Loop) -> int | None:
    """Read the turns off ``counter < limit``, where the counter grows by a constant; the least of several."""
    waiting = [taken.node for taken in nodes[loop.condition].inputs]
    found: list[int] = []
    while waiting:
        node = nodes[waiting.pop()]
        if node.op in ("LogicalAnd", "Identity"):
            waiting.extend(taken.node for taken in node.inputs)
        elif node.op == "Less" and len(node.inputs) == 2:
            merge = _behind(nodes, node.inputs[0].node, "Merge")
            begin, end = values.integer(node.inputs[0]), values.integer(node.inputs[1])
            grows = None if merge is None else _growth(nodes, values, merge)
            if merge is None or begin is None or end is None or grows is None or grows <= 0:
                continue
            turns = max(0, -(-(end - begin) // grows))
            values.ends[merge] = begin + turns * grows
            found.append(turns)
    return min(found, default=None)


def _growth(nodes: Sequence[StepNode], values: Values, merge: int) -> int | None:
    for last in nodes[merge].back:
        for taken in nodes[last].inputs[:1]:
            number = _behind(nodes, taken.node, "AddV2", "Add")
            if number is None:
                continue
            for position, given in enumerate(nodes[number].inputs):
                other = nodes[number].inputs[1 - position]
                if _behind(nodes, other.node, "Merge") == merge:
                    return values.integer(given)
    return None


def _behind(nodes: Sequence[StepNode], number: int, *ops: str) -> int | None:
    """Return the node that makes a value, before it was handed on."""
    for _ in range(50):
        node = nodes[number]
        if node.op in ops:
            return number
        if node.op not in ("Identity", "Switch") or not node.inputs:
            return None
        number = node.inputs[0].node
    return None
