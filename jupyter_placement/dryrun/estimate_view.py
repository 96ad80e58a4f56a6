"""An estimate for people: as text and as HTML."""

from __future__ import annotations

from html import escape

from jupyter_placement.devices import short_device
from jupyter_placement.dryrun.estimate_data import DeviceEstimate, Estimate
from jupyter_placement.summary import readable_bytes

_TITLE = "One step, an estimate: nothing was run"
_HEAD = (
    *("Device", "Card", "Operations", "Variables", "Slots", "Constants, inputs", "Step's tensors", "Peak (estimate)"),
    *("Available", "Verdict", "Busy (estimate)"),
)
_MOVES = ("Transfer", "Tensors", "Bytes", "Control edges")
_NUMBERS = frozenset(_HEAD[2:9]) | {"Busy (estimate)"} | frozenset(_MOVES[1:])


def estimate_text(estimate: Estimate) -> str:
    """Return an estimate as plain text."""
    parts = [_TITLE, _table(_HEAD, [_row(one, estimate) for one in estimate.devices])]
    for one in estimate.devices:
        if one.largest:
            parts.append(f"{short_device(one.device)}, most of the step's tensors at its peak: {_largest(one)}")
    parts.append(_table(_MOVES, _transfers(estimate)) if estimate.transfers else "No transfers")
    parts.append(f"Step time, an estimate: {readable_seconds(estimate.seconds)}")
    parts += [f"- {note}" for note in estimate.notes]
    return "\n".join(parts)


def estimate_html(estimate: Estimate) -> str:
    """Return an estimate as HTML, without scripts."""
    moves = _html_table(_MOVES, _transfers(estimate)) if estimate.transfers else "<p>No transfers</p>"
    largest = "".join(
        f"<li>{escape(short_device(one.device))}: {escape(_largest(one))}</li>"
        for one in estimate.devices
        if one.largest
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in estimate.notes)
    return (
        f"<p><b>{_TITLE}</b>. Step time, an estimate: {escape(readable_seconds(estimate.seconds))}</p>"
        f"{_html_table(_HEAD, [_row(one, estimate) for one in estimate.devices])}{moves}"
        f"<details><summary>Most of the step's tensors at its peak</summary><ul>{largest}</ul></details>"
        f"<details><summary>What is counted, and what not</summary><ul>{notes}</ul></details>"
    )


def readable_seconds(seconds: float | None) -> str:
    """Write a time for people.

    Examples
    --------
    >>> readable_seconds(0.0123), readable_seconds(4.5e-06), readable_seconds(2.0), readable_seconds(None)
    ('12.3 ms', '4.5 µs', '2 s', 'not available')
    """
    if seconds is None:
        return "not available"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def peak_range(one: DeviceEstimate) -> str:
    """Write from what to what the peak of a device's memory goes.

    Examples
    --------
    >>> peak_range(DeviceEstimate("", step_low=1000, step_high=2000)).startswith("900 B to ")
    True
    >>> peak_range(DeviceEstimate("", calls=1))
    'at least 0 B'
    """
    if one.at_least:
        return f"at least {readable_bytes(one.low)}"
    return f"{readable_bytes(one.low)} to {readable_bytes(one.high)}"


def _row(one: DeviceEstimate, estimate: Estimate) -> list[str]:
    share = "" if not estimate.seconds or one.seconds is None else f" ({one.seconds / estimate.seconds:.0%})"
    return [
        short_device(one.device),
        one.card or "not available",
        f"{one.operations:,}",
        readable_bytes(one.variables),
        readable_bytes(one.slots),
        readable_bytes(one.constants + one.inputs),
        ("at least " if one.at_least else "") + readable_bytes(one.step),
        peak_range(one),
        readable_bytes(one.available),
        one.verdict or "not available",
        readable_seconds(one.seconds) + share,
    ]


def _largest(one: DeviceEstimate) -> str:
    return ", ".join(f"{node} {readable_bytes(size)}" for node, size in one.largest)


def _transfers(estimate: Estimate) -> list[list[str]]:
    return [
        [
            f"{short_device(one.source)} to {short_device(one.target)}",
            f"{one.tensors:,}",
            readable_bytes(one.size) + (f" and {one.unknown:,} of unknown size" if one.unknown else ""),
            f"{one.signals:,}",
        ]
        for one in estimate.transfers
    ]


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [list(head), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    right = [name in _NUMBERS for name in head]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if on_right else cell.ljust(width)
            for cell, width, on_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _html_table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    right = [' style="text-align: right"' if name in _NUMBERS else "" for name in head]
    top = "".join(f"<th{style}>{escape(name)}</th>" for name, style in zip(head, right, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{style}>{escape(cell)}</td>' for cell, style in zip(row, right, strict=True))}</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
