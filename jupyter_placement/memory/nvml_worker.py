"""NVML on a thread of its own, so that a call that hangs holds up nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_placement.memory.cards import Card, CardReading
from jupyter_placement.memory.nvml import NvmlReader, NvmlUnavailable

STILL_HANGS = (
    "No GPU is shown: a call to the NVIDIA driver that an earlier run made has not come back; "
    "if nvidia-smi hangs too, restart the machine."
)
WENT_AWAY = "The NVIDIA driver went away; it is asked again every now and then."
CAME_BACK = "The NVIDIA driver is back."
# Seconds after which a call that nobody waits for any more is taken to hang.
_HANGS_AFTER = 2.0
_REOPEN_AFTER, _REOPEN_AT_MOST = 1.0, 60.0


@dataclass(frozen=True)
class NvmlAnswer:
    """What NVML said to one question.

    Attributes
    ----------
    cards : list of Card
        The cards that there are.
    readings : list of CardReading
        What they hold.
    notes : list of str
        Sentences on what could not be read.
    """

    cards: list[Card]
    readings: list[CardReading]
    notes: list[str]


class NvmlWorker:
    """Asks NVML, one question at a time, and never makes the asker wait longer than it wants.

    Parameters
    ----------
    reader : NvmlReader or None
        What to ask through.
    clock : callable
        Seconds that only go up.
    """

    def __init__(self, reader: NvmlReader | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = NvmlReader() if reader is None else reader
        self._clock = clock
        self._changed = threading.Condition()
        self._asked = self._answered = 0
        self._answer: NvmlAnswer | None = None
        self._open = self._lost = self._closed = self._done = False
        self._asked_at = 0.0
        self._retry_at, self._retry_after = 0.0, _REOPEN_AFTER
        self._thread = _NvmlThread(target=self._run, name="jupyter-placement-nvml", daemon=True)

    def start(self) -> None:
        """Start the thread, unless one that was given up is still waiting for the driver."""
        threads = threading.enumerate()
        if any(isinstance(thread, _NvmlThread) and thread.hangs() for thread in threads):
            self._answer, self._done = NvmlAnswer([], [], [STILL_HANGS]), True
        else:
            self._thread.start()

    def question(self) -> None:
        """Ask for a reading; nothing happens while the last question is still open."""
        with self._changed:
            if not self._done and self._asked == self._answered:
                self._asked += 1
                self._asked_at = self._clock()
                self._changed.notify_all()

    def answer(self, timeout: float, enough: Callable[[], bool] = lambda: False) -> NvmlAnswer | None:
        """Wait for the answer to :meth:`question`.

        Parameters
        ----------
        timeout : float
            Seconds to wait at most.
        enough : callable
            Tells whether to go on without an answer; looked at again after :meth:`hurry`.

        Returns
        -------
        NvmlAnswer or None
            ``None`` when none came in time.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._done or self._asked == self._answered or enough(), timeout)
            return self._answer if self._done or self._asked == self._answered else None

    def waiting(self) -> float:
        """Seconds that the question which is open now has been open; 0 if none is."""
        with self._changed:
            return 0.0 if self._done or self._asked == self._answered else self._clock() - self._asked_at

    def hurry(self) -> None:
        """Let whoever waits for an answer look whether it has waited enough."""
        with self._changed:
            self._changed.notify_all()

    def close(self, timeout: float) -> bool:
        """End the thread, which gives NVML back; a thread that hangs in the driver is given up.

        Parameters
        ----------
        timeout : float
            Seconds to wait for it.

        Returns
        -------
        bool
            Whether it has ended.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.ident is None:
            return True
        self._thread.join(timeout)
        if not self._thread.is_alive():
            return True
        self._thread.given_up_at = time.monotonic()
        return False

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or self._asked > self._answered)
                    if self._closed:
                        return
                answer, last = self._ask()
                with self._changed:
                    self._answer, self._answered, self._done = answer, self._asked, last
                    self._changed.notify_all()
                    if last:
                        return
        except Exception as error:
            # Whatever else the driver's wrapper raises must reach the panel as a sentence, not a thread's traceback.
            note = f"No GPU is shown: reading the NVIDIA driver failed ({type(error).__name__}: {error})."
            with self._changed:
                self._answer, self._done = NvmlAnswer([], [], [note]), True
                self._changed.notify_all()
        finally:
            self._reader.close()

    def _ask(self) -> tuple[NvmlAnswer, bool]:
        """Open NVML if it is not, and read; the second value is true when there is no use in asking again."""
        if not self._open:
            if self._answer is not None and self._clock() < self._retry_at:
                return NvmlAnswer(self._answer.cards, [], self._answer.notes), False
            try:
                self._reader.open()
            except NvmlUnavailable as error:
                self._put_off()
                return NvmlAnswer([], [], [str(error)]), error.final
            self._open = True
        readings = self._reader.read()
        notes = _refusals(readings)
        if self._reader.stale:
            self._reader.close()
            self._open, self._lost = False, True
            self._put_off()
            notes.append(WENT_AWAY)
        else:
            self._retry_after = _REOPEN_AFTER
            if self._lost:
                notes.append(CAME_BACK)
                self._lost = False
        return NvmlAnswer(list(self._reader.cards), readings, notes), False

    def _put_off(self) -> None:
        self._retry_at = self._clock() + self._retry_after
        self._retry_after = min(2 * self._retry_after, _REOPEN_AT_MOST)


class _NvmlThread(threading.Thread):
    """The worker's thread, and since when nobody waits for it any more."""

    given_up_at: float | None = None

    def hangs(self) -> bool:
        """Tell whether it was given up and has still not ended."""
        return self.given_up_at is not None and time.monotonic() - self.given_up_at > _HANGS_AFTER


def _refusals(readings: list[CardReading]) -> list[str]:
    """Say of which cards the memory could not be read."""
    return [
        f"Memory of {reading.card.title} is {reading.reasons['used']}."
        for reading in readings
        if reading.used is None and "used" in reading.reasons
    ]


def read_cards(timeout: float = 5.0) -> NvmlAnswer:
    """Read every card once.

    Parameters
    ----------
    timeout : float
        Seconds to wait for the driver.

    Returns
    -------
    NvmlAnswer
        Without cards, and with a note that says why, where there is none or the driver does not answer.

    Examples
    --------
    >>> answer = read_cards()
    >>> bool(answer.cards) or answer.notes[0].startswith("No GPU is shown: ")
    True
    """
    worker = NvmlWorker()
    worker.start()
    worker.question()
    answer = worker.answer(timeout)
    worker.close(timeout if answer else 0.0)
    if answer is None:
        note = f"No GPU is shown: the NVIDIA driver has not answered for {timeout:.0f} s."
        return NvmlAnswer([], [], [note])
    return answer
