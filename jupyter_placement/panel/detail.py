"""What is known of one operation, scope or line, as HTML and as the short text beside the pointer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import Any

from jupyter_placement.colors import DeviceStyle
from jupyter_placement.devices import device_type
from jupyter_placement.layout import Box, Link, ScopeTree, View
from jupyter_placement.summary import plural, readable_bytes
from jupyter_placement.sums import HOST_MEMORY, copy_ends

_ENDS = 25
_COPIES = {
    "host": "stays in host memory",
    "to_host": "copied to host memory",
    "to_device": "copied from host memory to the device",
}


def node_facts(tree: ScopeTree, node: str) -> list[tuple[str, str]]:
    """List what is known of an operation, as plain text by name."""
    placement = tree.placement
    data = placement.graph.nodes[node]
    source = data["source"]
    facts = [
        ("operation", data["op"] or "not told by the log"),
        ("requested", data["requested"] or "nothing"),
        ("assigned", tree.labels[data["device"]]),
        ("reason", data["reason"]),
        ("dtype", shown(data["dtype"])),
        ("shape", shown(data["shape"])),
        ("memory", _where(data)),
        ("graph", data["graph"] or "-"),
        ("source", f"{source[0]}, line {source[1]}" if source else "not known"),
    ]
    if data.get("compiled") is not None:  # files of earlier releases have no such attribute
        facts.append(("compiled", f"by XLA as a whole, {plural(data['compiled'], 'operation')} inside"))
    if data["duration"] is not None:
        estimated = ", estimated" if placement.meta.get("times") == "estimated" else ""
        facts.append(("duration", f"{1e6 * data['duration']:,.0f} µs{estimated}"))
    return facts


def _where(data: dict[str, Any]) -> str:
    if data["device"] is None:
        return "not known"
    if device_type(data["device"]) == "CPU":
        return HOST_MEMORY
    if data["memory"] == "host":
        return f"{HOST_MEMORY}: its values are not on the {device_type(data['device'])}"
    return "the device's own"


def shown(value: Any) -> str:
    """Write a dtype or shape; ``None`` means that it is not known.

    Examples
    --------
    >>> shown([2, None]), shown([]), shown(None), shown(["float32", "int32"]), shown([[2], None])
    ('[2, ?]', '[] (scalar)', 'not known', 'float32, int32', '[2], not known')
    """
    if value is None:
        return "not known"
    if isinstance(value, str):
        return value
    items = list(value)
    if any(isinstance(item, str | list | tuple) for item in items):
        return ", ".join(shown(item) for item in items)
    return f"[{', '.join('?' if item is None else str(item) for item in items)}]" + ("" if items else " (scalar)")


def node_hover(tree: ScopeTree, node: str) -> str:
    """Write an operation's facts for the pointer, in plotly's few tags."""
    graph = tree.placement.graph
    name = str(graph.nodes[node]["name"])
    lines = [f"<b>{_plotly(name, 90)}</b>"]
    hidden = ("graph",) if node in tree.host else ("graph", "memory")
    lines += [f"{key}: {_plotly(value, 70)}" for key, value in node_facts(tree, node) if key not in hidden]
    lines.append(f"{plural(graph.in_degree(node), 'input')}, {plural(graph.out_degree(node), 'output')}")
    return "<br>".join(lines)


def scope_hover(tree: ScopeTree, box: Box) -> str:
    """Write a scope's operations by device for the pointer."""
    lines = [f"<b>{_plotly(box.key, 90)}</b>", plural(box.size, "operation") + box.about_host]
    for device, count in box.devices[:12]:
        lines.append(f"{_plotly(tree.labels[device], 60)}: {count:,}")
    lines.append("click to close" if box.opened else "click to open")
    return "<br>".join(lines)


def link_hover(tree: ScopeTree, view: View, link: Link) -> str:
    """Write what a line stands for, for the pointer."""
    ends = f"{_plotly(view.boxes[link.source].label, 40)} → {_plotly(view.boxes[link.target].label, 40)}"
    return "<br>".join([f"<b>{ends}</b>", *(_plotly(line, 90) for line in _link_lines(tree, link))])


def node_html(tree: ScopeTree, node: str, styles: dict[str, DeviceStyle]) -> str:
    """Write all that is known of an operation: facts, inputs, outputs."""
    graph = tree.placement.graph
    device = graph.nodes[node]["device"]
    rows = []
    for key, value in node_facts(tree, node):
        mark = swatch(styles[device]) if key == "assigned" and device is not None else ""
        text = f"<code>{escape(value)}</code>" if key in ("requested", "dtype", "shape") else escape(value)
        rows.append(f"<tr><td>{key}</td><td>{mark}{text}</td></tr>")
    if device is not None:
        rows.append(f"<tr><td>in full</td><td><code>{escape(device)}</code></td></tr>")
    inputs = [(producer, str(key), data) for producer, _, key, data in graph.in_edges(node, keys=True, data=True)]
    outputs = [(consumer, str(key), data) for _, consumer, key, data in graph.out_edges(node, keys=True, data=True)]
    inputs.sort(key=lambda end: (end[1].startswith("^"), len(end[1]), end[1]))
    return (
        f'<div class="jpp-name">{escape(str(graph.nodes[node]["name"]))}</div>'
        f'<table class="jpp-facts">{"".join(rows)}</table>'
        + _ends(tree, "Inputs", inputs, styles)
        + _ends(tree, "Outputs, by consumer", outputs, styles)
    )


def scope_html(tree: ScopeTree, path: str, styles: dict[str, DeviceStyle]) -> str:
    """Write what a scope holds: operations by device, and the types among them."""
    scope = tree.scopes[path]
    rows = []
    for device, count in sorted(scope.devices.items(), key=lambda one: -one[1]):
        mark = swatch(styles[device]) if device is not None else ""
        share = 100 * count / scope.size
        rows.append(f"<tr><td>{mark}{escape(tree.labels[device])}</td><td>{count:,}</td><td>{share:.0f} %</td></tr>")
    ops: Counter[str] = Counter()
    waiting = [scope]
    for one in waiting:
        ops.update(tree.placement.graph.nodes[node]["op"] or "unknown type" for node in one.nodes)
        waiting.extend(one.scopes)
    types = ", ".join(f"{count:,} {escape(op)}" for op, count in ops.most_common(12))
    more = f" and {len(ops) - 12:,} more types" if len(ops) > 12 else ""
    kind = {"graph": "captured graph", "series": "series of siblings", "page": "some of many siblings"}
    return (
        f'<div class="jpp-name">{escape(path)}</div>'
        f'<div class="jpp-quiet">{kind.get(scope.kind, "name scope")}, {plural(scope.size, "operation")}</div>'
        f'<table class="jpp-facts">{"".join(rows)}</table><div>{types}{more}</div>'
    )


def link_html(tree: ScopeTree, view: View, link: Link) -> str:
    """Write what a line stands for."""
    ends = f"{escape(view.boxes[link.source].key)} → {escape(view.boxes[link.target].key)}"
    lines = "".join(f"<div>{escape(line)}</div>" for line in _link_lines(tree, link))
    return f'<div class="jpp-name">{ends}</div>{lines}'


def swatch(style: DeviceStyle) -> str:
    """Draw a small box in a device's colour and pattern."""
    return f'<span class="jpp-swatch" style="background:{hatched(style)}"></span>'


def hatched(style: DeviceStyle) -> str:
    """Write a device's colour and pattern as a CSS background.

    Examples
    --------
    >>> hatched(DeviceStyle("CPU:0", "#9A9A9A", "#000000", ""))
    '#9A9A9A'
    """
    ink = f"{style.text}88"

    def lines(angle: int) -> str:
        return f"repeating-linear-gradient({angle}deg,{ink} 0 1.5px,transparent 1.5px 6px)"

    angles = {"/": (135,), "\\": (45,), "x": (45, 135), "-": (0,), "|": (90,), "+": (0, 90)}
    if style.pattern == ".":
        drawn = [f"radial-gradient({ink} 1.2px,transparent 1.4px) 0 0/6px 6px"]
    else:
        drawn = [lines(angle) for angle in angles.get(style.pattern, ())]
    return ",".join([*drawn, style.fill]) if drawn else style.fill


def _link_lines(tree: ScopeTree, link: Link) -> list[str]:
    totals, labels = link.totals, tree.labels

    def size(known: int, unknown: int, tensors: int) -> str:
        if unknown == tensors:
            return "size unknown"
        return readable_bytes(known) + (f" and {plural(unknown, 'tensor')} of unknown size" if unknown else "")

    lines = []
    if totals.tensors:
        lines.append(f"{plural(totals.tensors, 'tensor')}, {size(totals.bytes, totals.unknown, totals.tensors)}")
    if totals.control:
        lines.append(plural(totals.control, "control edge"))
    if totals.transfers:
        moved = size(totals.transfer_bytes, totals.transfer_unknown, totals.transfers)
        lines.append(f"transfers between devices: {totals.transfers:,}, {moved}")
        for (source, target, memory), count in sorted(totals.pairs.items(), key=lambda one: -one[1])[:6]:
            ends = copy_ends(labels[source], memory) if memory else (labels[source], labels[target])
            lines.append(f"{' → '.join(ends)}: {count:,}")
    if totals.host:
        lines.append(f"stay in host memory, nothing is copied: {totals.host:,}")
    if totals.names:
        lines.append(", ".join(totals.names) + (", …" if totals.tensors > len(totals.names) else ""))
    return lines


def _ends(
    tree: ScopeTree, title: str, ends: Iterable[tuple[str, str, dict[str, Any]]], styles: dict[str, DeviceStyle]
) -> str:
    items = []
    listed = list(ends)
    for node, key, data in listed[:_ENDS]:
        other = tree.placement.graph.nodes[node]
        device = other["device"]
        facts = ["control"] if data["control"] else [shown(data["dtype"]), shown(data["shape"])]
        if data["bytes"] is not None:
            facts.append(readable_bytes(data["bytes"]))
        mark = swatch(styles[device]) if device is not None else ""
        moved = '<span class="jpp-moved">transfer</span> ' if data["transfer"] else ""
        if data.get("memory", "device") != "device":
            facts.append(_COPIES[data["memory"]])
        text = escape(f"{', '.join(facts)}; {tree.labels[device]}")
        items.append(
            f"<li>{escape(key)}: <code>{escape(str(other['name']))}</code><br>{moved}{mark}"
            f'<span class="jpp-quiet">{text}</span></li>'
        )
    more = len(listed) - _ENDS
    rest = f'<div class="jpp-quiet">and {more:,} more</div>' if more > 0 else ""
    body = f'<ul class="jpp-ends">{"".join(items)}</ul>{rest}' if items else '<div class="jpp-quiet">none</div>'
    return f"<div><b>{title}</b> ({len(listed):,})</div>{body}"


def _plotly(text: str, most: int) -> str:
    cut = text if len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2) :]}"
    return escape(cut, quote=False)
