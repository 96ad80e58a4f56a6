"""Make a Placement of one or several logs, and of a graph file that knows the edges."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, cast

from jupyter_placement.devices import satisfies, short_device
from jupyter_placement.log.messages import explain_event
from jupyter_placement.log.reader import read_log
from jupyter_placement.log.records import EagerRecord, EventRecord, LogRecords, PlacementRecord
from jupyter_placement.placement import Counts, Device, Event, Placement, PlacementError
from jupyter_placement.summary import plural

if TYPE_CHECKING:
    from jupyter_placement.graphfile import GraphNode

Source = LogRecords | bytes | str | os.PathLike[str] | IO[Any]
HOW_TO_LOG = (
    "TensorFlow 2: tf.debugging.set_log_device_placement(True) before anything else runs; TensorFlow 1: "
    "tf.Session(config=tf.ConfigProto(log_device_placement=True)). Keep standard output and standard error: "
    "python program.py > file.log 2>&1"
)
NO_EDGES = (
    "Transfers are not known: a log does not tell what feeds what. Give the model's graph file too (graph=, --graph)"
)
NOTHING = f"No placement line is in this log. Switch the log on and run again. {HOW_TO_LOG}"


def placement_from_log(
    sources: Source | Sequence[Source], graph: str | os.PathLike[str] | Iterable[GraphNode] | None = None
) -> Placement:
    """Make a Placement of a log, or of the logs of several tasks.

    Parameters
    ----------
    sources : LogRecords, bytes, str, path-like, stream, or a list of these
        As for :func:`~jupyter_placement.log.read_log`, or what that returned.
    graph : path-like or iterable of GraphNode, optional
        A graph file that :func:`~jupyter_placement.graphfile.read_graph` reads (it imports TensorFlow), or what that
        returned: the source of edges and requested devices.

    Returns
    -------
    Placement
        Without edges when there is no graph.

    Raises
    ------
    PlacementError
        When a file cannot be read.

    Examples
    --------
    >>> log = '''x: (_Arg): /job:localhost/replica:0/task:0/device:CPU:0
    ... x: (_Arg): /job:localhost/replica:0/task:0/device:GPU:0
    ... '''
    >>> list(placement_from_log(log).graph)
    ['x', 'GPU:0/x']
    """
    logs = [_records(source) for source in _listed(sources)]
    placement = Placement(meta={"captured": "log", "logs": len(logs), "nothing": NOTHING})
    names = _add_nodes(placement, [record for log in logs for record in log.placements])
    notes = _add_eager(placement, logs, names)
    devices: dict[str, Device] = {}
    for log in logs:
        for row in log.devices:
            memory = row.memory_mb << 20 if row.memory_mb is not None else None
            devices.setdefault(row.device, Device(row.device, row.physical or None, memory, row.pci))
    placement.devices = list(devices.values())
    unmatched = 0
    if graph is None:
        placement.meta["no_edges"] = NO_EDGES
    else:
        from jupyter_placement.log.join import join_graph

        if isinstance(graph, str | os.PathLike):
            from jupyter_placement.graphfile import read_graph

            graph = read_graph(graph)
        unmatched = join_graph(placement, list(graph))
    placement.events += _events(logs, names) + notes
    counts = [log.counts for log in logs]
    placement.counts = Counts(
        sum(one.lines for one in counts),
        sum(one.matched for one in counts),
        sum(one.duplicate for one in counts),
        unmatched,
    )
    placement.log = [_line(record) for log in logs for record in log.placements]
    return placement


def _listed(sources: Source | Sequence[Source]) -> list[Source]:
    if isinstance(sources, list | tuple):
        return list(sources)
    return [cast("Source", sources)]


def _records(source: Source) -> LogRecords:
    if isinstance(source, LogRecords):
        return source
    try:
        return read_log(source)
    except OSError as error:
        raise PlacementError(f"the log {source!r} cannot be read: {error.strerror or error}") from error


def _line(record: PlacementRecord) -> str:
    return f"{record.name}: ({record.op}): {record.device}" if record.op else f"{record.name}: {record.device}"


def _add_nodes(placement: Placement, records: Iterable[PlacementRecord]) -> dict[str, list[str]]:
    """Add a node for each record and return the ids by name.

    Eager operations have a small graph each, and each worker its own copy of the model: one name stands for several
    nodes, which are kept apart by the device.
    """
    rows = list(dict.fromkeys(records))
    tasks = len({record.device.split("/device:")[0] for record in rows}) > 1
    names: dict[str, list[str]] = {}
    graph = placement.graph
    for record in rows:
        ids = names.setdefault(record.name, [])
        node = record.name
        if ids or node in graph:
            prefix = short_device(record.device, tasks)
            node, number = f"{prefix}/{record.name}", 1
            while node in graph:
                number += 1
                node = f"{prefix}:{number}/{record.name}"
        ids.append(node)
        placement.add_node(node, name=record.name, op=record.op, device=record.device, graph="log")
    return names


def _add_eager(placement: Placement, logs: Iterable[LogRecords], names: dict[str, list[str]]) -> list[Event]:
    """Add a node for each eager operation type and device that has no small graph of its own (before 2.4)."""
    counts = Counter(event for log in logs for event in log.events if isinstance(event, EagerRecord))
    if not counts:
        return []
    placed = {(data["op"], data["device"]) for _, data in placement.graph.nodes(data=True)}
    nodes = []
    for record in counts:
        if (record.op, record.device) in placed:
            continue
        node = f"eager/{record.op}"
        if node in placement.graph:
            node = f"eager/{short_device(record.device, tasks=True)}/{record.op}"
        placement.add_node(node, name=record.op, op=record.op, device=record.device, graph="eager")
        nodes.append(node)
    names.update({placement.graph.nodes[node]["name"]: [node] for node in nodes if node not in names})
    told = ", ".join(f"{count:,} {one.op} on {placement.short(one.device)}" for one, count in counts.most_common(5))
    more = f", and {len(counts) - 5} more" if len(counts) > 5 else ""
    total = sum(counts.values())
    details = {
        "operations": [{"op": one.op, "device": one.device, "count": count} for one, count in counts.most_common()]
    }
    message = f"{plural(total, 'operation')} ran eagerly: {told}{more}."
    return [Event("note", message, tuple(nodes), (), details)]


def _events(logs: Iterable[LogRecords], names: dict[str, list[str]]) -> list[Event]:
    events: list[Event] = []
    backing_off: list[EventRecord] = []
    for log in logs:
        for record in [*log.events, None]:
            if isinstance(record, EagerRecord):
                continue
            if record is not None and record.kind == "oom" and record.details.get("stage") == "driver":
                backing_off.append(record)
                continue
            if backing_off:
                events.append(_back_off(backing_off))
                backing_off = []
            if record is not None:
                nodes = tuple(dict.fromkeys(node for name in record.nodes for node in names.get(name, [name])))
                events.append(Event(record.kind, explain_event(record), nodes, record.lines, dict(record.details)))
    return events


def _back_off(records: list[EventRecord]) -> Event:
    """Make one event of a driver's refusals that follow each other, each for less than the one before."""
    first = explain_event(records[0])
    if len(records) > 1:
        first = f"{len(records)} times in a row: {first[0].lower()}{first[1:]}"
    details = {**records[0].details, "refused": [record.details["bytes"] for record in records]}
    return Event("oom", first, (), tuple(line for record in records for line in record.lines), details)


def fallback_events(placement: Placement, all_devices: bool = False) -> list[Event]:
    """Return one event for each operation type, requested and assigned device where the two do not agree.

    Parameters
    ----------
    placement : Placement
        With its graph. Nodes that are where they are by colocation are left out.
    all_devices : bool
        Whether the placement's devices are all that TensorFlow had; a log may tell of some alone.
    """
    there = {device.name for device in placement.devices} if all_devices else set()
    groups: dict[tuple[str | None, str, str, str], list[str]] = {}
    for node, data in placement.graph.nodes(data=True):
        if data["reason"] == "colocated" or not data["device"] or not data["requested"]:
            continue
        if not satisfies(data["device"], data["requested"]):
            key = (data["op"], data["requested"], data["device"], data["reason"])
            groups.setdefault(key, []).append(node)
    events = []
    for (op, requested, device, reason), nodes in groups.items():
        what = f"{nodes[0]} ({op})" if len(nodes) == 1 else f"{len(nodes):,} {op} operations"
        why = "because TensorFlow has no such device or no kernel for it"
        if there:
            exists = any(satisfies(name, requested) for name in there)
            why = "because TensorFlow has no kernel for it" if exists else "because TensorFlow has no such device"
            if exists and reason == "unknown":
                why = "for a reason that is not known here"
        message = (
            f"{what} asked for {requested} and ran on {placement.short(device)}: soft placement chose another device, "
            f"{why}."
        )
        details = {"op": op, "requested": requested, "assigned": device}
        events.append(Event("fallback", message, tuple(nodes), (), details))
    return events
