"""Events of a recording: fallbacks, colocation warnings, and the error that ended it."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_placement.devices import satisfies
from jupyter_placement.log import EventRecord, parse_placement_error
from jupyter_placement.placement import Event, Placement

_WARNING = "Failed to place the graph without changing the devices of some resources"


def placement_events(placement: Placement, lines: Sequence[str], error: BaseException | None) -> list[Event]:
    """Return the events of a recording.

    Parameters
    ----------
    placement : Placement
        With its graph.
    lines : sequence of str
        What else was written on descriptor 2.
    error : BaseException or None
        What the recorded code raised.
    """
    events = _fallbacks(placement)
    for number, line in enumerate(lines):
        if _WARNING in line:
            block = [line, *_block(lines[number + 1 :])]
            record = parse_placement_error("\n".join(block))
            if record is not None:
                events.append(_event(placement, record, block))
    if error is not None:
        text = str(error)
        record = parse_placement_error(text)
        if record is not None:
            events.append(_event(placement, record, text.splitlines()))
    return events


def _block(lines: Sequence[str]) -> list[str]:
    """Return the lines of a colocation group's description, which ends with an empty line."""
    block: list[str] = []
    for line in lines[:500]:
        if not line.strip() or ("] " in line[:80] and ".cc:" in line[:80]):
            break
        block.append(line)
    return block


def _fallbacks(placement: Placement) -> list[Event]:
    groups: dict[tuple[str | None, str, str], list[str]] = {}
    for node, data in placement.graph.nodes(data=True):
        if data["reason"] == "fallback":
            groups.setdefault((data["op"], data["requested"], data["device"]), []).append(node)
    there = set(placement.device_names())
    events = []
    for (op, requested, device), nodes in groups.items():
        why = (
            "TensorFlow has no such device"
            if not any(satisfies(name, requested) for name in there)
            else "soft placement chose another"
        )
        what = f"{nodes[0]} ({op})" if len(nodes) == 1 else f"{len(nodes)} {op} operations"
        events.append(
            Event(
                "fallback",
                f"{what} asked for {requested} and ran on {placement.short(device)}: {why}.",
                tuple(nodes),
                details={"op": op, "requested": requested, "assigned": device},
            )
        )
    return events


def _event(placement: Placement, record: EventRecord, lines: Sequence[str]) -> Event:
    by_name: dict[str, str] = {}
    for node, data in placement.graph.nodes(data=True):
        by_name.setdefault(data["name"], node)
    sentences = {
        "no_kernel": "has no kernel for the device that it asked for",
        "unknown_device": "asks for a device that TensorFlow does not have",
        "cannot_colocate": "cannot be on one device with what it must be beside",
        "colocation_changed": "is in a group that must be on one device, and the group was moved",
    }
    requested = record.details.get("requested")
    asked = f" (asked for {requested})" if requested else ""
    what = sentences.get(record.kind, "could not be placed")
    nodes = [by_name.get(name, name) for name in record.nodes]
    return Event(
        record.kind, f"{record.node or 'An operation'}{asked} {what}.", tuple(nodes), tuple(lines), dict(record.details)
    )
