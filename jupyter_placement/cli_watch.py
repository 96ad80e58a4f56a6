"""What is shown while a log is read: a bar for a long file, a line for one that is still being written."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from jupyter_placement.log.reader import BLOCK, LogReader, blocks
from jupyter_placement.log.records import LogRecords

_WIDTH = 30
_PATIENCE = 1.0
_EVERY = 0.2


class Progress:
    """A bar on standard error, if that is a terminal and reading takes longer than a second.

    Parameters
    ----------
    total : int
        Bytes to read; 0 where it is not known.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._next = time.monotonic() + _PATIENCE
        self._terminal = sys.stderr.isatty()
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def advance(self, size: int) -> None:
        """Tell that more bytes were read."""
        self._done += size
        now = time.monotonic()
        if not self._terminal or now < self._next:
            return
        self._next = now + _EVERY
        self._shown = True
        read = f"{self._done / 1e6:,.0f} MB"
        if self._done <= self._total:
            full = _WIDTH * self._done // self._total
            read = f"[{'#' * full}{'.' * (_WIDTH - full)}] {100 * self._done // self._total:3d} %  {read}"
        sys.stderr.write(f"\r\x1b[K{read}")
        sys.stderr.flush()


class Status:
    """One line on standard error that tells what a log has told so far, if that is a terminal."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._next = time.monotonic() + _EVERY
        self._terminal = sys.stderr.isatty()
        self._shown = False

    def update(self) -> None:
        """Write the line anew, not more often than people read."""
        now = time.monotonic()
        if not self._terminal or now < self._next:
            return
        self._next = now + _EVERY
        self._shown = True
        lines, placements, events = self._reader.progress()
        sys.stderr.write(f"\r\x1b[K{lines:,} lines, {placements:,} placements, {events:,} events (Ctrl-C ends)")
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def read_stream(stream: IO[Any]) -> LogRecords:
    """Read a stream as it comes, to its end or Ctrl-C."""
    reader = LogReader()
    status = Status(reader)
    try:
        for block in blocks(stream):
            reader.feed(block)
            status.update()
    except KeyboardInterrupt:
        pass  # the user has seen enough; what was read is shown
    status.clear()
    return reader.finish()


def follow(file: IO[bytes], path: Path, poll: float = 0.1) -> LogRecords:
    """Read a file to its end and go on as it grows, until Ctrl-C.

    Parameters
    ----------
    file : binary file
        The log, open at its start.
    path : pathlib.Path
        Its path, to see when it was begun anew.
    poll : float
        Seconds between two looks.
    """
    reader = LogReader()
    status = Status(reader)
    try:
        while True:
            block = file.read(BLOCK)
            if block:
                reader.feed(block)
                status.update()
            elif _size(path) < file.tell():
                file.seek(0)  # the program was started again and has emptied it
            else:
                status.update()
                time.sleep(poll)
    except KeyboardInterrupt:
        pass  # this is how the user ends it
    status.clear()
    return reader.finish()


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return sys.maxsize  # taken away: what is open can still be read, and nothing else comes
