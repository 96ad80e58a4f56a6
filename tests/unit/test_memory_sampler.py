"""The sampler: pace, bounded memory, hanging drivers, cards that go and come, nothing left behind."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_placement.memory import MemorySampler
from jupyter_placement.memory.nvml_worker import STILL_HANGS
from jupyter_placement.memory.sampler import next_deadline
from jupyter_placement.memory.samples import SampleLog
from jupyter_placement.placement import MemorySample
from tests.nvml import actions
from tests.nvml.stub import GIB, StubDriver, build, card, error, hang, process

TIMEOUT = 30.0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"))


@pytest.fixture
def driver(library: Path, tmp_path: Path) -> Iterator[StubDriver]:
    with StubDriver(library, tmp_path) as driver:
        yield driver


def cards_of(tick: list[MemorySample]) -> dict[str, int | None]:
    return {sample.device: sample.used for sample in tick if sample.device.startswith("nvml:")}


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    pause = threading.Event()
    assert any(condition() or pause.wait(0.01) for _ in range(3000)), "it never comes"


def until_note(driver: StubDriver, text: str) -> actions.Ticks:
    """Wait for a sample whose notes say this."""
    for _ in range(1000):
        seen = driver.call(actions.next_ticks, 1)
        if any(text in note for note in seen.notes):
            return seen
    raise AssertionError(f"nobody says {text!r}: {seen.notes}")


def until_cards(driver: StubDriver, cards: dict[str, int | None]) -> None:
    """Wait for a sample that shows these cards."""
    for _ in range(1000):
        seen = driver.call(actions.next_ticks, 1)
        if cards_of(seen.ticks[-1]) == cards:
            return
    raise AssertionError(f"{cards} never come: {seen.ticks[-1]}, {seen.notes}")


def test_samples_show_the_machine_as_it_changes(driver: StubDriver) -> None:
    driver.machine(card(0), process(0, driver.pid, 5))
    driver.call(actions.start_sampler)
    until_cards(driver, {"nvml:0": GIB})
    driver.machine(card(0, used=3 * GIB), process(0, driver.pid, 7))
    until_cards(driver, {"nvml:0": 3 * GIB})
    stopped = driver.call(actions.stop_sampler)
    (last,) = [sample for sample in stopped.ticks[-1] if sample.device == "nvml:0"]
    assert (last.used, last.total, last.process) == (3 * GIB, 16 * GIB, 7)
    assert [one.title for one in stopped.readings[0].processes or ()] == [f"this kernel (pid {driver.pid})"]
    kept = driver.call(actions.all_samples)
    assert kept == sorted(kept, key=lambda sample: sample.time)
    assert kept[0].device == "host"
    assert stopped.notes == []
    assert driver.call(actions.thread_names) == []
    assert driver.call(actions.started) == 0


@pytest.mark.parametrize("function", ["nvmlDeviceGetMemoryInfo_v2", "nvmlInitWithFlags"])
def test_a_call_that_hangs_holds_up_nobody(driver: StubDriver, function: str) -> None:
    driver.machine(card(0), hang(function, 3600))
    driver.call(actions.start_sampler)
    seen = until_note(driver, "The NVIDIA driver has not answered for ")
    assert [sample.device for sample in driver.call(actions.next_ticks, 1).ticks[0]] == ["host"]
    assert seen.readings == []
    driver.call(actions.stop_sampler)
    # It has stopped, and the call still hangs.
    assert driver.call(actions.thread_names) == ["jupyter-placement-nvml"]
    driver.machine(card(0))
    driver.call(actions.join_nvml_thread)
    assert driver.call(actions.thread_names) == []
    assert driver.call(actions.started) == 0


def test_a_hanging_driver_that_comes_back(driver: StubDriver) -> None:
    driver.machine(card(0), hang("nvmlDeviceGetUtilizationRates", 3600))
    driver.call(actions.start_sampler)
    until_note(driver, "The NVIDIA driver has not answered for ")
    driver.machine(card(0))
    until_cards(driver, {"nvml:0": GIB})
    assert "The NVIDIA driver answers again." in driver.call(actions.stop_sampler).notes


def test_a_driver_that_hangs_for_ever_gets_no_second_thread(driver: StubDriver) -> None:
    driver.machine(card(0), hang("nvmlDeviceGetMemoryInfo_v2", 3600))
    driver.call(actions.start_sampler)
    until_note(driver, "The NVIDIA driver has not answered for ")
    driver.call(actions.stop_sampler)
    driver.call(actions.wait_until_it_counts_as_hanging)
    driver.call(actions.start_sampler)
    assert driver.call(actions.next_ticks, 2).notes == [STILL_HANGS]
    assert driver.call(actions.thread_names) == ["jupyter-placement-memory", "jupyter-placement-nvml"]
    driver.call(actions.stop_sampler)
    assert driver.call(actions.thread_names) == ["jupyter-placement-nvml"]


def test_a_gpu_that_falls_off_the_bus(driver: StubDriver) -> None:
    driver.machine(card(0), card(1))
    driver.call(actions.start_sampler)
    until_cards(driver, {"nvml:0": GIB, "nvml:1": 2 * GIB})
    driver.machine(card(0), card(1), *(error(name, 15, "1") for name in DEVICE_FUNCTIONS))
    until_cards(driver, {"nvml:0": GIB, "nvml:1": None})
    stopped = driver.call(actions.stop_sampler)
    assert stopped.notes == ["Memory of card 1 (Tesla T4) is not available (nvmlDeviceGetMemoryInfo: GPU is lost)."]
    assert [reading.used for reading in stopped.readings] == [GIB, None]


def test_a_driver_that_is_reloaded(driver: StubDriver) -> None:
    driver.machine(card(0))
    driver.call(actions.start_sampler)
    until_cards(driver, {"nvml:0": GIB})
    driver.machine(card(0), card(1), "generation\t1")
    until_cards(driver, {"nvml:0": GIB, "nvml:1": 2 * GIB})
    stopped = driver.call(actions.stop_sampler)
    assert "The NVIDIA driver went away; it is asked again every now and then." in stopped.notes
    assert stopped.notes[-1] == "The NVIDIA driver is back."
    assert driver.call(actions.started) == 0


def test_a_driver_that_is_loaded_later(driver: StubDriver) -> None:
    driver.machine(card(0), error("nvmlInitWithFlags", 9))
    driver.call(actions.start_sampler)
    until_note(driver, "No GPU is shown: the NVIDIA driver is not loaded.")
    driver.machine(card(0))
    until_cards(driver, {"nvml:0": GIB})
    driver.call(actions.stop_sampler)
    assert driver.call(actions.started) == 0


def test_a_thousand_cycles_leave_nothing(driver: StubDriver) -> None:
    driver.machine(card(0), card(1), process(0, driver.pid, GIB))
    before, after, threads, started = driver.call(actions.cycles, 1000)
    assert after == before
    assert threads == []
    assert started == 0


def test_on_sample_runs_in_the_context_of_the_start() -> None:
    cell: contextvars.ContextVar[str] = contextvars.ContextVar("cell", default="none")
    seen: list[tuple[str, int]] = []
    came = threading.Event()

    def show(samples: list[MemorySample], time: float, notes: list[str]) -> None:
        seen.append((cell.get(), threading.get_ident()))
        came.set()

    cell.set("the first")
    with MemorySampler(0.01, show):
        cell.set("the second")
        assert came.wait(TIMEOUT)
    assert {where for where, _ in seen} == {"the first"}
    assert threading.get_ident() not in {thread for _, thread in seen}


def test_an_error_of_on_sample_becomes_a_note_and_samples_go_on() -> None:
    calls: list[float] = []

    def show(samples: list[MemorySample], time: float, notes: list[str]) -> None:
        calls.append(time)
        raise LookupError("no such widget")

    with MemorySampler(0.01, show) as sampler:
        until(lambda: len(sampler.samples) >= 3)
    assert len(calls) == 1
    assert "Memory is no longer shown live: LookupError: no such widget" in sampler.notes


def test_on_sample_may_stop_its_own_sampler() -> None:
    ended = threading.Event()

    def show(samples: list[MemorySample], time: float, notes: list[str]) -> None:
        sampler.stop()
        ended.set()

    sampler = MemorySampler(0.01, show)
    sampler.start()
    assert ended.wait(TIMEOUT)
    sampler.join(TIMEOUT)
    assert not sampler.running


def test_a_stop_takes_a_last_sample_and_a_second_stop_does_nothing() -> None:
    sampler = MemorySampler(3600).start()
    sampler.stop()
    kept = sampler.samples
    assert [sample.device for sample in kept] in (["host"], ["host", "host"])
    sampler.stop()
    assert sampler.samples == kept


def test_a_sampler_that_never_started_stops() -> None:
    sampler = MemorySampler()
    sampler.stop()
    assert sampler.samples == []


def test_a_sampler_starts_once() -> None:
    with MemorySampler() as sampler, pytest.raises(RuntimeError, match="make a new MemorySampler"):
        sampler.start()


@pytest.mark.parametrize("interval", [0, -1, float("nan")])
def test_an_interval_is_above_zero(interval: float) -> None:
    with pytest.raises(ValueError, match="must be above 0 seconds"):
        MemorySampler(interval)


def test_time_is_that_of_the_clock() -> None:
    times = iter(range(1000, 100_000, 250))
    sampler = MemorySampler(0.5, clock=lambda: float(next(times))).start()
    sampler.stop()
    assert all(sample.time > 0 and sample.time % 250 == 0 for sample in sampler.samples)


def test_tensorflow_is_not_imported_for_it() -> None:
    before = "tensorflow" in sys.modules
    with MemorySampler(0.01):
        pass
    assert ("tensorflow" in sys.modules) == before


@given(st.floats(0, 1e6), st.floats(-10, 1e5), st.floats(0.01, 60))
def test_the_next_deadline_comes_after_now_and_keeps_the_pace(deadline: float, late: float, interval: float) -> None:
    now = deadline + late
    following = next_deadline(deadline, now, interval)
    ticks = (following - deadline) / interval
    assert ticks == pytest.approx(round(ticks), abs=1e-3)
    assert round(ticks) >= 1
    assert following > now - 1e-6
    assert following - max(now, deadline) <= interval + 1e-6


@given(
    st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 9))), max_size=200), st.integers(12, 40)
)
def test_a_log_keeps_peaks_in_bounded_room(readings: list[tuple[int, int | None]], limit: int) -> None:
    log = SampleLog(limit)
    everything: list[MemorySample] = []
    for second, (used, own) in enumerate(readings):
        tick = [
            MemorySample(second, "host", used=used, process=own),
            MemorySample(second, "nvml:0", used=own, peak=used),
        ]
        log.add(tick)
        everything += tick
    kept = log.samples()
    assert len(kept) <= limit + 6 + 2  # besides what is kept for good: what comes together, and the latest moment
    assert set(kept) <= set(everything)
    for device in {sample.device for sample in everything}:
        for field in ("used", "process", "peak"):
            values = [getattr(sample, field) for sample in everything if sample.device == device]
            held = [getattr(sample, field) for sample in kept if sample.device == device]
            assert max((v for v in held if v is not None), default=None) == max(
                (v for v in values if v is not None), default=None
            )
    if everything:
        assert kept[-1].time == everything[-1].time
        assert kept[0].time <= everything[-1].time


DEVICE_FUNCTIONS = (
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
)
