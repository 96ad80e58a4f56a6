"""The machine that a dry run imagines: ``"2xT4"``, ``"1xH100-80GB + 2xL4"``, ``"4xCPU"``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jupyter_placement.devices import LOCAL_TASK
from jupyter_placement.dryrun.cards import find_card
from jupyter_placement.placement import Device, PlacementError

_TERM = re.compile(r"(?:(?P<count>\d+)\s*[xX*]\s*)?(?P<name>[A-Za-z][\w-]*)")
_MOST = 256
_HOST_MEMORY = 256 << 20  # what TensorFlow itself states for a CPU


def parse_machine(on: str | Sequence[Device]) -> list[Device]:
    """Return the devices of a machine; one CPU is always there.

    Parameters
    ----------
    on : str or sequence of Device
        Cards and their numbers, or the devices themselves.

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
    """
    if not isinstance(on, str):
        return list(on)
    cpus, cards = 0, []
    for term in on.split("+"):
        match = _TERM.fullmatch(term.strip())
        if match is None:
            raise PlacementError(f'{on!r} is no machine: write it as "2xT4", "1xH100-80GB + 2xL4" or "4xCPU"')
        count = int(match["count"] or 1)
        if not 1 <= count <= _MOST:
            raise PlacementError(f"{term.strip()!r} asks for {count} devices: from 1 to {_MOST} can be imagined")
        if match["name"].upper() == "CPU":
            cpus += count
        else:
            cards += [find_card(match["name"])] * count
    names = [f"{LOCAL_TASK}/device:CPU:{index}" for index in range(cpus or 1)]
    return [
        *(Device(name, memory_limit=_HOST_MEMORY) for name in names),
        *(
            Device(f"{LOCAL_TASK}/device:GPU:{index}", physical_name=card.name, memory_limit=card.memory)
            for index, card in enumerate(cards)
        ),
    ]
