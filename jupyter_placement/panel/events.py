"""The list of events that a panel shows."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from jupyter_placement.placement import Placement
from jupyter_placement.report.document import event_html
from jupyter_placement.summary import device_labels, fallbacks, plural, some_names


class Entry(NamedTuple):
    """One line of the list: its title, what the detail area shows, and the operations in the graph that it names."""

    title: str
    html: str
    nodes: tuple[str, ...]


def event_entries(placement: Placement) -> list[Entry]:
    """List the events; and the fallbacks, where TensorFlow said nothing of them."""
    entries = []
    for event in placement.events:
        nodes = tuple(node for node in event.nodes if node in placement.graph)
        entries.append(Entry(f"{event.kind.replace('_', ' ')}: {event.message}", event_html(event), nodes))
    labels = device_labels(placement)
    told = {node for event in placement.events if event.kind == "fallback" for node in event.nodes}
    for group in fallbacks(placement):
        nodes = tuple(node for node in group.nodes if node not in told)
        if nodes:
            asked, got = group.requested or "another device", labels[group.assigned]
            title = f"fallback: {plural(len(nodes), 'operation')} asked for {asked}, got {got}"
            ops = ", ".join(f"{count:,} {op}" for op, count in group.ops.most_common(12))
            names = escape(some_names(list(nodes), 30))
            html = f"<b>{escape(title)}</b><div>{escape(ops)}</div><div><code>{names}</code></div>"
            entries.append(Entry(title, html, nodes))
    return entries
