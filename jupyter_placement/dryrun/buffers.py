"""Pieces of memory during a step: when they come, when they go, and the worst time of each device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Buffer:
    """Memory behind one tensor or several.

    Attributes
    ----------
    owner : int
        Number of the node that asked for it.
    place : str
        The device whose memory it is.
    size : int
        Bytes.
    kind : str
        What it is for: ``activations``, ``gradients`` or ``copies``.
    uses : int
        How often it is still needed.
    released : bool
        Whether it was given back, or became a variable's.
    held : list of Buffer
        Tensors in a list; the list keeps each alive.
    capacity : int or None
        How many tensors a list can hold, where that is known.
    """

    owner: int
    place: str
    size: int
    kind: str
    uses: int = 0
    released: bool = False
    held: list[Buffer] = field(default_factory=list)
    capacity: int | None = None


@dataclass
class DeviceMemory:
    """The most memory that one device holds during a step.

    Attributes
    ----------
    peak : int
        Bytes of the step's own tensors, at the worst time.
    at : int or None
        Number of the operation that asks for memory then.
    parts : dict of str to int
        These bytes by kind.
    largest : list of (int, int)
        The operations whose tensors hold most of them: number and bytes, largest first.
    inputs, constants : int
        Bytes that are there all the time.
    unknown : int
        Tensors of unknown size; their bytes are not counted.
    open_inputs : int
        How many of these are inputs of the step.
    biggest : int
        Bytes of the largest tensor.
    """

    peak: int = 0
    at: int | None = None
    parts: dict[str, int] = field(default_factory=dict)
    largest: list[tuple[int, int]] = field(default_factory=list)
    inputs: int = 0
    constants: int = 0
    unknown: int = 0
    open_inputs: int = 0
    biggest: int = 0


class Ledger:
    """What was taken and given back, in order."""

    def __init__(self) -> None:
        self._events: list[tuple[int, int, str, int, str]] = []

    def take(self, number: int, buffer: Buffer, size: int | None = None) -> None:
        """Note that a node asks for a buffer's memory, or for some more of it."""
        size = buffer.size if size is None else size
        self._events.append((number, buffer.owner, buffer.place, size, buffer.kind))

    def release(self, number: int, buffer: Buffer) -> None:
        """Give a buffer's memory back if nobody needs it any more."""
        if buffer.uses > 0 or buffer.released:
            return
        buffer.released = True
        self._events.append((number, buffer.owner, buffer.place, -buffer.size, buffer.kind))
        for held in buffer.held:
            held.uses -= 1
            self.release(number, held)

    def peaks(self, device: Callable[[str], DeviceMemory], most: int = 5) -> None:
        """Find the worst time of each device.

        Parameters
        ----------
        device : callable
            Returns the DeviceMemory of a name, to be filled.
        most : int
            How many of the largest owners are wanted.
        """
        live: dict[str, int] = {}
        worst: dict[str, tuple[int, int]] = {}
        for position, (_, _, place, size, _) in enumerate(self._events):
            now = live[place] = live.get(place, 0) + size
            if now > worst.get(place, (0, 0))[0]:
                worst[place] = (now, position)
        at = {position: place for place, (_, position) in worst.items()}
        kinds: dict[str, dict[str, int]] = {}
        owners: dict[str, dict[int, int]] = {}
        for position, (number, owner, place, size, kind) in enumerate(self._events):
            parts, owned = kinds.setdefault(place, {}), owners.setdefault(place, {})
            parts[kind] = parts.get(kind, 0) + size
            owned[owner] = owned.get(owner, 0) + size
            if at.get(position) == place:
                memory = device(place)
                memory.peak, memory.at = worst[place][0], number
                memory.parts = {kind: size for kind, size in parts.items() if size}
                memory.largest = _largest(owned, most)


def _largest(owned: dict[int, int], most: int) -> list[tuple[int, int]]:
    return sorted(((number, size) for number, size in owned.items() if size), key=lambda one: (-one[1], one[0]))[:most]
