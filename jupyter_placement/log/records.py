"""What the log reader gives: frozen records, one kind for each thing that a log tells."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple


class PlacementRecord(NamedTuple):
    """One node and the device that it was assigned.

    Attributes
    ----------
    name : str
        TensorFlow's name of the node.
    op : str or None
        Operation type; ``None`` before TensorFlow 1.0, whose log does not tell it.
    device : str
        Device, full name.
    """

    name: str
    op: str | None
    device: str

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class EagerRecord:
    """One operation that ran eagerly: ``Executing op MatMul in device ...``. It is one of a log's events.

    Attributes
    ----------
    op : str
        Operation type, or the name of a function that was called.
    device : str
        Device, full name.
    """

    op: str
    device: str

    @property
    def kind(self) -> str:
        """``"eager_op"``, as another event's kind."""
        return "eager_op"

    @property
    def node(self) -> None:
        """``None``: an eager operation has no node."""
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object."""
        return {"kind": self.kind, "node": None, "op": self.op, "device": self.device}


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """A device that the log says TensorFlow has.

    Attributes
    ----------
    device : str
        Full device name.
    physical : str
        The card's name, or TensorFlow's words for a device that is no card (``"XLA_CPU device"``).
    memory_mb : int or None
        What TensorFlow may take of it, in MB as logged; ``None`` where the log does not tell, 0 where it says 0.
    ordinal : int or None
        TensorFlow's number of the card.
    pci : str or None
        PCI bus id; ``None`` where it is masked or undefined.
    compute_capability : str or None
        For example ``"7.5"``.
    rank : int or None
        MPI rank of the process that told it, where ``mpirun`` labelled its lines.
    """

    device: str
    physical: str
    memory_mb: int | None = None
    ordinal: int | None = None
    pci: str | None = None
    compute_capability: str | None = None
    rank: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object; facts that the log does not tell are left out, but for memory."""
        facts = {
            "ordinal": self.ordinal,
            "pci": self.pci,
            "compute_capability": self.compute_capability,
            "rank": self.rank,
        }
        told = {key: value for key, value in facts.items() if value is not None}
        return {"device": self.device, "physical": self.physical, "memory_mb": self.memory_mb, **told}


@dataclass(frozen=True, slots=True)
class EventRecord:
    """Something else that TensorFlow said about placement or memory.

    Attributes
    ----------
    kind : str
        One of ``colocation_changed``, ``cannot_colocate``, ``no_kernel``, ``unknown_device``, ``device_ignored``,
        ``oom``, ``truncated``.
    node : str or None
        The node that it is about.
    details : dict
        Facts by name, JSON values only; those that the text does not tell are left out. ``op``; ``requested``, a
        device as written; ``available``, ``candidates``, lists of full device names; ``supported``, device types by
        operation type; ``kernels``, a list of ``{"device", "constraint"}``; ``members``, a list of ``{"name", "op",
        "requested"}`` of the colocation group; ``with``, the other node of a colocation; ``kept`` and ``because`` of
        an ignored device; ``stage``, ``fatal``, ``allocator``, ``bytes``, ``shape`` of an out of memory.
    lines : tuple of str
        The lines that it came from; not compared.
    """

    kind: str
    node: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    lines: tuple[str, ...] = field(default=(), compare=False)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node that the event names, the one that it is about first."""
        named = [self.node, self.details.get("with"), *(member["name"] for member in self.details.get("members", ()))]
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object, without its lines."""
        return {"kind": self.kind, "node": self.node, **self.details}


@dataclass
class LogCounts:
    """What became of the lines of a log.

    Attributes
    ----------
    lines : int
        Lines read.
    matched : int
        Lines that were the first to tell a placement.
    duplicate : int
        Lines that told a placement again, whole or torn.
    devices, events, context, noise_lines, blank : int
        Lines about devices; first lines of events; headers and the rest of events; other text; empty ones.
    """

    lines: int = 0
    matched: int = 0
    duplicate: int = 0
    devices: int = 0
    events: int = 0
    context: int = 0
    noise_lines: int = 0
    blank: int = 0


@dataclass
class LogRecords:
    """All that a log tells.

    Attributes
    ----------
    placements : list of PlacementRecord
        One for each distinct name, operation type and device, in the order of the log.
    devices : list of DeviceRecord
        One for each distinct device and physical device.
    events : list of EventRecord and EagerRecord
        In the order of the log.
    counts : LogCounts
        What became of the lines.
    line_kinds : str or None
        One letter a line, where asked for: P first sight of a placement, d a repeat or a torn one, V a device, E an
        event, c a header or the rest of an event, N other text, B blank.
    """

    placements: list[PlacementRecord] = field(default_factory=list)
    devices: list[DeviceRecord] = field(default_factory=list)
    events: list[EventRecord | EagerRecord] = field(default_factory=list)
    counts: LogCounts = field(default_factory=LogCounts)
    line_kinds: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the records as a JSON object with the keys ``placements``, ``devices``, ``events`` and ``counts``."""
        return {
            "placements": [record.to_json() for record in self.placements],
            "devices": [record.to_json() for record in self.devices],
            "events": [record.to_json() for record in self.events],
            "counts": asdict(self.counts),
        }
