"""Explanations against TensorFlow: change what is said to decide, run again, and see whether the node moves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from jupyter_placement import Placement, record
from jupyter_placement.explain import Rules, explain
from tests.integration.graphs import Spec, build, random_spec

pytestmark = pytest.mark.tensorflow

GRAPHS = 220


@pytest.fixture(scope="module")
def tf() -> Any:
    """TensorFlow on three logical CPU devices."""
    import tensorflow as tf

    assert len(tf.config.list_logical_devices("CPU")) >= 3, "the tests of one process share three CPU devices"
    return tf


def place(tf: Any, specs: list[Spec]) -> Placement:
    """Have TensorFlow place each graph in a session of its own; nothing runs."""
    v1 = tf.compat.v1
    with record(interval=60) as recording:
        for spec in specs:
            with tf.Graph().as_default() as graph:
                build(tf, spec, graph)
                with v1.Session(config=v1.ConfigProto(device_count={"CPU": 3})) as session:
                    session._extend_graph()
    assert recording.placement is not None
    return recording.placement


def by_name(placement: Placement) -> list[dict[str, str]]:
    """Return the ids of each session's nodes by name."""
    found: dict[str, dict[str, str]] = {}
    for node, data in placement.graph.nodes(data=True):
        if data["graph"].startswith("session:"):
            found.setdefault(data["graph"], {})[data["name"]] = node
    return [found[f"session:{number}"] for number in range(len(found))]


@pytest.fixture(scope="module")
def specs() -> list[Spec]:
    return [random_spec(seed, control_flow=seed % 2 == 0) for seed in range(GRAPHS)]


@pytest.fixture(scope="module")
def placed(tf: Any, specs: list[Spec]) -> Placement:
    return place(tf, specs)


def test_the_rules_place_as_tensorflow_places(placed: Placement) -> None:
    rules = Rules(placed)
    nodes, wrong = 0, []
    for names in by_name(placed):
        label = placed.graph.nodes[next(iter(names.values()))]["graph"]
        predicted = rules.other_placer(label).place()
        nodes += len(names)
        wrong += [node for node in names.values() if predicted.get(node) != placed.graph.nodes[node]["device"]]
    assert nodes > 5000
    assert not wrong


def test_nearly_every_node_has_an_explanation(placed: Placement) -> None:
    rules = Rules(placed)
    found = Counter(rules.of(node).name for node in placed.graph)
    assert not found["unknown"]
    assert found.keys() >= {"pinned", "pinned_partly", "colocated", "overridden", "no_such_device", "generator"}


def test_without_what_decides_the_node_goes_where_the_explanation_says(
    tf: Any, specs: list[Spec], placed: Placement
) -> None:
    rules = Rules(placed)
    changes: list[tuple[Spec, str, str, str]] = []
    for spec, names in zip(specs, by_name(placed), strict=True):
        for name, node in list(names.items())[:14]:
            explanation = explain(rules, node)
            other = explanation.facts.get("otherwise")
            if other is None:
                continue
            changed = changed_spec(spec, rules, name, explanation)
            if changed is not None:
                changes.append((changed, name, other, explanation.rule))
    chosen = changes[:: max(len(changes) // 400, 1)]
    again = place(tf, [one[0] for one in chosen])
    moved, stayed, wrong = 0, 0, []
    for (_, name, other, rule), names, number in zip(chosen, by_name(again), range(len(chosen)), strict=True):
        device = again.graph.nodes[names[name]]["device"]
        if device != other:
            wrong.append((number, name, rule, other, device))
    for _, _, other, _ in chosen:
        moved, stayed = moved + ("CPU:0" not in other), stayed + ("CPU:0" in other)
    assert not wrong
    assert len(chosen) >= 200
    assert len({rule for *_, rule in chosen}) >= 4
    assert moved > 20 and stayed > 20


def changed_spec(spec: Spec, rules: Rules, name: str, explanation: Any) -> Spec | None:
    """Take away what the explanation says decides."""
    if explanation.rule in ("colocated", "overridden"):
        links = {kind for _, kind in explanation.facts["links"]}
        if links == {"loc:@"}:
            return spec.without_colocation(name)
        if explanation.facts["because"] == "request":
            return spec.without_pin(rules.graph.nodes[explanation.facts["decider"]]["name"])
    return spec.without_pin(name)
