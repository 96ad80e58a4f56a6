"""Memory as the panel shows it: bars, live widget, time line."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from jupyter_placement.memory import Card, CardReading, GpuProcess
from jupyter_placement.memory.mapping import CardMatch, Description
from jupyter_placement.panel.memory_cards import OWN, holders_html
from jupyter_placement.panel.memory_timeline import memory_timeline
from jupyter_placement.panel.memory_view import MemoryView, memory_panel
from jupyter_placement.placement import MemorySample, Placement

GIB = 1 << 30
GPU0 = "/job:localhost/replica:0/task:0/device:GPU:0"
CARD = Card(3, "Tesla T4", pci_bus_id="0000:04:00.0")
OWN_PROCESS = GpuProcess(12, 4 * GIB, "python", "me", own=True)
OTHER = GpuProcess(99, 8 * GIB, "<img src=x>", "ada")
READING = CardReading(CARD, 16 * GIB, 13 * GIB, 3 * GIB, 0, 90, (OWN_PROCESS, OTHER), 4 * GIB)
HOST = MemorySample(1.0, "host", used=6 * GIB, total=24 * GIB, process=2 * GIB)
TENSORFLOW = MemorySample(1.0, GPU0, used=GIB, total=4 * GIB, process=GIB, peak=3 * GIB)


class Page(HTMLParser):
    """Text and bars of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.parts: list[tuple[str, float, str]] = []
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        if tag == "span":
            style = given["style"] or ""
            width, colour = re.search(r"width:([\d.]+)%", style), re.search(r"background:(#\w+)", style)
            assert width and colour
            self.parts.append((given["title"] or "", float(width[1]), colour[1]))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_a_card_by_process_this_kernel_first() -> None:
    page = Page(holders_html([], [READING]))
    assert page.text == [
        "card 3 (Tesla T4): 13.0 GiB of 16.0 GiB, 90 % busy",
        "this kernel (pid 12): 4.0 GiB",
        "<img src=x> (pid 99, ada): 8.0 GiB",
    ]
    assert page.parts == [
        ("this kernel (pid 12): 4.0 GiB", 25.0, OWN),
        ("<img src=x> (pid 99, ada): 8.0 GiB", 50.0, "#F0C46C"),
        ("held by nobody that the driver names: 1.0 GiB", 6.25, "#9A9A9A"),
    ]
    assert page.tags == {"div", "span"}


def test_tensorflow_and_the_host_beside_it() -> None:
    match = CardMatch(GPU0, CARD, "pci", "GPU:0 is card 3 (Tesla T4), by the PCI bus id that TensorFlow gives.")
    page = Page(holders_html([HOST, TENSORFLOW], [], [match], ["A note."], seconds=1.25))
    assert page.text == [
        "TensorFlow's GPU:0 on card 3 (Tesla T4): 1.0 GiB of 4.0 GiB in use, peak 3.0 GiB",
        match.note,
        "Host: 6.0 GiB of 24.0 GiB, this kernel 2.0 GiB",
        "A note.",
        "1.2 s since the start",
    ]
    assert [width for _, width, _ in page.parts] == [25.0, 50.0, 8.33, 16.67]


def test_what_was_refused_is_not_available() -> None:
    lost = CardReading(CARD, reasons={"used": "not available (nvmlDeviceGetMemoryInfo: GPU is lost)"})
    page = Page(holders_html([MemorySample(1.0, "host")], [lost]))
    assert page.text == [
        "card 3 (Tesla T4): not available (nvmlDeviceGetMemoryInfo: GPU is lost)",
        "Host: not available, this kernel not available",
    ]
    assert page.parts == []


def test_holders_that_are_not_told() -> None:
    refused = CardReading(CARD, 16 * GIB, 4 * GIB, reasons={"processes": "not available (no permission)"})
    page = Page(holders_html([], [refused]))
    assert page.text[1] == "Who holds it is not available (no permission)."
    assert page.parts == [("held: 4.0 GiB", 25.0, "#9A9A9A")]


def test_fifty_processes_on_eight_cards() -> None:
    crowd = tuple(GpuProcess(k, GIB // 64, "python") for k in range(50))
    readings = [CardReading(Card(k), 16 * GIB, GIB, processes=crowd, process=0) for k in range(8)]
    html = holders_html([], readings)
    page = Page(html)
    assert len(page.parts) == 8 * 51
    assert page.text.count("42 more: 672.0 MiB") == 8
    assert len(html) < 200_000


def test_the_view_finds_the_card_by_the_bus_id() -> None:
    view = MemoryView({GPU0: Description(0, "Tesla T4", "0000:04:00.0")})
    view.show([TENSORFLOW], [CardReading(Card(0), 1, 0), READING])
    assert "TensorFlow's GPU:0 on card 3 (Tesla T4)" in view.children[0].value
    view.close()


def test_a_panel_shows_memory_until_it_is_closed() -> None:
    panel = memory_panel(0.02)
    values: set[str] = set()
    moved = threading.Event()

    def changed(change: dict[str, Any]) -> None:
        values.add(change["new"])
        if len(values) >= 3:
            moved.set()

    panel.children[0].observe(changed, "value")
    assert moved.wait(30)
    panel.close()
    assert not panel.sampler.running
    assert all("Host: " in value and "s since the start" in value for value in values)
    panel.close()


def test_stop_leaves_what_is_shown() -> None:
    panel = memory_panel(0.02)
    panel.children[1].click()
    assert not panel.sampler.running
    assert [type(child).__name__ for child in panel.children] == ["HTML"]
    assert "Host: " in panel.children[0].value
    panel.close()


def test_a_panel_needs_an_interval_above_zero() -> None:
    with pytest.raises(ValueError, match="must be above 0 seconds"):
        memory_panel(0)


def traces(placement: Placement) -> dict[str, Any]:
    return {trace["name"]: trace for trace in json.loads(memory_timeline(placement).to_json())["data"]}


def test_the_time_line_shows_each_device() -> None:
    later = MemorySample(2.0, "nvml:0", used=2 * GIB, total=16 * GIB, process=GIB)
    first = MemorySample(1.0, "nvml:0", used=GIB, total=16 * GIB)
    shown = traces(Placement(memory=[later, first, HOST, TENSORFLOW]))
    assert list(shown) == [
        "card 0, everybody",
        "card 0, this process",
        "GPU:0, TensorFlow in use",
        "GPU:0, TensorFlow's peak",
        "host, everybody",
        "host, this process",
    ]
    assert (shown["card 0, everybody"]["x"], shown["card 0, everybody"]["y"]) == ([1.0, 2.0], [1.0, 2.0])
    assert shown["card 0, this process"]["y"] == [None, 1.0]
    assert shown["host, everybody"]["visible"] == "legendonly"


def test_the_host_alone_is_shown() -> None:
    assert traces(Placement(memory=[HOST]))["host, everybody"]["visible"] is True


def test_steps_are_marked() -> None:
    shown = traces(Placement(memory=[HOST], meta={"steps": [[0.5, 0.75], [1.0, 1.5]]}))
    assert shown["start of a step"]["x"] == [0.5, 0.5, None, 1.0, 1.0, None]
    assert shown["end of a step"]["x"] == [0.75, 0.75, None, 1.5, 1.5, None]
    assert shown["end of a step"]["y"] == [0, 1, None, 0, 1, None]
    assert "start of a step" not in traces(Placement(memory=[HOST]))


def test_a_run_without_samples_says_so() -> None:
    figure = memory_timeline(Placement())
    assert [one.text for one in figure.layout.annotations] == ["No memory was sampled."]


def test_plotly_is_loaded_for_the_time_line_alone(start_python: Callable[[str], str]) -> None:
    code = "import sys, jupyter_placement.panel.memory_view, jupyter_placement.panel.memory_timeline as t\n"
    assert start_python(code + "print('plotly' in sys.modules, 'tensorflow' in sys.modules)") == "False False"


@pytest.fixture
def start_python() -> Callable[[str], str]:
    import subprocess

    def run(code: str) -> str:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    return run
