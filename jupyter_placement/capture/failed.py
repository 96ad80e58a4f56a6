"""An error of hard placement as an event: which operation, which line of the user's, and what to do.

What TensorFlow raises while it makes a function ready names the operation as it stands in the function, the operation
as it stands where the function was inlined, or none at all (seen on 2.21).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from jupyter_placement.capture.failures import placement_failure
from jupyter_placement.capture.graphs import CapturedGraph, Failure
from jupyter_placement.capture.replacement import function_graph_def
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.capture.sources import Source, UserFrames, function_sources
from jupyter_placement.devices import LOCAL_TASK, parse_device
from jupyter_placement.log import EventRecord
from jupyter_placement.log.messages import explain_event
from jupyter_placement.placement import Device, Event

_LOWERED = re.compile(r"(?:then|else|cond|body)/_\d+/")


def failure_event(text: str, graph: CapturedGraph | None = None, devices: Sequence[Device] = ()) -> Event | None:
    """Turn TensorFlow's message into a sentence with the operation, the user's line and a remedy.

    Parameters
    ----------
    text : str
        The whole message of the exception.
    graph : CapturedGraph, optional
        The graph that could not be placed, with its functions and source lines.
    devices : sequence of Device
        Those that TensorFlow has; told where the message does not tell them.

    Returns
    -------
    Event or None
        Its ``message`` is the sentence, ``nodes`` the operations by name, ``lines`` TensorFlow's own text and
        ``details["source"]`` file and line. ``None`` when the text tells of no failed placement.

    Examples
    --------
    >>> event = failure_event("Unable to find any devices for spec /device:GPU:3", None,
    ...                       [Device("/job:localhost/replica:0/task:0/device:CPU:0")])
    >>> print(event.message[:83])
    An operation asks for /device:GPU:3, which TensorFlow does not have; it has: CPU:0.
    """
    record = failed_record(Failure(text, graph), devices)
    return None if record is None else event_of(record, {})


def failed_record(failure: Failure, devices: Sequence[Device]) -> EventRecord | None:
    """Read a failure, and find the operation and its line in the graph that failed."""
    record = placement_failure(failure.text)
    if record is None:
        return None
    details = dict(record.details)
    if record.kind == "unknown_device" and not details.get("available"):
        details["available"] = [device.name for device in devices]
    node, source = record.node, failure.source
    asking: list[str] = []
    if failure.graph is not None:
        bodies = _Bodies(failure.graph)
        if node is not None:
            found = bodies.find(node)
            if found is not None:
                details.setdefault("op", found[0].op)
                source = found[1] or source
        elif "requested" in details:
            # The outermost first: those of a branch or an inner function are none of the line that is looked for.
            all_asking = list(bodies.that_ask_for(details["requested"]))
            if all_asking:
                node, details["op"], source = all_asking[0][0].name, all_asking[0][0].op, all_asking[0][1] or source
                asking = [one.name for one, _ in all_asking]
    if source is not None:
        details["source"] = list(UserFrames().named(source) or source)
    if len(asking) > 1:
        details["asking"] = asking
    return EventRecord(record.kind, node, details, tuple(line for line in failure.text.splitlines() if line.strip()))


def event_of(record: EventRecord, ids: dict[str, str]) -> Event:
    """Make the event of a record, with its line before the sentence; ``ids`` are those of the nodes by name."""
    names: Collection[str] = record.details.get("asking") or record.nodes
    source = record.details.get("source")
    line = f"{source[0]}, line {source[1]}: " if source else ""
    nodes = tuple(ids.get(name, name) for name in names)
    return Event(record.kind, line + explain_event(record), nodes, record.lines, dict(record.details))


def unplaced_graph(function: Any, op_defs: Any) -> CapturedGraph:
    """Return the graph of a function of the runtime as it is before placement, with its source lines."""
    library = function.graph.as_graph_def().library
    signatures = Signatures(op_defs, {item.signature.name: item for item in library.function}, lambda kind: "")
    graph_def = function_graph_def(function.cached_definition, library, signatures)
    return CapturedGraph("", graph_def, sources=function_sources(function, UserFrames()))


class _Bodies:
    """The nodes of a graph and of its functions, with their lines."""

    def __init__(self, graph: CapturedGraph) -> None:
        self._sources = graph.sources
        self._nodes = {"": {node.name: node for node in graph.graph_def.node}}
        for function in graph.graph_def.library.function:
            self._nodes[function.signature.name] = {node.name: node for node in function.node_def}

    def find(self, name: str, function: str = "", depth: int = 0) -> tuple[Any, Source | None] | None:
        """Find a node by its name in the graph, or by that which it has where its function was inlined."""
        nodes = self._nodes.get(function, {})
        if name in nodes:
            return nodes[name], self._sources.get(function, {}).get(name)
        if depth > 20:
            return None
        for call, node in nodes.items():
            if not name.startswith(call + "/"):
                continue
            rest = _LOWERED.sub("", name[len(call) + 1 :], count=1)
            for called in _called(node):
                found = self.find(rest, called, depth + 1)
                if found is not None:
                    return found[0], found[1] or self._sources.get(function, {}).get(call)
        return None

    def that_ask_for(self, device: str) -> Iterator[tuple[Any, Source | None]]:
        """Go through the nodes that ask for a device, those of the graph itself first."""
        wanted = parse_device(device.removeprefix(LOCAL_TASK))
        for function, nodes in self._nodes.items():
            for name, node in nodes.items():
                if node.device and parse_device(node.device.removeprefix(LOCAL_TASK)) == wanted:
                    yield node, self._sources.get(function, {}).get(name)


def _called(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.func.name:
            yield value.func.name
        yield from (function.name for function in value.list.func)
