"""Which cards CUDA shows to this process, and in which order: the rules of ``CUDA_VISIBLE_DEVICES``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_placement.memory.cards import Card

VARIABLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
# Before driver 470 a MIG instance was written with the UUID of its card and its two numbers.
_OLD_MIG = re.compile(r"MIG-(GPU-[0-9a-f-]+)/(\d+)/(\d+)$", re.IGNORECASE)
_NUMBER = re.compile(r"\s*([+-]?\d+)")


@dataclass(frozen=True)
class Visible:
    """The cards that CUDA shows, in CUDA's order.

    Attributes
    ----------
    cards : tuple of Card
        CUDA's card 0, 1, ...
    note : str
        A sentence on what decided it.
    certain : bool
        Whether the order is known; if not, the note says why.
    """

    cards: tuple[Card, ...]
    note: str
    certain: bool = True


def visible_cards(cards: Sequence[Card], environ: Mapping[str, str]) -> Visible:
    """Apply ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER`` to the cards of this machine.

    Parameters
    ----------
    cards : sequence of Card
        In NVML's order, which is that of the PCI bus; MIG instances after their card.
    environ : mapping
        The environment variables from when CUDA was started.

    Examples
    --------
    >>> cards = [Card(k, "Tesla T4", uuid=f"GPU-{k}f") for k in range(4)]
    >>> [card.index for card in visible_cards(cards, {"CUDA_VISIBLE_DEVICES": "3,2"}).cards]
    [3, 2]
    >>> visible_cards(cards, {"CUDA_VISIBLE_DEVICES": "1,9,0"}).note
    'CUDA_VISIBLE_DEVICES=1,9,0 shows 1 of 4 cards: the entry 9 names no card and ends the list.'
    """
    wholes = [card for card in cards if card.mig is None]
    instances = [card for card in cards if card.mig is not None]
    # A card that is divided cannot be used as a whole: CUDA shows its first instance in its place.
    units = [_first_instance(card, instances) if card.mig_enabled else card for card in wholes]
    text = environ.get(VARIABLE)
    if text is None:
        chosen, ending = list(units), ""
    elif _names_uuids(text):
        chosen, ending = _by_uuid(text, units, instances, wholes)
    else:
        chosen, ending = _by_number(text, units)
    shown = [card for card in chosen if card is not None]
    one_instance = next((card for card in shown if card.mig is not None), None)
    if one_instance is not None and len(shown) > 1:
        shown, ending = [one_instance], "CUDA shows one MIG instance and nothing beside it"
    count = f"{len(shown)} of {len(wholes)} card{'' if len(wholes) == 1 else 's'}"
    source = f"{VARIABLE} is not set: CUDA" if text is None else f"{VARIABLE}={text}"
    note = f"{source} shows {count}{': ' + ending if ending else ''}."
    doubt = _doubt(wholes, text, environ)
    return Visible(tuple(shown), f"{note} {doubt}".rstrip(), not doubt)


def _names_uuids(text: str) -> bool:
    return text.strip().upper().startswith(("GPU-", "MIG-"))


def _by_number(text: str, units: Sequence[Card | None]) -> tuple[list[Card | None], str]:
    chosen: list[Card | None] = []
    seen: set[int] = set()
    if not text.strip():
        return [], "it is empty"
    for entry in text.split(","):
        match = _NUMBER.match(entry)  # CUDA reads the leading digits and ignores what follows
        number = int(match.group(1)) if match else -1
        if not 0 <= number < len(units):
            return chosen, f"the entry {entry.strip() or '(empty)'} names no card and ends the list"
        if number in seen:
            return [], f"card {number} stands in it twice, which CUDA answers with no card at all"
        seen.add(number)
        chosen.append(units[number])
    return chosen, ""


def _by_uuid(
    text: str, units: Sequence[Card | None], instances: Sequence[Card], wholes: Sequence[Card]
) -> tuple[list[Card | None], str]:
    chosen: list[Card | None] = []
    candidates = [*(unit for unit in units if unit is not None and unit.mig is None), *instances]
    for entry in (part.strip() for part in text.split(",")):
        old = _OLD_MIG.match(entry)
        if old:
            parents = {card.index for card in wholes if _begins(card.uuid, old.group(1))}
            numbers = (int(old.group(2)), int(old.group(3)))
            found = [
                card
                for card in instances
                if card.index in parents and (card.gpu_instance, card.compute_instance) == numbers
            ]
        else:
            found = [card for card in candidates if _begins(card.uuid, entry)]
        if len(found) != 1:
            what = "fits several cards" if found else "names no card"
            return chosen, f"the entry {entry or '(empty)'} {what} and ends the list"
        if found[0] in chosen:
            return [], f"{found[0].title} stands in it twice, which CUDA answers with no card at all"
        chosen.append(found[0])
    return chosen, ""


def _begins(uuid: str | None, start: str) -> bool:
    return bool(start) and uuid is not None and uuid.lower().startswith(start.lower())


def _first_instance(card: Card, instances: Sequence[Card]) -> Card | None:
    return next((one for one in instances if one.index == card.index), None)


def _doubt(wholes: Sequence[Card], text: str | None, environ: Mapping[str, str]) -> str:
    """Say why numbers may mean other cards than NVML's: CUDA's own order puts the fastest card first."""
    if (
        (text is not None and _names_uuids(text))
        or environ.get(ORDER) == "PCI_BUS_ID"
        or len({card.name for card in wholes}) <= 1
    ):
        return ""
    return (
        "The cards are of different kinds and CUDA numbers the fastest first, so these may be other cards: "
        f"set {ORDER}=PCI_BUS_ID before the kernel starts."
    )
