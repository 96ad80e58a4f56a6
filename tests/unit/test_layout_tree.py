"""The tree of name scopes: every operation once, every edge lifted, nothing too wide."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_placement.layout import ScopeTree, scope_tree
from jupyter_placement.layout.tree import MAX_DEPTH
from jupyter_placement.placement import Placement
from tests.unit.placements import CPU0, GPU0, chain_placement, graph_def_placement, layers_placement, small_placement


def operations(tree: ScopeTree) -> Counter[str]:
    return Counter(node for scope in (tree.root, *tree.scopes.values()) for node in scope.nodes)


def lifted(tree: ScopeTree) -> list[int]:
    return sorted(
        index for scope in (tree.root, *tree.scopes.values()) for edges in scope.links.values() for index in edges
    )


def test_scopes_count_operations_by_device() -> None:
    tree = scope_tree(small_placement())
    assert {path: (scope.size, scope.devices) for path, scope in tree.scopes.items()} == {
        "tower": (3, {GPU0: 2, CPU0: 1}),
        "loss": (2, {"/job:localhost/replica:0/task:0/device:GPU:1": 2}),
    }
    assert tree.root.nodes == ["x", "waiting"]


def test_an_operation_with_the_name_of_a_scope_lies_in_it() -> None:
    tree = scope_tree(small_placement())
    assert tree.scopes["loss"].nodes == ["loss", "loss/axis"]
    assert tree.opened_for("loss") == ["loss"]


def test_edges_are_lifted_to_the_lowest_scope_that_holds_both_ends() -> None:
    tree = scope_tree(chain_placement(["a/b/x", "a/b/y", "a/c/z", "d"]))
    assert [[len(edges) for edges in scope.links.values()] for scope in (tree.root, *tree.scopes.values())] == [
        [1],  # a -> d
        [1],  # a/b -> a/c
        [1],  # a/b/x -> a/b/y
        [],
    ]
    assert list(tree.root.links) == [(tree.scopes["a"], "d")]


def test_several_captured_graphs_are_the_first_level() -> None:
    placement = Placement()
    placement.add_node("f/x", op="Add", device=CPU0, graph="function:f")
    placement.add_node("session:0/f/x", op="Add", device=CPU0, graph="session:0", name="f/x")
    tree = scope_tree(placement)
    assert [(scope.label, scope.kind) for scope in tree.root.scopes] == [
        ("function:f", "graph"),
        ("session:0", "graph"),
    ]
    assert tree.opened_for("session:0/f/x") == ["session:0", "session:0/f"]
    assert tree.label("session:0/f/x") == "x"


@pytest.mark.parametrize("count", [59, 60, 61, 121, 3600, 5000])
def test_no_scope_has_more_children_than_can_be_drawn(count: int) -> None:
    tree = scope_tree(chain_placement([f"s/AddN_{at}" for at in range(count)]))
    assert max(len(scope.scopes) + len(scope.nodes) for scope in (tree.root, *tree.scopes.values())) <= 60
    assert operations(tree) == Counter({f"s/AddN_{at}": 1 for at in range(count)})
    assert tree.scopes["s"].size == count


def test_series_of_numbered_siblings_are_folded_together() -> None:
    names = [f"g/AddN_{at}" for at in range(50)] + [f"g/Mul_{at}" for at in range(30)] + ["g/loss", "g/step/x"]
    tree = scope_tree(chain_placement(names))
    scope = tree.scopes["g"]
    assert [(one.label, one.kind, one.size) for one in scope.scopes] == [
        ("step", "scope", 1),
        ("AddN…", "series", 50),
        ("Mul…", "series", 30),
    ]
    assert scope.nodes == ["g/loss"]


def test_names_of_any_depth_and_oddity_have_a_place() -> None:
    names = ["/".join("a" * 5000), "/".join("a" * 5001), "", "/", "//", "x//y", "x/", "/y", "x", "a"]
    tree = scope_tree(chain_placement(names))
    assert operations(tree) == Counter(dict.fromkeys(names, 1))
    assert max(scope.depth for scope in tree.scopes.values()) <= MAX_DEPTH
    assert tree.label("") == "(no name)"


name = st.lists(st.sampled_from(["a", "b", "c_1", "c_2", "", "…", "a …"]), min_size=1, max_size=5).map("/".join)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(name, st.sampled_from(["", "f", "a/b"])), unique=True, min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=60),
    st.integers(2, 6),
)
def test_every_operation_and_edge_is_there_once(
    names: list[tuple[str, str]], ends: list[tuple[int, int]], most: int
) -> None:
    placement = Placement()
    ids = [f"{graph}|{name}" for name, graph in names]
    for node, (text, graph) in zip(ids, names, strict=True):
        placement.add_node(node, name=text, graph=graph, device=CPU0)
    for key, (source, target) in enumerate(ends):
        placement.add_edge(ids[source % len(ids)], ids[target % len(ids)], key)
    tree = scope_tree(placement, max_children=most)
    assert operations(tree) == Counter(ids)
    loops = sum(producer == consumer for producer, consumer in placement.graph.edges())
    assert len(tree.edges) == placement.graph.number_of_edges() - loops
    assert lifted(tree) == list(range(len(tree.edges)))
    assert tree.root.size == len(ids)
    for scope in (tree.root, *tree.scopes.values()):
        if scope.kind != "graph" and not any(child.kind == "graph" for child in scope.scopes):
            assert len(scope.scopes) + len(scope.nodes) <= most
        for item in (part for pair in scope.links for part in pair):
            assert item in scope.scopes or item in scope.nodes


def test_fifty_thousand_operations_are_all_there() -> None:
    placement = layers_placement(50_000)
    tree = scope_tree(placement)
    assert tree.root.size == placement.graph.number_of_nodes() == 50_001
    assert len(tree.edges) == placement.graph.number_of_edges()


@pytest.mark.tensorflow
def test_a_graph_of_tensorflow_with_gradients() -> None:
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        with tf.device("/gpu:0"), tf.compat.v1.variable_scope("net"):
            kernel = tf.compat.v1.get_variable("kernel", [4, 2], use_resource=False)
            loss = tf.reduce_sum(tf.matmul(tf.ones([3, 4]), kernel), name="loss")
        tf.compat.v1.train.AdamOptimizer().minimize(loss)
    placement = graph_def_placement(graph.as_graph_def())
    tree = scope_tree(placement)
    assert operations(tree) == Counter(operation.name for operation in graph.get_operations())
    assert tree.scopes["net/kernel"].devices.keys() == {GPU0, CPU0}  # Adam's slots are made without the pin
    assert "net/loss" in tree.scopes["net"].nodes
    inputs = sum(len(operation.inputs) + len(operation.control_inputs) for operation in graph.get_operations())
    assert len(tree.edges) == inputs
