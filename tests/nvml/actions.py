"""What the tests let the process with the stand-in driver do."""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass

from jupyter_placement.memory import Card, CardReading, MemorySampler
from jupyter_placement.memory.nvml import NvmlReader, NvmlUnavailable
from jupyter_placement.memory.plan import plan_memory
from jupyter_placement.memory.processes import ProcessTable
from jupyter_placement.placement import MemorySample
from tests.nvml.stub import LIBRARY

TICKS_TIMEOUT = 60.0


@dataclass(frozen=True)
class Seen:
    """What one reading gave, or the sentence that says why there is none."""

    driver: str | None
    cards: list[Card]
    readings: list[CardReading]
    sentence: str = ""
    final: bool = False
    stale: bool = False


def read_once(container_proc: str = "") -> Seen:
    """Open NVML, read every card, and close it."""
    table = ProcessTable(container_proc) if container_proc else None
    reader = NvmlReader(table)
    try:
        reader.open()
    except NvmlUnavailable as error:
        return Seen(None, [], [], str(error), error.final)
    try:
        return Seen(reader.driver, reader.cards, reader.read(), stale=reader.stale)
    finally:
        reader.close()


def started() -> int:
    """Count the starts of NVML that were not followed by a stop."""
    return int(ctypes.CDLL(LIBRARY).nvml_stub_started())


def called() -> set[str]:
    """List the NVML functions that this process has called."""
    names = ctypes.create_string_buffer(4096)
    ctypes.CDLL(LIBRARY).nvml_stub_called(names, len(names))
    return set(names.value.decode().split())


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def thread_names() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("jupyter-placement"))


class _Run:
    """A sampler that is running, and what it has shown."""

    def __init__(self, interval: float) -> None:
        self.changed = threading.Condition()
        self.ticks: list[list[MemorySample]] = []
        self.sampler = MemorySampler(interval, self.seen)

    def seen(self, samples: list[MemorySample], time: float, notes: list[str]) -> None:
        with self.changed:
            self.ticks.append(samples)
            self.changed.notify_all()


_run: _Run | None = None


@dataclass(frozen=True)
class Ticks:
    """The last samples that were shown, and the state of the sampler."""

    ticks: list[list[MemorySample]]
    notes: list[str]
    cards: list[Card]
    readings: list[CardReading]


def start_sampler(interval: float = 0.02) -> None:
    global _run
    _run = _Run(interval)
    _run.sampler.start()


def next_ticks(count: int) -> Ticks:
    """Wait until this many more samples have been shown."""
    assert _run is not None
    with _run.changed:
        before = len(_run.ticks)
        assert _run.changed.wait_for(lambda: len(_run.ticks) >= before + count, TICKS_TIMEOUT), "no samples come"
        sampler = _run.sampler
        return Ticks(_run.ticks[before:], sampler.notes, sampler.cards, sampler.readings)


def stop_sampler() -> Ticks:
    assert _run is not None
    _run.sampler.stop()
    return Ticks(_run.ticks[-1:], _run.sampler.notes, _run.sampler.cards, _run.sampler.readings)


def all_samples() -> list[MemorySample]:
    assert _run is not None
    return _run.sampler.samples


def join_nvml_thread() -> None:
    """Wait for the threads that a stopped sampler has given up."""
    for thread in threading.enumerate():
        if thread.name.startswith("jupyter-placement"):
            thread.join(TICKS_TIMEOUT)


def cycles(count: int) -> tuple[int, int, list[str], int]:
    """Start and stop a sampler again and again; return open files before and after, threads and NVML starts left."""
    MemorySampler(0.01).start().stop()  # loads what is loaded once
    before = open_files()
    for _ in range(count):
        with MemorySampler(0.01):
            pass
    return before, open_files(), thread_names(), started()


def wait_until_it_counts_as_hanging() -> None:
    """Wait until the thread of a stopped sampler is one that hangs, not one that is a little late."""
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "jupyter-placement-nvml"]
    pause = threading.Event()
    while not thread.hangs():  # type: ignore[attr-defined]
        pause.wait(0.01)


def plan_text(fraction: float) -> str:
    return plan_memory(fraction).text()
