"""The panel without a browser: what it holds, how clicks, searches and memory change it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ipywidgets
import plotly.graph_objects as go
import pytest

from jupyter_placement.panel import PlacementPanel
from jupyter_placement.placement import Event, MemorySample, Placement
from tests.unit.placements import CPU0, GPU0, chain_placement, layers_placement, small_placement


@pytest.fixture
def panel_of() -> Iterator[Callable[[Placement | None], PlacementPanel]]:
    """Return a function that makes a panel, closed with the test."""
    made: list[PlacementPanel] = []

    def make(placement: Placement | None = None) -> PlacementPanel:
        made.append(PlacementPanel(placement))
        return made[-1]

    yield make
    for panel in made:
        panel.close()


class Click(NamedTuple):
    """What plotly hands to a callback, as far as the panel reads it."""

    point_inds: list[int]
    xs: list[float]
    ys: list[float]


def widgets(root: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    yield root
    for child in getattr(root, "children", ()):
        yield from widgets(child)


def one(panel: PlacementPanel, kind: type[Any], number: int = 0) -> Any:
    return [widget for widget in widgets(panel) if isinstance(widget, kind)][number]


def text(panel: PlacementPanel) -> str:
    return "\n".join(widget.value for widget in widgets(panel) if isinstance(widget, ipywidgets.HTML))


def trace(panel: PlacementPanel, name: str) -> Any:
    return next(trace for trace in one(panel, go.FigureWidget).data if trace.name == name)


def labels(panel: PlacementPanel) -> set[str]:
    return {*trace(panel, "scope labels").text, *trace(panel, "node labels").text}


def click_at(panel: PlacementPanel, hover: str) -> Click:
    """Find the point whose hover text begins with this, as a click on it."""
    targets = trace(panel, "targets")
    at = next(at for at, words in enumerate(targets.hovertext) if words.startswith(f"<b>{hover}</b>"))
    return Click([at], [targets.x[at]], [targets.y[at]])


def click(panel: PlacementPanel, hover: str) -> None:
    send(panel, click_at(panel, hover))


def send(panel: PlacementPanel, points: Click) -> None:
    assert panel._graph is not None
    panel._graph._clicked(None, points, None)


def test_there_is_one_figure_and_none_before_it_is_needed(panel_of: Any) -> None:
    panel = panel_of()
    assert [widget for widget in widgets(panel) if isinstance(widget, go.FigureWidget)] == []
    panel.show(small_placement())
    assert len([widget for widget in widgets(panel) if isinstance(widget, go.FigureWidget)]) == 1
    assert "jupyter-placement-panel" in panel._dom_classes


def test_the_legend_counts_the_operations_of_each_device(panel_of: Any) -> None:
    said = text(panel_of(small_placement()))
    for device in ("CPU:0", "GPU:0", "GPU:1"):
        assert f'<b>{device}</b> <span class="jpp-quiet">2 operations</span>' in said
    assert "never placed 1" in said


def test_a_device_without_operations_is_unused(panel_of: Any) -> None:
    placement = chain_placement(["a"], [CPU0, GPU0])
    assert '<b>GPU:0</b> <span class="jpp-quiet">unused</span>' in text(panel_of(placement))


def test_nodes_and_stripes_have_the_colour_of_their_device(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    click(panel, "loss")
    assert len(trace(panel, f"nodes {CPU0}").x) == 6  # x: one closed polygon
    assert len(trace(panel, f"stripes {GPU0}").x) == 6  # a part of tower
    assert trace(panel, f"nodes {CPU0}").fillcolor != trace(panel, f"nodes {GPU0}").fillcolor
    assert trace(panel, f"stripes {GPU0}").fillpattern.shape == "/"


def test_a_click_opens_a_scope_and_a_click_on_its_title_closes_it(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    assert labels(panel) == {"tower", "loss", "x", "waiting"}
    click(panel, "tower")
    assert labels(panel) == {"▾ tower · 3 ops", "loss", "x", "kernel", "MatMul", "Print", "waiting"}
    assert "name scope, 3 operations" in text(panel)
    click(panel, "tower")
    assert labels(panel) == {"tower", "loss", "x", "waiting"}


def test_closing_a_scope_closes_what_is_open_in_it(panel_of: Any) -> None:
    panel = panel_of(chain_placement(["a/b/c/x", "a/b/y", "a/z", "d"]))
    panel.select("a/b/c/x")
    click(panel, "a")
    click(panel, "a")
    assert labels(panel) == {"▾ a · 3 ops", "b", "z", "d"}


def test_a_click_on_an_operation_shows_all_that_is_known_of_it(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    click(panel, "tower")
    click(panel, "tower/MatMul")
    said = text(panel)
    for fact in (
        "<td>operation</td><td>MatMul</td>",
        "<td>requested</td><td><code>nothing</code></td>",
        "<td>reason</td><td>default</td>",
        "<td>dtype</td><td><code>float32</code></td>",
        "<td>shape</td><td><code>[2, 4]</code></td>",
        "<td>source</td><td>cell 3, line 7</td>",
        f"<code>{GPU0}</code>",
        "<b>Inputs</b> (2)",
        "<code>tower/kernel</code>",
        "<b>Outputs, by consumer</b> (3)",
        '<span class="jpp-moved">transfer</span>',
    ):
        assert fact in said
    assert len(trace(panel, "chosen edges").x) > 0


def test_hovering_tells_the_same(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    panel.select("tower/Print")
    hover = next(words for words in trace(panel, "targets").hovertext if words.startswith("<b>tower/Print</b>"))
    assert hover.split("<br>")[1:] == [
        "operation: PrintV2",
        "requested: /device:GPU:0",
        "assigned: CPU:0",
        "reason: fallback",
        "dtype: not known",
        "shape: not known",
        "source: not known",
        "1 input, 0 outputs",
    ]


def test_an_update_leaves_nothing_open(panel_of: Any) -> None:
    # Seen on plotly 7.1: values left out of an update are lost where the figure is not on the page yet.
    panel = panel_of(small_placement())
    panel.select("tower/Print")
    sent = one(panel, go.FigureWidget)._py2js_update
    assert sent is None or "_undefined_" not in str(sent)
    colors = [trace(panel, name).textfont.color for name in ("scope labels", "scope sizes")]
    assert colors == ["rgb(31, 35, 40)", "rgb(89, 99, 110)"]


def test_a_click_on_a_line_says_what_moves(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    click(panel, "tower → loss")
    assert "transfers between devices: 1, 32 B" in text(panel)
    assert "GPU:0 → GPU:1: 1" in text(panel)


def test_transfers_are_drawn_apart(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    transfers, control = trace(panel, "transfers"), trace(panel, "control")
    assert (transfers.line.dash, control.line.dash) == ("6px,3px", "dot")
    assert list(transfers.x).count(None) == 2
    assert list(trace(panel, "transfer labels").text) == [" 1", " 1"]


def test_a_click_that_belongs_to_an_earlier_view_is_ignored(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    late = click_at(panel, "loss")
    click(panel, "tower")
    before = labels(panel)
    send(panel, late)
    send(panel, Click([], [], []))
    assert labels(panel) == before


def test_clicks_may_come_on_many_threads_while_memory_moves(panel_of: Any) -> None:
    panel = panel_of(layers_placement(500))
    errors: list[BaseException] = []

    def work(path: str) -> None:
        try:
            for number in range(10):
                panel._graph.toggle(path)
                panel.update_memory([MemorySample(number, "host", used=number)], number, [])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(path,)) for path in ("model", "gradients", "model/block0")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert panel._graph.view.opened == ()  # each was opened and closed five times


def test_searching_opens_the_scopes_and_marks_what_was_found(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    one(panel, ipywidgets.Text).value = "matmul"
    assert "MatMul" in labels(panel)
    assert '<div class="jpp-name">tower/MatMul</div>' in text(panel)
    assert "1 operation" in text(panel)
    assert len(trace(panel, "chosen").x) == 6
    one(panel, ipywidgets.Text).value = "t"
    assert one(panel, ipywidgets.Dropdown).options[0][1] == "tower/Print"
    assert '<div class="jpp-name">tower/Print</div>' in text(panel)
    one(panel, ipywidgets.Dropdown).value = "waiting"
    assert '<div class="jpp-name">waiting</div>' in text(panel)
    one(panel, ipywidgets.Text).value = "nowhere"
    assert "no operation has this in its name" in text(panel)
    one(panel, ipywidgets.Button).click()
    assert labels(panel) == {"tower", "loss", "x", "waiting"}


def test_choosing_an_event_shows_it_and_its_operation(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    events = one(panel, ipywidgets.Select)
    assert [title for title, _ in events.options] == [
        "fallback: tower/Print asked for a GPU and was put on CPU:0: it has no GPU kernel.",
        "note: TensorFlow was started before.",
    ]
    events.value = 0
    assert "Print" in labels(panel)
    assert "W placer.cc: &lt;b&gt;no kernel&lt;/b&gt;" in text(panel)


def test_fallbacks_that_no_event_tells_are_listed(panel_of: Any) -> None:
    placement = small_placement()
    placement.events = [Event("note", "Something else.")]
    events = one(panel_of(placement), ipywidgets.Select)
    assert events.options[1][0] == "fallback: 1 operation asked for /device:GPU:0, got CPU:0"


def test_memory_moves_while_the_cell_runs_and_refused_readings_are_no_numbers(panel_of: Any) -> None:
    panel = panel_of()
    panel.update_memory([MemorySample(0.0, "nvml:0", used=2**30, total=2**32)], 0.5, ["Readings of pids refused."])
    assert "1.0 GiB of 4.0 GiB, this process not available" in text(panel)
    assert "width:25.00%" in text(panel)
    assert "Readings of pids refused." in text(panel)
    assert "0.5 s" in text(panel)
    panel.update_memory(
        [MemorySample(1.0, "nvml:0", used=2**31, total=2**32), MemorySample(1.0, GPU0, used=2**20)], 1.0
    )
    assert "width:50.00%" in text(panel)
    assert "in use 1.0 MiB, peak not available" in text(panel)
    panel.show(small_placement())
    assert "ran 1.0 s" in text(panel)


def test_an_empty_placement_is_a_sentence_and_no_figure(panel_of: Any) -> None:
    panel = panel_of(Placement(meta={"nothing": "Nothing was placed: <no> operation ran."}))
    assert "Nothing was placed: &lt;no&gt; operation ran." in text(panel)
    assert [widget for widget in widgets(panel) if isinstance(widget, go.FigureWidget)] == []


def test_names_are_text_never_tags(panel_of: Any) -> None:
    evil = "<script>alert(1)</script>"
    placement = chain_placement([evil, f"s/{evil}"], graph=evil, requested=evil, reason=evil)
    panel = panel_of(placement)
    panel.select(f"s/{evil}")
    assert "<script" not in text(panel)
    for name in ("scope labels", "node labels"):
        assert not any("<" in words for words in trace(panel, name).text)
    assert not any("<script" in words for words in trace(panel, "targets").hovertext)


def test_a_closed_panel_stays_quiet(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    figure = one(panel, go.FigureWidget)
    panel.close()
    panel.close()
    panel.update_memory([MemorySample(0.0, "host", used=1)], 1.0, [])
    panel.show(small_placement())
    assert figure.comm is None
    assert panel.comm is None


def test_an_unknown_operation_is_a_key_error(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    with pytest.raises(KeyError, match="nowhere"):
        panel.select("nowhere")


def test_a_second_placement_takes_the_place_of_the_first(panel_of: Any) -> None:
    panel = panel_of(small_placement())
    panel.show(chain_placement(["only"]))
    assert labels(panel) == {"only"}
    assert panel.placement.graph.number_of_nodes() == 1
