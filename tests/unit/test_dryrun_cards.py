"""The table of known cards, and machines of them."""

from __future__ import annotations

import pytest

from jupyter_placement.devices import LOCAL_TASK
from jupyter_placement.dryrun.card import Card
from jupyter_placement.dryrun.cards import KNOWN_CARDS, find_card
from jupyter_placement.dryrun.machine import HOST, parse_machine
from jupyter_placement.placement import Device, PlacementError

GPU0, GPU1 = (f"{LOCAL_TASK}/device:GPU:{index}" for index in (0, 1))
# Multiplications and additions in float32 that a multiprocessor ends in a clock, by compute capability.
PER_CLOCK = {"6.0": 128, "6.1": 256, "7.0": 128, "7.5": 128, "8.0": 128, "8.6": 256, "8.9": 256, "9.0": 256}


@pytest.mark.parametrize("name", KNOWN_CARDS)
def test_a_cards_rate_is_what_its_multiprocessors_and_clock_give(name: str) -> None:
    card = KNOWN_CARDS[name]
    assert card.name == name and len(card.source) > 20
    assert card.bandwidth is not None and 1 << 33 < card.memory < 1 << 38
    if card.units is None or card.clock is None:
        assert name == "B200"  # its maker states neither
        return
    assert card.units * card.clock * PER_CLOCK[card.capability] == pytest.approx(card.flops["float32"], rel=0.03)


@pytest.mark.parametrize("name", KNOWN_CARDS)
def test_smaller_types_are_not_slower(name: str) -> None:
    rates = [KNOWN_CARDS[name].flops.get(kind, 0.0) for kind in ("float64", "float32", "tf32", "float16", "int8")]
    there = [rate for rate in rates if rate]
    assert there == sorted(there)


def test_what_tensorflow_takes_of_a_card() -> None:
    # 16 GiB less 1/16 for ECC, as nvidia-smi shows of a T4, less what TensorFlow leaves for capability 7.
    assert find_card("T4").available == (15360 - 1050) << 20
    assert find_card("A100-40GB").available == (40960 - 1536) << 20
    assert Card("small", 1 << 30, capability="8.0").available == (1024 - 225) << 20


def test_own_cards_make_a_machine() -> None:
    mine = Card("mine", memory=8 << 30, bandwidth=1e11, flops={"float32": 1e12})
    machine = parse_machine(2 * [mine])
    assert [(device.name, device.physical_name) for device in machine[1:]] == [(GPU0, "mine"), (GPU1, "mine")]
    assert machine.cards[GPU1] is mine
    assert machine.cards[machine[0].name] is HOST


def test_an_own_cpu_takes_the_place_of_the_assumed_one() -> None:
    mine = Card("EPYC", memory=512 << 30, units=64, type="CPU")
    machine = parse_machine([mine, find_card("T4")])
    assert [device.name[-5:] for device in machine] == ["CPU:0", "GPU:0"]
    assert machine.cards[machine[0].name] is mine


def test_a_card_that_is_put_into_the_table_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN_CARDS, "Mine-8GB", Card("Mine-8GB", memory=8 << 30))
    assert parse_machine("2xmine-8gb").cards[GPU1].memory == 8 << 30


@pytest.mark.parametrize(
    ("on", "pcie", "lanes", "nvlink"),
    [
        ("1xA100-80GB", 4, 16, 300e9),
        ("1xA100-80GB/PCIe", 4, 16, None),
        ("1xA100-80GB/pcie3x8", 3, 8, None),
        ("1 x A100-80GB / PCIe5", 5, 16, None),
        ("1xV100-16GB/NVLink", 3, 16, 150e9),
        ("1xT4/NVLink25", 3, 16, 25e9),
    ],
)
def test_a_link_is_said_behind_the_name(on: str, pcie: int, lanes: int, nvlink: float | None) -> None:
    card = parse_machine(on).cards[GPU0]
    assert (card.pcie, card.lanes, card.nvlink) == (pcie, lanes, nvlink)


@pytest.mark.parametrize(
    ("on", "said"),
    [
        ("2xT4/NVLink", "T4 has no NVLink by its datasheet"),
        ("2xT4/Ethernet", "'Ethernet' is no link"),
        ("2xT4/PCIe9", "PCI Express has generations 1 to 6"),
        ("200xT4 + 200xL4", "400 devices"),
        ("2xRTX 3091", "is no machine"),
    ],
)
def test_a_wrong_link_or_machine_is_refused(on: str, said: str) -> None:
    with pytest.raises(PlacementError, match=said):
        parse_machine(on)


def test_cards_and_devices_are_not_mixed() -> None:
    with pytest.raises(PlacementError, match="not of both"):
        parse_machine([find_card("T4"), Device(GPU1)])


@pytest.mark.parametrize("values", [{"memory": 0}, {"memory": True}, {"name": ""}, {"type": "TPU"}, {"pcie": 9}])
def test_what_cannot_be_a_card_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(PlacementError):
        Card(**{"name": "mine", "memory": 1 << 30, **values})  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize(
    ("name", "near"), [("A100", "A100-40GB or A100-80GB"), ("3090", "RTX-3090"), ("v100", "V100-16GB or V100-32GB")]
)
def test_an_unknown_card_is_told_the_nearest(name: str, near: str) -> None:
    with pytest.raises(PlacementError, match=f"did you mean {near}"):
        find_card(name)
