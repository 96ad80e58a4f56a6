"""Host memory in the panel: drawn with a mark, told in the detail, counted as no copy where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_placement.colors import device_colors
from jupyter_placement.layout import layout, scope_tree
from jupyter_placement.panel.detail import link_html, node_facts, node_hover, node_html
from jupyter_placement.panel.drawing import drawn_view, empty_figure
from jupyter_placement.placement import Placement
from jupyter_placement.sums import handed_over, in_host_memory, transfers
from tests.unit.placements import CPU0, GPU0, GPU1, chain_placement


def example() -> Placement:
    """A value that goes from a GPU's memory to host memory and back, and one that stays in host memory."""
    placement = chain_placement(["a", "b", "c"], [GPU0])
    placement.add_node("p", op="Print", device=CPU0)
    placement.add_edge("b", "p", 0, tensor="b:0", dtype="int32", bytes=4, memory="host", transfer=False)
    placement.graph.nodes["b"]["memory"] = "host"
    placement.graph.edges["a", "b", 0].update(memory="to_host", transfer=True)
    placement.graph.edges["b", "c", 0].update(memory="to_device", transfer=True)
    return placement


def points(placement: Placement) -> dict[str, Any]:
    tree = scope_tree(placement)
    return drawn_view(tree, layout(tree), device_colors(placement.device_names()), None)[0]


def test_an_operation_in_host_memory_has_a_dashed_line_within_its_border_and_a_word() -> None:
    drawn = points(example())
    box, mark = drawn[f"nodes {GPU0}"]["x"], drawn[f"host {GPU0}"]["x"]
    assert len(mark) * 3 == len(box)  # one of the three on the GPU
    assert drawn["node devices"]["text"].count("GPU:0 · host") == 1
    traces = {one["name"]: one for one in empty_figure(device_colors([CPU0, GPU0]))[0]}
    assert traces[f"host {GPU0}"]["line"]["dash"] != traces[f"nodes {GPU0}"]["line"].get("dash")


def test_what_stays_in_host_memory_is_drawn_apart_from_transfers_and_edges() -> None:
    drawn = points(example())
    assert drawn["transfers"]["x"].count(None) == 2
    assert drawn["host"]["x"].count(None) == 1
    assert "edges" not in drawn
    traces = {
        one["name"]: one["line"]["dash"] for one in empty_figure({})[0] if "line" in one and "dash" in one["line"]
    }
    assert len({traces[name] for name in ("transfers", "host", "edges", "control")}) == 4


def test_the_detail_says_in_whose_memory_and_what_is_copied() -> None:
    placement = example()
    tree, styles = scope_tree(placement), device_colors(placement.device_names())
    assert dict(node_facts(tree, "b"))["memory"] == "host memory: its values are not on the GPU"
    assert dict(node_facts(tree, "a"))["memory"] == "the device's own"
    assert dict(node_facts(tree, "p"))["memory"] == "host memory"
    assert "memory: host memory" in node_hover(tree, "b") and "memory:" not in node_hover(tree, "a")
    html = node_html(tree, "b", styles)
    for words in ("copied to host memory", "copied from host memory to the device", "stays in host memory"):
        assert words in html
    view = layout(tree)
    lines = [link_html(tree, view, link) for link in view.links]
    assert sum("GPU:0 → host memory: 1" in line for line in lines) == 1
    assert sum("nothing is copied: 1" in line for line in lines) == 1


def test_copies_within_a_device_are_counted_and_what_is_handed_over_is_not() -> None:
    placement = example()
    found = [(one.source, one.target, one.memory, one.tensors, one.bytes) for one in transfers(placement)]
    assert found == [(GPU0, GPU0, "to_device", 1, 4), (GPU0, GPU0, "to_host", 1, 4)]
    assert handed_over(placement) == 1
    assert in_host_memory(placement) == ["b"]


@pytest.mark.parametrize(("memory", "sent"), [(("device", "device"), 1), (("device", "to_host"), 2)])
def test_a_tensor_is_sent_once_for_each_memory_that_its_consumers_take_it_from(
    memory: tuple[str, str], sent: int
) -> None:
    placement = Placement()
    for name, device in (("a", GPU0), ("b", GPU1), ("c", GPU1)):
        placement.add_node(name, op="Add", device=device)
    for consumer, where in zip("bc", memory, strict=True):
        placement.add_edge("a", consumer, 0, tensor="a:0", bytes=8, memory=where)
    (pair,) = transfers(placement)
    assert (pair.tensors, pair.bytes) == (sent, 8 * sent)
    assert [one.count for one in placement.findings() if one.kind == "sent_twice"] == ([] if sent == 1 else [2])


def test_a_collapsed_scope_says_how_many() -> None:
    placement = chain_placement(["s/a", "s/b", "t"], [GPU0])
    placement.graph.nodes["s/b"]["memory"] = "host"
    assert points(placement)["scope sizes"]["text"] == ["▸ 2 ops · 1 host"]
