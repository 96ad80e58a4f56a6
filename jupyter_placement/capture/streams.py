"""Take single lines out of what the process writes on file descriptors 1 and 2; all else passes, in order and live.

TensorFlow's C++ code writes placement lines to the descriptors, not to ``sys.stdout``. In a kernel ``sys.stdout`` is
an object that sends messages; in a terminal it writes to descriptor 1 itself. In both, text that is not taken goes
where it would have gone.
"""

from __future__ import annotations

import codecs
import contextlib
import contextvars
import fcntl
import os
import select
import sys
import threading
from collections.abc import Callable
from typing import Any

# A write of at most this many bytes is one packet of a pipe in packet mode (pipe(7), O_DIRECT).
_PACKET = select.PIPE_BUF
_PIPE_BYTES = 1 << 20
# How long the beginning of a line may wait for its end before it is shown.
_PARTIAL_SECONDS = 0.1


class _Channel:
    """One redirected descriptor."""

    def __init__(self, descriptor: int, stream: Any) -> None:
        self.descriptor = descriptor
        self.stream = stream
        self.write: Callable[[str], Any] | None = None
        self.wrapper: Callable[..., Any] | None = None
        self.had_attribute = False
        self.pending = b""
        self.split = False
        self.open = True
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        if _flush(stream) and not _writes_to(stream, descriptor):
            self.write = stream.write
        self.saved = os.dup(descriptor)
        self.reading, writing = _packet_pipe()
        os.dup2(writing, descriptor)
        os.close(writing)

    def emit(self, data: bytes) -> None:
        """Pass on what is not taken."""
        if not data:
            return
        if self.write is not None:
            text = self._decoder.decode(data)
            if text:
                self.write(text)
            return
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.saved, view) :]
            except BlockingIOError:
                select.select([], [self.saved], [])

    def close(self) -> None:
        self.open = False
        os.close(self.reading)
        os.close(self.saved)


class StreamFilter:
    """Redirect descriptors 1 and 2, and hand each complete line to a function that may take it.

    Parameters
    ----------
    take : callable
        Called as ``take(descriptor, line)`` with the line as text, without its end, on the filter's thread. Returns
        whether the line is taken out of the output.
    take_text : callable or None
        Called as ``take_text(text)`` with what Python writes to ``sys.stdout``, where that is no descriptor.

    Notes
    -----
    A child process that was started meanwhile holds the pipes: what it writes after :meth:`stop` is passed on until
    it ends.
    """

    def __init__(self, take: Callable[[int, str], bool], take_text: Callable[[str], bool] | None = None) -> None:
        self._take = take
        self._take_text = take_text
        self._condition = threading.Condition(threading.RLock())
        self._channels: list[_Channel] = []
        self._poll = select.poll()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._followed: tuple[Any, Any] | None = None
        self._pid = os.getpid()
        self._wake: tuple[int, int] = (-1, -1)

    def start(self) -> None:
        """Redirect the descriptors and start the thread that reads them."""
        self._pid = os.getpid()
        self._wake = os.pipe()
        for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
            channel = _Channel(descriptor, stream)
            self._channels.append(channel)
            self._poll.register(channel.reading, select.POLLIN | select.POLLHUP)
            if channel.write is not None:
                self._wrap(channel)
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="jupyter-placement-streams", daemon=True
        )
        self._thread.start()

    def drain(self) -> None:
        """Wait until all that was written so far has been read and passed on."""
        thread = self._thread
        if thread is None or os.getpid() != self._pid or thread is threading.current_thread():
            return
        with self._condition:
            while self._readable() and thread.is_alive():
                self._condition.wait(1.0)

    def intact(self) -> bool:
        """Tell whether what is written on descriptors 1 and 2 still arrives here."""
        return self._thread is not None and all(
            os.path.sameopenfile(channel.descriptor, channel.reading) for channel in self._channels
        )

    def follow(self, on: bool) -> None:
        """Watch the text that goes to a stream which the code has put in the place of ``sys.stdout``."""
        if self._followed is not None:
            stream, wrapper = self._followed
            self._followed = None
            if vars(stream).get("write") is wrapper:
                del stream.write
        stream, take_text = sys.stdout, self._take_text
        known = any(stream is channel.stream for channel in self._channels)
        if not on or known or take_text is None or not hasattr(stream, "__dict__") or "write" in vars(stream):
            return
        original = stream.write

        def write(text: str) -> Any:
            return len(text) if take_text(text) else original(text)

        self._followed = (stream, write)
        vars(stream)["write"] = write

    def stop(self) -> None:
        """Put the descriptors and the streams' ``write`` back; nothing that was written is lost."""
        if self._thread is None:
            return
        for channel in self._channels:
            if channel.wrapper is not None and getattr(channel.stream, "write", None) is channel.wrapper:
                if channel.had_attribute:
                    channel.stream.write = channel.write
                else:
                    del channel.stream.write
            elif channel.write is None:
                _flush(channel.stream)
            os.dup2(channel.saved, channel.descriptor)
        self.drain()
        with self._condition:
            self._stopping = True
        os.write(self._wake[1], b"x")
        with self._condition:
            while self._stopping and self._thread.is_alive():
                self._condition.wait(1.0)
            alone = not any(channel.open for channel in self._channels)
        if alone:
            self._thread.join()
        self._thread = None

    def _wrap(self, channel: _Channel) -> None:
        """Make Python's own text wait for what C++ wrote before it."""
        original = channel.write
        assert original is not None
        take_text = self._take_text if channel.descriptor == 1 else None

        def write(text: str, *args: Any, **kwargs: Any) -> Any:
            if take_text is not None and take_text(text):
                return len(text)
            self.drain()
            return original(text, *args, **kwargs)

        # IPython replaces `write` on the object while a cell runs (seen on 9.18); the class's method must come back
        # as that, not as an attribute.
        channel.had_attribute = "write" in vars(channel.stream)
        channel.wrapper = write
        channel.stream.write = write

    def _readable(self) -> bool:
        return any(event & select.POLLIN for _, event in self._poll.poll(0))

    def _run(self) -> None:
        waiting = select.poll()
        waiting.register(self._wake[0], select.POLLIN)
        for channel in self._channels:
            waiting.register(channel.reading, select.POLLIN | select.POLLHUP)
        told = False
        while not told or any(channel.open for channel in self._channels):
            partial = any(channel.pending for channel in self._channels)
            ready = dict(waiting.poll(_PARTIAL_SECONDS * 1000 if partial else None))
            with self._condition:
                for channel in self._channels:
                    if channel.open and channel.reading in ready:
                        ended = self._read(channel)
                        if ended:
                            self._finish(channel, waiting)
                    elif channel.pending and not ready:
                        self._emit_partial(channel)
                if self._wake[0] in ready:
                    # Told to stop: this process no longer writes to the pipes, only a child may.
                    told = True
                    waiting.unregister(self._wake[0])
                    for channel in self._channels:
                        if channel.open:
                            if self._read(channel):
                                self._finish(channel, waiting)
                            else:
                                self._emit_partial(channel)
                    self._stopping = False
                self._condition.notify_all()
        for descriptor in self._wake:
            os.close(descriptor)

    def _finish(self, channel: _Channel, waiting: select.poll) -> None:
        self._emit_partial(channel)
        waiting.unregister(channel.reading)
        self._poll.unregister(channel.reading)
        channel.close()

    def _read(self, channel: _Channel) -> bool:
        """Read what is there; tell whether every writer is gone."""
        passed: list[bytes] = []
        ended = False
        while True:
            try:
                data = os.read(channel.reading, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                ended = True
                break
            self._split(channel, data, passed)
        channel.emit(b"".join(passed))
        return ended

    def _split(self, channel: _Channel, data: bytes, passed: list[bytes]) -> None:
        lines = data.splitlines(keepends=True) if b"\r" not in data and b"\x0b" not in data else _split_lines(data)
        if channel.pending:
            if not channel.split and lines[0].endswith(b"\n") and self._taken(channel, lines[0]):
                # A whole placement line in a packet of its own, behind text that had no end of line.
                passed.append(channel.pending)
                channel.pending = b""
                del lines[0]
            else:
                lines[0] = channel.pending + lines[0]
                channel.pending = b""
        for line in lines:
            if not line.endswith(b"\n"):
                channel.pending = line
            elif not self._taken(channel, line):
                passed.append(line)
        channel.split = len(data) == _PACKET

    def _taken(self, channel: _Channel, line: bytes) -> bool:
        return not self._thread_is_forwarding() and self._take(
            channel.descriptor, line.rstrip(b"\r\n").decode("utf-8", errors="replace")
        )

    def _thread_is_forwarding(self) -> bool:
        # After stop() only a child process writes here, and its lines are its own.
        return self._thread is None

    def _emit_partial(self, channel: _Channel) -> None:
        channel.emit(channel.pending)
        channel.pending = b""


def _split_lines(data: bytes) -> list[bytes]:
    # bytes.splitlines also splits at a bare "\r", which a progress bar uses within a line.
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _packet_pipe() -> tuple[int, int]:
    """Make a pipe whose reads keep the writes apart, where the system can; its reading end does not block."""
    reading, writing = os.pipe2(os.O_DIRECT | os.O_CLOEXEC) if hasattr(os, "O_DIRECT") else os.pipe()
    os.set_blocking(reading, False)
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # over the user's limit of pipe memory (pipe(7)): the default size serves
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reading, writing


def _writes_to(stream: Any, descriptor: int) -> bool:
    """Tell whether a Python stream writes to this descriptor itself."""
    try:
        return bool(stream.fileno() == descriptor)
    except (AttributeError, OSError, ValueError):
        return False


def _flush(stream: Any) -> bool:
    """Flush a stream that is there; tell whether it is."""
    if stream is None:
        return False
    try:
        stream.flush()
    except (AttributeError, OSError, ValueError):
        return hasattr(stream, "write")
    return True
