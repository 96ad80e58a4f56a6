"""A lazy reader of NVML: every call stands alone, and what is refused is ``None`` with the reason."""

from __future__ import annotations

import contextlib
from types import ModuleType
from typing import Any

from jupyter_placement.memory.cards import Card, CardReading, GpuProcess
from jupyter_placement.memory.processes import NOT_VISIBLE, ProcessTable

NO_LIBRARY = "No GPU is shown: the NVIDIA driver's library (libnvidia-ml.so.1) is not on this machine."
NO_PYNVML = "No GPU is shown: the Python package nvidia-ml-py, which asks the NVIDIA driver, is not installed."
NO_CARD = "No GPU is shown: the NVIDIA driver runs but has no card."


class NvmlUnavailable(RuntimeError):
    """NVML cannot be used; the message is a sentence that says why.

    Attributes
    ----------
    final : bool
        Whether asking again later is pointless.
    """

    def __init__(self, message: str, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class NvmlReader:
    """Reads the cards of this machine through ``pynvml``, which is imported when the reader is opened.

    Attributes
    ----------
    cards : list of Card
        The cards and MIG instances that NVML named when the reader was opened.
    driver : str or None
        Version of the driver.
    stale : bool
        Whether the last reading met an error that closing and opening the reader may heal.
    """

    def __init__(self, processes: ProcessTable | None = None) -> None:
        self.cards: list[Card] = []
        self.driver: str | None = None
        self.stale = False
        self._nvml: Any = None
        self._handles: list[Any] = []
        self._processes = processes
        self._codes: list[int] = []

    def open(self) -> None:
        """Start NVML and find the cards.

        Raises
        ------
        NvmlUnavailable
            When there is no driver, no library, or no card.
        """
        nvml = _pynvml()
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise _unavailable(nvml, error) from error
        self._nvml = nvml
        self.stale = False
        try:
            self.driver = self._call("driver", {}, "nvmlSystemGetDriverVersion")
            reasons: dict[str, str] = {}
            count = self._call("count", reasons, "nvmlDeviceGetCount")
            if not count:
                why = f"No GPU is shown: the number of cards is {reasons['count']}." if reasons else NO_CARD
                raise NvmlUnavailable(why)
            self.cards, self._handles = [], []
            for index in range(count):
                self._add(index)
        except BaseException:
            self.close()
            raise
        if self._processes is None:
            self._processes = ProcessTable()

    def close(self) -> None:
        """Stop NVML; a reader that is not open stays as it is."""
        nvml, self._nvml, self._handles = self._nvml, None, []
        if nvml is not None:
            with contextlib.suppress(nvml.NVMLError):  # the driver has gone: there is nothing left to give back
                nvml.nvmlShutdown()

    def read(self) -> list[CardReading]:
        """Read every card once; the order is that of :attr:`cards`."""
        self._codes.clear()
        readings = [self._read(card, handle) for card, handle in zip(self.cards, self._handles, strict=True)]
        if self._processes is not None:
            self._processes.keep(process.pid for reading in readings for process in reading.processes or ())
        self.stale = self._may_heal(all_lost=all(reading.used is None for reading in readings))
        return readings

    def _add(self, index: int) -> None:
        reasons: dict[str, str] = {}
        handle = self._call("card", reasons, "nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            self.cards.append(Card(index, reasons=reasons))
            self._handles.append(None)
            return
        name = self._call("name", reasons, "nvmlDeviceGetName", handle)
        pci = self._call("pci_bus_id", reasons, "nvmlDeviceGetPciInfo_v3", handle)
        bus = None if pci is None else f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
        mode = self._call("mig", reasons, "nvmlDeviceGetMigMode", handle)
        enabled = mode is not None and mode[0] == 1
        uuid = self._call("uuid", reasons, "nvmlDeviceGetUUID", handle)
        self.cards.append(Card(index, name, uuid, bus, mig_enabled=enabled, reasons=reasons))
        self._handles.append(handle)
        if enabled:
            for number in range(self._call("instances", reasons, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
                self._add_instance(index, number, handle, bus)

    def _add_instance(self, index: int, number: int, parent: Any, bus: str | None) -> None:
        reasons: dict[str, str] = {}
        handle = self._call("card", reasons, "nvmlDeviceGetMigDeviceHandleByIndex", parent, number)
        if handle is None:
            if self._codes[-1] != self._nvml.NVML_ERROR_NOT_FOUND:  # NOT_FOUND: no instance has this number
                self.cards.append(Card(index, pci_bus_id=bus, mig=number, reasons=reasons))
                self._handles.append(None)
            return
        self.cards.append(
            Card(
                index,
                self._call("name", reasons, "nvmlDeviceGetName", handle),
                self._call("uuid", reasons, "nvmlDeviceGetUUID", handle),
                bus,
                number,
                self._call("gpu_instance", reasons, "nvmlDeviceGetGpuInstanceId", handle),
                self._call("compute_instance", reasons, "nvmlDeviceGetComputeInstanceId", handle),
                reasons=reasons,
            )
        )
        self._handles.append(handle)

    def _read(self, card: Card, handle: Any) -> CardReading:
        if handle is None:
            why = card.reasons.get("card", "not available")
            names = ("total", "used", "free", "reserved", "utilisation", "processes", "process")
            return CardReading(card, reasons=dict.fromkeys(names, why))
        reasons: dict[str, str] = {}
        version2 = getattr(self._nvml, "nvmlMemory_v2", None)
        memory = self._call("reserved", reasons, "nvmlDeviceGetMemoryInfo", handle, version2)
        reserved = None if memory is None else memory.reserved
        if memory is None:  # a driver before 510, or one that refuses the newer form
            memory = self._call("used", reasons, "nvmlDeviceGetMemoryInfo", handle)
            if memory is None:
                reasons["total"] = reasons["free"] = reasons["used"]
        rates = self._call("utilisation", reasons, "nvmlDeviceGetUtilizationRates", handle)
        processes, own = self._holders(handle, reasons)
        return CardReading(
            card,
            total=None if memory is None else memory.total,
            used=None if memory is None else memory.used,
            free=None if memory is None else memory.free,
            reserved=reserved,
            utilisation=None if rates is None else rates.gpu,
            processes=processes,
            process=own,
            reasons=reasons,
        )

    def _holders(self, handle: Any, reasons: dict[str, str]) -> tuple[tuple[GpuProcess, ...] | None, int | None]:
        """List who holds the card, and how much of it this process does."""
        assert self._processes is not None
        held: dict[int, int | None] = {}
        computing = self._running("Compute", handle, reasons)
        drawing = self._running("Graphics", handle, {} if computing is not None else reasons)
        for process in (*(computing or ()), *(drawing or ())):
            # One that computes and draws stands in both lists with the same memory.
            held[process.pid] = _larger(held.get(process.pid), process.usedGpuMemory)
        if computing is None and not held:
            reasons["process"] = reasons["processes"]
            return None, None
        processes = [self._processes.describe(pid, used) for pid, used in held.items()]
        processes.sort(key=lambda process: (not process.own, -(process.used or 0), process.pid))
        mine = [process for process in processes if process.own]
        if mine:
            if mine[0].used is None:
                reasons["process"] = "not available: the driver does not tell the memory of a process"
            return tuple(processes), mine[0].used
        if computing is None:
            reasons["process"] = reasons["processes"]
        elif self._processes.container:
            reasons["process"] = NOT_VISIBLE
        else:
            return tuple(processes), 0
        return tuple(processes), None

    def _running(self, kind: str, handle: Any, reasons: dict[str, str]) -> list[Any] | None:
        """List the processes of one kind; a refusal of both kinds is told with the name of the first."""
        refusal: dict[str, str] = {}
        found: list[Any] | None = self._call("processes", refusal, f"nvmlDeviceGet{kind}RunningProcesses_v3", handle)
        if found is None and self._codes[-1] == self._nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            # a driver before 510
            found = self._call("processes", refusal, f"nvmlDeviceGet{kind}RunningProcesses_v2", handle)
        for what, why in refusal.items():
            reasons.setdefault(what, why)
        return found

    def _call(self, what: str, reasons: dict[str, str], function: str, *arguments: Any) -> Any:
        """Call one NVML function; what it refuses is ``None``, and the reason is written down."""
        nvml = self._nvml
        try:
            answer = getattr(nvml, function)(*arguments)
        except nvml.NVMLError as error:
            self._codes.append(error.value)
            reasons[what] = f"not available ({function}: {error})"
            return None
        except UnicodeDecodeError:  # a vGPU was seen to give a name that is no text
            self._codes.append(0)
            reasons[what] = f"not available ({function}: the answer is no text)"
            return None
        except AttributeError:
            self._codes.append(0)
            reasons[what] = f"not available (this version of nvidia-ml-py has no {function}: install a newer one)"
            return None
        reasons.pop(what, None)
        return answer

    def _may_heal(self, all_lost: bool) -> bool:
        """Tell whether the errors of a reading are those of a driver that went away and may come back."""
        nvml, codes = self._nvml, set(self._codes)
        if codes & {nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED}:
            return True
        return all_lost and bool(codes - {0, nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_NO_PERMISSION})


def _pynvml() -> ModuleType:
    try:
        import pynvml
    except ImportError as error:
        raise NvmlUnavailable(NO_PYNVML, final=True) from error
    module: ModuleType = pynvml
    return module


def _unavailable(nvml: Any, error: Any) -> NvmlUnavailable:
    """Say in a sentence why NVML did not start."""
    if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return NvmlUnavailable(NO_LIBRARY, final=True)
    sentence = {
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
        nvml.NVML_ERROR_NO_PERMISSION: "this user may not use the NVIDIA driver",
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
            "the NVIDIA driver and its library are of different versions (after an update, restart the machine)"
        ),
    }.get(error.value, f"the NVIDIA driver did not answer (nvmlInit: {error})")
    return NvmlUnavailable(f"No GPU is shown: {sentence}.")


def _larger(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)
