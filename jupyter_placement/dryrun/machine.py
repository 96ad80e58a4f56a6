"""The machine that a dry run imagines: ``"2xT4"``, ``"1xH100-80GB + 2xL4"``, ``"4xA100-80GB/PCIe4"``, ``"4xCPU"``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from jupyter_placement.devices import LOCAL_TASK
from jupyter_placement.dryrun.card import GIB, Card
from jupyter_placement.dryrun.cards import KNOWN_CARDS, find_card, is_known
from jupyter_placement.placement import Device, PlacementError

_TERM = re.compile(
    r"(?:(?P<count>\d+)\s*[xX*]\s*)?(?P<name>[A-Za-z][\w-]*(?:\s+[\w-]+)*)"
    r"(?:\s*/\s*(?:PCIe(?P<pcie>\d)?(?:x(?P<lanes>\d+))?|(?P<nvlink>NVLink)(?P<speed>\d+)?))?",
    re.IGNORECASE,
)
_LINK = re.compile(r"(\S.*?)\s*/\s*(\S.*)")
_TURNED = re.compile(r"(\S.*?)\s*[xX*]\s*(\d+)")
_MOST = 256
_HOST_MEMORY = 256 << 20  # what TensorFlow itself states for a CPU
HOST = Card(
    "CPU",
    64 * GIB,
    40e9,
    {"float32": 320e9, "float64": 160e9},
    units=8,
    clock=2.5e9,
    source="an assumption: 8 cores of 2.5 GHz with AVX2, half of their peak rate, 40 GB/s",
    type="CPU",
)


class Machine(list[Device]):
    """The devices of a machine, and of which kind each is.

    Attributes
    ----------
    cards : dict of str to Card
        The kind of each device, by its name, where it is known.
    """

    def __init__(self, devices: Iterable[Device], cards: dict[str, Card]) -> None:
        super().__init__(devices)
        self.cards = cards


def parse_machine(on: str | Sequence[Device | Card]) -> Machine:
    """Return the devices of a machine; one CPU is always there.

    Behind a card's name ``/PCIe``, ``/PCIe4``, ``/PCIe3x8`` (generation and lanes), ``/NVLink`` or ``/NVLink300``
    (GB/s one way) say how the cards are linked to each other; otherwise it is as the card's maker states it.

    Parameters
    ----------
    on : str, or sequence of Device or Card
        Cards and their numbers, kinds of devices, or the devices themselves.

    Raises
    ------
    PlacementError
        When it cannot be read, or names a card that is not known.

    Examples
    --------
    >>> [(device.name[-5:], device.physical_name) for device in parse_machine("2xT4")]
    [('CPU:0', None), ('GPU:0', 'T4'), ('GPU:1', 'T4')]
    >>> [device.name[-5:] for device in parse_machine("2xCPU")]
    ['CPU:0', 'CPU:1']
    >>> parse_machine("2xA100-40GB/PCIe3").cards["/job:localhost/replica:0/task:0/device:GPU:1"].nvlink is None
    True
    """
    if isinstance(on, str):
        return _machine([card for term in on.split("+") for card in _cards(on, term.strip())])
    if on and all(isinstance(one, Card) for one in on):
        return _machine([one for one in on if isinstance(one, Card)])
    devices = [one for one in on if isinstance(one, Device)]
    if len(devices) < len(on):
        raise PlacementError("a machine is a list of cards, or a list of devices, not of both")
    return Machine(devices, known_cards(devices))


def known_cards(devices: Iterable[Device]) -> dict[str, Card]:
    """Return the kind of each device, where the table knows it by the device's ``physical_name``."""
    found = {}
    for device in devices:
        if device.type == "CPU":
            found[device.name] = HOST
        elif device.physical_name in KNOWN_CARDS:
            found[device.name] = KNOWN_CARDS[device.physical_name]
    return found


def _machine(kinds: list[Card]) -> Machine:
    if len(kinds) > _MOST:
        raise PlacementError(f"this machine has {len(kinds)} devices: up to {_MOST} can be imagined")
    cpus = [card for card in kinds if card.type == "CPU"] or [HOST]
    gpus = [card for card in kinds if card.type == "GPU"]
    devices, cards = [], {}
    for kind, members in (("CPU", cpus), ("GPU", gpus)):
        for index, card in enumerate(members):
            name = f"{LOCAL_TASK}/device:{kind}:{index}"
            cards[name] = card
            if kind == "CPU":
                devices.append(Device(name, memory_limit=_HOST_MEMORY))
            else:
                devices.append(Device(name, physical_name=card.name, memory_limit=card.memory))
    return Machine(devices, cards)


def _cards(on: str, term: str) -> list[Card]:
    match = _TERM.fullmatch(term)
    turned = _TURNED.fullmatch(term)
    if turned is not None and (is_known(turned[1]) or turned[1].upper() == "CPU"):
        raise PlacementError(f'{term!r}: write the number first, "{turned[2]}x{turned[1]}"')
    if match is None or (" " in match["name"] and not is_known(match["name"])):
        link = _LINK.fullmatch(term)
        if match is None and link is not None and _TERM.fullmatch(link[1]):
            raise PlacementError(
                f"{link[2]!r} is no link: write PCIe, PCIe4, PCIe3x8, NVLink or NVLink300 (GB/s) behind the card's name"
            )
        raise PlacementError(f'{on!r} is no machine: write it as "2xT4", "1xH100-80GB + 2xL4" or "4xCPU"')
    count = int(match["count"] or 1)
    if not 1 <= count <= _MOST:
        raise PlacementError(f"{term!r} asks for {count} devices: from 1 to {_MOST} can be imagined")
    if match["name"].upper() == "CPU":
        return [HOST] * count
    return [_linked(find_card(match["name"]), match)] * count


def _linked(card: Card, match: re.Match[str]) -> Card:
    if match["nvlink"]:
        speed = float(match["speed"]) * 1e9 if match["speed"] else card.nvlink
        if not speed:
            raise PlacementError(
                f"{card.name} has no NVLink by its datasheet: write its speed, {card.name}/NVLink100 for 100 GB/s"
            )
        return replace(card, nvlink=speed)
    if "/" not in match[0]:
        return card
    return replace(
        card, nvlink=None, pcie=int(match["pcie"] or card.pcie), lanes=int(match["lanes"] or card.lanes) or card.lanes
    )
