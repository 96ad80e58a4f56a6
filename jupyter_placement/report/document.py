"""Script-free HTML: for an output that stays in a notebook, and as a page of its own."""

from __future__ import annotations

import base64
from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from jupyter_placement.colors import DeviceStyle, device_colors
from jupyter_placement.report.picture import TRANSFER, svg_picture
from jupyter_placement.summary import (
    device_labels,
    fallbacks,
    findings_to_tell,
    host_memory_lines,
    imagined_machine,
    memory_name,
    memory_peaks,
    nothing_placed,
    plural,
    readable_bytes,
    some_names,
    transfer_size,
    transfers,
)

if TYPE_CHECKING:
    from jupyter_placement.placement import Event, Placement

CLASS = "jupyter-placement-static"
# JupyterLab strips <style>, <script>, <svg> and var(...) from what it does not trust: inline styles only, colours that
# read on white and on black, and the page's own text colour wherever that is possible.
_CELL = "padding:2px 14px 2px 0;text-align:left;vertical-align:top"
_NUMBER = "padding:2px 14px 2px 0;text-align:right;vertical-align:top"
_QUIET = "opacity:0.75"
_SHOWN_ROWS = 40
_SHOWN_FINDINGS = 12


def html_summary(placement: Placement, picture: str | None = None) -> str:
    """Write a Placement as HTML without scripts or style sheets.

    Parameters
    ----------
    placement : Placement
        What to show.
    picture : str or None
        The SVG picture where it is there already; ``""`` for none.

    Returns
    -------
    str
        One element, of class ``jupyter-placement-static``.
    """
    parts = [f'<div class="{CLASS}" style="max-width:1000px">']
    if placement.graph:
        styles = device_colors(placement.device_names())
        drawn = svg_picture(placement) if picture is None else picture
        parts += [_headline(placement), _image(drawn), _devices(placement, styles)]
        parts += [_fallbacks(placement), _transfers(placement), _host_memory(placement)]
    else:
        parts.append(f'<p style="margin:6px 0">{escape(nothing_placed(placement))}</p>')
    parts += [
        _events(placement),
        _findings(placement),
        _memory(placement),
        _operations(placement),
        _facts(placement),
        "</div>",
    ]
    return "".join(parts)


def html_document(placement: Placement) -> str:
    """Write a Placement as a page of its own, for a browser without Jupyter."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width"><title>TensorFlow placement</title><style>'
        ":root{color-scheme:light dark}body{font:14px/1.5 system-ui,sans-serif;margin:24px auto;max-width:1000px;"
        "padding:0 16px}</style></head><body><h1>Where TensorFlow placed each operation</h1>"
        f"{html_summary(placement)}</body></html>"
    )


def swatch(style: DeviceStyle) -> str:
    """Draw a small box in a device's colour."""
    return (
        f'<span style="display:inline-block;width:14px;height:11px;border-radius:3px;margin-right:6px;'
        f'border:1px solid #808080;background-color:{style.fill}"></span>'
    )


def _table(head: list[tuple[str, bool]], rows: list[list[str]]) -> str:
    """Make a table; its cells are HTML already. ``True`` in the head: a column of numbers."""
    cells = "".join(f'<th style="{_NUMBER if number else _CELL}">{escape(title)}</th>' for title, number in head)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_NUMBER if number else _CELL}">{cell}</td>'
            for cell, (_, number) in zip(row, head, strict=True)
        )
        + "</tr>"
        for row in rows[:_SHOWN_ROWS]
    )
    more = f'<div style="{_QUIET}">and {len(rows) - _SHOWN_ROWS:,} more</div>' if len(rows) > _SHOWN_ROWS else ""
    return (
        '<table style="border-collapse:collapse;margin:4px 0;text-align:left"><thead><tr>'
        f"{cells}</tr></thead><tbody>{body}</tbody></table>{more}"
    )


def _section(title: str, body: str, opened: bool = True) -> str:
    flag = " open" if opened else ""
    return (
        f'<details{flag} style="margin:6px 0"><summary style="cursor:pointer;font-weight:600">{title}</summary>'
        f'<div style="margin:2px 0 6px 16px">{body}</div></details>'
    )


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _headline(placement: Placement) -> str:
    count, devices = placement.graph.number_of_nodes(), len(placement.device_counts())
    moved = sum(pair.tensors for pair in transfers(placement))
    wrong = sum(len(group.nodes) for group in fallbacks(placement))
    facts = [f"<b>{plural(count, 'operation')}</b> on <b>{plural(devices, 'device')}</b>"]
    where = imagined_machine(placement)
    facts += [escape(where)] if where else []
    facts.append(f"{plural(moved, 'tensor')} moved between devices" if moved else "no transfers")
    if wrong:
        facts.append(f"{wrong:,} not on the device that they asked for")
    return f'<div style="margin:6px 0">{" · ".join(facts)}</div>'


def _image(picture: str) -> str:
    if not picture:
        return ""
    data = base64.b64encode(picture.encode()).decode()
    return (
        f'<img alt="The graph by name scope, coloured by assigned device" style="max-width:100%;height:auto" '
        f'src="data:image/svg+xml;base64,{data}">'
    )


def _devices(placement: Placement, styles: dict[str, DeviceStyle]) -> str:
    counts = placement.device_counts()
    total = placement.graph.number_of_nodes()
    physical = {device.name: device.physical_name or "" for device in placement.devices}
    rows = []
    for name, style in styles.items():
        count = counts.get(name, 0)
        share = f"{100 * count / total:.1f} %" if count else "unused"
        rows.append([swatch(style) + escape(style.label), f"{count:,}", share, escape(physical.get(name, ""))])
    unplaced = total - sum(counts.values())
    if unplaced:
        rows.append(["never placed", f"{unplaced:,}", f"{100 * unplaced / total:.1f} %", ""])
    return _section("Devices", _table([("device", False), ("operations", True), ("share", True), ("", False)], rows))


def _fallbacks(placement: Placement) -> str:
    groups = fallbacks(placement)
    if not groups:
        return ""
    labels = device_labels(placement)
    rows = [
        [
            _code(group.requested or "(not told)"),
            escape(labels[group.assigned]),
            escape(", ".join(f"{count:,} {op}" for op, count in group.ops.most_common(6))),
            _code(some_names(group.nodes, 4)),
        ]
        for group in groups
    ]
    total = sum(len(group.nodes) for group in groups)
    return _section(
        f"Not on the device that they asked for: {plural(total, 'operation')}",
        _table([("requested", False), ("assigned", False), ("operations", False), ("names", False)], rows),
    )


def _transfers(placement: Placement) -> str:
    pairs = transfers(placement)
    if not pairs:
        return ""
    labels = device_labels(placement)
    rows = [
        [
            escape(" → ".join(pair.ends(labels))),
            f"{pair.tensors:,}",
            transfer_size(pair) if pair.tensors else "",
            f"{pair.control:,}",
        ]
        for pair in pairs
    ]
    moved = sum(pair.tensors for pair in pairs)
    line = f'<span style="color:{TRANSFER}">╍╍</span> '
    return _section(
        f"{line}Transfers between devices: {plural(moved, 'tensor')}",
        _table([("from → to", False), ("tensors", True), ("bytes", False), ("control edges", True)], rows),
    )


def _host_memory(placement: Placement) -> str:
    return "".join(f'<div style="margin:6px 0">{escape(line)}</div>' for line in host_memory_lines(placement))


def _events(placement: Placement) -> str:
    if not placement.events:
        return ""
    items = "".join(f"<li>{event_html(event)}</li>" for event in placement.events[:_SHOWN_ROWS])
    more = len(placement.events) - _SHOWN_ROWS
    rest = f'<div style="{_QUIET}">and {more:,} more</div>' if more > 0 else ""
    return _section(f"What TensorFlow said: {len(placement.events):,}", f'<ul style="margin:2px 0">{items}</ul>{rest}')


def _findings(placement: Placement) -> str:
    found = findings_to_tell(placement)
    if not found:
        return ""
    items = []
    for one in found[:_SHOWN_FINDINGS]:
        about = " · ".join(escape(text) for text in (one.where(), one.remedy) if text)
        items.append(f"<li>{escape(one.message)}" + (f'<div style="{_QUIET}">{about}</div>' if about else "") + "</li>")
    more = len(found) - _SHOWN_FINDINGS
    rest = f'<div style="{_QUIET}">and {more:,} more</div>' if more > 0 else ""
    return _section(f"Findings: {len(found):,}", f'<ul style="margin:2px 0">{"".join(items)}</ul>{rest}')


def event_html(event: Event, lines: int = 20) -> str:
    """Write an event's sentence, with its nodes and log lines folded below it."""
    parts = [f"<b>{escape(event.kind.replace('_', ' '))}</b>: {escape(event.message)}"]
    if event.nodes:
        parts.append(f'<div style="{_QUIET}">{_code(some_names(list(event.nodes), 8))}</div>')
    if event.lines:
        text = "\n".join(event.lines[:lines])
        more = f"\n… and {len(event.lines) - lines:,} more lines" if len(event.lines) > lines else ""
        parts.append(
            f'<details><summary style="cursor:pointer;{_QUIET}">{plural(len(event.lines), "log line")}</summary>'
            f'<pre style="white-space:pre-wrap;font-size:11px;margin:2px 0">{escape(text + more)}</pre></details>'
        )
    return "".join(parts)


def _memory(placement: Placement) -> str:
    peaks = memory_peaks(placement)
    if not peaks:
        return ""
    rows = [
        [escape(memory_name(placement, one.device))]
        + [readable_bytes(value) for value in (one.used, one.total, one.process, one.peak)]
        for one in peaks
    ]
    head = [("memory", False), ("in use", True), ("of", True), ("this process", True), ("allocator's peak", True)]
    return _section("Memory, highest seen", _table(head, rows))


def _operations(placement: Placement) -> str:
    labels = device_labels(placement)
    by_device: dict[str | None, Counter[str]] = {}
    for _, data in placement.graph.nodes(data=True):
        by_device.setdefault(data["device"], Counter())[data["op"] or "unknown type"] += 1
    rows = []
    for name in [*placement.device_counts(), None]:
        if name in by_device:
            ops = by_device[name].most_common(30)
            more = len(by_device[name]) - 30
            text = ", ".join(f"{count:,} {op}" for op, count in ops) + (f" and {more:,} more types" if more > 0 else "")
            rows.append([escape(labels[name]), escape(text)])
    return (
        _section("Operation types on each device", _table([("device", False), ("types", False)], rows), False)
        if rows
        else ""
    )


def _facts(placement: Placement) -> str:
    facts = []
    if placement.counts.unmatched:
        facts.append(f"{plural(placement.counts.unmatched, 'placement line')} could not be matched to an operation")
    facts += [
        f"{key} {value}" for key, value in placement.meta.items() if isinstance(value, str | int) and key != "nothing"
    ]
    return f'<div style="{_QUIET};font-size:11px;margin-top:6px">{escape(" · ".join(facts))}</div>' if facts else ""
