"""From TensorFlow's device to the physical card: ``GPU:0`` is not NVML's card 0."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from jupyter_placement.devices import parse_device, short_device, sort_key
from jupyter_placement.memory.cards import Card
from jupyter_placement.memory.visible import visible_cards
from jupyter_placement.placement import Device

_DESCRIPTION = re.compile(r"device: (?P<ordinal>\d+)(?:, name: (?P<name>.*?))?, pci bus id: (?P<pci>[0-9A-Fa-f:.]+)")


@dataclass(frozen=True)
class Description:
    """What TensorFlow's description of a device says of the card below it.

    Attributes
    ----------
    ordinal : int
        CUDA's number of the card.
    name, pci_bus_id : str or None
        The card's name and place on the bus.
    """

    ordinal: int
    name: str | None = None
    pci_bus_id: str | None = None


@dataclass(frozen=True)
class CardMatch:
    """A device of TensorFlow and the card that it is on.

    Attributes
    ----------
    device : str
        Full device name.
    card : Card or None
        ``None`` when no card could be found for it.
    by : str
        ``"pci"`` (TensorFlow told the bus id), ``"environment"`` (the rules of ``CUDA_VISIBLE_DEVICES``) or ``"none"``.
    note : str
        A sentence that says so, and how sure it is.
    """

    device: str
    card: Card | None
    by: str
    note: str


def parse_description(text: str) -> Description | None:
    """Read TensorFlow's ``physical_device_desc``, also as it stands in the log behind ``->``.

    Examples
    --------
    >>> parse_description("device: 0, name: Tesla T4, pci bus id: 0000:00:04.0, compute capability: 7.5")
    Description(ordinal=0, name='Tesla T4', pci_bus_id='0000:00:04.0')
    >>> parse_description("") is None
    True
    """
    match = _DESCRIPTION.search(text)
    if match is None:
        return None
    return Description(int(match["ordinal"]), match["name"], same_pci(match["pci"]))


def same_pci(bus_id: str) -> str:
    """Write a PCI bus id in one way: NVML pads the domain to eight digits, CUDA to four.

    Examples
    --------
    >>> same_pci("00000000:3B:00.0"), same_pci("0000:3b:00.0"), same_pci("3B:00.0")
    ('0000:3b:00.0', '0000:3b:00.0', '0000:3b:00.0')
    """
    parts = bus_id.strip().lower().split(":")
    if len(parts) == 2:
        parts.insert(0, "0")
    domain = parts[0].lstrip("0").rjust(4, "0")
    return ":".join([domain, *parts[1:]])


def match_cards(
    devices: Iterable[Device],
    cards: Sequence[Card],
    environ: Mapping[str, str],
    descriptions: Mapping[str, Description] | None = None,
) -> list[CardMatch]:
    """Find the card of each of TensorFlow's GPUs.

    Parameters
    ----------
    devices : iterable of Device
        TensorFlow's devices; those that are no local GPU are left out.
    cards : sequence of Card
        What NVML names.
    environ : mapping
        The environment variables from when CUDA was started.
    descriptions : mapping of str to Description, optional
        What TensorFlow says of the card, by full device name. Several GPUs of TensorFlow may be on one card.

    Returns
    -------
    list of CardMatch
        In the devices' order.

    Examples
    --------
    >>> cards = [Card(k, "Tesla T4", pci_bus_id=f"0000:0{k}:00.0") for k in range(4)]
    >>> gpu = Device("/job:localhost/replica:0/task:0/device:GPU:0")
    >>> match_cards([gpu], cards, {"CUDA_VISIBLE_DEVICES": "3,2"})[0].card.index
    3
    >>> match_cards([Device(gpu.name, pci_bus_id="0000:01:00.0")], cards, {})[0].note
    'GPU:0 is card 1 (Tesla T4), by the PCI bus id that TensorFlow gives.'
    """
    known = descriptions or {}
    return [
        _match(device, cards, environ, known.get(device.name))
        for device in sorted(devices, key=lambda device: sort_key(device.name))
        if device.type == "GPU"
    ]


def with_cards(
    devices: Iterable[Device],
    cards: Sequence[Card],
    environ: Mapping[str, str],
    descriptions: Mapping[str, Description] | None = None,
) -> list[Device]:
    """Return the devices with ``nvml_index``, ``pci_bus_id`` and ``physical_name`` of their cards filled in."""
    devices = list(devices)
    found = {match.device: match.card for match in match_cards(devices, cards, environ, descriptions)}
    return [_with_card(device, found.get(device.name)) for device in devices]


def _with_card(device: Device, card: Card | None) -> Device:
    if card is None:
        return device
    return replace(
        device,
        nvml_index=card.index,
        pci_bus_id=device.pci_bus_id or card.pci_bus_id,
        physical_name=device.physical_name or card.name,
    )


def _match(device: Device, cards: Sequence[Card], environ: Mapping[str, str], told: Description | None) -> CardMatch:
    short = short_device(device.name)
    spec = parse_device(device.name)
    if spec is not None and spec.job not in (None, "localhost"):
        return CardMatch(device.name, None, "none", f"{short} is another task's: its card is not looked for here.")
    pci = device.pci_bus_id or (told.pci_bus_id if told else None)
    visible = visible_cards(cards, environ)
    if pci is not None:
        there = [card for card in cards if card.pci_bus_id is not None and same_pci(card.pci_bus_id) == same_pci(pci)]
        # MIG instances share the bus id of their card; CUDA shows one of them.
        instance = next((card for card in visible.cards if card.mig is not None and card in there), None)
        card = instance or next((card for card in there if card.mig is None), None)
        if card is not None:
            note = f"{short} is {card.title}, by the PCI bus id that TensorFlow gives."
            return CardMatch(device.name, card, "pci", note)
    ordinal = told.ordinal if told else spec.id if spec else None
    if ordinal is None or ordinal >= len(visible.cards):
        why = visible.note if cards else "NVML names no card."
        return CardMatch(device.name, None, "none", f"No card is known for {short}. {why}")
    card = visible.cards[ordinal]
    note = f"{short} is {card.title}, by the environment variables. {visible.note}"
    return CardMatch(device.name, card, "environment", note)
