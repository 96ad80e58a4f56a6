"""Memory of each device as bars, light enough to be sent several times a second."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from jupyter_placement.placement import MemorySample, Placement
from jupyter_placement.summary import MemoryPeak, memory_name, memory_peaks, readable_bytes

_OTHERS, _OURS, _PEAK = "#8a8a8a", "#0072B2", "#D55E00"


def memory_html(samples: Iterable[MemorySample], notes: Iterable[str], placement: Placement | None = None) -> str:
    """Draw one bar for each device: in use by others, by this process, free.

    Parameters
    ----------
    samples : iterable of MemorySample
        The latest reading of each device.
    notes : iterable of str
        Sentences to show below, for example why no GPU is there.
    placement : Placement or None
        Where names of cards are known from.

    Returns
    -------
    str
        HTML without scripts.
    """
    placement = placement or Placement()
    peaks = {peak.device: peak for peak in memory_peaks(placement)}
    rows = "".join(_row(sample, placement, peaks.get(sample.device)) for sample in _latest(samples))
    said = "".join(f'<div class="jpp-quiet">{escape(note)}</div>' for note in notes)
    return (f'<div class="jpp-memory">{rows}</div>' if rows else "") + said


def elapsed_text(seconds: float) -> str:
    """Write a time span.

    Examples
    --------
    >>> elapsed_text(3.24), elapsed_text(125)
    ('3.2 s', '2 min 5 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s"


def _latest(samples: Iterable[MemorySample]) -> list[MemorySample]:
    """Keep the last sample of each device: cards first, each TensorFlow device after them, the host last."""
    last = {sample.device: sample for sample in samples}
    order = {"nvml": 0, "host": 2}
    return sorted(last.values(), key=lambda sample: order.get(sample.device.partition(":")[0], 1))


def _row(sample: MemorySample, placement: Placement, highest: MemoryPeak | None) -> str:
    name = escape(memory_name(placement, sample.device))
    if sample.device.startswith("/"):
        text = f"in use {readable_bytes(sample.used)}, peak {readable_bytes(sample.peak)}"
        if sample.total is not None:
            text += f", limit {readable_bytes(sample.total)}"
        # Without a limit the bar's full length is the peak.
        bar = _bar(sample.used, 0, sample.peak, sample.total or sample.peak, text)
    else:
        text = (
            f"{readable_bytes(sample.used)} of {readable_bytes(sample.total)}, "
            f"this process {readable_bytes(sample.process)}"
        )
        if highest is not None and highest.process is not None:
            text += f" (at most {readable_bytes(highest.process)})"
        elif highest is not None and highest.used is not None:
            text += f" (at most {readable_bytes(highest.used)} in use)"
        bar = _bar(sample.process, sample.used, None, sample.total, text)
    return f'<span>{name}</span>{bar}<span class="jpp-quiet">{text}</span>'


def _bar(ours: int | None, used: int | None, peak: int | None, total: int | None, text: str) -> str:
    parts = []
    if total:
        if used:
            parts.append(f'<i style="width:{_percent(used, total)};background:{_OTHERS}"></i>')
        if ours:
            parts.append(f'<i style="width:{_percent(ours, total)};background:{_OURS}"></i>')
        if peak:
            parts.append(f'<i style="width:2px;left:calc({_percent(peak, total)} - 2px);background:{_PEAK}"></i>')
    return f'<div class="jpp-bar" role="img" aria-label="{escape(text)}">{"".join(parts)}</div>'


def _percent(part: int, whole: int) -> str:
    return f"{100 * min(max(part / whole, 0.0), 1.0):.2f}%"
