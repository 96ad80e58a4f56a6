"""Who a process is that the driver names: this one, another one here, or one outside this container."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from jupyter_placement.memory.cards import GpuProcess

# PROC_PID_INIT_INO of the Linux kernel: the number of the machine's own pid namespace.
_MACHINE_PID_NAMESPACE = "pid:[4026531836]"
_CARD_FILES = ("/dev/nvidia", "/dev/dxg")

NOT_VISIBLE = "not visible from this container"


def in_pid_namespace(proc: str = "/proc") -> bool:
    """Tell whether this process sees only the processes of a container."""
    try:
        return os.readlink(f"{proc}/self/ns/pid") != _MACHINE_PID_NAMESPACE
    except OSError:  # not Linux, or /proc is closed
        return False


def holds_a_card(pid: int, proc: str = "/proc") -> bool:
    """Tell whether a process has a file of the NVIDIA driver open; ``False`` where that cannot be read."""
    folder = f"{proc}/{pid}/fd"
    try:
        entries = os.listdir(folder)
    except OSError:
        return False
    for entry in entries:
        try:
            if os.readlink(f"{folder}/{entry}").startswith(_CARD_FILES):
                return True
        except OSError:  # closed in the meantime
            continue
    return False


class ProcessTable:
    """Finds names of processes, and remembers them for as long as the driver goes on naming them.

    In a container the driver may give process numbers of the machine. One that happens to exist here too would get a
    wrong name, so there a process counts as known only if it has the driver open.

    Parameters
    ----------
    proc : str
        Where the kernel shows its processes.
    """

    def __init__(self, proc: str = "/proc") -> None:
        import psutil

        self._psutil = psutil
        self._proc = proc
        self._known: dict[int, GpuProcess] = {}
        self.container = in_pid_namespace(proc)

    def describe(self, pid: int, used: int | None) -> GpuProcess:
        """Say who a process is.

        Parameters
        ----------
        pid : int
            Its number, as the driver gives it.
        used : int or None
            Bytes that it holds.
        """
        known = self._known.get(pid)
        if known is None:
            known = self._known[pid] = self._look_up(pid)
        if known.used != used:
            known = self._known[pid] = replace(known, used=used)
        return known

    def keep(self, pids: Iterable[int]) -> None:
        """Forget every process but these, so that a number given anew gets its new name."""
        wanted = set(pids)
        self._known = {pid: process for pid, process in self._known.items() if pid in wanted}

    def _look_up(self, pid: int) -> GpuProcess:
        if self.container and not holds_a_card(pid, self._proc):
            return GpuProcess(pid, reason=NOT_VISIBLE)
        own = pid == os.getpid()
        try:
            process = self._psutil.Process(pid)
            name: str | None = process.name()
        except self._psutil.NoSuchProcess:
            return GpuProcess(pid, own=own, reason=NOT_VISIBLE if self.container else "not available: it has ended")
        except (self._psutil.Error, OSError):
            return GpuProcess(pid, own=own, reason="not available: no permission to read it")
        try:
            user: str | None = process.username()
        except (self._psutil.Error, OSError, KeyError):  # KeyError: a user number without a name
            user = None
        try:
            command: str | None = " ".join(process.cmdline())
        except (self._psutil.Error, OSError):
            command = None
        return GpuProcess(pid, name=name, user=user, command=command, own=own)
