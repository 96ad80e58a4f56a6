"""Start the helper process, talk to it, and end it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from jupyter_placement.capture.interrupts import interrupts_wait
from jupyter_placement.dryrun.helper_main import read_blob, write_blobs
from jupyter_placement.placement import PlacementError

NEEDS_CUDA_BUILD = (
    "A dry run needs TensorFlow's Linux build with CUDA, which knows the kernels of a GPU without having one: "
    "pip install tensorflow (not tensorflow-cpu) on Linux, or give python= the Python of an environment that has it."
)
_SCRIPT = Path(__file__).with_name("helper_main.py")
KILLED = "killed by signal 9"
_START_SECONDS = 120.0
_END_SECONDS = 5.0
_PROXIES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
# Of another TensorFlow's settings, and what would fill its log.
_DROPPED = ("TF_CONFIG", "TF_CPP_VMODULE", "TF_CPP_MAX_VLOG_LEVEL", "PYTHONHOME")
_PACKAGES = {"grpc": "grpcio", "google": "protobuf"}


class LateError(PlacementError):
    """The process did not answer in time, and was killed."""


def environment(given: Mapping[str, str], another_python: bool) -> dict[str, str]:
    """Return the environment of the helper process.

    Parameters
    ----------
    given : mapping
        This process's.
    another_python : bool
        Whether it is that of another environment, for which this one's ``PYTHONPATH`` is not meant.

    Examples
    --------
    >>> sorted(environment({"https_proxy": "http://proxy:3128", "LANG": "C", "TF_CONFIG": "{}"}, False))
    ['CUDA_VISIBLE_DEVICES', 'LANG', 'NO_PROXY', 'TF_CPP_MIN_LOG_LEVEL', 'no_proxy']
    """
    dropped = (*_DROPPED, "PYTHONPATH") if another_python else _DROPPED
    kept = {key: value for key, value in given.items() if key.lower() not in _PROXIES and key not in dropped}
    # No GPU is touched. The log's lines come on standard output, their copies at level 0 are not wanted.
    return kept | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "1", "NO_PROXY": "*", "no_proxy": "*"}


def start(python: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start the helper process; return it, and the version of its TensorFlow.

    Raises
    ------
    PlacementError
        When it cannot be started, or has no TensorFlow that will do.
    """
    if sys.platform != "linux":
        raise PlacementError(NEEDS_CUDA_BUILD)
    process: subprocess.Popen[bytes] | None = None
    try:
        # A session of its own: the interrupt of a notebook's cell does not reach it. Nor may an interrupt come between
        # the process and this variable, or nobody could end it.
        with interrupts_wait():
            process = subprocess.Popen(
                [python, str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(os.environ, python != sys.executable),
                start_new_session=True,
            )
    except OSError as error:
        raise PlacementError(f"{python} cannot be run: {error.strerror or error}") from error
    except KeyboardInterrupt:
        if process is not None:
            end(process)
        raise
    try:
        told = _first_words(process, python)
        if "failed" in told:
            raise PlacementError(_refusal(python, told))
        version = str(told.get("tensorflow"))
        if not told.get("cuda"):
            raise PlacementError(f"{python} has TensorFlow {version} without GPU kernels. {NEEDS_CUDA_BUILD}")
    except BaseException:
        end(process)
        raise
    return process, version


def _first_words(process: subprocess.Popen[bytes], python: str) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(ask(process, None, _START_SECONDS)[0])
    except LateError:
        raise PlacementError(f"{python} did not start TensorFlow within {_START_SECONDS:g} seconds.") from None
    except (EOFError, OSError, ValueError) as error:
        how = ending(process)
        said = process.stderr.read().decode(errors="replace").strip().splitlines() if process.stderr else []
        last = f": {said[-1]}" if said else ""
        raise PlacementError(
            f"{python} could not start TensorFlow for dry runs ({how}{last}). {NEEDS_CUDA_BUILD}"
        ) from error
    return told


def _refusal(python: str, told: Mapping[str, Any]) -> str:
    missing = told.get("missing")
    if missing == "tensorflow":
        return f"{python} has no TensorFlow. {NEEDS_CUDA_BUILD}"
    if missing:
        package = _PACKAGES.get(missing.partition(".")[0], missing)
        return f"{python} lacks the module {missing}, which a dry run needs: {python} -m pip install {package}"
    return f"{python} could not start TensorFlow for dry runs: {told['failed']}. {NEEDS_CUDA_BUILD}"


def ask(process: subprocess.Popen[bytes], blobs: tuple[bytes, ...] | None, timeout: float) -> tuple[bytes, bytes]:
    """Send a request, if there is one, and wait for the answer; a watch kills the process when it is late.

    Raises
    ------
    LateError
        When it was late.
    EOFError, OSError
        When the process has gone.
    """
    stdin, stdout = _pipes(process)
    late = threading.Event()
    answered = threading.Event()

    def watch() -> None:
        if not answered.wait(min(timeout, threading.TIMEOUT_MAX)):
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
            raise LateError(
                f"TensorFlow's placer did not answer within {timeout:g} seconds and was ended; give timeout= more."
            ) from None
        raise
    finally:
        answered.set()
        watcher.join()


def ending(process: subprocess.Popen[bytes]) -> str:
    """Say how a process ended that does not answer any more; kill it if it goes on."""
    try:
        code = process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return "it went on without an answer"
    if code == -signal.SIGKILL:
        return KILLED
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and wait until it has gone."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:  # what was not sent yet is not wanted any more
                continue


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise AssertionError("the process was started without pipes")
    return process.stdin, process.stdout
