"""The harness drives JupyterLab as a person does; the other tests here rely on it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab

pytestmark = pytest.mark.browser

FIGURE = """
import ipywidgets, plotly.graph_objects as go
figure = go.FigureWidget(go.Scatter(x=[1, 2, 3], y=[1, 3, 2], mode="markers", marker_size=30), layout_height=350)
clicked = ipywidgets.Label("nothing clicked")
figure.data[0].on_click(lambda trace, points, state: setattr(clicked, "value", f"clicked {points.point_inds}"))
ipywidgets.VBox([figure, clicked])
"""


def test_run_click_save_and_reopen(lab: Lab) -> None:
    name = lab.write("harness.ipynb", "# A title", "print('hello'); 6 * 7", FIGURE)
    notebook = lab.open(name)
    notebook.run_all()
    assert [cell.get("execution_count") for cell in notebook.cells()] == [None, 1, 2]
    expect(notebook.output(1)).to_contain_text("42")

    output = notebook.show(2)
    points = output.locator(".scatterlayer .point")
    expect(points).to_have_count(3, timeout=30_000)
    expect(output).to_contain_text("nothing clicked")
    box = points.nth(1).bounding_box()
    assert box is not None
    notebook.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(output).to_contain_text("clicked [1]")
    picture = notebook.screenshot("harness")
    # What has run before runs again: the counts of the first run are not taken for the second.
    notebook.run_all()
    assert [cell.get("execution_count") for cell in notebook.cells()] == [None, 3, 4]
    expect(output).to_contain_text("nothing clicked")
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"

    again = notebook.reopen()
    expect(again.output(1)).to_contain_text("42")
    expect(again.output(2).locator(".scatterlayer .point")).to_have_count(0)
    assert again.saved()["cells"][1]["outputs"][0]["text"] == ["hello\n"]
    again.screenshot("harness-reopened")
    assert lab.foreign_requests == []


def test_interrupt_while_a_cell_runs(lab: Lab) -> None:
    notebook = lab.open(
        lab.write("long.ipynb", "print('begun', flush=True)\nimport threading\nthreading.Event().wait(600)")
    )
    notebook.start_run_all()
    expect(notebook.output(0)).to_contain_text("begun", timeout=30_000)
    assert notebook.running()
    notebook.interrupt()
    assert not notebook.wait_until_done(60)
    assert not notebook.running()
    expect(notebook.output(0)).to_contain_text("KeyboardInterrupt")


def test_the_same_file_in_a_lab_that_does_not_trust_it(start_lab: Callable[[], Lab]) -> None:
    first, other = start_lab(), start_lab()
    notebook = first.open(first.write("html.ipynb", "display({'text/html': '<b onclick=\"x()\">bold</b>'}, raw=True)"))
    notebook.run_all()
    expect(notebook.output(0).locator("b[onclick]")).to_have_count(1)
    notebook.save()
    there = other.open("html.ipynb")
    expect(there.output(0)).to_contain_text("bold")
    expect(there.output(0).locator("b[onclick]")).to_have_count(0)
