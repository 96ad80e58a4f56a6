"""The lines that say which devices TensorFlow has, and the table that they make."""

from __future__ import annotations

import re
from dataclasses import replace

from jupyter_placement.log.records import DeviceRecord
from jupyter_placement.log.shapes import full_name

_CREATED = re.compile(
    r"Creat(?:ing|ed) (?:TensorFlow )?device \(?(/[^\s()]{1,300})(?: with (\d{1,12}) MB memory)?\)?:?\s{0,4}"
    r"->\s{0,4}(.+)"
)
_MAPPED = re.compile(
    r"(/job:[A-Za-z]\w{0,200}/replica:\d{1,9}/task:\d{1,9}/[\w:]{1,100})\s{0,4}->\s{0,4}(.+)", re.ASCII
)
_DESCRIBED = re.compile(r"\(?device: ?|physical |id: ?\d")
_NAME = re.compile(r"\bname:\s{0,4}(.{0,200}?)\s{0,4}(?:,\s{0,4}(?:pci|compute|vendor|profile)\b|,?\s{0,4}\\?$|\)$)")
_ORDINAL = re.compile(r"(?:\bdevice|\bid):\s{0,4}(\d{1,6})\b", re.ASCII)
_PCI = re.compile(r"pci bus id:\s{0,4}([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])\b")
_CAPABILITY = re.compile(r"compute capability:\s{0,4}(\d{1,3}\.\d{1,2})\b", re.ASCII)
_OTHER = re.compile(r"\(?(?:physical )?(?:device|description): ?(.{1,200}?)\)?$")
_CONTINUES = re.compile(r"\s{0,20}(?:name:|(?:pci )?(?:bus )?id:|(?:compute )?capability:)")


def parse_device_line(text: str, rank: int | None = None) -> DeviceRecord | None:
    """Read a line that tells of a device: one being created, or one of "Device mapping".

    Examples
    --------
    >>> parse_device_line("Creating TensorFlow device (/gpu:0) -> (device: 0, name: TITAN X (Pascal), "
    ...                   "pci bus id: 0000:09:00.0)")  # doctest: +NORMALIZE_WHITESPACE
    DeviceRecord(device='/job:localhost/replica:0/task:0/device:GPU:0', physical='TITAN X (Pascal)', memory_mb=None,
    ordinal=0, pci='0000:09:00.0', compute_capability=None, rank=None)
    >>> parse_device_line("/job:localhost/replica:0/task:0/device:XLA_CPU:0 -> device: XLA_CPU device").physical
    'XLA_CPU device'
    """
    created = _CREATED.search(text)
    mapped = None if created else _MAPPED.search(text)
    if created:
        device, memory, rest = full_name(created[1]), created[2], created[3].strip()
    elif mapped:
        device, memory, rest = full_name(mapped[1]), None, mapped[2].strip()
    else:
        return None
    if device is None or not _DESCRIBED.match(rest):
        return None
    name = _NAME.search(rest) or _OTHER.match(rest)
    ordinal, pci, capability = _ORDINAL.search(rest), _PCI.search(rest), _CAPABILITY.search(rest)
    return DeviceRecord(
        device,
        " ".join(name[1].split()) if name else "",
        int(memory) if memory is not None else None,
        int(ordinal[1]) if ordinal else None,
        pci[1] if pci else None,
        capability[1] if capability else None,
        rank,
    )


def continues_device_line(text: str) -> bool:
    """Tell whether a line is the rest of a device line that was wrapped before one of its facts."""
    return _CONTINUES.match(text) is not None


class DeviceTable:
    """The devices of a log: each device and physical device once, with all that any line told of it."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, int | None], list[DeviceRecord]] = {}
        self._order: list[tuple[tuple[str, str, int | None], int]] = []

    def add(self, record: DeviceRecord) -> None:
        """Take a record in, or complete one that is the same device."""
        key = (record.device, record.physical, record.rank)
        rows = self._rows.setdefault(key, [])
        for number, row in enumerate(rows):
            if row.pci is None or record.pci is None or row.pci == record.pci:
                facts = ("memory_mb", "ordinal", "pci", "compute_capability")
                rows[number] = replace(
                    row, **{fact: getattr(record, fact) for fact in facts if getattr(row, fact) is None}
                )
                return
            if number == 63:  # a log that names more cards for one device is no log
                return
        self._order.append((key, len(rows)))
        rows.append(record)

    def records(self) -> list[DeviceRecord]:
        """List the devices in the order of the log."""
        return [self._rows[key][number] for key, number in self._order]
