"""Out of memory: which line is a failure, which a warning, and which tells the same failure again.

Three stages tell of it: the driver (which TensorFlow asks again for less), TensorFlow's allocator, and the operation.
"""

from __future__ import annotations

import re
from typing import Any

from jupyter_placement.log.records import EventRecord
from jupyter_placement.log.shapes import find_devices

TRIGGERS = re.compile(r"ut of memory|OOM when allocating|failed to alloc|ould not allocate pinned|OUT_OF_MEMORY")
_NO_FAILURE = "this is not a failure"
_ALLOCATOR = re.compile(
    r"(?:Allocator \(([\w.-]{1,100})\) )?[Rr]an out of memory trying to allocate ([\d.]{1,30} ?[KMGTP]?i?B)"
    r"(?: \(rounded to (\d{1,20})\))?",
    re.ASCII,
)
_XLA = re.compile(r"Out of memory (?:while )?trying to allocate (\d{1,20}) bytes")
_REQUESTED = re.compile(r"requested by op ([^\s\"'\\]{1,2000})")
_DRIVER = re.compile(r"failed to alloc(?:ate)? (?:[\d.]{1,30}[KMGTPB]? \()?(\d{1,20}) bytes\)? (?:from device|on host)")
_PINNED = re.compile(r"ould not allocate pinned host memory of size: (\d{1,20})")
_OPERATION = re.compile(r"OOM when allocating tensor(?: of)?(?: with)? shape ?\[([\d,\s]{0,300})\]")
_BY = re.compile(r"by allocator ([\w.-]{1,100})", re.ASCII)
_ON = re.compile(r" on (/job:\S{1,300}) by")
_NODE = re.compile(r"\[\[(?:\{\{)?(?:[Nn]ode:? )?([A-Za-z_.^][^\s\[\]{}=]{0,2000})")
_DUMP = re.compile(
    r"bfc_allocator\.cc|gpu_cudamallocasync_allocator\.cc|Current allocation summary follows|memory fragmentation maybe"
    r"|Hint: If you want to see a list of allocated tensors|^\s*\*{20,}|^\s*\[\[(?:\{\{)?[A-Za-z_.^]"
    r"|^\s*(?:Limit|InUse|MaxInUse|NumAllocs|MaxAllocSize|Reserved|PeakReserved|LargestFreeBlock):"
)


class OutOfMemory:
    """Reads the lines of a log in order and tells which of them open or belong to an out of memory.

    Attributes
    ----------
    open : bool
        Whether lines that follow may still belong to the last one.
    """

    def __init__(self) -> None:
        self.open = False
        self._facts: dict[str, Any] = {}
        self._node: str | None = None
        self._lines: list[str] = []
        self._slot = -1
        self._others = 0
        self._told: dict[tuple[Any, ...], int] = {}

    def line(self, text: str, events: list[Any]) -> str | None:
        """Read one line.

        Parameters
        ----------
        text : str
            The line.
        events : list
            The events so far; a new one is appended, or the last one completed.

        Returns
        -------
        str or None
            ``"E"`` for a new event, ``"c"`` for a line of one that is known, ``None`` for another line.
        """
        if not TRIGGERS.search(text):
            return self._continue(text, events)
        if match := _ALLOCATOR.search(text):
            facts: dict[str, Any] = {"stage": "allocator", "fatal": _NO_FAILURE not in text}
            if match[1]:
                facts["allocator"] = match[1]
            if match[3]:
                facts["bytes"] = int(match[3])
            requested = _REQUESTED.search(text)
            node = requested[1] if requested else None
            return self._tell(("allocator", match[1], match[2], node, facts["fatal"]), node, facts, text, events)
        if match := _OPERATION.search(text):
            return self._operation(match, text, events)
        if match := _DRIVER.search(text) or _PINNED.search(text):
            size = int(match[1])
            return self._tell(
                ("driver", size), None, {"stage": "driver", "fatal": False, "bytes": size}, text, events, follows=False
            )
        if match := _XLA.search(text):
            size = int(match[1])
            return self._tell(("xla", size), None, {"stage": "op", "fatal": True, "bytes": size}, text, events)
        return self._continue(text, events)

    def _operation(self, match: re.Match[str], text: str, events: list[Any]) -> str:
        facts: dict[str, Any] = {"stage": "op", "fatal": True}
        by, on = _BY.search(text), _ON.search(text)
        if by:
            facts["allocator"] = by[1]
        if on and (devices := find_devices(on[1])):
            facts["device"] = devices[0]
        facts["shape"] = [int(size) for size in match[1].split(",") if size.strip()]
        found = _NODE.search(text, match.end())
        node = found[1] if found else None
        mine = self._facts
        same = mine.get("allocator") in (None, facts.get("allocator")) or "allocator" not in facts
        if self._slot >= 0 and mine.get("stage") == "allocator" and mine["fatal"] and "shape" not in mine and same:
            self._told[("op", *facts["shape"])] = self._slot
            self._complete(
                node, {key: facts[key] for key in ("allocator", "device", "shape") if key in facts}, text, events
            )
            return "c"
        return self._tell(("op", *facts["shape"]), node, facts, text, events)

    def _tell(
        self,
        key: tuple[Any, ...],
        node: str | None,
        facts: dict[str, Any],
        text: str,
        events: list[Any],
        follows: bool = True,
    ) -> str:
        known = self._told.get(key)
        if known is not None:
            self._load(known, events)
            self._complete(node, facts, text, events)
            return "c"
        self._slot, self._facts, self._node, self._lines = len(events), facts, node, [text.strip()]
        self._told[key] = self._slot
        self.open, self._others = follows, 0
        events.append(self._event())
        return "E"

    def _load(self, slot: int, events: list[Any]) -> None:
        event = events[slot]
        self._slot, self._facts, self._node, self._lines = slot, dict(event.details), event.node, list(event.lines)
        self.open, self._others = True, 0

    def _complete(self, node: str | None, facts: dict[str, Any], text: str, events: list[Any]) -> None:
        for key, value in facts.items():
            self._facts.setdefault(key, value)
        self._node = self._node or node
        if len(self._lines) < 50:
            self._lines.append(text.strip())
        events[self._slot] = self._event()

    def _continue(self, text: str, events: list[Any]) -> str | None:
        if not self.open:
            return None
        if not _DUMP.search(text):
            # Other threads print between the lines of a dump; a dump that has ended is not waited for.
            self._others += 1
            self.open = self._others < 20
            return None
        self._others = 0
        if self._node is None and "[[" in text and (match := _NODE.search(text)):
            self._complete(match[1], {}, text, events)
        return "c"

    def _event(self) -> EventRecord:
        return EventRecord("oom", self._node, dict(self._facts), tuple(self._lines))
