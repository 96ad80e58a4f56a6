"""The table of known cards: what their makers state of them.

Peak rates are those without sparsity: where a datasheet states only the rate with sparsity, half of it. NVLink is
stated both ways together by the vendor; here it stands one way.
"""

from __future__ import annotations

import difflib
import re

from jupyter_placement.dryrun.card import GIB, Card
from jupyter_placement.placement import PlacementError

__all__ = ["KNOWN_CARDS", "Card", "find_card", "is_known"]

_TYPES = ("float64", "float32", "tf32", "float16", "bfloat16", "int8")


def _card(
    name: str,
    gib: int,
    gigabytes: float,
    teraflops: tuple[float | None, ...],
    units: int | None,
    megahertz: int | None,
    capability: str,
    pcie: int,
    nvlink: float | None,
    ecc: bool,
    source: str,
) -> Card:
    flops = {kind: rate * 1e12 for kind, rate in zip(_TYPES, teraflops, strict=True) if rate is not None}
    return Card(
        name,
        gib * GIB,
        gigabytes * 1e9,
        flops,
        units,
        None if megahertz is None else megahertz * 1e6,
        capability,
        pcie,
        nvlink=None if nvlink is None else nvlink * 1e9,
        ecc=ecc,
        source=source,
    )


_VOLTA = "NVIDIA V100 datasheet (SXM2): memory, bandwidth, rates, links; Volta architecture whitepaper: SMs, clock"
_AMPERE = "NVIDIA A100 datasheet (SXM): memory, bandwidth, rates, links; A100 architecture whitepaper: SMs, clock"
_HOPPER = "NVIDIA H100 datasheet (SXM): memory, bandwidth, rates, links; H100 architecture whitepaper: SMs, clock"
_GA102 = "NVIDIA Ampere GA102 architecture whitepaper: all numbers; PCIe and NVLink from the product page"

# Name, GiB, GB/s, TFLOP/s by type, SMs, boost clock in MHz, compute capability, PCIe, NVLink in GB/s, ECC in memory.
KNOWN_CARDS: dict[str, Card] = {
    card.name: card
    for card in (
        _card(
            *("T4", 16, 320, (0.254, 8.1, None, 65, None, 130), 40, 1590, "7.5", 3, None, True),
            "NVIDIA T4 datasheet: memory, bandwidth, rates, link; Turing architecture whitepaper: SMs, clock, float64",
        ),
        _card(
            *("P100-16GB", 16, 732, (4.7, 9.3, None, 18.7, None, None), 56, 1303, "6.0", 3, None, False),
            "NVIDIA P100 datasheet (PCIe): memory, bandwidth, rates, link; Pascal architecture whitepaper: SMs, clock",
        ),
        _card("V100-16GB", 16, 900, (7.8, 15.7, None, 125, None, None), 80, 1530, "7.0", 3, 150, False, _VOLTA),
        _card("V100-32GB", 32, 900, (7.8, 15.7, None, 125, None, None), 80, 1530, "7.0", 3, 150, False, _VOLTA),
        _card(
            *("A10", 24, 600, (None, 31.2, 62.5, 125, 125, 250), 72, 1695, "8.6", 4, None, True),
            "NVIDIA A10 datasheet: memory, bandwidth, rates, link; SMs and clock from its product brief",
        ),
        _card(
            *("A30", 24, 933, (5.2, 10.3, 82, 165, 165, 330), 56, 1440, "8.0", 4, 100, False),
            "NVIDIA A30 datasheet: memory, bandwidth, rates, links; SMs and clock from its product brief",
        ),
        _card(
            *("A40", 48, 696, (None, 37.4, 74.8, 149.7, 149.7, 299.3), 84, 1740, "8.6", 4, 56.25, True),
            "NVIDIA A40 datasheet: memory, bandwidth, rates, links; SMs and clock from its product brief",
        ),
        _card("A100-40GB", 40, 1555, (9.7, 19.5, 156, 312, 312, 624), 108, 1410, "8.0", 4, 300, False, _AMPERE),
        _card("A100-80GB", 80, 2039, (9.7, 19.5, 156, 312, 312, 624), 108, 1410, "8.0", 4, 300, False, _AMPERE),
        _card(
            *("L4", 24, 300, (None, 30.3, 60, 121, 121, 242), 58, 2040, "8.9", 4, None, True),
            "NVIDIA L4 datasheet: memory, bandwidth, rates, link; Ada architecture whitepaper: SMs, clock",
        ),
        _card(
            *("L40", 48, 864, (None, 90.5, 90.5, 181, 181, 362), 142, 2490, "8.9", 4, None, True),
            "NVIDIA L40 datasheet: memory, bandwidth, rates, link; Ada architecture whitepaper: SMs, clock",
        ),
        _card(
            *("L40S", 48, 864, (None, 91.6, 183, 362, 362, 733), 142, 2520, "8.9", 4, None, True),
            "NVIDIA L40S datasheet: memory, bandwidth, rates, link; SMs and clock from its product brief",
        ),
        _card("H100-80GB", 80, 3350, (34, 67, 494.7, 989.4, 989.4, 1979), 132, 1980, "9.0", 5, 450, False, _HOPPER),
        _card(
            *("H100-80GB-PCIe", 80, 2000, (26, 51, 378, 756, 756, 1513), 114, 1755, "9.0", 5, 300, False),
            "NVIDIA H100 datasheet (PCIe, NVLink bridge): memory, bandwidth, rates, links; H100 architecture "
            "whitepaper: SMs, clock",
        ),
        _card(
            *("H200", 140, 4800, (34, 67, 494.7, 989.4, 989.4, 1979), 132, 1980, "9.0", 5, 450, False),
            "NVIDIA H200 datasheet (SXM): memory (141 GB), bandwidth, rates, links; SMs and clock as of the H100",
        ),
        _card(
            *("B200", 179, 7700, (40, 80, 1100, 2250, 2250, 4500), None, None, "10.0", 5, 900, False),
            "NVIDIA HGX B200 datasheet: memory (180 GB), bandwidth, links; Blackwell architecture technical brief: "
            "rates; SMs and clock are not stated there",
        ),
        _card(
            *("RTX-A6000", 48, 768, (None, 38.7, 77.4, 154.8, 154.8, 309.7), 84, 1800, "8.6", 4, 56.25, False),
            "NVIDIA RTX A6000 datasheet: memory, bandwidth, links; Ampere GA102 architecture whitepaper: rates, SMs, "
            "clock",
        ),
        _card("RTX-3090", 24, 936, (None, 35.6, 35.6, 71, 71, 284), 82, 1695, "8.6", 4, 56.25, False, _GA102),
        _card(
            *("RTX-4090", 24, 1008, (None, 82.6, 82.6, 165.2, 165.2, 660.6), 128, 2520, "8.9", 4, None, False),
            "NVIDIA Ada architecture whitepaper: all numbers",
        ),
        _card(
            *("RTX-2080-Ti", 11, 616, (None, 13.4, None, 53.8, None, 215.2), 68, 1545, "7.5", 3, 50, False),
            "NVIDIA Turing architecture whitepaper (reference card, float16 with float32 sums): all numbers",
        ),
        _card(
            *("GTX-1080-Ti", 11, 484, (None, 11.3, None, None, None, None), 28, 1582, "6.1", 3, None, False),
            "NVIDIA GeForce GTX 1080 Ti product page: memory, bandwidth, clock; float32 rate from SMs and clock",
        ),
    )
}


def find_card(name: str) -> Card:
    """Return a known card by its name; capitals, spaces and hyphens do not matter.

    Raises
    ------
    PlacementError
        For a card that is not in the table, with the nearest ones.

    Examples
    --------
    >>> find_card("t4").name, find_card("RTX 3090").name
    ('T4', 'RTX-3090')
    >>> find_card("A100")
    Traceback (most recent call last):
    jupyter_placement.placement.PlacementError: no card is known as 'A100'; did you mean A100-40GB or A100-80GB?
    """
    known = {_key(card): card for card in KNOWN_CARDS}
    key = _key(name)
    if key in known:
        return KNOWN_CARDS[known[key]]
    near = [known[one] for one in known if key and (one.startswith(key) or one.endswith(key))]
    near = near or [known[one] for one in difflib.get_close_matches(key, known, n=3, cutoff=0.4)]
    if near:
        raise PlacementError(f"no card is known as {name!r}; did you mean {' or '.join(near)}?")
    raise PlacementError(f"no card is known as {name!r}; known are {', '.join(KNOWN_CARDS)}")


def is_known(name: str) -> bool:
    """Tell whether a card is in the table.

    Examples
    --------
    >>> is_known("GTX 1080 Ti"), is_known("CPU")
    (True, False)
    """
    return any(_key(card) == _key(name) for card in KNOWN_CARDS)


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).upper()
