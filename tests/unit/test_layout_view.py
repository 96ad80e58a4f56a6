"""Boxes that do not overlap, lines that mean what they stand for, pictures that stay small."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_placement.layout import Box, Link, View, default_opened, layout, scope_tree
from jupyter_placement.layout.layers import rows_of
from jupyter_placement.layout.view import MAX_LINKS, MAX_MARKS
from jupyter_placement.placement import Placement
from tests.unit.placements import CPU0, GPU0, chain_placement, layers_placement, small_placement


def box_of(view: View, key: str) -> Box:
    return next(box for box in view.boxes if box.key == key)


def link_of(view: View, source: str, target: str) -> Link:
    return next(
        link for link in view.links if (view.boxes[link.source].key, view.boxes[link.target].key) == (source, target)
    )


def inside(inner: Box, outer: Box) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.x + inner.width <= outer.x + outer.width
        and inner.y + inner.height <= outer.y + outer.height
    )


def apart(one: Box, other: Box) -> bool:
    return (
        one.x + one.width <= other.x
        or other.x + other.width <= one.x
        or one.y + one.height <= other.y
        or other.y + other.height <= one.y
    )


def assert_no_overlap(view: View) -> None:
    for one, other in combinations(view.boxes, 2):
        assert apart(one, other) or (one.opened and inside(other, one)) or (other.opened and inside(one, other))


def test_a_collapsed_view_shows_the_top_level() -> None:
    tree = scope_tree(small_placement())
    view = layout(tree)
    assert [(box.kind, box.key, box.size) for box in view.boxes] == [
        ("node", "x", 1),
        ("scope", "tower", 3),
        ("scope", "loss", 2),
        ("node", "waiting", 1),
    ]
    assert box_of(view, "tower").devices == [(CPU0, 1), (GPU0, 2)]
    assert box_of(view, "x").y < box_of(view, "tower").y < box_of(view, "loss").y
    assert_no_overlap(view)


def test_a_line_sums_up_the_edges_that_it_stands_for() -> None:
    view = layout(scope_tree(small_placement()))
    totals = link_of(view, "tower", "loss").totals
    assert (totals.tensors, totals.bytes, totals.transfers, totals.control) == (1, 32, 1, 0)
    assert link_of(view, "x", "loss").totals.control == 1


def test_an_opened_scope_is_a_frame_and_its_edges_end_at_what_is_in_it() -> None:
    view = layout(scope_tree(small_placement()), ["tower"])
    frame = box_of(view, "tower")
    assert frame.opened
    assert all(inside(box_of(view, f"tower/{name}"), frame) for name in ("kernel", "MatMul", "Print"))
    assert link_of(view, "tower/MatMul", "loss").totals.bytes == 32
    assert link_of(view, "x", "tower/MatMul").totals.transfers == 1
    assert all(view.boxes[end].key != "tower" for link in view.links for end in (link.source, link.target))
    assert_no_overlap(view)


def test_a_scope_in_a_closed_one_is_not_seen_and_unknown_ones_are_ignored() -> None:
    tree = scope_tree(chain_placement(["a/b/x", "c"]))
    assert [box.key for box in layout(tree, ["a/b", "nowhere"]).boxes] == ["a", "c"]


def test_cycles_between_scopes_are_drawn() -> None:
    view = layout(scope_tree(chain_placement(["a/x", "b/x", "a/y", "b/y"])))
    assert sorted((view.boxes[link.source].key, view.boxes[link.target].key) for link in view.links) == [
        ("a", "b"),
        ("b", "a"),
    ]
    assert all(len(link.points) > 2 for link in view.links)


def test_a_chain_runs_downward() -> None:
    view = layout(scope_tree(chain_placement(list("abcdef"))))
    tops = [box_of(view, key).y for key in "abcdef"]
    assert tops == sorted(tops)
    assert len(set(tops)) == 6


def test_opening_everything_of_a_large_graph_stays_bounded_and_keeps_the_latest() -> None:
    tree = scope_tree(layers_placement(20_000))
    paths = sorted(tree.scopes)
    wanted = next(path for path in paths if path.endswith("layer30/norm"))
    needed = [scope.path for scope in tree.scopes[wanted].ancestors() if scope.path][::-1]
    view = layout(tree, [*(path for path in paths if path not in needed), *needed])
    assert len(view.boxes) <= MAX_MARKS
    assert len(view.links) <= MAX_LINKS
    assert set(needed) <= set(view.opened)
    assert view.closed


def test_what_is_left_out_is_told() -> None:
    placement = Placement()
    for at in range(60):
        placement.add_node(f"n{at}", op="Add", device=CPU0)
    for source in range(60):
        for target in range(source + 1, 60):
            placement.add_edge(f"n{source}", f"n{target}", source, tensor=f"n{source}:0")
    view = layout(scope_tree(placement))
    assert len(view.links) == MAX_LINKS
    assert view.hidden_links == 60 * 59 // 2 - MAX_LINKS


def test_lines_do_not_run_through_boxes() -> None:
    names = [f"n{at}" for at in range(8)]
    placement = chain_placement(names)
    placement.add_edge("n0", "n7", 1, tensor="n0:0")
    view = layout(scope_tree(placement))
    for link in view.links:
        for box in (box for at, box in enumerate(view.boxes) if at not in (link.source, link.target)):
            crossed = [
                (x, y) for x, y in link.points if box.x < x < box.x + box.width and box.y < y < box.y + box.height
            ]
            assert crossed == []


@pytest.mark.parametrize(("graphs", "opened"), [(2, ("g0", "g1")), (9, ())])
def test_a_few_captured_graphs_are_open_at_first(graphs: int, opened: tuple[str, ...]) -> None:
    placement = Placement()
    for graph in range(graphs):
        for name in ("x", "y"):
            placement.add_node(f"{graph}{name}", name=name, device=CPU0, graph=f"g{graph}")
    assert default_opened(scope_tree(placement)) == opened


def test_a_scope_alone_is_open_at_first() -> None:
    tree = scope_tree(chain_placement(["model/net/a/x", "model/net/b/x"]))
    assert default_opened(tree) == ("model", "model/net")


def test_a_compiled_call_says_so() -> None:
    placement = Placement()
    placement.add_node("step", op="PartitionedCall", device=CPU0, compiled=12)
    assert [box.label for box in layout(scope_tree(placement)).boxes] == ["step (XLA)"]


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 30).flatmap(
        lambda count: st.tuples(
            st.just(count),
            st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=80),
        )
    ),
    st.floats(1, 10),
)
def test_rows_hold_every_item_once_and_fit(graph: tuple[int, list[tuple[int, int]]], most: float) -> None:
    count, edges = graph
    rows = rows_of(count, [(one, other) for one, other in edges if one != other], [1.0] * count, most)
    assert sorted(item for row in rows for item in row) == list(range(count))
    assert all(len(row) <= max(most, 1) for row in rows)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab/_1", max_size=12), unique=True, min_size=1, max_size=40), st.data())
def test_any_opened_set_gives_a_picture_without_overlaps(names: list[str], data: st.DataObject) -> None:
    tree = scope_tree(chain_placement(names, [CPU0, GPU0]), max_children=6)
    opened = data.draw(st.lists(st.sampled_from(sorted(tree.scopes) or ["-"]), unique=True))
    view = layout(tree, opened)
    assert_no_overlap(view)
    assert sum(box.size for box in view.boxes if not box.opened) == len(names)
