"""Explanations against TensorFlow's placer on imagined GPUs: change what is said to decide, and place again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from jupyter_placement import Placement
from jupyter_placement.devices import satisfies
from jupyter_placement.dryrun import close_helpers, dry_run
from jupyter_placement.explain import Rules, explain
from tests.integration.graphs import GPU_PINS, Spec, build, random_spec
from tests.integration.test_explain_truth import changed_spec

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

GRAPHS = 220
MORE = ("matrix", "matrix", "matmul", "matmul", "relu")


@pytest.fixture(scope="module", autouse=True)
def _end_helpers() -> Iterator[None]:
    yield
    close_helpers()


def place(specs: list[Spec]) -> Placement:
    """Have TensorFlow place each graph on two or three GPUs that are not there."""
    graphs = []
    for spec in specs:
        graph = tf.Graph()
        with graph.as_default():
            build(tf, spec, graph)
        graphs.append(graph)
    return dry_run(graphs, on="2xT4")


def by_name(placement: Placement) -> list[dict[str, str]]:
    """Return the ids of each graph's nodes by name."""
    found: dict[str, dict[str, str]] = {}
    for node, data in placement.graph.nodes(data=True):
        found.setdefault(data["graph"], {})[data["name"]] = node
    return list(found.values())


@pytest.fixture(scope="module")
def specs() -> list[Spec]:
    return [random_spec(1000 + seed, 16, seed % 2 == 0, GPU_PINS, MORE) for seed in range(GRAPHS)]


@pytest.fixture(scope="module")
def placed(specs: list[Spec]) -> Placement:
    return place(specs)


def test_every_node_has_an_explanation(placed: Placement) -> None:
    rules = Rules(placed)
    found = Counter(rules.of(node).name for node in placed.graph)
    assert not found["unknown"]
    assert found["no_kernel"] > 50 and found["overridden"] > 50 and found["identity"] > 50
    assert found.keys() >= {"pinned", "pinned_partly", "colocated", "no_such_device", "generator", "default"}


def test_the_rules_place_as_tensorflow_places(placed: Placement) -> None:
    rules = Rules(placed)
    wrong = []
    for names in by_name(placed):
        label = placed.graph.nodes[next(iter(names.values()))]["graph"]
        predicted = rules.other_placer(label).place()
        wrong += [node for node in names.values() if predicted.get(node) != placed.graph.nodes[node]["device"]]
    assert placed.graph.number_of_nodes() > 5000
    assert not wrong


def test_without_what_decides_the_node_goes_where_the_explanation_says(specs: list[Spec], placed: Placement) -> None:
    rules = Rules(placed)
    changes: list[tuple[Spec, str, str, str, str]] = []
    for spec, names in zip(specs, by_name(placed), strict=True):
        for name, node in list(names.items())[:16]:
            explanation = explain(rules, node)
            other = explanation.facts.get("otherwise")
            changed = changed_spec(spec, rules, name, explanation) if other is not None else None
            if changed is not None:
                changes.append((changed, name, other, explanation.rule, placed.graph.nodes[node]["device"]))
    chosen = changes[:: max(len(changes) // 400, 1)]
    again = place([one[0] for one in chosen])
    wrong, moved = [], 0
    for (_, name, other, rule, before), names in zip(chosen, by_name(again), strict=True):
        device = again.graph.nodes[names[name]]["device"]
        moved += device != before
        if device != other:
            wrong.append((name, rule, other, device))
    assert not wrong
    assert len(chosen) >= 200 and len({rule for *_, rule, _ in chosen}) >= 5
    assert moved > 40 and len(chosen) - moved > 40


def test_where_no_kernel_takes_the_type_a_cast_moves_the_operation_to_the_gpu(
    specs: list[Spec], placed: Placement
) -> None:
    rules = Rules(placed)
    cast: list[tuple[Spec, str, str]] = []
    for spec, names in zip(specs, by_name(placed), strict=True):
        for name, node in names.items():
            changed = spec.cast(name)
            if (
                changed is None
                or rules.of(node).name != "no_kernel"
                or len(rules.placer(node).groups[node].members) > 1
            ):
                continue
            explanation = explain(rules, node)
            assert "int32" in explanation.text and "float32" in explanation.facts["takes"]["T"]
            assert "int32" not in explanation.facts["takes"]["T"]
            cast.append((changed, name, placed.graph.nodes[node]["requested"]))
    again = place([one[0] for one in cast])
    assert len(cast) > 20
    for (_, name, requested), names in zip(cast, by_name(again), strict=True):
        assert satisfies(again.graph.nodes[names[name]]["device"], requested)


def test_variables_of_a_function_are_there_before_it(placed: Placement) -> None:
    """What a function takes is placed by itself; what reads it under a pin follows it."""

    class Model(tf.Module):
        def __init__(self) -> None:
            self.weights = tf.Variable(tf.ones([4, 4]), name="weights")
            self.count = tf.Variable(0, name="count")  # int32: no kernel for it on a GPU

        @tf.function(autograph=False)
        def __call__(self, x: tf.Tensor) -> tf.Tensor:
            with tf.device("/gpu:1"):
                self.count.assign_add(1)
                return x @ self.weights.read_value()

    placement = dry_run(Model(), tf.TensorSpec([2, 4]), on="2xT4")
    ops = ("AssignAddVariableOp", "ReadVariableOp", "MatMul")
    found = {
        data["op"]: (data["device"][-5:], explain(placement, node))
        for node, data in placement.graph.nodes(data=True)
        if data["op"] in ops
    }
    (adding, added), (reading, read), (multiplying, multiplied) = (found[op] for op in ops)
    assert (adding, reading, multiplying) == ("CPU:0", "GPU:0", "GPU:1")
    assert added.text.endswith("Variable count decides: it has no kernel for another device type.")
    assert read.text.endswith("Variable weights decides: the function is given it, so it is there already.")
    assert multiplied.rule == "pinned"
    handles = [node for node, data in placement.graph.nodes(data=True) if data["op"] == "VarHandleOp"]
    assert [explain(placement, node).rule for node in handles] == ["default", "default"]
