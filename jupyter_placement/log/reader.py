"""Read a whole log: from a file, bytes, text, a stream, or piece by piece as it is written."""

from __future__ import annotations

import codecs
import gc
import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from jupyter_placement.log.bulk import BulkReader
from jupyter_placement.log.records import LogCounts, LogRecords
from jupyter_placement.log.scanner import Scanner

BLOCK = 1 << 17
_GZIP = b"\x1f\x8b"


class LogReader:
    r"""Reads a log in pieces of any size.

    Parameters
    ----------
    keep_kinds : bool
        Whether to keep the kind of each line, for :attr:`LogRecords.line_kinds`; slower.

    Examples
    --------
    >>> reader = LogReader()
    >>> reader.feed(b"a: (Const): /job:localhost/rep")
    >>> reader.feed(b"lica:0/task:0/device:CPU:0\n")
    >>> reader.finish().placements
    [PlacementRecord(name='a', op='Const', device='/job:localhost/replica:0/task:0/device:CPU:0')]
    """

    def __init__(self, keep_kinds: bool = False) -> None:
        self._scanner = Scanner(keep_kinds)
        self._bulk = None if keep_kinds else BulkReader(self._scanner)
        self._decoder: codecs.IncrementalDecoder | None = None
        self._start = b""
        self._tail: list[str] = []

    def feed(self, data: bytes | str) -> None:
        """Read the next piece; a line that it does not end waits for the next one."""
        if isinstance(data, str):
            text = data
        else:
            if self._decoder is None:
                data = self._start = self._start + data
                if len(data) < 16:
                    return
                self._begin()
            text = self._decode(data)
        end = text.rfind("\n") + 1
        if not end:
            self._tail.append(text)
            return
        whole = "".join(self._tail) + text[:end] if self._tail else text[:end]
        self._tail = [text[end:]] if end < len(text) else []
        self._read(whole)

    def _begin(self) -> None:
        self._decoder = codecs.getincrementaldecoder(_encoding(self._start))(errors="replace")
        self._start = b""

    def _decode(self, data: bytes, final: bool = False) -> str:
        return self._decoder.decode(data, final) if self._decoder is not None else ""

    def _read(self, text: str) -> None:
        if "\r" in text:  # one character is found many times faster than two
            text = text.replace("\r\n", "\n")
        scanner = self._scanner
        if self._bulk is not None and not scanner.waits and self._bulk.read(text):
            return
        for line in text[:-1].split("\n"):
            scanner.line(line)

    def progress(self) -> tuple[int, int, int]:
        """Return the number of lines, placements and events so far."""
        scanner = self._scanner
        return sum(scanner.tally.values()), len(scanner.table.placements), len(scanner.events)

    def records(self) -> LogRecords:
        """Return what the lines so far have told; more may follow."""
        scanner = self._scanner
        tally = scanner.tally
        return LogRecords(
            list(scanner.table.placements),
            scanner.devices.records(),
            [event for event in scanner.events if event is not None],
            LogCounts(
                sum(tally.values()),
                tally["P"],
                tally["d"],
                tally["V"],
                tally["E"],
                tally["c"],
                tally["N"],
                tally["B"],
            ),
            "".join(scanner.kinds) if scanner.kinds is not None else None,
        )

    def finish(self, whole: bool = False) -> LogRecords:
        """End the log and return all that it told.

        Parameters
        ----------
        whole : bool
            Whether the last line is whole though it has no line end. Otherwise a device number that ends the log
            counts only where more digits cannot follow or the device is known.
        """
        if self._decoder is None and self._start:
            start = self._start
            self._begin()
            self.feed(start)
        self._tail.append(self._decode(b"", final=True))
        last = "".join(self._tail)
        self._tail = []
        if last and whole:
            self._read(last + "\n")
        elif last:
            self._scanner.last_line(last.rstrip("\r"))
        self._scanner.finish()
        return self.records()


def _encoding(start: bytes) -> str:
    """Tell a log's encoding from its first bytes: PowerShell's ``>`` writes UTF-16."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = start[:200]
    if len(head) > 8 and not any(head[1::2]) and all(head[::2]):
        return "utf-16-le"
    return "utf-8-sig"


def blocks(stream: IO[Any], size: int = BLOCK) -> Iterator[bytes | str]:
    """Read a stream to its end, as it comes."""
    read = getattr(stream, "read1", stream.read)
    while data := read(size):
        yield data


def open_log(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a log file, also one that gzip packed.

    Raises
    ------
    OSError
        When it cannot be opened.
    """
    file = open(path, "rb")  # noqa: SIM115  # the caller closes it
    if file.read(2) == _GZIP:
        file.close()
        return cast("IO[bytes]", gzip.open(path, "rb"))
    file.seek(0)
    return file


def read_log(source: bytes | str | os.PathLike[str] | IO[Any], *, keep_kinds: bool = False) -> LogRecords:
    r"""Read a placement log of any TensorFlow from 0.5 to 2.21, however it was kept.

    Parameters
    ----------
    source : bytes, str, path-like or stream
        The log itself, the path of a file, or an open stream. A ``str`` with a line end, or with ``/job:`` in it, is
        the log itself.
    keep_kinds : bool
        Whether to keep the kind of each line; slower.

    Returns
    -------
    LogRecords
        Placements, devices, events and counts.

    Raises
    ------
    OSError
        When the file cannot be read.

    Examples
    --------
    >>> log = read_log("a: (Const): /job:localhost/replica:0/task:0/cpu:0\n")
    >>> log.placements
    [PlacementRecord(name='a', op='Const', device='/job:localhost/replica:0/task:0/device:CPU:0')]
    """
    reader = LogReader(keep_kinds)
    if isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
        for start in range(0, len(data), BLOCK):
            reader.feed(data[start : start + BLOCK])
    elif isinstance(source, str) and (not source or "\n" in source or "/job:" in source):
        for start in range(0, len(source), BLOCK):
            reader.feed(source[start : start + BLOCK])
        return reader.finish(whole=True)
    elif isinstance(source, str | os.PathLike):
        with open_log(source) as file, _without_collector():
            for block in blocks(file):
                reader.feed(block)
    else:
        for block in blocks(source):
            reader.feed(block)
    return reader.finish()


@contextmanager
def _without_collector() -> Iterator[None]:
    """Hold the cycle collector back: records form no cycles, and it would walk all of them again and again."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
