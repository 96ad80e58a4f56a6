"""A real IPython kernel for tests: run a cell, see everything that a notebook would have shown."""

from __future__ import annotations

import json
import os
import queue
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

START_TIMEOUT = 60.0
_POLL = 0.05
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SHOWN = {"stream", "display_data", "execute_result", "update_display_data", "clear_output", "error"}
_COMMS = {"comm_open", "comm_msg", "comm_close"}


class KernelDied(AssertionError):
    """The kernel's process ended while a cell ran."""


@dataclass(frozen=True)
class Output:
    """One output message: its type and content as in Jupyter's protocol."""

    type: str
    content: dict[str, Any]


@dataclass(frozen=True)
class CellError:
    """An exception that the notebook showed; the traceback is plain text."""

    name: str
    value: str
    traceback: str


@dataclass
class Cell:
    """A cell that was sent, and what it has shown until now; it grows while messages are read.

    Attributes
    ----------
    status : str
        ``"running"``, then ``"ok"``, ``"error"``, or ``"aborted"`` (an earlier cell of the queue failed).
    outputs : list of Output
        In the order of arrival.
    comms : list of Output
        Widget traffic: ``comm_open``, ``comm_msg``, ``comm_close``.
    """

    msg_id: str
    code: str
    status: str = "running"
    idle: bool = False
    execution_count: int | None = None
    outputs: list[Output] = field(default_factory=list)
    comms: list[Output] = field(default_factory=list)

    @property
    def stdout(self) -> str:
        return _text(self.outputs, "stdout")

    @property
    def stderr(self) -> str:
        return _text(self.outputs, "stderr")

    @property
    def data(self) -> list[dict[str, Any]]:
        """The MIME bundles that were displayed or returned."""
        return [item.content["data"] for item in self.outputs if item.type in ("display_data", "execute_result")]

    @property
    def updates(self) -> list[dict[str, Any]]:
        """The MIME bundles that replaced an earlier display."""
        return [item.content["data"] for item in self.outputs if item.type == "update_display_data"]

    @property
    def result(self) -> dict[str, Any] | None:
        """The MIME bundle of ``Out[n]``, if there is one."""
        return next((item.content["data"] for item in self.outputs if item.type == "execute_result"), None)

    @property
    def errors(self) -> list[CellError]:
        return [
            CellError(
                item.content["ename"], item.content["evalue"], _ANSI.sub("", "\n".join(item.content["traceback"]))
            )
            for item in self.outputs
            if item.type == "error"
        ]

    @property
    def error(self) -> CellError | None:
        return next(iter(self.errors), None)


class Kernel:
    """An ipykernel of this Python, in a home of its own; use it as a context manager.

    Parameters
    ----------
    home : Path
        An empty folder: the kernel's HOME, working folder, and home of IPython's and Jupyter's settings.
    env : dict
        Environment variables to add.
    """

    def __init__(self, home: Path, env: dict[str, str] | None = None) -> None:
        self.home = home
        self._env = {**kernel_environment(home), **(env or {})}
        # No folder of kernelspecs: the user's own "python3" may be another Python. The native one is this Python.
        self._manager = KernelManager(
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),
            connection_file=str(home / "connection.json"),
        )
        self._client: BlockingKernelClient | None = None
        self._cells: dict[str, Cell] = {}
        self._probes: dict[str, Cell] = {}

    def __enter__(self) -> Kernel:
        try:
            self._manager.start_kernel(env=self._env, cwd=str(self.home))
            self._connect()
        except BaseException:
            self.shutdown()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()

    @property
    def pid(self) -> int:
        pid = self._manager.provisioner.pid  # type: ignore[union-attr]
        assert isinstance(pid, int)
        return pid

    @property
    def alive(self) -> bool:
        return bool(self._manager.is_alive())

    def run(self, code: str, timeout: float = 120.0, settle: bool = True) -> Cell:
        """Run a cell to its end, late output of file descriptors 1 and 2 included; see `finish`."""
        return self.finish(self.start(code), timeout, settle)

    def run_all(self, *codes: str, timeout: float = 120.0) -> list[Cell]:
        """Queue cells as "run all" does: after one that fails the rest is aborted."""
        cells = [self.start(code) for code in codes]
        return [self.finish(cell, timeout) for cell in cells]

    def start(self, code: str) -> Cell:
        """Send a cell and return at once; see `finish` and `wait_until`."""
        msg_id = self._channel.execute(code, allow_stdin=False, stop_on_error=True)
        assert isinstance(msg_id, str)
        cell = self._cells[msg_id] = Cell(msg_id, code)
        return cell

    def finish(self, cell: Cell, timeout: float = 120.0, settle: bool = True) -> Cell:
        """Wait for a cell's end, then (0.2 s) for what it wrote to descriptors 1 and 2 unless `settle` is false."""
        self.wait_until(lambda: _ended(cell), timeout, f"the end of the cell {cell.code[:200]!r}")
        if settle and not any(one.status == "running" for one in self._cells.values()):
            self._settle(cell)
        return cell

    def wait_until(self, condition: Callable[[], object], timeout: float = 30.0, what: str = "") -> None:
        """Read messages until the condition holds; an AssertionError when it does not in time."""
        deadline = time.monotonic() + timeout
        while True:
            # Everything that is there is read before the condition is asked again.
            waiting = 0.0 if condition() else _POLL
            while self._read(waiting):
                waiting = 0.0
            if condition():
                return
            if not self.alive:
                raise KernelDied(f"the kernel died while the test waited for {what or condition}")
            if time.monotonic() > deadline:
                shown = "\n".join(f"{one.status}: {one.outputs[-5:]}" for one in list(self._cells.values())[-2:])
                raise AssertionError(f"not within {timeout} s: {what or condition}; the last cells:\n{shown}")

    def evaluate(self, expression: str, timeout: float = 120.0) -> Any:
        """Return the value of a Python expression in the kernel; it must be one that JSON can carry."""
        cell = self.run(f"import json as _json; print('\\x02' + _json.dumps(({expression})) + '\\x03')", timeout)
        if cell.error is not None:
            raise AssertionError(f"{expression} raised:\n{cell.error.traceback}")
        return json.loads(cell.stdout.partition("\x02")[2].partition("\x03")[0])

    def interrupt(self) -> None:
        """Send SIGINT, as the notebook's stop button does."""
        self._manager.interrupt_kernel()

    def restart(self) -> None:
        """Start a fresh process; cells of the old one keep what they have shown."""
        self._disconnect()
        self._cells.clear()
        self._manager.restart_kernel(now=True)
        self._connect()

    def shutdown(self) -> None:
        """End the process, whatever it does."""
        self._disconnect()
        if self._manager.has_kernel:
            self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()

    @property
    def _channel(self) -> BlockingKernelClient:
        assert self._client is not None, "the kernel is not running"
        return self._client

    def _connect(self) -> None:
        self._client = self._manager.client()
        self._channel.start_channels()
        self._channel.wait_for_ready(timeout=START_TIMEOUT)

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.stop_channels()
            self._client = None

    def _settle(self, cell: Cell) -> None:
        # ipykernel (7.4) reads the descriptors on threads of its own: bytes written there may be sent after "idle",
        # and under the id of the next request. So write a mark behind them and read until it comes out.
        mark = f"\x02{uuid.uuid4().hex[:12]}\x03"
        code = f"__import__('os').write(1, {mark.encode()!r}); __import__('os').write(2, {mark.encode()!r})"
        before = len(cell.outputs)
        probes: list[Cell] = []

        def came_out() -> bool:
            # A request that comes right behind a failed one is aborted: ask again.
            if all(probe.status == "aborted" for probe in probes):
                msg_id = self._channel.execute(code, silent=True, store_history=False, allow_stdin=False)
                probes.append(Cell(msg_id, code))
                self._probes[msg_id] = probes[-1]
            late = [*cell.outputs[before:], *(item for probe in probes for item in probe.outputs)]
            return _ended(probes[-1]) and all(mark in _text(late, name) for name in ("stdout", "stderr"))

        self.wait_until(came_out, 30.0, "descriptors 1 and 2 to be read to their end")
        late = cell.outputs[before:]
        for probe in probes:
            late.extend(probe.outputs)
            cell.comms.extend(probe.comms)
            # What threads of the cell send from now on under the probe's id belongs to the cell.
            self._cells[probe.msg_id] = cell
            del self._probes[probe.msg_id]
        cell.outputs[before:] = _without(mark, late)

    def _read(self, timeout: float) -> bool:
        """Take what has arrived on both channels; tell whether there was anything."""
        anything = False
        try:
            self._iopub(self._channel.get_iopub_msg(timeout=timeout))
            anything = True
        except queue.Empty:
            pass
        try:
            self._reply(self._channel.get_shell_msg(timeout=0))
            anything = True
        except queue.Empty:
            pass
        return anything

    def _find(self, message: dict[str, Any]) -> Cell | None:
        msg_id = message["parent_header"].get("msg_id", "")
        return self._cells.get(msg_id) or self._probes.get(msg_id)

    def _reply(self, message: dict[str, Any]) -> None:
        cell = self._find(message)
        if cell is not None and message["msg_type"] == "execute_reply":
            cell.status = message["content"]["status"]
            cell.execution_count = message["content"].get("execution_count")

    def _iopub(self, message: dict[str, Any]) -> None:
        cell = self._find(message)
        if cell is None:
            return
        if message["msg_type"] in _SHOWN:
            cell.outputs.append(Output(message["msg_type"], message["content"]))
        elif message["msg_type"] in _COMMS:
            cell.comms.append(Output(message["msg_type"], message["content"]))
        elif message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            cell.idle = True


def kernel_environment(home: Path) -> dict[str, str]:
    """Return this process's environment with a home of its own and nothing of the user's settings."""
    env = dict(os.environ)
    # With PYTEST_CURRENT_TEST ipykernel (7.4) does not read descriptors 1 and 2, as it does for every user.
    for name in ("PYTEST_CURRENT_TEST", "PYTHONSTARTUP", "JUPYTER_PATH", "JUPYTER_CONFIG_PATH", "JUPYTER_NO_CONFIG"):
        env.pop(name, None)
    folders = {
        "HOME": home,
        "IPYTHONDIR": home / "ipython",
        "JUPYTER_CONFIG_DIR": home / "jupyter-config",
        "JUPYTER_DATA_DIR": home / "jupyter-data",
        "JUPYTER_RUNTIME_DIR": home / "jupyter-runtime",
        "XDG_CACHE_HOME": home / "cache",
        "XDG_CONFIG_HOME": home / "config",
        "XDG_DATA_HOME": home / "data",
    }
    for name, folder in folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        env[name] = str(folder)
    return env


def _ended(cell: Cell) -> bool:
    return cell.status == "aborted" or (cell.status != "running" and cell.idle)


def _text(outputs: list[Output], stream: str) -> str:
    return "".join(item.content["text"] for item in outputs if item.type == "stream" and item.content["name"] == stream)


def _without(mark: str, outputs: list[Output]) -> list[Output]:
    """Cut the mark out of both streams; a message may end within it."""
    first = {name: _text(outputs, name).index(mark) for name in ("stdout", "stderr")}
    position = {"stdout": 0, "stderr": 0}
    kept = []
    for item in outputs:
        if item.type != "stream":
            kept.append(item)
            continue
        name, text = item.content["name"], item.content["text"]
        start = min(max(first[name] - position[name], 0), len(text))
        stop = min(max(first[name] + len(mark) - position[name], 0), len(text))
        position[name] += len(text)
        if text[:start] + text[stop:]:
            kept.append(Output("stream", {"name": name, "text": text[:start] + text[stop:]}))
    return kept
