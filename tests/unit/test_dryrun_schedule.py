"""Times of steps so small that the truth is worked out by hand."""

from __future__ import annotations

import pytest

from jupyter_placement.dryrun.card import Card
from jupyter_placement.dryrun.costs import Cost
from jupyter_placement.dryrun.schedule import HAND_ON, LATENCY, LAUNCH, schedule
from jupyter_placement.dryrun.step_graph import StepNode, step_nodes
from tests.unit.written_graphs import CPU, GPU0, GPU1, UNIT, Graph

CARD = Card("plain", 1 << 34, bandwidth=1e12, flops={"float32": 1e12}, pcie=3, units=1)


def two_products(second: str) -> list[StepNode]:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("a", "MatMul", "x", "x")
    graph.node("b", "MatMul", "x", "x", on=second)
    return step_nodes(graph.placement)


def test_one_gpu_runs_one_kernel_at_a_time_and_two_gpus_two() -> None:
    cards = {GPU0: CARD, GPU1: CARD}
    costs = [Cost(), Cost(flops=5 * 10**8), Cost(flops=5 * 10**8)]  # 1 ms each at half of 10^12 a second
    one = schedule(two_products(GPU0), costs, [1, 1, 1], cards)
    two = schedule(two_products(GPU1), costs, [1, 1, 1], cards)
    assert one is not None and two is not None
    assert one.seconds == pytest.approx(HAND_ON + 2e-3)
    moved = LATENCY + UNIT / (0.985e9 * 16 * 0.8)
    assert two.seconds == pytest.approx(HAND_ON + moved + 1e-3)
    assert two.links == {(GPU0, GPU1): pytest.approx(moved)}
    assert two.busy == {GPU0: pytest.approx(1e-3), GPU1: pytest.approx(1e-3)}


def test_a_kernel_takes_at_least_its_launch_and_turns_multiply() -> None:
    timeline = schedule(two_products(GPU0), [Cost(), Cost(flops=1), Cost(size=1)], [1, 1, 100], {GPU0: CARD})
    assert timeline is not None
    assert sorted(timeline.duration) == pytest.approx([HAND_ON, LAUNCH, 100 * LAUNCH])


def test_a_cpu_runs_small_operations_beside_each_other_and_large_ones_on_all_cores() -> None:
    card = Card("cpu", 1 << 34, bandwidth=1e12, flops={"float32": 4e12}, units=4, type="CPU")
    graph = Graph(CPU)
    graph.node("x", "_Arg")
    for number in range(4):
        graph.node(f"m{number}", "MatMul", "x", "x")
    nodes = step_nodes(graph.placement)
    large = schedule(nodes, [Cost(), *[Cost(flops=2 * 10**9)] * 4], [1] * 5, {CPU: card})
    small = schedule(nodes, [Cost(), *[Cost(flops=2 * 10**6)] * 4], [1] * 5, {CPU: card})
    assert large is not None and small is not None
    assert large.seconds == pytest.approx(4e-3, rel=0.01)
    assert small.seconds == pytest.approx(HAND_ON + 2e-6, rel=0.01)


def test_without_rates_there_is_no_timeline() -> None:
    nodes = two_products(GPU0)
    costs = [Cost(flops=1)] * 3
    assert schedule(nodes, costs, [1] * 3, {GPU0: Card("bare", 1 << 30)}) is None
    assert schedule(nodes, costs, [1] * 3, {}) is None
