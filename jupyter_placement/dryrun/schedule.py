"""When each operation of a step would run: an own model of devices and links, with Grappler's costs."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_placement.devices import device_type
from jupyter_placement.dryrun.card import Card
from jupyter_placement.dryrun.costs import Cost
from jupyter_placement.dryrun.step_graph import StepNode

# What a kernel is assumed to reach of the peak; nothing here was measured on a GPU.
COMPUTE_SHARE, MEMORY_SHARE, LINK_SHARE = 0.5, 0.75, 0.8
# Seconds: to launch a kernel, to run an operation on a CPU, to hand on what is not computed, to begin a transfer.
LAUNCH, CPU_OPERATION, HAND_ON, LATENCY = 5e-6, 2e-6, 0.5e-6, 10e-6
# From here on an operation on a CPU is spread over all its cores.
_SPREAD = 50e-6
_MATRICES = ("MatMul", "Conv", "Einsum", "LSTM", "CudnnRNN")


@dataclass
class Timeline:
    """When what runs.

    Attributes
    ----------
    start, duration : list of float
        Seconds of each node.
    seconds : float
        The step.
    busy : dict of str to float
        Seconds in which a device computes.
    links : dict of (str, str) to float
        Seconds in which something is on the way from one device to another.
    """

    start: list[float]
    duration: list[float]
    seconds: float = 0.0
    busy: dict[str, float] = field(default_factory=dict)
    links: dict[tuple[str, str], float] = field(default_factory=dict)


def operation_seconds(node: StepNode, cost: Cost, card: Card) -> float | None:
    """Return how long an operation would take, on all of its device; ``None`` if the card's rates are not known.

    Examples
    --------
    >>> from jupyter_placement.dryrun.cards import find_card
    >>> node = StepNode("a", "a", "Relu", "", "/device:GPU:0", [], False)
    >>> f"{operation_seconds(node, Cost(0, 240_000_000), find_card('T4')) * 1e3:.1f} ms"
    '1.0 ms'
    """
    least = CPU_OPERATION if card.type == "CPU" else LAUNCH
    if not cost.flops and not cost.size:
        return HAND_ON
    dtype = next((output.dtype for output in node.outputs if output.dtype not in (None, "resource")), "float32")
    rate = card.rate((dtype or "").removesuffix("_ref"), any(word in node.op for word in _MATRICES))
    if rate is None or card.bandwidth is None:
        return None
    return max(least, cost.flops / (rate * COMPUTE_SHARE), cost.size / (card.bandwidth * MEMORY_SHARE))


def link_speed(source: Card, target: Card) -> float:
    """Return the bytes per second from one device to another; infinite where both are the host's memory.

    Examples
    --------
    >>> from jupyter_placement.dryrun.machine import parse_machine
    >>> a, b = list(parse_machine("1xV100-16GB + 1xT4").cards.values())[1:]
    >>> [f"{link_speed(*pair) / 1e9:.1f}" for pair in ((a, a), (a, b))]
    ['150.0', '15.8']
    """
    if source.type == "CPU" and target.type == "CPU":
        return float("inf")
    if source.nvlink and target.nvlink and source.type == target.type:
        return min(source.nvlink, target.nvlink)
    return min(card.host_link for card in (source, target) if card.type != "CPU")


def schedule(
    nodes: Sequence[StepNode], costs: Sequence[Cost], times: Sequence[int], cards: Mapping[str, Card]
) -> Timeline | None:
    """Let the operations run as soon as their inputs are there and their device is free, first come first served.

    A GPU runs one kernel at a time; a CPU as many operations as it has cores, or one that takes all of them. From one
    device to another goes one tensor at a time.

    Parameters
    ----------
    nodes : sequence of StepNode
        The step.
    costs : sequence of Cost
        Of each node, for one run.
    times : sequence of int
        How often each node runs; all of its runs stand in one piece.
    cards : mapping of str to Card
        The kind of each device.

    Returns
    -------
    Timeline or None
        ``None`` if the kind of a device that computes is not known.
    """
    return _Scheduler(nodes, costs, times, cards).run()


class _Scheduler:
    def __init__(
        self, nodes: Sequence[StepNode], costs: Sequence[Cost], times: Sequence[int], cards: Mapping[str, Card]
    ) -> None:
        self._nodes, self._costs, self._times, self._cards = nodes, costs, times, cards
        self._timeline = Timeline([0.0] * len(nodes), [0.0] * len(nodes))
        self._free: dict[str, list[float]] = {}
        self._links: dict[tuple[str, str], float] = {}
        self._arrived: dict[tuple[int, int, str], float] = {}

    def run(self) -> Timeline | None:
        waits = [node.waits for node in self._nodes]
        ready = [0.0] * len(self._nodes)
        heap = [(0.0, number) for number, count in enumerate(waits) if not count]
        heapq.heapify(heap)
        while heap:
            now, number = heapq.heappop(heap)
            end = self._place(number, now)
            if end is None:
                return None
            node = self._nodes[number]
            arrivals = [(following, end) for following in node.controls]
            arrivals += [(use.node, self._send(number, use.output, use.to, end)) for use in node.users]
            for following, arrival in arrivals:
                ready[following] = max(ready[following], arrival)
                waits[following] -= 1
                if not waits[following]:
                    heapq.heappush(heap, (ready[following], following))
        return self._timeline

    def _place(self, number: int, ready: float) -> float | None:
        node = self._nodes[number]
        if not node.device:
            return ready
        card = self._cards.get(node.device)
        once = None if card is None else operation_seconds(node, self._costs[number], card)
        if card is None or once is None:
            return None
        if once == HAND_ON:
            # Nothing that a device has to be free for.
            self._timeline.start[number], self._timeline.duration[number] = ready, once
            self._timeline.seconds = max(self._timeline.seconds, ready + once)
            return ready + once
        streams = self._free.setdefault(node.device, [0.0] * (max(1, card.units or 1) if card.type == "CPU" else 1))
        alone = once * len(streams) if once > CPU_OPERATION else once
        spread = len(streams) > 1 and alone > _SPREAD
        took = (once if spread or len(streams) == 1 else alone) * self._times[number]
        if spread:
            start = max(ready, *streams)
            streams[:] = [start + took] * len(streams)
        else:
            start = max(ready, streams[0])
            heapq.heapreplace(streams, start + took)
        timeline = self._timeline
        timeline.start[number], timeline.duration[number] = start, took
        share = took if spread or len(streams) == 1 else took / len(streams)
        timeline.busy[node.device] = timeline.busy.get(node.device, 0.0) + share
        timeline.seconds = max(timeline.seconds, start + took)
        return start + took

    def _send(self, number: int, output: int, to: str, end: float) -> float:
        """Return when an output is where it is needed."""
        source = self._nodes[number].place(output)
        if not to or to == source or (device_type(to) == "CPU" == device_type(source)):
            return end
        key = (number, output, to)
        if key not in self._arrived:
            cards = self._cards.get(source), self._cards.get(to)
            if cards[0] is None or cards[1] is None:
                return end
            size = self._nodes[number].outputs[output].size or 0
            took = (LATENCY + size / (link_speed(cards[0], cards[1]) * LINK_SHARE)) * self._times[number]
            start = max(end, self._links.get((source, to), 0.0))
            self._links[source, to] = self._arrived[key] = start + took
            self._timeline.links[source, to] = self._timeline.links.get((source, to), 0.0) + took
        return self._arrived[key]
