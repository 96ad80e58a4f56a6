"""What a Placement comes to, as plain text: devices, fallbacks, transfers, findings, memory peaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_placement.devices import short_device
from jupyter_placement.sums import (
    Fallback,
    MemoryPeak,
    Transfer,
    fallbacks,
    handed_over,
    in_host_memory,
    memory_peaks,
    transfers,
)

if TYPE_CHECKING:
    from jupyter_placement.explain import Finding
    from jupyter_placement.placement import Placement

NOTHING = (
    "Nothing was placed: no TensorFlow operation ran. This may be because the code only defines functions or graphs "
    "and calls none, because all its values were already there, or because it does not use TensorFlow."
)
_SHOWN = 8
_FINDINGS = 4


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


def imagined_machine(placement: Placement) -> str:
    """Name the machine of a dry run; ``""`` for a placement that TensorFlow used.

    Examples
    --------
    >>> from jupyter_placement import Placement
    >>> imagined_machine(Placement(meta={"dry_run": "2xT4"})), imagined_machine(Placement())
    ('on 2xT4, imagined: nothing ran there', '')
    """
    on = placement.meta.get("dry_run")
    if on is None:
        return ""
    return f"on {on if isinstance(on, str) else 'a machine of its own'}, imagined: nothing ran there"


def summary_text(placement: Placement) -> str:
    """Say in plain text what ran where: devices, operations, fallbacks, transfers, events, findings, memory.

    The lines have no final newline.
    """
    labels = device_labels(placement)
    lines = _operations(placement, labels) if placement.graph else [nothing_placed(placement)]
    lines += _fallbacks(placement, labels) + _transfers(placement, labels) + _events(placement)
    lines += _findings(placement) + _memory(placement)
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
    where = imagined_machine(placement)
    lines = [f"{plural(total, 'operation')} on {used}{f' ({where})' if where else ''}"]
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
    lines = []
    if pairs:
        lines.append(f"Transfers between devices: {plural(sum(pair.tensors for pair in pairs), 'tensor')}")
    elif len(placement.device_counts()) > 1:
        lines.append(str(placement.meta.get("no_edges") or "No transfers between devices"))
    for pair in pairs:
        facts = [f"{plural(pair.tensors, 'tensor')}, {transfer_size(pair)}"] if pair.tensors else []
        facts += [plural(pair.control, "control edge")] if pair.control else []
        lines.append(f"  {' -> '.join(pair.ends(labels))}: {', '.join(facts)}")
    return lines + host_memory_lines(placement)


def host_memory_lines(placement: Placement) -> list[str]:
    """Say how many operations on GPUs have their values in host memory, and what that spares."""
    count, handed = len(in_host_memory(placement)), handed_over(placement)
    lines = []
    if count:
        lines.append(f"In host memory, although on a GPU: the values of {plural(count, 'operation')}")
    if handed:
        lines.append(f"Handed over between devices in host memory, not copied: {plural(handed, 'tensor')}")
    return lines


def _events(placement: Placement) -> list[str]:
    if not placement.events:
        return []
    return [f"TensorFlow said ({len(placement.events):,}):", *(f"  {event.message}" for event in placement.events)]


def findings_to_tell(placement: Placement) -> list[Finding]:
    """List the findings that an output tells which tells events and transfers anyway, most important first."""
    return [one for one in placement.findings() if one.kind not in ("error", "transfers", "host_memory")]


def _findings(placement: Placement) -> list[str]:
    found = findings_to_tell(placement)
    if not found:
        return []
    lines = [f"Findings ({len(found):,}), most important first:"]
    for one in found[:_FINDINGS]:
        where = f" ({one.where(1)})" if one.sources else ""
        lines.append(f"  {one.message.removesuffix('.')}{where}. {one.remedy}".rstrip())
    if len(found) > _FINDINGS:
        lines.append(f"  and {len(found) - _FINDINGS:,} more: placement.findings()")
    return lines


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


__all__ = [
    "NOTHING",
    "Fallback",
    "MemoryPeak",
    "Transfer",
    "device_labels",
    "fallbacks",
    "findings_to_tell",
    "host_memory_lines",
    "memory_name",
    "memory_peaks",
    "nothing_placed",
    "plural",
    "readable_bytes",
    "some_names",
    "summary_text",
    "transfer_size",
    "transfers",
]
