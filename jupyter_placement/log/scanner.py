"""Line by line: what each line of a log tells, whatever happened to it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from jupyter_placement.log.blocks import ErrorBlocks
from jupyter_placement.log.mapping import DeviceTable, continues_device_line, parse_device_line
from jupyter_placement.log.oom import TRIGGERS as OOM_TRIGGERS
from jupyter_placement.log.oom import OutOfMemory
from jupyter_placement.log.records import EagerRecord, EventRecord, PlacementRecord
from jupyter_placement.log.shapes import find_eager, find_sights
from jupyter_placement.log.table import PlacementTable
from jupyter_placement.log.text import json_lines, plain_text, rank_of, unfold

# What a line must hold to begin anything. HINTS is cheaper over much text: without one of them it holds no INTEREST.
# Long ones are found faster, and only those lines need "/job:" looked for that the bulk reader could not read.
HINTS = (
    " device",
    "Device mapping:",
    "No OpKernel was reg",
    " alloc",
    "output truncated",
    "IOPub data rate",
    "placer.cc:",
)
INTEREST = re.compile(
    r"/job:| device specification|Device mapping:|Cannot assign a device|Cannot merge devices|but available devices"
    r"|No OpKernel was reg|changing the devices|no device type supports|OOM when alloc|ry(?:ing)? to alloc"
    r"|failed to alloc|not allocate pinned|output truncated|IOPub data rate|placer\.cc|TensorFlow device"
)
_TRUNCATED = re.compile(r"output truncated|IOPub data rate exceeded")
_LAST_NUMBER = re.compile(r":[1-9]\d{0,8}$")
_CUT_OFF = re.compile(r": \([^()\s]{0,250}\)?:?[ \t]?(?:/[\w/:]{0,600})?$")
_ORDER = "BNcdPVE"
BLANKS = " \t\r\f\v"


class Scanner:
    """Reads lines in order and collects what they tell.

    Attributes
    ----------
    table : PlacementTable
        The placements.
    devices : DeviceTable
        The devices.
    events : list of EventRecord, EagerRecord or None
        ``None`` holds the place of one that is not ended, or turned out to be none.
    tally : dict of str to int
        Number of lines of each kind.
    kinds : list of str or None
        The kind of each line, where kept.
    """

    def __init__(self, keep_kinds: bool = False) -> None:
        self.table = PlacementTable()
        self.devices = DeviceTable()
        self.events: list[Any] = []
        self.tally = dict.fromkeys("BNcdPVE", 0)
        self.kinds: list[str] | None = [] if keep_kinds else None
        self._eager: dict[tuple[str, str], EagerRecord] = {}
        self._errors = ErrorBlocks()
        self._oom = OutOfMemory()
        self._error_line = -1
        self._torn = ""
        self._folded = ""
        self._device_text = ""

    @property
    def waits(self) -> bool:
        """Whether what the last line began may go on in the next one."""
        return bool(self._torn or self._folded or self._device_text) or self._errors.open or self._oom.open

    def line(self, raw: str) -> None:
        """Read one line, without its line end."""
        self._count(self._line(raw))

    def _count(self, kind: str) -> None:
        self.table.end_line(kind, len(self.kinds) if self.kinds is not None else 0)
        self.tally[kind] += 1
        if self.kinds is not None:
            self.kinds.append(kind)
        if self.table.demoted:
            self._demote()

    def _demote(self) -> None:
        """Count lines again that turned out to be torn copies."""
        for line in self.table.demoted:
            self.tally["P"] -= 1
            self.tally["d"] += 1
            if self.kinds is not None:
                self.kinds[line] = "d"
        self.table.demoted.clear()

    def take_clean(self, records: Iterable[PlacementRecord], lines: int) -> None:
        """Take in placements that are known to be clean, and the number of lines that told them."""
        new = self.table.take_clean(records)
        self.tally["P"] += new
        self.tally["d"] += lines - new
        self._demote()

    def _line(self, raw: str) -> str:
        if not raw or not raw.strip(BLANKS):
            return "B"
        if not INTEREST.search(raw):
            return self._other(raw) if self.waits else "N"
        if "{" in raw[:20] or '"' in raw[:200]:
            inner = json_lines(raw)
            if inner is not None:
                return max((self._line(line) for line in inner if line != raw), key=_ORDER.index, default="N")
        return self._telling(plain_text(raw), rank_of(raw) if "]<std" in raw else None)

    def _telling(self, text: str, rank: int | None) -> str:
        kind = self._placement(text)
        if kind:
            return kind
        eager = find_eager(text) if "Executing" in text else []
        if eager:
            self.take_eager(eager)
            self.tally["E"] -= len(eager)
            return "E"
        if self._errors.starts(text):
            self._close_error()
            self._errors.start(text, self.events)
            self._error_line = len(self.kinds) if self.kinds is not None else 0
            if "Ignoring device specification" in text:  # all of it is on one line
                return self._errors.close(self.events)
            return "E"
        if self._errors.take(text):
            return "c"
        if "->" in text:
            device = parse_device_line(text, rank) or parse_device_line(unfold(text), rank)
            if device is not None:
                self.devices.add(device)
                self._device_text = text if device.pci is None and text.rstrip()[-1:] in ",\\" else ""
                return "V"
        if OOM_TRIGGERS.search(text) and (kind := self._oom.line(text, self.events)):
            return kind
        if "Device mapping:" in text:
            return "c"
        if _TRUNCATED.search(text):
            self.events.append(EventRecord("truncated", None, {}, (text.strip()[:2000],)))
            return "E"
        return self._other(text)

    def _placement(self, text: str) -> str | None:
        """Read a placement, or the parts of one; ``None`` when the line holds nothing of that kind."""
        if self._folded:
            folded, self._folded = self._folded, ""
            if kind := self._joined(folded, text):
                return kind
        if "/job:" not in text and "placer.cc" not in text and not _CUT_OFF.search(text, max(0, len(text) - 900)):
            return None
        sights, fragment, torn = find_sights(text)
        if not sights and "  " in text and not fragment:
            sights, fragment, torn = find_sights(unfold(text))
        if (
            not sights
            and (cut := _CUT_OFF.search(text, max(0, len(text) - 900)))
            and "/job:" not in text[: cut.start()]
        ):
            self._folded = text if len(text) < 20_000 else ""
            self._torn = fragment.split(": (")[0] if fragment else ""
            return "d"
        if not sights and not torn:
            self._torn = fragment or self._torn
            return "d" if fragment else None
        kind = "d"
        for sight in sights:
            if self._torn and sight.where == "line":
                # The rest of a name whose beginning another thread cut off; the clean twin tells it whole.
                self._torn = ""
                continue
            if self.table.see(sight):
                kind = "P"
        self._torn = fragment
        return kind

    def take_eager(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Take in eager operations, one a line, each with its full device name."""
        before = len(self.events)
        known = self._eager
        for pair in pairs:
            record = known.get(pair)
            if record is None:
                record = known[pair] = EagerRecord(*pair)
            self.events.append(record)
        self.tally["E"] += len(self.events) - before

    def _joined(self, first: str, second: str) -> str | None:
        """Read a placement that a line end cut in two after its name."""
        joint = len(first)
        for text in (first + second, first.rstrip() + second.lstrip(), first.rstrip() + " " + second.lstrip()):
            sights, fragment, _ = find_sights(text)
            own, _, _ = find_sights(second)
            if len(sights) > len(own) and joint:
                self._torn = ""
                kinds = [self.table.see(sight) for sight in sights]
                self._torn = fragment
                return "P" if any(kinds) else "d"
        return None

    def _other(self, text: str) -> str:
        """Read a line that by itself tells nothing: the rest of what an earlier one began, or other text."""
        if self._folded:
            folded, self._folded = self._folded, ""
            if kind := self._joined(folded, plain_text(text)):
                return kind
        self._torn = ""
        if self._device_text:
            before, self._device_text = self._device_text, ""
            if continues_device_line(text):
                device = parse_device_line(before.rstrip("\\ ") + " " + text.strip())
                if device is not None:
                    self.devices.add(device)
                    return "c"
        if self._errors.take(text):
            return "c"
        self._close_error()
        return self._oom.line(text, self.events) or "N"

    def _close_error(self) -> None:
        if not self._errors.open:
            return
        kind = self._errors.close(self.events)
        if kind != "E":
            self.tally["E"] -= 1
            self.tally[kind] += 1
            if self.kinds is not None:
                self.kinds[self._error_line] = kind

    def last_line(self, raw: str) -> None:
        """Read a last line that has no line end and may be cut off."""
        placements, events = len(self.table.placements), len(self.events)
        kind = self._line(raw)
        cut = bool(self._folded) or ("placer.cc:" in raw and bool(self._torn))
        if (number := _LAST_NUMBER.search(raw)) and self._take_back(placements, events, number[0]):
            cut = True
        if cut:
            kind = "E"
            self.events.append(EventRecord("truncated", None, {}, (raw.strip()[:2000],)))
        self._count(kind)
        self._folded = self._torn = ""

    def _take_back(self, placements: int, events: int, number: str) -> bool:
        """Take back what a line that ends in a device number told first, if that number may go on: GPU:1, GPU:10."""
        known = {row.device for row in self.devices.records()}
        if len(self.table.placements) > placements:
            return self.table.take_back_last(number, known)
        if len(self.events) > events and isinstance(last := self.events[-1], EagerRecord):
            if not last.device.endswith(number) or last.device in known:
                return False
            self.events.pop()
            return True
        return False

    def finish(self) -> None:
        """End the log."""
        self._close_error()
        if self._folded:
            self.events.append(EventRecord("truncated", None, {}, (self._folded.strip()[:2000],)))
            self._folded = ""
        self.table.settle()
        self._demote()
