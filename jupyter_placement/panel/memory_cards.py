"""Who holds the memory of each card, as bars in script-free HTML; TensorFlow's allocators and the host beside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from jupyter_placement.devices import short_device, sort_key
from jupyter_placement.memory import CardReading, GpuProcess
from jupyter_placement.memory.mapping import CardMatch
from jupyter_placement.placement import MemorySample
from jupyter_placement.summary import readable_bytes

# Okabe and Ito's colours, told apart without colour by their order and the words beside them.
OWN, PEAK, OTHERS, UNKNOWN, RESERVED = "#0072B2", "#56B4E9", ("#E69F00", "#F0C46C"), "#9A9A9A", "#5F5F5F"
_LISTED = 8

Part = tuple[str, int, str]


def holders_html(
    samples: Sequence[MemorySample],
    readings: Sequence[CardReading] = (),
    matches: Sequence[CardMatch] = (),
    notes: Sequence[str] = (),
    seconds: float | None = None,
) -> str:
    """Draw what is held now.

    Parameters
    ----------
    samples : sequence of MemorySample
        Of one moment.
    readings : sequence of CardReading
        What each card holds, and who holds it.
    matches : sequence of CardMatch
        Which card each of TensorFlow's GPUs is on.
    notes : sequence of str
        Sentences on what is not shown.
    seconds : float, optional
        Time since the start.
    """
    blocks = [_card(reading) for reading in readings]
    blocks += [
        _tensorflow(sample, next((match for match in matches if match.device == sample.device), None))
        for sample in sorted(samples, key=lambda sample: sort_key(sample.device))
        if sample.device.startswith("/")
    ]
    blocks += [_host(sample) for sample in samples if sample.device == "host"]
    blocks += [f'<div style="margin:2px 0;opacity:.8">{_text(note)}</div>' for note in notes]
    if seconds is not None:
        blocks.append(f'<div style="opacity:.8">{seconds:.1f} s since the start</div>')
    style = "font-size:12px;line-height:1.4;color:var(--jp-content-font-color1,inherit)"
    return f'<div style="{style}">{"".join(blocks)}</div>'


def _card(reading: CardReading) -> str:
    busy = "" if reading.utilisation is None else f", {reading.utilisation} % busy"
    if reading.used is None:
        return _block(f"{reading.card.title}: {reading.reasons.get('used', 'not available')}", [], None, [])
    head = f"{reading.card.title}: {_of(reading.used, reading.total)}{busy}"
    parts, lines = _holders(reading)
    if reading.reserved:
        parts.append(("kept by the driver", reading.reserved, RESERVED))
    return _block(head, parts, reading.total, lines)


def _holders(reading: CardReading) -> tuple[list[Part], list[str]]:
    """Return the parts of a card's bar, this process first, and a line for each of the largest holders."""
    processes = reading.processes
    if processes is None:
        why = reading.reasons.get("processes", "not available")
        return [("held", reading.used or 0, UNKNOWN)], [f"Who holds it is {why}."]
    known = [process for process in processes if process.used]
    parts = [
        (process.title, process.used or 0, OWN if process.own else OTHERS[number % 2])
        for number, process in enumerate(known)
    ]
    rest = (reading.used or 0) - sum(size for _, size, _ in parts)
    if rest > 0:
        parts.append(("held by nobody that the driver names", rest, UNKNOWN))
    lines = [_line(process) for process in processes[:_LISTED]]
    if len(processes) > _LISTED:
        more = processes[_LISTED:]
        lines.append(f"{len(more)} more: {readable_bytes(sum(one.used or 0 for one in more))}")
    if reading.process is None and "process" in reading.reasons:
        lines.append(f"This kernel's share is {reading.reasons['process']}.")
    return parts, lines


def _line(process: GpuProcess) -> str:
    return f"{process.title}: {readable_bytes(process.used)}"


def _tensorflow(sample: MemorySample, match: CardMatch | None) -> str:
    peak = f", peak {readable_bytes(sample.peak)}" if sample.peak is not None else ""
    where = f" on {match.card.title}" if match is not None and match.card is not None else ""
    head = f"TensorFlow's {short_device(sample.device)}{where}: {_of(sample.used, sample.total)} in use{peak}"
    parts: list[Part] = [("in use", sample.used or 0, OWN)]
    if sample.peak is not None and sample.used is not None and sample.peak > sample.used:
        parts.append(("peak", sample.peak - sample.used, PEAK))
    return _block(head, parts, sample.total, [match.note] if match is not None else [])


def _host(sample: MemorySample) -> str:
    head = f"Host: {_of(sample.used, sample.total)}, this kernel {readable_bytes(sample.process)}"
    own = min(sample.process or 0, sample.used or 0)
    parts = [("this kernel", own, OWN), ("everything else", max(0, (sample.used or 0) - own), OTHERS[0])]
    return _block(head, parts, sample.total, [])


def _of(used: int | None, total: int | None) -> str:
    """Write how much of how much.

    Examples
    --------
    >>> _of(3 << 30, 16 << 30), _of(None, 16 << 30), _of(5, None)
    ('3.0 GiB of 16.0 GiB', 'not available of 16.0 GiB', '5 B')
    """
    return readable_bytes(used) + ("" if total is None else f" of {readable_bytes(total)}")


def _block(head: str, parts: Sequence[Part], total: int | None, lines: Sequence[str]) -> str:
    rows = [f"<div>{_text(head)}</div>"]
    if total:
        segments = "".join(_segment(part, total) for part in parts if part[1] > 0)
        style = "height:12px;white-space:nowrap;overflow:hidden;font-size:0;background:var(--jp-layout-color3,#e0e0e0)"
        rows.append(f'<div style="{style}">{segments}</div>')
    rows += [f'<div style="padding-left:12px">{_text(line)}</div>' for line in lines if line]
    return f'<div style="margin:0 0 6px">{"".join(rows)}</div>'


def _segment(part: Part, total: int) -> str:
    name, size, colour = part
    title = escape(f"{name}: {readable_bytes(size)}", quote=True)
    width = f"width:{100 * size / total:.2f}%"
    style = f"display:inline-block;height:100%;box-sizing:border-box;border-right:1px solid #fff;{width}"
    return f'<span title="{title}" style="{style};background:{colour}"></span>'


def _text(text: str) -> str:
    return escape(text, quote=False)
