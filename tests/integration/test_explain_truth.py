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
    if explanation.facts["without"] == "colocation":
        return spec.without_colocation(name)
    because = explanation.facts.get("because")
    decider = explanation.facts["decider"] if because == "request" else explanation.node
    changed: Spec | None = spec
    # What a step makes beside its operation (the read of a variable) has the step's pin.
    for step in {rules.graph.nodes[one]["name"].partition("/")[0] for one in (decider, *explanation.facts["shared"])}:
        changed = None if changed is None else changed.without_pin(step)
    return changed


@pytest.mark.parametrize("change", ["requests", "loose"])
def test_a_part_placed_again_tells_the_same_as_the_whole(placed: Placement, change: str) -> None:
    rules = Rules(placed)
    compared, parts = 0, 0
    for names in by_name(placed)[:60]:
        for node in names.values():
            data = placed.graph.nodes[node]
            given: Any = {"requests": {node: "" if data["requested"] else "/cpu:2"}} if change == "requests" else {node}
            given = given if change == "requests" else {"loose": given}
            assert rules.without(node, **given) == rules.other_placer(data["graph"], **given).place().get(node)
            around = rules._around[data["graph"]]
            compared, parts = compared + 1, parts + around.tells(around.placer.component([node]))
    assert compared > 1000
    assert parts > 0.8 * compared


def test_what_a_function_takes_is_no_earlier_run(tf: Any) -> None:
    weights = tf.Variable(tf.ones([4]), name="weights")

    @tf.function(autograph=False)
    def inner(x: Any) -> Any:
        weights.assign_sub(x)
        return x

    @tf.function(autograph=False)
    def outer(x: Any) -> Any:
        with tf.device("/cpu:1"):
            return inner(x)

    with record(interval=60) as recording:
        outer(tf.ones([4]))
    placement = recording.placement
    assert placement is not None
    (node,) = [node for node, data in placement.graph.nodes(data=True) if data["op"] == "AssignSubVariableOp"]
    found = explain(placement, node)
    assert (found.rule, found.facts["because"]) == ("overridden", "argument")
    assert "Variable weights decides: the function is given it" in found.text
    assert found.remedy.startswith("Make variable weights on the device")
    assert not any("earlier run" in str(explain(placement, one)) for one in placement.graph)


def test_a_request_goes_from_the_gradients_too(tf: Any) -> None:
    weights = tf.Variable(tf.ones([4, 4]))

    def function(device: str | None) -> Any:
        @tf.function(autograph=False)
        def step(x: Any) -> Any:
            with tf.device(device):
                product = tf.matmul(x, weights, name="product")
            return tf.gradients(product, [x])

        return step

    devices = []
    for device in ("/cpu:1", None):
        with record(interval=60) as recording:
            function(device)(tf.ones([4, 4]))
        assert recording.placement is not None
        devices.append((explain(recording.placement, "product"), recording.placement.graph.nodes["product"]["device"]))
    (pinned, _), (_, free) = devices
    assert pinned.facts["otherwise"] == free
    assert "which 5 operations beside share" in pinned.text


def test_an_eager_variable_decides_by_its_request(tf: Any) -> None:
    with record(interval=60) as recording:
        with tf.device("/cpu:1"):
            variable = tf.Variable([1.0, 2.0])
        with tf.device("/cpu:2"):
            variable.assign_add([1.0, 1.0])
    placement = recording.placement
    assert placement is not None
    found = {data["op"]: explain(placement, node) for node, data in placement.graph.nodes(data=True)}
    assert (found["AssignVariableOp"].rule, found["AssignAddVariableOp"].rule) == ("pinned", "overridden")
    assert "decides: it asked for" in found["AssignAddVariableOp"].text
