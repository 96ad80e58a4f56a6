"""The helper processes of this process: one for each Python that dry runs were asked for."""

from __future__ import annotations

import atexit
import os
import sys
import threading

from jupyter_placement.dryrun.helper import Helper


class Helpers:
    """Owns the helper processes, and ends them with this process.

    A process that was forked off has none of them: the pipes are its parent's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._helpers: dict[str, Helper] = {}

    def of(self, python: str | os.PathLike[str] | None = None) -> Helper:
        """Return the helper of a Python; of this process's own if none is given. It is started when it is asked."""
        path = os.fspath(python) if python is not None else sys.executable
        with self._lock:
            if self._owner != os.getpid():
                self._owner, self._helpers = os.getpid(), {}
                atexit.register(self.close)
            return self._helpers.setdefault(path, Helper(path))

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            helpers = list(self._helpers.values()) if self._owner == os.getpid() else []
        for helper in helpers:
            helper.close()


# They must outlive a call: to start TensorFlow takes 4 s, to place a graph 20 ms. Nothing is started at import.
HELPERS = Helpers()
