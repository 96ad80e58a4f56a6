"""The memory panel by itself in a real kernel, with the stand-in driver and without any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel import Cell, Kernel
from tests.nvml.stub import GIB, build, card, process

pytestmark = pytest.mark.kernel
PANEL = "from jupyter_placement.panel.memory_view import memory_panel\npanel = memory_panel(0.05)\npanel"
THREADS = "[t.name for t in __import__('threading').enumerate() if t.name.startswith('jupyter-placement')]"


def bars(cell: Cell) -> list[str]:
    """What the panel has sent to be shown, in order."""
    states = [one.content.get("data", {}).get("state", {}) for one in cell.comms]
    return [state["value"] for state in states if "Host: " in state.get("value", "")]


def write(script: Path, *lines: str) -> None:
    new = script.with_suffix(".new")
    new.write_text("\n".join(["driver\t550.54.15", *lines, ""]))
    new.replace(script)


def test_cards_by_process_until_it_is_closed(start_kernel: Callable[..., Kernel], tmp_path: Path) -> None:
    script = tmp_path / "machine.txt"
    write(script)
    library = build(tmp_path)
    kernel = start_kernel(LD_LIBRARY_PATH=str(library), NVML_STUB_SCRIPT=str(script))
    write(script, card(0), process(0, kernel.pid, GIB // 4), process(0, 1, GIB // 2))
    cell = kernel.run(PANEL)
    assert cell.error is None
    assert "application/vnd.jupyter.widget-view+json" in (cell.result or {})
    shown = f"this kernel (pid {kernel.pid}): 256.0 MiB"
    kernel.wait_until(lambda: any(shown in value for value in bars(cell)), what="the card by process")
    write(script, card(0, used=5 * GIB))
    # No cell runs: what a thread sends comes under the id of the cell that made the panel.
    kernel.wait_until(lambda: any("5.0 GiB of 16.0 GiB" in value for value in bars(cell)), what="memory to move")
    assert kernel.evaluate("'tensorflow' in __import__('sys').modules") is False
    assert kernel.run("panel.close()").error is None
    assert kernel.evaluate(THREADS) == []


def test_without_a_driver_it_says_so_and_goes_on(kernel: Kernel) -> None:
    cell = kernel.run(PANEL)
    kernel.wait_until(lambda: len(bars(cell)) >= 3, what="the host's memory to move")
    assert "No GPU is shown: " in bars(cell)[-1]
    kernel.run("panel.close()")


def test_it_moves_while_a_cell_holds_the_main_thread(kernel: Kernel) -> None:
    panel = kernel.run(PANEL)
    # libc's read() holds the main thread until a sample comes that is newer than the call.
    busy = kernel.run(
        "import os, threading, ctypes\n"
        "ends, count = os.pipe(), []\n"
        "def seen(change):\n"
        "    count.append(1)\n"
        "    if len(count) == 3:\n"
        "        os.write(ends[1], b'x')\n"
        "panel.children[0].observe(seen, 'value')\n"
        "ctypes.CDLL(None).read(ends[0], ctypes.create_string_buffer(1), 1)\n"
        "print(len(count) >= 3)\n"
        "panel.close()"
    )
    assert busy.error is None
    assert busy.stdout == "True\n"
    assert len(bars(panel)) + len(bars(busy)) >= 3
