"""What a Placement comes to: fallbacks, transfers, memory peaks, and all of it as plain text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_placement.devices import parse_device, satisfies, short_device, sort_key

if TYPE_CHECKING:
    from jupyter_placement.placement import Placement

NOTHING = (
    "Nothing was placed: no TensorFlow operation ran. This may be because the code only defines functions or graphs "
    "and calls none, because all its values were already there, or because it does not use TensorFlow."
)
_SHOWN = 8


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
    """What moves from one device to another in one step.

    Attributes
    ----------
    source, target : str
        Full device names.
    tensors : int
        Different tensors; TensorFlow sends one only once to a device, whatever the number of its consumers there.
    bytes : int
        Size of those whose size is known.
    unknown : int
        Tensors whose size is not known.
    control : int
        Control edges between the two.
    """

    source: str
    target: str
    tensors: int = 0
    bytes: int = 0
    unknown: int = 0
    control: int = 0


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


def transfers(placement: Placement) -> list[Transfer]:
    """Sum up the transfers by pair of devices, most bytes first."""
    found: dict[tuple[str, str], Transfer] = {}
    seen: set[tuple[str, str, str]] = set()
    nodes = placement.graph.nodes
    for producer, consumer, data in placement.graph.edges(data=True):
        if not data["transfer"]:
            continue
        source, target = str(nodes[producer]["device"]), str(nodes[consumer]["device"])
        pair = found.setdefault((source, target), Transfer(source, target))
        if data["control"]:
            pair.control += 1
            continue
        tensor = (producer, data["tensor"] or "", target)
        if tensor in seen:
            continue
        seen.add(tensor)
        pair.tensors += 1
        if data["bytes"] is None:
            pair.unknown += 1
        else:
            pair.bytes += data["bytes"]
    return sorted(
        found.values(), key=lambda one: (-one.bytes, -one.tensors, sort_key(one.source), sort_key(one.target))
    )


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


def nothing_placed(placement: Placement) -> str:
    """Say in one sentence or two why the graph is empty."""
    return str(placement.meta.get("nothing") or NOTHING)


def readable_bytes(size: int | None) -> str:
    """Write a number of bytes for people.

    Examples
    --------
    >>> readable_bytes(532), readable_bytes(1536), readable_bytes(3 * 2**30), readable_bytes(None)
    ('532 B', '1.5 KiB', '3.0 GiB', 'not available')
    """
    if size is None:
        return "not available"
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"


def plural(count: int, word: str) -> str:
    """Write a count with its word.

    Examples
    --------
    >>> plural(1, "operation"), plural(2300, "operation"), plural(2, "fallback")
    ('1 operation', '2,300 operations', '2 fallbacks')
    """
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def some_names(names: list[str], shown: int = _SHOWN) -> str:
    """List the first few names and say how many more there are.

    Examples
    --------
    >>> some_names(["a", "b", "c"], shown=2)
    'a, b and 1 more'
    """
    more = len(names) - shown
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:shown])} and {more:,} more"


def transfer_size(transfer: Transfer) -> str:
    """Write the bytes of a transfer, and of how many tensors they are not known.

    Examples
    --------
    >>> transfer_size(Transfer("a", "b", tensors=3, bytes=1024, unknown=1))
    '1.0 KiB and 1 tensor of unknown size'
    >>> transfer_size(Transfer("a", "b", tensors=1, unknown=1))
    'size unknown'
    """
    if transfer.unknown == transfer.tensors:
        return "size unknown"
    known = readable_bytes(transfer.bytes)
    return f"{known} and {plural(transfer.unknown, 'tensor')} of unknown size" if transfer.unknown else known


def device_labels(placement: Placement) -> dict[str | None, str]:
    """Give the short name of each device, as :meth:`Placement.short` does one by one; ``None`` is never placed."""
    names = placement.device_names()
    tasks = len({name.split("/device:")[0] for name in names}) > 1
    return {None: "not placed"} | {name: short_device(name, tasks=tasks) for name in names}


def memory_name(placement: Placement, device: str) -> str:
    """Write the device of a memory reading for people: ``"host"``, the card with its index, or ``GPU:0``."""
    if device == "host":
        return "host"
    if device.startswith("nvml:"):
        index = device.removeprefix("nvml:")
        cards = (one.physical_name for one in placement.devices if str(one.nvml_index) == index)
        card = next((name for name in cards if name), None)
        return f"card {index} ({card})" if card else f"card {index}"
    return f"TensorFlow's {placement.short(device)}"


def summary_text(placement: Placement) -> str:
    """Say in plain text what ran where: devices, operations, fallbacks, transfers, events, memory.

    The lines have no final newline.
    """
    labels = device_labels(placement)
    lines = _operations(placement, labels) if placement.graph else [nothing_placed(placement)]
    lines += _fallbacks(placement, labels) + _transfers(placement, labels) + _events(placement) + _memory(placement)
    if placement.counts.unmatched:
        lines.append(
            f"{plural(placement.counts.unmatched, 'placement line')} of the log (of {placement.counts.lines:,} lines "
            "read) could not be matched to an operation."
        )
    return "\n".join(lines)


def _operations(placement: Placement, labels: dict[str | None, str]) -> list[str]:
    counts = placement.device_counts()
    total = placement.graph.number_of_nodes()
    used = plural(len(counts), "device")
    lines = [f"{plural(total, 'operation')} on {used}"]
    names = [name for name in labels if name is not None]
    width = max((len(labels[name]) for name in names), default=0)
    physical = {device.name: device.physical_name for device in placement.devices}
    for name in names:
        count = counts.get(name, 0)
        share = f"{100 * count / total:5.1f} %" if count else "unused"
        card = f"  {physical[name]}" if physical.get(name) else ""
        lines.append(f"  {labels[name]:<{width}}  {count:>7,}  {share:>7}{card}")
    unplaced = total - sum(counts.values())
    if unplaced:
        lines.append(f"  {plural(unplaced, 'operation')} never placed")
    return lines


def _fallbacks(placement: Placement, labels: dict[str | None, str]) -> list[str]:
    groups = fallbacks(placement)
    if not groups:
        return []
    lines = [f"Not on the device that they asked for: {plural(sum(len(group.nodes) for group in groups), 'operation')}"]
    for group in groups:
        ops = ", ".join(f"{count:,} {op}" for op, count in group.ops.most_common(_SHOWN))
        asked = group.requested or "another device"
        lines.append(f"  asked {asked}, got {labels[group.assigned]}: {ops}: {some_names(group.nodes)}")
    return lines


def _transfers(placement: Placement, labels: dict[str | None, str]) -> list[str]:
    pairs = transfers(placement)
    if not pairs:
        none = str(placement.meta.get("no_edges") or "No transfers between devices")
        return [none] if len(placement.device_counts()) > 1 else []
    lines = [f"Transfers between devices: {plural(sum(pair.tensors for pair in pairs), 'tensor')}"]
    for pair in pairs:
        facts = [f"{plural(pair.tensors, 'tensor')}, {transfer_size(pair)}"] if pair.tensors else []
        facts += [plural(pair.control, "control edge")] if pair.control else []
        lines.append(f"  {labels[pair.source]} -> {labels[pair.target]}: {', '.join(facts)}")
    return lines


def _events(placement: Placement) -> list[str]:
    if not placement.events:
        return []
    return [f"TensorFlow said ({len(placement.events):,}):", *(f"  {event.message}" for event in placement.events)]


def _memory(placement: Placement) -> list[str]:
    peaks = memory_peaks(placement)
    if not peaks:
        return []
    lines = ["Memory, highest seen:"]
    for one in peaks:
        name = memory_name(placement, one.device)
        if one.device.startswith("/"):
            limit = f" of {readable_bytes(one.total)}" if one.total is not None else ""
            lines.append(f"  {name}: peak {readable_bytes(one.peak)}, in use {readable_bytes(one.used)}{limit}")
        else:
            lines.append(
                f"  {name}: {readable_bytes(one.used)} of {readable_bytes(one.total)} used, "
                f"this process {readable_bytes(one.process)}"
            )
    return lines
