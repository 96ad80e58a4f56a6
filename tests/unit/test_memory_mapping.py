"""From TensorFlow's GPU to the physical card."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_placement.memory.cards import Card
from jupyter_placement.memory.mapping import Description, match_cards, parse_description, same_pci, with_cards
from jupyter_placement.memory.visible import visible_cards
from jupyter_placement.placement import Device

TASK = "/job:localhost/replica:0/task:0/device:GPU:"
T4S = [Card(k, "Tesla T4", f"GPU-{k}aaa-{k}", f"0000:0{k + 1}:00.0") for k in range(4)]
TWINS = [Card(0, "Tesla T4", "GPU-ab12-0"), Card(1, "Tesla T4", "GPU-ab34-0")]
MIXED = [Card(0, "GeForce GT 1030", "GPU-0"), Card(1, "A100", "GPU-1")]
A100 = [
    Card(0, "A100", "GPU-aaaa", "0000:01:00.0", mig_enabled=True),
    Card(0, "A100 1g.5gb", "MIG-1111", "0000:01:00.0", mig=0, gpu_instance=7, compute_instance=0),
    Card(0, "A100 1g.5gb", "MIG-2222", "0000:01:00.0", mig=1, gpu_instance=8, compute_instance=0),
    Card(1, "A100", "GPU-bbbb", "0000:02:00.0"),
]


def shown(cards: list[Card], text: str | None, **environ: str) -> list[str]:
    if text is not None:
        environ["CUDA_VISIBLE_DEVICES"] = text
    return [card.key for card in visible_cards(cards, environ).cards]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (None, ["nvml:0", "nvml:1", "nvml:2", "nvml:3"]),
        ("0", ["nvml:0"]),
        ("3,2", ["nvml:3", "nvml:2"]),
        (" 3 , 2 ", ["nvml:3", "nvml:2"]),
        ("", []),
        (" ", []),
        ("-1", []),
        ("1,-1,0", ["nvml:1"]),
        ("0,7,1", ["nvml:0"]),
        ("0,,1", ["nvml:0"]),
        ("2,x", ["nvml:2"]),
        ("NoDevFiles", []),
        ("1gpu,2", ["nvml:1", "nvml:2"]),
        ("+1", ["nvml:1"]),
        ("1,2,1", []),
        ("GPU-2aaa-2", ["nvml:2"]),
        ("GPU-2a", ["nvml:2"]),
        ("gpu-3,GPU-1AAA", ["nvml:3", "nvml:1"]),
        ("GPU-2,GPU-9,GPU-1", ["nvml:2"]),
        ("GPU-2,1", ["nvml:2"]),
        ("1,GPU-2", ["nvml:1"]),
        ("GPU-2,GPU-2a", []),
        ("GPU-", []),
    ],
)
def test_cuda_visible_devices(text: str | None, keys: list[str]) -> None:
    assert shown(T4S, text) == keys


def test_a_uuid_that_fits_two_cards_ends_the_list() -> None:
    assert shown(TWINS, "GPU-ab34,GPU-ab") == ["nvml:1"]
    assert "the entry GPU-ab fits several cards" in visible_cards(TWINS, {"CUDA_VISIBLE_DEVICES": "GPU-ab"}).note


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("MIG-2222", ["nvml:0/mig:1"]),
        ("MIG-GPU-aaaa/8/0", ["nvml:0/mig:1"]),
        ("MIG-GPU-aaaa/9/0", []),
        ("MIG-2222,MIG-1111", ["nvml:0/mig:1"]),
        ("GPU-bbbb", ["nvml:1"]),
        ("GPU-aaaa", []),
        ("0", ["nvml:0/mig:0"]),
        ("1", ["nvml:1"]),
        (None, ["nvml:0/mig:0"]),
    ],
)
def test_mig_instances(text: str | None, keys: list[str]) -> None:
    assert shown(A100, text) == keys


def test_numbers_of_cards_of_different_kinds_are_not_certain() -> None:
    doubtful = visible_cards(MIXED, {"CUDA_VISIBLE_DEVICES": "0"})
    assert not doubtful.certain
    assert "set CUDA_DEVICE_ORDER=PCI_BUS_ID before the kernel starts" in doubtful.note
    assert visible_cards(MIXED, {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).certain
    assert visible_cards(MIXED, {"CUDA_VISIBLE_DEVICES": "GPU-1"}).certain
    assert not visible_cards(MIXED, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}).certain
    assert visible_cards(T4S, {}).certain


@given(st.permutations(range(4)), st.integers(0, 4))
def test_any_order_of_numbers_is_the_order_of_the_cards(order: list[int], count: int) -> None:
    chosen = order[:count]
    assert shown(T4S, ",".join(map(str, chosen))) == [f"nvml:{k}" for k in chosen]
    assert shown(T4S, ",".join(T4S[k].uuid or "" for k in chosen)) == [f"nvml:{k}" for k in chosen]


@given(st.text(max_size=40))
def test_any_text_gives_cards_that_are_there_once_each(text: str) -> None:
    keys = shown(T4S, text)
    assert len(set(keys)) == len(keys)
    assert set(keys) <= {card.key for card in T4S}


def test_the_pci_bus_id_wins_over_the_environment() -> None:
    device = Device(f"{TASK}0", pci_bus_id="00000000:04:00.0")
    (match,) = match_cards([device], T4S, {"CUDA_VISIBLE_DEVICES": "0"})
    assert (match.card, match.by) == (T4S[3], "pci")


def test_a_description_tells_the_bus_id() -> None:
    told = parse_description("device: 1, name: Tesla T4, pci bus id: 0000:03:00.0, compute capability: 7.5")
    assert told == Description(1, "Tesla T4", "0000:03:00.0")
    (match,) = match_cards([Device(f"{TASK}0")], T4S, {}, {f"{TASK}0": told})
    assert (match.card, match.by) == (T4S[2], "pci")


def test_a_bus_id_that_nvml_does_not_know_falls_back_to_the_environment() -> None:
    (match,) = match_cards([Device(f"{TASK}0", pci_bus_id="0000:99:00.0")], T4S, {"CUDA_VISIBLE_DEVICES": "3,2"})
    assert (match.card, match.by) == (T4S[3], "environment")
    assert match.note == (
        "GPU:0 is card 3 (Tesla T4), by the environment variables. CUDA_VISIBLE_DEVICES=3,2 shows 2 of 4 cards."
    )


def test_reordered_cards() -> None:
    devices = [Device(f"{TASK}{k}") for k in (1, 0)]
    matches = match_cards(devices, T4S, {"CUDA_VISIBLE_DEVICES": "3,2"})
    assert [(match.device, match.card) for match in matches] == [(f"{TASK}0", T4S[3]), (f"{TASK}1", T4S[2])]


def test_several_logical_gpus_on_one_card() -> None:
    devices = [Device(f"{TASK}{k}") for k in range(3)]
    descriptions = {f"{TASK}{k}": Description(0 if k < 2 else 1) for k in range(3)}
    matches = match_cards(devices, T4S, {"CUDA_VISIBLE_DEVICES": "3,1"}, descriptions)
    assert [match.card for match in matches] == [T4S[3], T4S[3], T4S[1]]


def test_a_gpu_on_a_mig_instance() -> None:
    device = Device(f"{TASK}0", pci_bus_id="0000:01:00.0")
    (match,) = match_cards([device], A100, {"CUDA_VISIBLE_DEVICES": "MIG-2222"})
    assert match.card is not None
    assert match.card.key == "nvml:0/mig:1"


def test_no_card_is_said_to_be_none() -> None:
    (nothing,) = match_cards([Device(f"{TASK}0")], [], {})
    assert (nothing.card, nothing.by, nothing.note) == (None, "none", "No card is known for GPU:0. NVML names no card.")
    (hidden,) = match_cards([Device(f"{TASK}1")], T4S, {"CUDA_VISIBLE_DEVICES": "0"})
    assert hidden.note == "No card is known for GPU:1. CUDA_VISIBLE_DEVICES=0 shows 1 of 4 cards."
    (remote,) = match_cards([Device("/job:worker/replica:0/task:1/device:GPU:0")], T4S, {})
    assert remote.by == "none"
    assert match_cards([Device("/job:localhost/replica:0/task:0/device:CPU:0")], T4S, {}) == []


def test_devices_get_the_facts_of_their_cards() -> None:
    cpu = Device("/job:localhost/replica:0/task:0/device:CPU:0")
    gpu = Device(f"{TASK}0", memory_limit=5)
    assert with_cards([cpu, gpu], T4S, {"CUDA_VISIBLE_DEVICES": "2"}) == [
        cpu,
        Device(f"{TASK}0", "Tesla T4", 5, "0000:03:00.0", 2),
    ]


@given(st.integers(0, 0xFFFF), st.integers(0, 255), st.integers(0, 31))
def test_a_bus_id_is_the_same_in_every_form(domain: int, bus: int, device: int) -> None:
    nvml = f"{domain:08X}:{bus:02X}:{device:02X}.0"
    cuda = f"{domain:04x}:{bus:02x}:{device:02x}.0"
    assert same_pci(nvml) == same_pci(cuda) == cuda
