"""What a dry run's step would cost: memory, transfers and time. All of it is an estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.devices import sort_key
from jupyter_placement.dryrun.attributes import labelled, node_defs
from jupyter_placement.dryrun.buffers import DeviceMemory
from jupyter_placement.dryrun.calls import uncounted_calls
from jupyter_placement.dryrun.card import Card
from jupyter_placement.dryrun.costs import Costs, Question, costs_of
from jupyter_placement.dryrun.estimate_data import DeviceEstimate, Estimate, estimate_of
from jupyter_placement.dryrun.estimate_notes import notes_on
from jupyter_placement.dryrun.graph_optimizer import split_identities
from jupyter_placement.dryrun.helper import Helper
from jupyter_placement.dryrun.loops import Loop, carried, find_loops, repeats
from jupyter_placement.dryrun.machine import HOST, Machine, known_cards
from jupyter_placement.dryrun.memory_walk import MemoryWalk
from jupyter_placement.dryrun.orders import breadth_first, depth_first
from jupyter_placement.dryrun.schedule import Timeline, schedule
from jupyter_placement.dryrun.step_graph import StepNode, step_nodes
from jupyter_placement.dryrun.transfers import Transfer, find_transfers
from jupyter_placement.dryrun.values import Values
from jupyter_placement.dryrun.variables import Variable, find_variables
from jupyter_placement.placement import Device, Placement, PlacementError

__all__ = ["Estimate", "add_estimate", "estimate_of"]


@dataclass
class Step:
    """One captured graph, and all that its estimate is made of."""

    nodes: list[StepNode]
    loops: list[Loop]
    times: list[int]
    memory: dict[str, DeviceMemory]
    depth_first: dict[str, DeviceMemory]
    variables: list[Variable]
    transfers: list[Transfer]
    names: list[str | None]
    calls: Counter[str]
    costs: Costs = field(default_factory=lambda: Costs([]))
    timeline: Timeline | None = None


def add_estimate(
    placement: Placement,
    graphs: Sequence[CapturedGraph],
    devices: Sequence[Device],
    helper: Helper | None = None,
    timeout: float = 60.0,
) -> None:
    """Estimate what a step of a placed graph costs on each device; put it into ``placement.meta["estimate"]``.

    Where a time can be estimated, each node gets its ``start`` and ``duration``, and ``placement.meta["times"]`` says
    ``"estimated"``. Of several graphs each is a step of its own, one after the other; of their memory the most counts.

    Parameters
    ----------
    placement : Placement
        Of the dry run, complete.
    graphs : sequence of CapturedGraph
        What it was made of, in the same order.
    devices : sequence of Device
        The machine, as :func:`parse_machine` returned it.
    helper : Helper, optional
        The process that counts the operations' costs. Without one there is no estimate of time.
    timeout : float
        Seconds that it may take.
    """
    cards = devices.cards if isinstance(devices, Machine) else known_cards(devices)
    cards = {**{one.name: HOST for one in devices if one.type == "CPU"}, **cards}
    question = Question()
    steps = [_step(placement, label, graph, question) for label, graph in labelled(graphs)]
    seconds, problem = _add_times(placement, steps, cards, question, helper, timeout)
    estimate = Estimate(_devices(placement, steps, devices, cards), _sum(steps), seconds)
    assumed = [note for graph in graphs for note in graph.notes]
    estimate.notes = [*assumed, *notes_on(steps, estimate, cards, problem)]
    placement.meta["estimate"] = estimate.to_json()


def _step(placement: Placement, label: str, graph: CapturedGraph, question: Question) -> Step:
    nodes = step_nodes(placement, [label])
    split_identities(nodes)
    definitions = node_defs(nodes, {label: graph})
    values = Values(nodes, definitions)
    loops = find_loops(nodes, values)
    times = repeats(nodes, loops)
    round_trip = carried(nodes, loops)
    kept = repeats(nodes, loops, unchanging=False)
    walks = [MemoryWalk(nodes, kept, values, round_trip).run(order(nodes)) for order in (breadth_first, depth_first)]
    names = question.add(nodes, definitions, values)
    variables = find_variables(nodes, definitions)
    calls = uncounted_calls(nodes, definitions)
    return Step(nodes, loops, times, walks[0], walks[1], variables, find_transfers(nodes, times), names, calls)


def _add_times(
    placement: Placement,
    steps: Sequence[Step],
    cards: Mapping[str, Card],
    question: Question,
    helper: Helper | None,
    timeout: float,
) -> tuple[float | None, str]:
    """Estimate the time of each step; return that of all, and why there is none."""
    if helper is None:
        return None, "there is no process that counts what operations cost"
    try:
        counted, error = question.ask(helper, timeout)
    except PlacementError as problem:
        return None, str(problem)
    if error:
        return None, error
    for step in steps:
        step.costs = costs_of(step.nodes, step.names, counted)
        step.timeline = schedule(step.nodes, step.costs.of, step.times, cards)
        if step.timeline is None:
            return None, "the rates of a device are not known: give its kind as a Card with flops and bandwidth"
    begin = 0.0
    for step in steps:
        if step.timeline is None:
            continue
        for number, node in enumerate(step.nodes):
            if node.device:
                data = placement.graph.nodes[node.id]
                data["start"] = round(begin + step.timeline.start[number], 9)
                data["duration"] = round(step.timeline.duration[number], 9)
        begin += step.timeline.seconds
    placement.meta["times"] = "estimated"
    return begin, ""


def _devices(
    placement: Placement, steps: Sequence[Step], devices: Sequence[Device], cards: Mapping[str, Card]
) -> list[DeviceEstimate]:
    counts = placement.device_counts()
    limits = {one.name: one.memory_limit for one in devices}
    names = set(counts).union(
        *(step.memory for step in steps), *({one.device for one in step.variables} for step in steps)
    )
    found = []
    for name in sorted(names - {""}, key=sort_key):
        one = DeviceEstimate(name, operations=counts.get(name, 0))
        card = cards.get(name)
        if card is not None:
            one.card = card.name
        if card is None or card.type == "GPU":
            one.available = card.available if card is not None else limits.get(name)
        _add_variables(one, steps)
        _add_memory(one, steps, name)
        if all(step.timeline is not None for step in steps):
            one.seconds = sum(step.timeline.busy.get(name, 0.0) for step in steps if step.timeline is not None)
        found.append(one)
    return found


def _add_variables(one: DeviceEstimate, steps: Sequence[Step]) -> None:
    seen: set[str] = set()
    for step in steps:
        for variable in step.variables:
            if variable.device != one.device or variable.key in seen:
                continue
            seen.add(variable.key)
            if variable.size is None:
                one.unknown += 1
            elif variable.slot:
                one.slots += variable.size
            else:
                one.variables += variable.size


def _add_memory(one: DeviceEstimate, steps: Sequence[Step], name: str) -> None:
    worst = 0
    for step in steps:
        memory, other = step.memory.get(name, DeviceMemory()), step.depth_first.get(name, DeviceMemory())
        one.constants += memory.constants
        one.unknown += memory.unknown
        one.biggest = max(one.biggest, memory.biggest)
        one.calls += step.calls[name] + step.calls[""]
        one.open_inputs += sum(each.open_inputs for each in step.memory.values())
        low, high = sorted((memory.peak, other.peak))
        if high + memory.inputs >= worst:
            worst = high + memory.inputs
            one.inputs, one.step, one.parts = memory.inputs, memory.peak, dict(memory.parts)
            one.step_low, one.step_high = low, high
            one.largest = [(step.nodes[number].id, size) for number, size in memory.largest]


def _sum(steps: Sequence[Step]) -> list[Transfer]:
    found: dict[tuple[str, str], Transfer] = {}
    for step in steps:
        for one in step.transfers:
            into = found.setdefault((one.source, one.target), Transfer(one.source, one.target))
            into.tensors += one.tensors
            into.size += one.size
            into.unknown += one.unknown
            into.signals += one.signals
    return sorted(found.values(), key=lambda one: (-one.size, one.source, one.target))
