"""The machine's grammar, the table of cards, and what is done to messages; without TensorFlow."""

from __future__ import annotations

import sys

import pytest

from jupyter_placement.devices import LOCAL_TASK
from jupyter_placement.dryrun.cards import KNOWN_CARDS
from jupyter_placement.dryrun.helper import Helper
from jupyter_placement.dryrun.helper_main import field
from jupyter_placement.dryrun.machine import parse_machine
from jupyter_placement.placement import Device, PlacementError


def test_several_kinds_of_card_are_numbered_through() -> None:
    devices = parse_machine("1xH100-80GB + 2xL4")
    assert [(device.name, device.physical_name) for device in devices[1:]] == [
        (f"{LOCAL_TASK}/device:GPU:0", "H100-80GB"),
        (f"{LOCAL_TASK}/device:GPU:1", "L4"),
        (f"{LOCAL_TASK}/device:GPU:2", "L4"),
    ]
    assert devices[1].memory_limit == 80 * 2**30


def test_own_devices_are_taken_as_they_are() -> None:
    devices = [Device(f"{LOCAL_TASK}/device:CPU:0"), Device(f"{LOCAL_TASK}/device:TPU:0")]
    assert parse_machine(devices) == devices


@pytest.mark.parametrize(
    ("on", "said"),
    [
        ("", "write it as"),
        ("2x", "write it as"),
        ("2xT4 +", "write it as"),
        ("two T4", "write it as"),
        ("0xT4", "asks for 0 devices"),
        ("9999xT4", "asks for 9999 devices"),
        ("2xA100", "did you mean A100-40GB or A100-80GB"),
        ("H100", "did you mean H100-80GB"),
        ("T44", "did you mean T4"),
        ("T4x2", 'write the number first, "2xT4"'),
        ("1xL4 + CPU*4", 'write the number first, "4xCPU"'),
        ("Qqqqqq", "known are T4"),
    ],
)
def test_what_is_no_machine_is_refused_with_a_sentence(on: str, said: str) -> None:
    with pytest.raises(PlacementError, match=said):
        parse_machine(on)


def test_every_card_says_where_its_numbers_are_from() -> None:
    assert all(card.source and card.memory > 10**9 for card in KNOWN_CARDS.values())


def test_a_long_field_is_encoded_with_its_length() -> None:
    assert field(1, b"x" * 300) == b"\x0a\xac\x02" + b"x" * 300


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_are_told_what_to_install(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    monkeypatch.setattr(sys, "platform", system)
    with pytest.raises(PlacementError, match="not tensorflow-cpu"):
        Helper().place(b"", [])
