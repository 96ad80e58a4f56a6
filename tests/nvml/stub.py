"""The stand-in for the NVIDIA driver: built, scripted, and loaded by another process through pynvml's own search."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SOURCE = Path(__file__).with_name("nvml_stub.c")
LIBRARY = "libnvidia-ml.so.1"
CALL_TIMEOUT = 120.0
GIB = 1 << 30


def build(folder: Path) -> Path:
    """Build the library into a folder, and return the folder."""
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]
    command = ["gcc", *flags, f"-Wl,-soname,{LIBRARY}", "-o", str(folder / LIBRARY), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return folder


def card(index: int, **facts: object) -> str:
    """Write the line of a card; what is not given is that of a Tesla T4 in slot ``index``."""
    defaults = {
        "name": "Tesla T4",
        "uuid": f"GPU-{index:08x}-0000-0000-0000-000000000000",
        "bus": index + 1,
        "total": 16 * GIB,
        "used": (index + 1) * GIB,
        "reserved": GIB // 4,
        "util": 10 * index + 5,
    }
    return _line("card", **{**defaults, **facts})


def instance(index: int, slot: int, **facts: object) -> str:
    """Write the line of a MIG instance in a slot of a card."""
    defaults = {
        "slot": slot,
        "name": "A100 1g.5gb",
        "uuid": f"MIG-{index:04x}{slot:04x}-0000-0000-0000-000000000000",
        "gi": slot + 7,
        "ci": 0,
        "total": 5 * GIB,
        "used": GIB,
        "reserved": 0,
    }
    return _line(f"instance\t{index}", **{**defaults, **facts})


def process(where: object, pid: int, used: int, kind: str = "C") -> str:
    """Write the line of a process on a card, or on a MIG instance (``"0.1"``); ``used=-1`` is not told."""
    return _line(f"process\t{where}", pid=pid, used=used, kind=kind)


def error(function: str, code: int, where: object = "") -> str:
    """Write the line that makes a function fail, for every card or for one."""
    return f"error\t{function}\t{code}\t{where}"


def hang(function: str, seconds: float) -> str:
    """Write the line that makes a function take its time, until the script no longer says so."""
    return f"hang\t{function}\t{int(1000 * seconds)}"


class StubDriver:
    """A process in which ``libnvidia-ml.so.1`` is the stand-in; pynvml finds it as it would find the driver's.

    Parameters
    ----------
    library : Path
        The folder of the library that :func:`build` made.
    folder : Path
        Where the script is kept.
    """

    def __init__(self, library: Path, folder: Path) -> None:
        self.script = folder / "machine.txt"
        self.environment = {"LD_LIBRARY_PATH": str(library), "NVML_STUB_SCRIPT": str(self.script)}
        self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        self.pid = 0

    def __enter__(self) -> StubDriver:
        self.machine()
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            self.pid = self.call(os.getpid)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.machine()  # whatever hangs goes on
        self._pool.shutdown()

    def machine(self, *lines: str, encoding: str = "utf-8") -> None:
        """Change the machine to what these lines say, at once and whole."""
        written = self.script.with_suffix(".new")
        written.write_text("\n".join(["driver\t550.54.15", *lines, ""]), encoding=encoding)
        written.replace(self.script)

    def call(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a function of ``tests.nvml.actions`` in the process."""
        return self._pool.submit(function, *arguments, **options).result(CALL_TIMEOUT)


def _line(head: str, **facts: object) -> str:
    return "\t".join([head, *(f"{name}={value}" for name, value in facts.items())])
