"""The product as its users meet it: the first notebook in a real JupyterLab."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, TimeoutError, expect

from tests.browser.lab import Lab, Notebook

pytestmark = pytest.mark.browser

FIRST = Path(__file__).parents[2] / "notebooks" / "01_first_placement.ipynb"
CPU_0, CPU_1 = "rgb(154, 154, 154)", "rgb(230, 159, 0)"
SECONDS = 20_000

TWO_CPUS = """%%placement --cpus 2
import tensorflow as tf

@tf.function
def multiply(x):
    with tf.device("/cpu:1"):
        doubled = tf.multiply(x, 2.0, name="doubled")
    with tf.name_scope("norm"):
        return tf.sqrt(tf.reduce_sum(doubled * doubled, name="sum"), name="root")

multiply(tf.ones([256, 256])).numpy()"""
MEMORY_STEPS = """%%placement
import threading
kept = []
for step in range(25):
    kept.append(tf.ones([12, 1024, 1024]))
    threading.Event().wait(0.25)"""

# Notes the time and what the panel shows of memory, each time that it changes, until the cell has ended.
WATCH = """output => {
    window.watched = [];
    const note = () => {
        const head = output.querySelector('.jpp-head')?.textContent ?? '';
        const memory = output.querySelector('.jpp-memory')?.textContent ?? '';
        const bar = output.querySelector('.jpp-memory .jpp-bar i:last-of-type')?.style.width ?? '';
        const last = window.watched.at(-1);
        if (memory && head.includes('Recording') && (!last || last.head !== head || last.memory !== memory))
            window.watched.push({ at: performance.now() / 1000, head, memory, bar });
    };
    new MutationObserver(note).observe(output, { subtree: true, childList: true, characterData: true });
    note();
}"""


def code_cells(notebook: Notebook) -> dict[str, int]:
    """Return the number of each code cell of the first notebook by a word of its source."""
    words = ("tf1.Session() as session:\n        session.run(tf1", "def multiply", "a + b", "def on_the_gpu", "kept =")
    sources = ["".join(cell["source"]) for cell in notebook.cells()]
    return {word: next(at for at, source in enumerate(sources) if word in source) for word in words}


def fills(output: Locator) -> set[str]:
    """Return the colours of the areas that the figure draws."""
    found = output.locator(".scatterlayer path.js-fill").evaluate_all(
        "paths => paths.filter(path => path.getBBox().width > 0).map(path => getComputedStyle(path).fill)"
    )
    return set(found)


def label(output: Locator, text: str) -> Locator:
    """Return a text in the figure."""
    return output.locator(".scatterlayer text").filter(has_text=re.compile(rf"^{re.escape(text)}$"))


def click(notebook: Notebook, output: Locator, text: str, name: str) -> None:
    """Click what bears a text in the figure, once the pointer shows that it has this full name."""
    mark = label(output, text)
    expect(mark).to_have_count(1, timeout=SECONDS)
    pointed = output.locator(".hoverlayer .hovertext").filter(
        has_text=re.compile(rf"^{re.escape(name)}(operation:|[0-9,]+ operation)")
    )
    for _ in range(20):
        # While the figure is drawn again, what was found is somewhere else a moment later.
        mark.scroll_into_view_if_needed()
        box = mark.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        notebook.page.mouse.move(x, y, steps=3)
        try:
            pointed.wait_for(timeout=1000)
        except TimeoutError:
            continue
        notebook.page.mouse.click(x, y)
        return
    raise AssertionError(f"the pointer shows nothing of {name}")


def facts(output: Locator) -> dict[str, str]:
    """Return what the panel tells of the chosen operation."""
    rows = output.locator(".jpp-facts tr").all_inner_texts()
    return {name.strip(): value.strip() for name, _, value in (row.partition("\t") for row in rows)}


def static(output: Locator) -> Locator:
    return output.locator(".jupyter-placement-static")


def expect_static_output(output: Locator) -> None:
    """Expect picture and summary of the first session, and no panel."""
    expect(static(output)).to_be_visible(timeout=SECONDS)
    expect(static(output)).to_contain_text("9 operations on 2 devices")
    expect(static(output)).to_contain_text("CPU:1 → CPU:0")
    assert (
        static(output).locator("img").evaluate("async image => { await image.decode(); return image.naturalWidth; }")
        > 200
    )
    expect(output.locator(".jupyter-placement-panel")).to_have_count(0)
    for text in ("Error displaying widget", "Loading widget"):
        expect(output).not_to_contain_text(text, use_inner_text=True)


def own_mebibytes(memory: str) -> float:
    """Return the size that stands behind "this process"."""
    found = re.search(r"this process ([\d.]+) (MiB|GiB)", memory)
    assert found is not None, memory
    return float(found[1]) * (1024 if found[2] == "GiB" else 1)


def theme(notebook: Notebook, name: str) -> None:
    """Change JupyterLab's theme, as its settings menu does."""
    notebook.page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', { theme: name })", name)
    light = "false" if "Dark" in name else "true"
    expect(notebook.page.locator("body")).to_have_attribute("data-jp-theme-light", light)


def test_the_first_notebook(lab: Lab) -> None:
    shutil.copy(FIRST, lab.root)
    notebook = lab.open(FIRST.name)
    cells = code_cells(notebook)
    session = cells["tf1.Session() as session:\n        session.run(tf1"]

    # As it comes from a clone: not trusted, nothing run yet.
    expect_static_output(notebook.show(session))
    notebook.run_all()

    output = notebook.show(session)
    legend = output.locator(".jpp-legend")
    expect(legend).to_contain_text("CPU:0 8 operations", timeout=SECONDS)
    expect(legend).to_contain_text("CPU:1 1 operation")
    expect(label(output, "data")).to_have_count(1, timeout=SECONDS)
    assert {CPU_0, CPU_1} <= fills(output)
    swatches = legend.locator(".jpp-swatch").evaluate_all("marks => marks.map(one => one.style.background)")
    assert [CPU_0 in swatches[0], CPU_1 in swatches[1]] == [True, True]
    expect(static(output)).to_be_hidden()

    # The kernel is idle now, and the panel answers.
    expect(label(output, "Assign")).to_have_count(0)
    click(notebook, output, "weights", "weights")
    expect(label(output, "Assign")).to_have_count(1, timeout=SECONDS)
    expect(label(output, "▾ weights · 5 ops")).to_have_count(1)
    click(notebook, output, "data", "data")
    expect(output.locator(".jpp-name")).to_have_text("data", timeout=SECONDS)
    told = facts(output)
    assert {name: told[name] for name in ("operation", "requested", "assigned", "reason", "dtype", "shape")} == {
        "operation": "Const",
        "requested": "/device:CPU:1",
        "assigned": "CPU:1",
        "reason": "pinned",
        "dtype": "float32",
        "shape": "[2, 1]",
    }
    expect(output.locator(".jpp-detail")).to_contain_text("transfer")
    notebook.screenshot("panel-light")

    for word in ("def multiply", "a + b"):
        output = notebook.show(cells[word])
        expect(output.locator(".jpp-legend")).to_contain_text("CPU:1", timeout=SECONDS)
        expect(label(output, "CPU:1").first).to_be_visible(timeout=SECONDS)
        assert {CPU_0, CPU_1} <= fills(output)
        expect(static(output)).to_be_hidden()
    expect(notebook.show(cells["def on_the_gpu"])).to_contain_text("asked /device:GPU:0, got CPU:0")

    notebook.save()
    output = notebook.show(session)
    expect(output.locator(".jupyter-placement-panel [role=alert]")).to_be_hidden()
    notebook.shutdown_kernel()
    expect(output.locator(".jupyter-placement-panel [role=alert]")).to_contain_text("kernel is gone", timeout=SECONDS)
    notebook.screenshot("panel-kernel-gone")

    # The next day: the panel is gone from the new kernel, and nothing stands in its place.
    again = notebook.reopen(kernel=True)
    expect_static_output(again.show(session))
    again.shutdown_kernel()
    expect_static_output(again.show(session))
    again.screenshot("reopened-light")
    theme(again, "JupyterLab Dark")
    expect_static_output(again.show(session))
    again.screenshot("reopened-dark")
    assert FIRST.stat().st_size < 300_000
    assert lab.foreign_requests == []


def test_memory_moves_while_a_cell_runs(lab: Lab) -> None:
    notebook = lab.open(lab.write("memory.ipynb", "%load_ext jupyter_placement", TWO_CPUS, MEMORY_STEPS))
    theme(notebook, "JupyterLab Dark")
    notebook.start_run_all()
    expect(notebook.cell(1).locator(".jpp-legend")).to_be_visible(timeout=60_000)
    output = notebook.show(2)
    expect(output.locator(".jpp-memory .jpp-bar")).to_have_count(1, timeout=SECONDS)
    output.evaluate(WATCH)
    assert notebook.running()
    # Late enough that the bar has grown, early enough that the cell still runs.
    notebook.page.wait_for_function("() => window.watched.length > 6", timeout=SECONDS)
    notebook.screenshot("memory-dark")
    assert notebook.wait_until_done(60)

    seen: list[dict[str, Any]] = notebook.page.evaluate("() => window.watched")
    seconds = seen[-1]["at"] - seen[0]["at"]
    assert seconds > 3
    # Twice a second; the ends of the window are cut off at any point between two readings.
    for what, shown in {"time": {one["head"] for one in seen}, "bar": {one["bar"] for one in seen}}.items():
        assert len(shown) >= 2 * seconds, f"the {what} moved {len(shown)} times in {seconds:.2f} s: {seen}"
    assert own_mebibytes(seen[-1]["memory"]) > own_mebibytes(seen[0]["memory"]) + 400
    expect(output.locator(".jpp-memory")).to_contain_text("host")
    expect(output).to_contain_text("No GPU is shown")

    output = notebook.show(1)
    click(notebook, output, "doubled", "function:multiply/doubled")
    expect(label(output, "CPU:1")).to_have_count(2, timeout=SECONDS)
    assert {CPU_0, CPU_1} <= fills(output)
    click(notebook, output, "y", "doubled/y")
    expect(output.locator(".jpp-name")).to_have_text("doubled/y", timeout=SECONDS)
    assert facts(output)["assigned"] == "CPU:1"
    notebook.screenshot("panel-dark")
