"""The time line of a step's operations in the panel."""

from __future__ import annotations

from jupyter_placement import Placement
from jupyter_placement.layout import scope_tree
from jupyter_placement.panel.detail import node_facts
from jupyter_placement.panel.operation_timeline import MOST, operation_timeline
from jupyter_placement.panel.timeline import TimelineBar

CPU, GPU = (f"/job:localhost/replica:0/task:0/device:{name}" for name in ("CPU:0", "GPU:0"))


def timed(count: int = 2, **meta: str) -> Placement:
    placement = Placement(meta=dict(meta))
    for number in range(count):
        device = GPU if number % 2 else CPU
        placement.add_node(f"n{number}", op="Relu", device=device, start=number * 1e-3, duration=2e-3)
    placement.add_node("untimed", op="NoOp", device=CPU)
    return placement


def test_each_device_has_a_row_in_milliseconds() -> None:
    figure = operation_timeline(timed())
    assert [(list(trace.y), list(trace.base), list(trace.x)) for trace in figure.data] == [
        (["CPU:0"], [0.0], [2.0]),
        (["GPU:0"], [1.0], [2.0]),
    ]
    assert list(figure.layout.xaxis.range) == [0, 3.0]
    assert figure.layout.xaxis.title.text.startswith("milliseconds")


def test_it_says_whether_times_are_estimated() -> None:
    assert operation_timeline(timed(times="estimated")).layout.title.text == "Operations over time, estimated"
    assert operation_timeline(timed()).layout.title.text == "Operations over time, measured"
    duration = dict(node_facts(scope_tree(timed(times="estimated")), "n0"))["duration"]
    assert duration == "2,000 µs, estimated"
    assert dict(node_facts(scope_tree(timed()), "n0"))["duration"] == "2,000 µs"


def test_of_very_many_the_longest_are_drawn_and_that_is_said() -> None:
    placement = timed(MOST + 500)
    placement.graph.nodes["n7"]["duration"] = 1.0
    figure = operation_timeline(placement)
    assert sum(len(trace.x) for trace in figure.data) == MOST
    assert "n7" in {point[0] for trace in figure.data for point in trace.customdata}
    assert "the 1,500 longest of 2,000" in figure.layout.title.text


def test_the_button_says_estimated_and_opens_and_closes_the_figure() -> None:
    bar = TimelineBar()
    bar.show(timed(times="estimated"))
    (button,) = bar.children
    assert button.description == "Operations over time, estimated"
    button.value = True
    figure = bar.children[1]
    assert len(figure.data) == 2
    button.value = False
    assert bar.children == (button,)
    assert figure.comm is None
    bar.show(Placement())
    assert bar.children == ()
    bar.close()
