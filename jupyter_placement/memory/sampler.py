"""Samples memory on a thread of its own while a cell runs."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from types import TracebackType

from jupyter_placement.memory.cards import Card, CardReading
from jupyter_placement.memory.host import HostReader
from jupyter_placement.memory.nvml_worker import NvmlAnswer, NvmlWorker
from jupyter_placement.memory.samples import SampleLog
from jupyter_placement.memory.tensorflow_memory import TensorFlowChanged, TensorFlowReader
from jupyter_placement.placement import MemorySample

# Seconds: after which the driver is said not to answer, to wait for its last answer, and to wait for threads to end.
_PATIENCE, _LAST_PATIENCE, _JOIN = 1.0, 0.2, 2.0
_MOST_NOTES = 100

NO_ANSWER = f"The NVIDIA driver has not answered for {_PATIENCE:.0f} s; the rest is shown without it."

OnSample = Callable[[list[MemorySample], float, list[str]], None]


class MemorySampler:
    """Reads the memory of the host, of each card and of TensorFlow's allocators, again and again, until it is stopped.

    TensorFlow is neither imported nor started for it, and no memory of a card is taken.

    Parameters
    ----------
    interval : float
        Seconds from one sample to the next.
    on_sample : callable, optional
        Called after each moment, on the sampler's thread and in the context of whoever called :meth:`start`, with the
        samples of this moment, its time in seconds since the start, and :attr:`notes`. If it raises, it is not called
        again, and a note says so.
    limit : int
        How many samples are kept; of a longer run fewer a second are kept, with all peaks.
    clock : callable
        Seconds that only go up.

    Attributes
    ----------
    cards : list of Card
        The cards that NVML named; empty until it has answered.
    readings : list of CardReading
        What each card held in the latest sample, and who held it.

    Raises
    ------
    ValueError
        When ``interval`` is not above 0.

    Examples
    --------
    >>> with MemorySampler(interval=0.1) as sampler:
    ...     pass
    >>> sampler.samples[0].device
    'host'
    """

    def __init__(
        self,
        interval: float = 0.5,
        on_sample: OnSample | None = None,
        *,
        limit: int = 4000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not interval > 0:
            raise ValueError(f"the interval of memory samples must be above 0 seconds, such as 0.5; it is {interval}")
        self.interval = interval
        self.cards: list[Card] = []
        self.readings: list[CardReading] = []
        self._on_sample = on_sample
        self._clock = clock
        self._log = SampleLog(limit)
        self._notes: list[str] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._worker = NvmlWorker(clock=clock)
        self._tensorflow: TensorFlowReader | None = TensorFlowReader()
        self._began = 0.0
        self._hung = False

    @property
    def samples(self) -> list[MemorySample]:
        """The samples so far, in the order of time."""
        with self._lock:
            return self._log.samples()

    @property
    def notes(self) -> list[str]:
        """Sentences on what is not shown and why."""
        with self._lock:
            return list(self._notes)

    @property
    def running(self) -> bool:
        """Whether samples are being taken."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> MemorySampler:
        """Begin to sample; the first sample is taken at once, on the other thread.

        Raises
        ------
        RuntimeError
            When it has been started before.
        """
        if self._thread is not None:
            raise RuntimeError("this sampler has been started before: make a new MemorySampler")
        self._began = self._clock()
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="jupyter-placement-memory", daemon=True
        )
        self._worker.start()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Take a last sample and stop; a driver that hangs is not waited for. Stopping twice does nothing."""
        thread = self._thread
        if thread is None or self._stopping.is_set():
            return
        self._stopping.set()
        self._worker.hurry()
        if thread is not threading.current_thread():  # on_sample may stop its own sampler
            thread.join(_JOIN)
            if thread.is_alive():
                self._note("The last memory sample is missing: what shows the samples did not come to an end.")

    def join(self, timeout: float) -> None:
        """Wait until a sampler that is being stopped has ended, at most this many seconds."""
        if self._thread is not None:
            self._thread.join(timeout)

    def __enter__(self) -> MemorySampler:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            host = HostReader()
            deadline = self._clock()
            while not self._stopping.is_set():
                self._sample(host, min(_PATIENCE, self.interval / 2), self._stopping.is_set)
                deadline = next_deadline(deadline, self._clock(), self.interval)
                self._stopping.wait(deadline - self._clock())
            self._sample(host, _LAST_PATIENCE, lambda: False)
        finally:
            self._worker.close(0.0 if self._worker.waiting() else _LAST_PATIENCE)

    def _sample(self, host: HostReader, patience: float, enough: Callable[[], bool]) -> None:
        self._worker.question()
        now = self._clock() - self._began
        samples = [host.read(now), *self._read_tensorflow(now)]
        samples += self._take(self._wait_for_cards(patience, enough), now)
        with self._lock:
            self._log.add(samples)
            notes = list(self._notes)
        if self._on_sample is not None:
            try:
                self._on_sample(samples, now, notes)
            except Exception as error:
                self._on_sample = None
                self._note(f"Memory is no longer shown live: {type(error).__name__}: {error}")

    def _wait_for_cards(self, patience: float, enough: Callable[[], bool]) -> NvmlAnswer | None:
        # Once it hangs it is only looked at, so that the other samples keep their pace.
        answer = self._worker.answer(0.0 if self._hung else patience, enough)
        if answer is None and not self._hung and self._worker.waiting() >= _PATIENCE:
            self._hung = True
            self._note(NO_ANSWER)
        elif answer is not None and self._hung:
            self._hung = False
            self._note("The NVIDIA driver answers again.")
        return answer

    def _take(self, answer: NvmlAnswer | None, now: float) -> list[MemorySample]:
        if answer is None:
            self.readings = []
            return []
        for note in answer.notes:
            self._note(note)
        self.cards, self.readings = answer.cards, answer.readings
        return [
            MemorySample(now, reading.card.key, used=reading.used, total=reading.total, process=reading.process)
            for reading in answer.readings
        ]

    def _read_tensorflow(self, now: float) -> list[MemorySample]:
        if self._tensorflow is None:
            return []
        try:
            return self._tensorflow.read(now)
        except TensorFlowChanged as error:
            self._tensorflow = None
            self._note(f"{error}.")
            return []

    def _note(self, note: str) -> None:
        with self._lock:
            if note not in self._notes and len(self._notes) < _MOST_NOTES:
                self._notes.append(note)


def next_deadline(deadline: float, now: float, interval: float) -> float:
    """Return the first deadline after ``now``; those that were missed are left out, and the pace stays.

    Examples
    --------
    >>> next_deadline(10.0, 10.25, 0.5)
    10.5
    >>> next_deadline(10.0, 11.75, 0.5)
    12.0
    """
    missed = max(0, int((now - deadline) // interval))
    return deadline + (missed + 1) * interval
