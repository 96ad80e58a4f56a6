"""The helper process, from the side of whoever asks: started once, kept, replaced when it grows or dies."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from jupyter_placement.dryrun.helper_main import read_blob, write_blobs
from jupyter_placement.placement import PlacementError

_SCRIPT = Path(__file__).with_name("helper_main.py")
_PROXIES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
_START_SECONDS = 120.0
_GROWN = 4 << 30
NEEDS_CUDA_BUILD = (
    "A dry run needs TensorFlow's Linux build with CUDA, which knows the kernels of a GPU without having one: "
    "pip install tensorflow (not tensorflow-cpu) on Linux, or give python= the Python of an environment that has it."
)


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
    progress : callable, optional
        Called with a sentence when the process has to be started, which takes seconds.
    """

    def __init__(self, python: str | None = None, progress: Callable[[str], None] | None = None) -> None:
        self._python = python or sys.executable
        self._progress = progress
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._memory = 0
        self.started = 0
        atexit.register(self.close)

    @property
    def pid(self) -> int | None:
        """The process's number; ``None`` when there is none."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def place(
        self, graph: bytes, devices: Sequence[Mapping[str, Any]], soft: bool = True, timeout: float = 300.0
    ) -> PlacerReply:
        """Have TensorFlow's placer place a graph.

        Parameters
        ----------
        graph : bytes
            A serialised GraphDef; every node's device with its job.
        devices : sequence of mapping
            Each with ``name``, ``type``, ``memory`` (bytes) and ``description``.
        soft : bool
            Soft placement.
        timeout : float
            Seconds after which the process is killed.

        Raises
        ------
        PlacementError
            When the process cannot be started, died twice over the graph, or took too long.
        """
        header = {"devices": [dict(device) for device in devices], "soft": soft}
        reply, log = self.request(header, graph, timeout)
        return PlacerReply(
            log.decode(errors="replace").splitlines(),
            reply["stderr"].splitlines(),
            reply["error"] if reply["code"] else "",
            reply["seconds"],
        )

    def request(self, header: Mapping[str, Any], graph: bytes, timeout: float = 300.0) -> tuple[dict[str, Any], bytes]:
        """Ask the process something of a graph; return its answer, with ``seconds`` that it took, and the log.

        Parameters
        ----------
        header : mapping
            What is asked, JSON values only.
        graph : bytes
            A serialised GraphDef.
        timeout : float
            Seconds after which the process is killed.

        Raises
        ------
        PlacementError
            When the process cannot be started, died twice over the graph, or took too long.
        """
        question = json.dumps(header).encode()
        with self._lock:
            for attempt in (1, 2):
                process = self._running()
                began = time.monotonic()
                try:
                    data, log = self._ask(process, (question, graph), timeout)
                except (EOFError, OSError) as error:
                    self._end()
                    if attempt == 2:
                        raise PlacementError(
                            "TensorFlow's process for dry runs died over this graph, twice: the graph may be too "
                            f"large for this machine's memory ({type(error).__name__})."
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
        """End the process."""
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is not None and (process.poll() is not None or self._memory > _GROWN):
            self._end()
            process = None
        return process if process is not None else self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        if sys.platform != "linux":
            raise PlacementError(NEEDS_CUDA_BUILD)
        if self._progress is not None:
            self._progress("Starting TensorFlow for dry runs (a few seconds, once)...")
        environment = {key: value for key, value in os.environ.items() if key.lower() not in _PROXIES}
        # No GPU is touched; the log's own lines come on standard output, their copies are not wanted.
        environment |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "1", "NO_PROXY": "*", "no_proxy": "*"}
        environment.pop("TF_CONFIG", None)
        environment.pop("TF_CPP_VMODULE", None)
        environment.pop("TF_CPP_MAX_VLOG_LEVEL", None)
        try:
            # A group of its own: the interrupt of a notebook's cell does not reach it.
            process = self._process = subprocess.Popen(
                [self._python, "-P", str(_SCRIPT)] if sys.version_info >= (3, 11) else [self._python, str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise PlacementError(f"{self._python} cannot be run: {error.strerror or error}") from error
        self.started += 1
        self._memory = 0
        try:
            data, _ = self._ask(process, None, _START_SECONDS)
            told = json.loads(data)
        except (EOFError, ValueError) as error:
            self._end()
            raise PlacementError(
                f"{self._python} could not start TensorFlow for dry runs. {NEEDS_CUDA_BUILD}"
            ) from error
        except BaseException:
            self._end()
            raise
        if "failed" in told:
            self._end()
            raise PlacementError(f"TensorFlow could not be started for dry runs: {told['failed']}. {NEEDS_CUDA_BUILD}")
        if not told["cuda"]:
            self._end()
            raise PlacementError(f"{self._python} has TensorFlow without GPU kernels. {NEEDS_CUDA_BUILD}")
        return process

    def _ask(
        self, process: subprocess.Popen[bytes], blobs: tuple[bytes, ...] | None, timeout: float
    ) -> tuple[bytes, bytes]:
        """Send a request, if there is one, and wait for the answer; a watch kills the process when it is late."""
        stdin, stdout = _pipes(process)
        late = threading.Event()
        answered = threading.Event()

        def watch() -> None:
            if not answered.wait(timeout):
                late.set()
                process.kill()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            if blobs is not None:
                write_blobs(stdin, *blobs)
            return read_blob(stdout), read_blob(stdout)
        except (EOFError, OSError):
            if late.is_set():
                raise PlacementError(
                    f"TensorFlow's placer did not answer within {timeout:g} seconds and was ended; give timeout= more."
                ) from None
            raise
        finally:
            answered.set()
            watcher.join()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:  # what was not sent yet is not wanted any more
                    continue


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise AssertionError("the process was started without pipes")
    return process.stdin, process.stdout
