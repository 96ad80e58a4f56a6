"""Events of a recording: fallbacks, what TensorFlow's log says of placement and memory, the error that ended it."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_placement.capture.sources import UserFrames
from jupyter_placement.log import EventRecord, parse_placement_error, read_log
from jupyter_placement.log.build import fallback_events
from jupyter_placement.log.messages import explain_event
from jupyter_placement.placement import Event, Placement


def placement_events(placement: Placement, lines: Sequence[str], error: BaseException | None) -> list[Event]:
    """Return the events of a recording.

    Parameters
    ----------
    placement : Placement
        With its graph and devices.
    lines : sequence of str
        What else was written on descriptor 2.
    error : BaseException or None
        What the recorded code raised.
    """
    found = read_log("\n".join(lines).encode()).events if lines else []
    records = [record for record in found if isinstance(record, EventRecord)]
    if error is not None:
        text = str(error)
        record = parse_placement_error(text)
        if record is not None and record not in records:
            details = dict(record.details)
            frames = UserFrames()
            source = frames.named(frames.raised(error))
            if source is not None:
                details["source"] = list(source)
            records.append(EventRecord(record.kind, record.node, details, tuple(text.splitlines())))
    ids: dict[str, str] = {}
    for node, data in placement.graph.nodes(data=True):
        ids.setdefault(data["name"], node)
    return [*fallback_events(placement, all_devices=True), *(_event(record, ids) for record in records)]


def _event(record: EventRecord, ids: dict[str, str]) -> Event:
    nodes = tuple(ids.get(name, name) for name in record.nodes)
    details = dict(record.details)
    source = details.get("source")
    line = f"{source[0]}, line {source[1]}: " if source else ""
    return Event(record.kind, line + explain_event(record), nodes, record.lines, details)
