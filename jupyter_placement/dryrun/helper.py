"""The helper process, from the side of whoever asks: started once, kept, replaced when it grows or dies."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_placement.dryrun import helper_process
from jupyter_placement.placement import PlacementError

_GROWN = 4 << 30
_KILLED = ": most often this machine has not enough memory for it"
_STARTING = "Starting TensorFlow for dry runs (a few seconds, once)..."


@dataclass(frozen=True)
class PlacerReply:
    """What the placer said.

    Attributes
    ----------
    log : list of str
        Lines of the placement log.
    stderr : list of str
        Its warnings.
    error : str
        TensorFlow's error, or ``""``.
    seconds : float
        Time that the placement took, with sending the graph and reading the log.
    """

    log: list[str]
    stderr: list[str]
    error: str
    seconds: float


class Helper:
    """One helper process; calls from several threads wait for each other.

    Parameters
    ----------
    python : str, optional
        The Python of an environment that has TensorFlow; this process's own if not given.

    Attributes
    ----------
    started : int
        How often the process was started.
    tensorflow : str
        The version of its TensorFlow, ``""`` before it was started.
    """

    def __init__(self, python: str | None = None) -> None:
        self._python = python or sys.executable
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._memory = 0
        self._closings = 0
        self.started = 0
        self.tensorflow = ""

    @property
    def pid(self) -> int | None:
        """The process's number; ``None`` when there is none."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def place(
        self,
        graph: bytes,
        devices: Sequence[Mapping[str, Any]],
        soft: bool = True,
        timeout: float = 300.0,
        first: bytes = b"",
        progress: Callable[[str], None] | None = None,
    ) -> PlacerReply:
        """Have TensorFlow's placer place a graph.

        Parameters
        ----------
        graph : bytes
            A serialised GraphDef, as :class:`~jupyter_placement.dryrun.preparation.Preparation` makes it.
        devices : sequence of mapping
            Each with ``name``, ``type``, ``memory`` (bytes) and ``description``.
        soft : bool
            Soft placement.
        timeout : float
            Seconds after which the process is killed.
        first : bytes
            A serialised GraphDef that is placed by itself before: what exists when a function is called.
        progress : callable, optional
            Called with a sentence when the process has to be started, which takes seconds.

        Raises
        ------
        PlacementError
            When the process cannot be started, died twice over the graph, or took too long.
        """
        header = {"devices": [dict(device) for device in devices], "soft": soft, "first": len(first)}
        reply, log = self.request(header, first + graph, timeout, progress)
        return PlacerReply(
            log.decode(errors="replace").splitlines(),
            reply["stderr"].splitlines(),
            reply["error"] if reply["code"] else "",
            reply["seconds"],
        )

    def request(
        self,
        header: Mapping[str, Any],
        graph: bytes,
        timeout: float = 300.0,
        progress: Callable[[str], None] | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        """Ask the process something of a graph; return its answer, with ``seconds`` that it took, and the log.

        Parameters
        ----------
        header : mapping
            What is asked, JSON values only.
        graph : bytes
            A serialised GraphDef.
        timeout : float
            Seconds after which the process is killed.
        progress : callable, optional
            Called with a sentence when the process has to be started.

        Raises
        ------
        PlacementError
            When the process cannot be started, died twice over the graph, or took too long.
        """
        question, closings = json.dumps(header).encode(), self._closings
        with self._lock:
            for attempt in (1, 2):
                process = self._running(progress)
                began = time.monotonic()
                try:
                    data, log = helper_process.ask(process, (question, graph), timeout)
                except (EOFError, OSError) as error:
                    how = helper_process.ending(process)
                    self._end()
                    if self._closings != closings:
                        raise PlacementError("The dry run was ended: its process was closed meanwhile.") from error
                    if attempt == 2:
                        raise PlacementError(
                            f"TensorFlow's process for dry runs died twice over this graph ({how})"
                            + (_KILLED if how == helper_process.KILLED else "")
                        ) from error
                    continue
                except BaseException:
                    self._end()  # interrupted or too late: its answer must not be taken for the next one's
                    raise
                reply: dict[str, Any] = json.loads(data)
                self._memory = reply["memory"]
                reply["seconds"] = time.monotonic() - began
                return reply, log
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the process, also in the middle of a placement; the next request starts one again."""
        self._closings += 1
        process = self._process
        if process is not None:
            process.kill()  # whoever waits for it lets go of the lock
        with self._lock:
            self._end()

    def _running(self, progress: Callable[[str], None] | None) -> subprocess.Popen[bytes]:
        process = self._process
        if process is not None and (process.poll() is not None or self._memory > _GROWN):
            self._end()
            process = None
        if process is None:
            if progress is not None:
                progress(_STARTING)
            process, self.tensorflow = helper_process.start(self._python)
            self._process, self._memory = process, 0
            self.started += 1
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            helper_process.end(process)
