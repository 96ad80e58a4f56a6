"""Memory samples of a run of any length in bounded room."""

from __future__ import annotations

from collections.abc import Iterable

from jupyter_placement.placement import MemorySample

_PEAKS = ("used", "process", "peak")


class SampleLog:
    """Keeps samples; of a long run fewer, evenly over time, and always those with the peaks.

    Parameters
    ----------
    limit : int
        How many samples are kept at most, over all devices; at least the peaks of each device are kept.

    Examples
    --------
    >>> log = SampleLog(limit=8)
    >>> for second in range(100):
    ...     log.add([MemorySample(second, "host", used=1000 if second == 37 else second)])
    >>> kept = log.samples()
    >>> len(kept) <= 8, max(sample.used for sample in kept), kept[-1].time
    (True, 1000, 99)
    """

    def __init__(self, limit: int = 4000) -> None:
        self._limit = limit
        self._groups: list[list[MemorySample]] = []
        self._open: list[MemorySample] = []
        self._last: list[MemorySample] = []
        self._ticks = 0
        self._stride = 1

    def add(self, samples: list[MemorySample]) -> None:
        """Add the samples of one moment."""
        self._open = peaks([*self._open, *samples])
        self._last = samples
        self._ticks += 1
        if self._ticks < self._stride:
            return
        self._groups.append(self._open)
        self._open, self._ticks = [], 0
        while len(self._groups) > 1 and sum(map(len, self._groups)) + len(samples) > self._limit:
            pairs = zip(self._groups[::2], [*self._groups[1::2], []], strict=False)
            self._groups = [peaks([*first, *second]) for first, second in pairs]
            self._stride *= 2

    def samples(self) -> list[MemorySample]:
        """Return what is kept, in the order of time; the latest moment is always part of it."""
        kept = {id(sample): sample for group in (*self._groups, self._open, self._last) for sample in group}
        return sorted(kept.values(), key=lambda sample: sample.time)


def peaks(samples: Iterable[MemorySample]) -> list[MemorySample]:
    """Keep of each device the samples in which a reading is the highest.

    Examples
    --------
    >>> first, second, third = (MemorySample(k, "host", used=5 - k, process=k % 2) for k in range(3))
    >>> [sample.time for sample in peaks([first, second, third])]
    [0, 1]
    """
    best: dict[tuple[str, str], MemorySample] = {}
    for sample in samples:
        for field in _PEAKS:
            value = getattr(sample, field)
            held = best.get((sample.device, field))
            if held is None or (value is not None and value > (getattr(held, field) or -1)):
                best[sample.device, field] = sample
    return sorted({id(sample): sample for sample in best.values()}.values(), key=lambda sample: sample.time)
