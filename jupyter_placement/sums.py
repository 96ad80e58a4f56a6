"""Sums over a Placement: fallbacks, transfers, what is in host memory, memory peaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_placement.devices import device_type, parse_device, satisfies, sort_key

if TYPE_CHECKING:
    from jupyter_placement.placement import Placement

HOST_MEMORY = "host memory"


@dataclass
class Fallback:
    """Operations that asked for one device and got another.

    Attributes
    ----------
    requested, assigned : str
        The device as the user wrote it, and the full name of the one that TensorFlow chose.
    ops : collections.Counter
        How many operations of each type.
    nodes : list of str
        Their ids.
    """

    requested: str
    assigned: str
    ops: Counter[str] = field(default_factory=Counter)
    nodes: list[str] = field(default_factory=list)


@dataclass
class Transfer:
    """What moves from one device to another in one step, or between the two memories of one device.

    Attributes
    ----------
    source, target : str
        Full device names; the same twice for copies between host memory and the device's own.
    tensors : int
        Different tensors; TensorFlow sends one only once to a device, whatever the number of its consumers there (once
        more where some of them want it in host memory and others do not).
    bytes : int
        Size of those whose size is known.
    unknown : int
        Tensors whose size is not known.
    control : int
        Control edges between the two.
    memory : str
        Where both devices are the same: ``"to_host"`` for copies from the device's memory to host memory, and
        ``"to_device"`` for the other way; else ``""``.
    """

    source: str
    target: str
    tensors: int = 0
    bytes: int = 0
    unknown: int = 0
    control: int = 0
    memory: str = ""

    def ends(self, labels: Mapping[str | None, str]) -> tuple[str, str]:
        """Name both ends for people, by the short name of each device.

        Examples
        --------
        >>> Transfer("/device:GPU:0", "/device:GPU:0", memory="to_host").ends({"/device:GPU:0": "GPU:0"})
        ('GPU:0', 'host memory')
        """
        if not self.memory:
            return labels[self.source], labels[self.target]
        return copy_ends(labels[self.source], self.memory)


@dataclass
class MemoryPeak:
    """The highest readings of one device, as in :class:`~jupyter_placement.placement.MemorySample`, in bytes."""

    device: str
    used: int | None = None
    total: int | None = None
    process: int | None = None
    peak: int | None = None


def fallbacks(placement: Placement) -> list[Fallback]:
    """Group the operations whose assigned device is not what they requested, most first."""
    found: dict[tuple[str, str], Fallback] = {}
    refused: dict[tuple[str, str], bool] = {}  # many operations, few pairs
    for node, data in placement.graph.nodes(data=True):
        requested, device = data["requested"], data["device"]
        if device is None:
            continue
        pair = (requested, device)
        if pair not in refused:
            asked = bool(requested) and parse_device(requested) is not None
            refused[pair] = asked and not satisfies(device, requested)
        if refused[pair] or data["reason"] == "fallback":
            group = found.setdefault(pair, Fallback(requested, device))
            group.ops[data["op"] or "operation of unknown type"] += 1
            group.nodes.append(node)
    return sorted(found.values(), key=lambda group: (-len(group.nodes), group.requested, sort_key(group.assigned)))


def copy_ends(device: str, memory: str) -> tuple[str, str]:
    """Name both ends of a copy between the two memories of one device.

    Examples
    --------
    >>> copy_ends("GPU:0", "to_device")
    ('host memory', 'GPU:0')
    """
    return (device, HOST_MEMORY) if memory == "to_host" else (HOST_MEMORY, device)


def sent_once(producer: str, target: str, data: Mapping[str, Any]) -> tuple[str, str, str, bool]:
    """Return what TensorFlow sends once: a tensor, to a device, into one of its memories (``DupRecvKey``)."""
    return producer, data["tensor"] or "", target, data.get("memory") in ("host", "to_host")


def transfers(placement: Placement) -> list[Transfer]:
    """Sum up the transfers by pair of devices, most bytes first; those within one device have their own pairs."""
    found: dict[tuple[str, str, str], Transfer] = {}
    seen: set[tuple[str, str, str, bool]] = set()
    nodes = placement.graph.nodes
    for producer, consumer, data in placement.graph.edges(data=True):
        if not data["transfer"]:
            continue
        source, target = str(nodes[producer]["device"]), str(nodes[consumer]["device"])
        memory = data["memory"] if source == target and data["memory"] in ("to_host", "to_device") else ""
        pair = found.setdefault((source, target, memory), Transfer(source, target, memory=memory))
        if data["control"]:
            pair.control += 1
            continue
        tensor = sent_once(producer, target, data)
        if tensor in seen:
            continue
        seen.add(tensor)
        pair.tensors += 1
        if data["bytes"] is None:
            pair.unknown += 1
        else:
            pair.bytes += data["bytes"]
    return sorted(
        found.values(),
        key=lambda one: (-one.bytes, -one.tensors, sort_key(one.source), sort_key(one.target), one.memory),
    )


def handed_over(placement: Placement) -> int:
    """Count the tensors that pass between devices in host memory, where TensorFlow copies nothing."""
    nodes = placement.graph.nodes
    return len(
        {
            sent_once(producer, nodes[consumer]["device"], data)
            for producer, consumer, data in placement.graph.edges(data=True)
            if data.get("memory") == "host"
            and not data["transfer"]
            and nodes[producer]["device"] != nodes[consumer]["device"]
        }
    )


def in_host_memory(placement: Placement) -> list[str]:
    """List the operations on another device than a CPU whose values are in host memory."""
    return [
        node
        for node, data in placement.graph.nodes(data=True)
        if data.get("memory") == "host" and device_type(data["device"] or "") not in (None, "CPU")
    ]


def memory_peaks(placement: Placement) -> list[MemoryPeak]:
    """Take the highest readings of each device, host first."""
    found: dict[str, MemoryPeak] = {}
    for sample in placement.memory:
        peak = found.setdefault(sample.device, MemoryPeak(sample.device))
        for name in ("used", "total", "process", "peak"):
            value, best = getattr(sample, name), getattr(peak, name)
            if value is not None and (best is None or value > best):
                setattr(peak, name, value)
    return sorted(found.values(), key=lambda one: (one.device != "host", sort_key(one.device), one.device))
