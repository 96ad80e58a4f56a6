"""The table of known cards."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_placement.placement import PlacementError

_GIB = 1 << 30


@dataclass(frozen=True)
class Card:
    """A kind of GPU.

    Attributes
    ----------
    name : str
        Its name in an ``on``.
    memory : int
        Bytes, as the vendor states them.
    bandwidth : float
        Memory bandwidth in bytes per second.
    float32 : float
        Peak FLOP per second, without tensor cores.
    source : str
        Where these numbers are from.
    """

    name: str
    memory: int
    bandwidth: float
    float32: float
    source: str


KNOWN_CARDS = {
    card.name: card
    for card in (
        Card("T4", 16 * _GIB, 320e9, 8.1e12, "NVIDIA T4 datasheet"),
        Card("V100-16GB", 16 * _GIB, 900e9, 15.7e12, "NVIDIA V100 datasheet (SXM2)"),
        Card("V100-32GB", 32 * _GIB, 900e9, 15.7e12, "NVIDIA V100 datasheet (SXM2)"),
        Card("A10", 24 * _GIB, 600e9, 31.2e12, "NVIDIA A10 datasheet"),
        Card("A100-40GB", 40 * _GIB, 1555e9, 19.5e12, "NVIDIA A100 datasheet (SXM)"),
        Card("A100-80GB", 80 * _GIB, 2039e9, 19.5e12, "NVIDIA A100 datasheet (SXM)"),
        Card("L4", 24 * _GIB, 300e9, 30.3e12, "NVIDIA L4 datasheet"),
        Card("L40S", 48 * _GIB, 864e9, 91.6e12, "NVIDIA L40S datasheet"),
        Card("H100-80GB", 80 * _GIB, 3350e9, 67e12, "NVIDIA H100 datasheet (SXM)"),
        Card("H200", 141 * 10**9, 4800e9, 67e12, "NVIDIA H200 datasheet (SXM)"),
    )
}


def find_card(name: str) -> Card:
    """Return a known card by its name, in capitals or not.

    Raises
    ------
    PlacementError
        For a card that is not in the table, with the nearest ones.

    Examples
    --------
    >>> find_card("t4").name
    'T4'
    >>> find_card("A100")
    Traceback (most recent call last):
    jupyter_placement.placement.PlacementError: no card is known as 'A100'; did you mean A100-40GB or A100-80GB?
    """
    import difflib

    upper = {known.upper(): card for known, card in KNOWN_CARDS.items()}
    if name.upper() in upper:
        return upper[name.upper()]
    near = [known for key, known in ((key, card.name) for key, card in upper.items()) if key.startswith(name.upper())]
    near = near or [upper[key].name for key in difflib.get_close_matches(name.upper(), upper, n=3, cutoff=0.4)]
    if near:
        raise PlacementError(f"no card is known as {name!r}; did you mean {' or '.join(near)}?")
    raise PlacementError(f"no card is known as {name!r}; known are {', '.join(KNOWN_CARDS)}")
