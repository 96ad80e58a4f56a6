"""Findings and explanations in the panel."""

from __future__ import annotations

from jupyter_placement import Placement, PlacementPanel

CPU0, CPU1 = (f"/job:localhost/replica:0/task:0/device:CPU:{number}" for number in (0, 1))


def placement() -> Placement:
    made = Placement()
    made.add_node("model/a", op="Const", device=CPU0, requested="/gpu:0", source=("Cell In[1]", 2))
    made.add_node("model/b", op="Neg", device=CPU0, requested="/gpu:0", source=("Cell In[1]", 3))
    made.add_node("c", op="Neg", device=CPU1, requested="/cpu:1")
    made.add_edge("model/a", "model/b", 0, tensor="model/a:0", dtype="float32", bytes=4)
    made.add_edge("model/b", "c", 0, tensor="model/b:0", dtype="float32", bytes=4)
    return made


def test_choosing_a_finding_marks_its_operations() -> None:
    panel = PlacementPanel(placement())
    chooser = next(one for one in panel._body.children if "Findings" in str(getattr(one, "value", "")))
    listed = panel._body.children[panel._body.children.index(chooser) + 1]
    number = next(value for title, value in listed.options if title.startswith("no such device"))
    listed.value = number
    assert panel._graph is not None
    assert panel._graph._marked >= {"model/a", "model/b"}
    chosen = next(trace for trace in panel._graph.figure.data if trace.name == "chosen")
    assert sum(x is None for x in chosen.x) == 2  # one area each
    assert "Cell In[1], line 2" in panel._detail.value
    panel.close()


def test_the_details_say_why() -> None:
    panel = PlacementPanel(placement())
    panel.select("model/b")
    assert "asked for /gpu:0, and there is no such device" in panel._detail.value
    panel.close()
