"""What TensorFlow's ways of limiting memory mean, and setting them in time or too late."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_placement.memory import limit
from jupyter_placement.memory.cards import Card, CardReading
from jupyter_placement.memory.limit import MemoryLimitError, limit_memory, totals_by_gpu
from jupyter_placement.memory.nvml_worker import NvmlAnswer
from jupyter_placement.memory.plan import CONTEXT, PlannedCard, plan_memory
from tests.nvml import actions
from tests.nvml.stub import GIB, StubDriver, build, card, process

MIB = 1 << 20


@pytest.mark.parametrize(
    ("fraction", "programs", "fits"), [(0.4, 1, True), (0.4, 2, True), (0.4, 3, False), (0.5, 2, False), (0.3, 3, True)]
)
def test_fractions_on_one_card(fraction: float, programs: int, fits: bool) -> None:
    plan = plan_memory(fraction, programs=programs, cards=["16 GiB"])
    assert plan.fits is fits
    assert len(plan.cards[0].shares) == programs


def test_three_times_two_fifths_is_more_than_the_card() -> None:
    plan = plan_memory(fraction=0.4, programs=3, cards=[16 * GIB])
    first, second, third = plan.cards[0].shares
    assert (first.asked, first.given, first.fits) == (int(0.4 * 16 * GIB), int(0.4 * 16 * GIB), True)
    assert second == first
    assert not third.fits
    assert third.given <= 16 * GIB - first.given - second.given - 3 * CONTEXT
    assert "does not fit: 3 x 0.4 = 1.2 of the card." in plan.text()
    assert "program 3: asks for 6.4 GiB, gets about" in plan.text()


def test_halves_leave_no_room_for_the_programs_themselves() -> None:
    assert (
        "2 x 0.5 = 1 of the card, and beside it each program's CUDA context"
        in plan_memory(0.5, programs=2, cards=["16 GiB"]).text()
    )


def test_without_a_limit_the_first_takes_nearly_all() -> None:
    plan = plan_memory(programs=2, cards=["16 GiB"])
    first, second = plan.cards[0].shares
    assert first.given > 13 * GIB
    assert second.given < GIB
    assert plan.fits is False
    assert plan_memory(cards=["16 GiB"]).fits is True
    assert "the first program takes nearly all of it" in plan.text()
    assert "which is what the others leave" in plan.text().split("program 2: ")[1]


def test_growth_shows_only_when_they_run() -> None:
    plan = plan_memory(allow_growth=True, programs=3, cards=["16 GiB"])
    assert plan.fits is None
    assert [share.asked for share in plan.cards[0].shares] == [None, None, None]


def test_what_is_held_already_counts() -> None:
    busy = PlannedCard("card 0", 16 * GIB, held=12 * GIB)
    plan = plan_memory(memory_limit=4096, cards=[busy])
    assert plan.fits is False
    assert "12.0 GiB held already" in plan.text()
    assert plan_memory(memory_limit=2048, cards=[busy]).fits is True


def test_every_card_is_planned() -> None:
    plan = plan_memory(memory_limit=10_000, cards=["16 GiB", "8 GiB"])
    assert [one.fits for one in plan.cards] == [True, False]
    assert plan.fits is False


def of(name: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {name: value}


@given(
    st.one_of(st.just({}), st.floats(0.01, 1).map(of("fraction")), st.integers(1, 20_000).map(of("memory_limit"))),
    st.integers(1, 6),
    st.integers(1, 96),
)
def test_nobody_gets_more_than_there_is(way: dict[str, Any], programs: int, size: int) -> None:
    plan = plan_memory(**way, programs=programs, cards=[size * GIB])
    (one,) = plan.cards
    assert sum(share.given for share in one.shares) <= size * GIB
    assert all(share.given >= 0 for share in one.shares)
    assert one.fits == all(share.fits for share in one.shares)
    assert all(share.given >= (share.asked or 0) for share in one.shares if share.fits)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fraction": 0}, "above 0 and at most 1; it is 0"),
        ({"fraction": 1.5}, "above 0 and at most 1; it is 1.5"),
        ({"memory_limit": 0}, "a whole number of MiB above 0; it is 0"),
        ({"fraction": 0.4, "memory_limit": 5}, "not both"),
        ({"fraction": 0.4, "allow_growth": True}, "does not let memory grow on a card that has a limit"),
        ({"programs": 0}, "programs is a whole number from 1 on, not 0"),
        ({"cards": ["big"]}, "\"16 GiB\" or as a number of bytes above 0, not 'big'"),
        ({"cards": ["16 QiB"]}, "not '16 QiB'"),
    ],
)
def test_numbers_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_memory(**{"cards": ["16 GiB"], **arguments})


def test_without_a_card_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_placement.memory.plan.read_cards", lambda: NvmlAnswer([], [], ["No GPU is shown: x."]))
    plan = plan_memory(0.4)
    assert plan.fits is None
    assert plan.notes == ("No GPU is shown: x.", 'Give the cards to plan for, such as cards=["16 GiB"].')
    assert "per_process_gpu_memory_fraction = 0.4" in plan.tf1
    assert "limit = int(0.4 * 16384)" in plan.tf2


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[StubDriver]:
    with StubDriver(build(tmp_path), tmp_path) as driver:
        yield driver


def test_the_cards_that_are_there(driver: StubDriver) -> None:
    driver.machine(card(0, used=10 * GIB), card(1, used=0), process(0, 1, 10 * GIB))
    text = driver.call(actions.plan_text, 0.4)
    assert "card 0 (Tesla T4), 16.0 GiB, 10.2 GiB held already: does not fit: 1 x 0.4 = 0.4 of the card, and" in text
    assert "card 1 (Tesla T4), 16.0 GiB, 256.0 MiB held already: fits" in text


class Config:
    """``tf.config`` of a TensorFlow that is not there, with the GPUs of a test."""

    def __init__(self, gpus: int, started: bool = False) -> None:
        self.gpus = [f"GPU {k}" for k in range(gpus)]
        self.started = started
        self.set: dict[str, Any] = {}
        self.experimental = SimpleNamespace(set_memory_growth=self._change)
        self.LogicalDeviceConfiguration = lambda memory_limit: memory_limit

    def list_physical_devices(self, kind: str) -> list[str]:
        return self.gpus if kind == "GPU" else []

    def set_logical_device_configuration(self, gpu: str, limits: list[int]) -> None:
        self._change(gpu, limits)

    def _change(self, gpu: str, value: Any) -> None:
        if self.started:
            raise RuntimeError("Physical devices cannot be modified after being initialized")
        self.set[gpu] = value


@pytest.fixture
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType("tensorflow")
    monkeypatch.setitem(sys.modules, "tensorflow", module)
    monkeypatch.delitem(sys.modules, "tensorflow.python.eager.context", raising=False)
    vars(module)["config"] = Config(2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    readings = [CardReading(Card(k, "T4"), total=(k + 1) * 1000 * MIB) for k in range(2)]
    monkeypatch.setattr(limit, "read_cards", lambda: NvmlAnswer([], readings, []))
    return module


def test_a_limit_is_set_on_every_gpu(tensorflow: Any) -> None:
    assert limit_memory(memory_limit=512).splitlines() == ["GPU:0: at most 512.0 MiB.", "GPU:1: at most 512.0 MiB."]
    assert tensorflow.config.set == {"GPU 0": [512], "GPU 1": [512]}


def test_growth_is_set_on_every_gpu(tensorflow: Any) -> None:
    assert limit_memory(allow_growth=True).splitlines()[0] == "GPU:0: memory is taken when it is needed."
    assert tensorflow.config.set == {"GPU 0": True, "GPU 1": True}


def test_a_fraction_is_that_of_each_card(tensorflow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    limit_memory(0.5)
    assert tensorflow.config.set == {"GPU 0": [1000], "GPU 1": [500]}


def test_a_fraction_of_an_unknown_card(tensorflow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "read_cards", lambda: NvmlAnswer([], [], ["No GPU is shown: x."]))
    with pytest.raises(MemoryLimitError, match=r"that of GPU:0 cannot be read: give memory_limit in MiB instead\."):
        limit_memory(0.5)
    assert tensorflow.config.set == {}


def test_no_gpu_is_no_error(tensorflow: Any) -> None:
    tensorflow.config = Config(0)
    assert limit_memory(0.5) == "TensorFlow sees no GPU: there is nothing to limit."


def test_too_late_by_another_thread(tensorflow: Any) -> None:
    tensorflow.config = Config(1, started=True)
    with pytest.raises(MemoryLimitError, match="restart the kernel"):
        limit_memory(memory_limit=5)


def test_nothing_to_limit_is_an_error() -> None:
    with pytest.raises(ValueError, match="say how to limit memory"):
        limit_memory()


def test_a_card_without_a_size_has_none() -> None:
    assert totals_by_gpu([CardReading(Card(0))], {}) == [None]


@pytest.mark.parametrize(
    "wrong",
    [
        {"fraction": "4 GiB"},
        {"fraction": True},
        {"memory_limit": "4 GiB"},
        {"memory_limit": 4.5},
        {"fraction": 0.4, "programs": 1.5},
        {"fraction": 0.4, "cards": "16 GiB"},
        {"fraction": 0.4, "cards": []},
        {"fraction": 0.4, "cards": ["-1 GiB"]},
        {"fraction": 0.4, "cards": [0]},
        {"fraction": 0.4, "cards": [None]},
        {"fraction": 0.4, "cards": ["inf GiB"]},
    ],
)
def test_values_of_the_wrong_kind_are_one_sentence(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"(fraction|limit|programs|cards?) .*") as raised:
        plan_memory(**wrong)
    assert "\n" not in str(raised.value)
