"""Events of a recording: fallbacks, what TensorFlow's log says of placement and memory, what could not be placed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jupyter_placement.capture.failed import event_of, failed_record
from jupyter_placement.capture.failures import placement_failure
from jupyter_placement.capture.graphs import Failure
from jupyter_placement.capture.sources import UserFrames
from jupyter_placement.log import EventRecord, read_log
from jupyter_placement.log.build import fallback_events
from jupyter_placement.placement import Event, Placement


def placement_events(
    placement: Placement, lines: Sequence[str], error: BaseException | None, failures: Sequence[Failure] = ()
) -> list[Event]:
    """Return the events of a recording.

    Parameters
    ----------
    placement : Placement
        With its graph and devices.
    lines : sequence of str
        What else was written on descriptor 2.
    error : BaseException or None
        What the recorded code raised.
    failures : sequence of Failure
        What could not be placed, also where the code caught the error.
    """
    found = read_log("\n".join(lines).encode()).events if lines else []
    records = [record for record in found if isinstance(record, EventRecord)]
    told = {_key(record) for record in records}
    raised = [] if error is None else [Failure(str(error), None, UserFrames().raised(error))]
    for failure in (*failures, *raised):
        record = placement_failure(failure.text)
        if record is None or _key(record) in told:
            continue
        told.add(_key(record))
        located = failed_record(failure, placement.devices)
        if located is not None:
            if placement.meta.get("soft_placement"):
                located.details["soft"] = True
            records.append(located)
    ids: dict[str, str] = {}
    for node, data in placement.graph.nodes(data=True):
        ids.setdefault(data["name"], node)
    return [*fallback_events(placement, all_devices=True), *(event_of(record, ids) for record in records)]


def _key(record: EventRecord) -> tuple[Any, ...]:
    return record.kind, record.node, str(record.details.get("requested"))
