"""Memory in a placement's panel: cards by process, and the time line that is drawn when asked for."""

from __future__ import annotations

from jupyter_placement import MemorySample, Placement, PlacementPanel
from jupyter_placement.memory import Card, CardReading, GpuProcess
from jupyter_placement.panel.timeline import TimelineBar

GIB = 1 << 30


def placement() -> Placement:
    return Placement(
        memory=[MemorySample(time, "host", used=int(time * GIB), total=8 * GIB) for time in (1.0, 2.0, 3.0)],
        meta={"steps": [[0.5, 1.5], [2.0, None]]},
    )


def test_the_time_line_is_drawn_when_its_button_is_pressed_and_goes_with_it() -> None:
    bar = TimelineBar()
    bar.show(placement())
    (button,) = bar.children
    button.value = True
    figure = bar.children[1]
    assert list(figure.data[0].x) == [1.0, 2.0, 3.0]
    assert list(figure.data[0].y) == [1.0, 2.0, 3.0]
    marks = {trace.name: [x for x in trace.x if x is not None] for trace in figure.data if "step" in trace.name}
    assert marks == {"start of a step": [0.5, 0.5, 2.0, 2.0], "end of a step": [1.5, 1.5]}
    button.value = False
    assert bar.children == (button,)
    assert figure.comm is None
    bar.close()


def test_without_samples_there_is_no_time_line() -> None:
    bar = TimelineBar()
    bar.show(Placement())
    assert bar.children == ()


def test_the_panel_shows_who_holds_a_card() -> None:
    card = Card(0, "Tesla T4")
    process = GpuProcess(4242, used=3 * GIB, name="python train.py")
    panel = PlacementPanel()
    panel.update_memory(
        [MemorySample(1.0, "host", used=GIB, total=8 * GIB)],
        1.0,
        [],
        [CardReading(card, 16 * GIB, 4 * GIB, processes=(process,))],
    )
    assert "Tesla T4" in panel._memory.value
    assert "4242" in panel._memory.value
    assert "3.0 GiB" in panel._memory.value
    panel.close()
