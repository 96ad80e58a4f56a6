"""Errors and warnings that run over several lines, and the second telling of the same failure."""

from __future__ import annotations

import re
from dataclasses import replace

from jupyter_placement.log.errors import TRIGGERS, parse_placement_error
from jupyter_placement.log.records import EventRecord

_LONGEST_LINE = 20_000
_MOST_LINES = 2_000
_KEPT_LINES = 100
_CONTINUES = re.compile(
    r"""\s{0,200}(?:
      Colocation[ ](?:Debug[ ]Info|group[ ]had|members)
    | Root[ ]Member\(
    | Registered[ ](?:kernels|devices):
    | \.?[ ]{0,4}Registered:
    | device='
    | <no[ ]registered[ ]kernels>
    | Op:[ ]\w
    | Node[ ]attrs:
    | \[\[(?:\{\{)?[A-Za-z_.^]
    | See[ ]below[ ]for[ ]details
    | Current[ ]candidate[ ]devices
    | /job:[\w/:]{1,300}\]?[.,]?\s*$
    | \(OpKernel[ ]was[ ]found
    | [A-Za-z_]\w{0,200}:(?:[ ][A-Z][A-Z_0-9]{1,60})+\s*$            # MatMul: GPU CPU
    | [^\s()]{1,5000}[ ]\([A-Za-z_]\w{0,200}\)(?:\s*$|[ ]{1,4}(?:/|framework))   # name (MatMul) /device:GPU:0
    )""",
    re.VERBOSE | re.ASCII,
)
_TRIGGER = re.compile("|".join(re.escape(trigger) for trigger in TRIGGERS))


class ErrorBlocks:
    """Gathers the lines of placement errors, one after the other, into events."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._slot = -1
        self._known: dict[tuple[str, str | None, str], int] = {}

    @property
    def open(self) -> bool:
        """Whether lines that follow may belong to an error."""
        return bool(self._lines)

    def starts(self, text: str) -> bool:
        """Tell whether a line begins an error."""
        return _TRIGGER.search(text) is not None

    def start(self, text: str, events: list[EventRecord | None]) -> None:
        """Begin an error; its place among the events is kept until :meth:`close`."""
        self._lines = [self._cut(text)]
        self._slot = len(events)
        events.append(None)

    def take(self, text: str) -> bool:
        """Take a line in, if it is the rest of the error."""
        if not self._lines or len(self._lines) >= _MOST_LINES or not _CONTINUES.match(text):
            return False
        self._lines.append(self._cut(text))
        return True

    def close(self, events: list[EventRecord | None]) -> str:
        """End the error.

        Returns
        -------
        str
            The kind of its first line: ``"E"`` for a new event, ``"c"`` when it was told before, ``"N"`` for neither.
        """
        lines, slot = self._lines, self._slot
        self._lines = []
        event = parse_placement_error("\n".join(lines))
        if event is None:
            return "N"
        event = replace(event, lines=event.lines[:_KEPT_LINES])
        key = (event.kind, event.node, str(event.details.get("requested")) if event.node is None else "")
        known = self._known.get(key)
        if known is None:
            self._known[key] = slot
            events[slot] = event
            return "E"
        first = events[known]
        if first is not None:
            lines_of_both = (*first.lines, *event.lines)[:_KEPT_LINES]
            events[known] = replace(first, details={**event.details, **first.details}, lines=lines_of_both)
        return "c"

    @staticmethod
    def _cut(text: str) -> str:
        if len(text) <= _LONGEST_LINE:
            return text
        match = _TRIGGER.search(text)
        start = max(0, match.start() - 1000) if match else 0
        return text[start : start + _LONGEST_LINE]
