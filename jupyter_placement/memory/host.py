"""Memory of the machine and of this process."""

from __future__ import annotations

from jupyter_placement.placement import MemorySample


class HostReader:
    """Reads the machine's memory and what this process holds of it."""

    def __init__(self) -> None:
        import psutil  # here, because it takes 20 ms and whoever never looks at memory does not need it

        self._psutil = psutil
        self._process = psutil.Process()

    def read(self, time: float) -> MemorySample:
        """Read once.

        Parameters
        ----------
        time : float
            Seconds since the recording began, for the sample.

        Returns
        -------
        MemorySample
            Of the device ``"host"``: bytes that cannot be had without swapping, bytes there at all, and the resident
            bytes of this process.
        """
        used: int | None
        total: int | None
        process: int | None
        try:
            memory = self._psutil.virtual_memory()
            used, total = memory.total - memory.available, int(memory.total)
        except (OSError, self._psutil.Error):
            used, total = None, None
        try:
            process = self._process.memory_info().rss
        except (OSError, self._psutil.Error):
            process = None
        return MemorySample(time, "host", used=used, total=total, process=process)
