"""Many clean lines at once, with one compiled pattern: what makes a log of a million lines take a second.

Everything or nothing: text that holds one damaged, wrapped or odd line is left to the scanner.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import repeat
from operator import add

from jupyter_placement.log.records import PlacementRecord
from jupyter_placement.log.scanner import BLANKS, HINTS, INTEREST, Scanner
from jupyter_placement.log.shapes import full_name

# A line, and the copy of it behind the log prefix that TensorFlow writes at once. The groups are wide, because a class
# that excludes one character is matched several times faster than a precise one; what they caught is checked in bulk.
# The look ahead keeps the blanks from being given back one by one: time would grow with their number squared.
_PAIR = re.compile(
    r"^[ \t]*(?=[^ \t])(?:[IWEF\d][^:\n]*:\d[^\]\n]*\] )?([^:\n]*): (\([^)\n]*\):? ?/job:[^\n]*)\n"
    r"(?:[^\]\n]*\] \1: \2\n)?",
    re.MULTILINE,
)
_EAGER = re.compile(r"^[ \t]*(?=[^ \t])(?:[^\n\]]*\] )?Executing op ([^\s]+) in device (/job:[^\n]*)\n", re.MULTILINE)
_NAME_BYTES = bytes(
    byte for byte in range(128) if chr(byte).isalnum() or chr(byte) in "_.\\/>-\n"
)  # no "^" and nothing that is not ASCII: rare, and the scanner knows them
_BLANK = re.compile(rf"\n[{BLANKS}]*(?=\n)")
_FIRST_BLANK = re.compile(rf"[{BLANKS}]*\n")
_TOLD = re.compile(r"\(([A-Za-z_][^\s():]{0,250})\):? ?(/job:\S+)[ \t]*", re.ASCII)


class _Cache(dict[str, tuple[str, str] | None]):
    """Remembers what a function made of a text: operation type and full device; a log has few of both."""

    def __init__(self, make: Callable[[str], tuple[str, str] | None]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> tuple[str, str] | None:
        if len(self) > 50_000:  # text that is no log may have many
            self.clear()
        made = self[text] = self._make(text)
        return made


def _told(text: str) -> tuple[str, str] | None:
    match = _TOLD.fullmatch(text)
    device = full_name(match[2]) if match else None
    return (match[1], device) if match and device else None


def _device(text: str) -> tuple[str, str] | None:
    device = full_name(text.rstrip(" \t"))
    return ("", device) if device else None


class BulkReader:
    """Reads text whose lines are all clean, or no part of it."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._told = _Cache(_told)
        self._devices = _Cache(_device)
        self._share = 1.0  # of the last text's lines that the pattern matched

    def read(self, text: str) -> bool:
        """Read whole lines of text into the scanner.

        Returns
        -------
        bool
            Whether it did; otherwise nothing has changed.
        """
        lines = text.count("\n")
        told, other = (text, "") if self._share > 0.8 else _parted(text) if self._share > 0.3 else _picked(text)
        parts = _PAIR.split(told)
        rest = "".join(parts[::3])
        eager: list[str] = []
        if "Executing op" in rest:
            eager = _EAGER.split(rest)
            rest = "".join(eager[::3])
        if told.count("/job:") != told.count("\n") - rest.count("\n"):
            return False  # a line was not matched, or what was taken for a prefix held another device
        if _interesting(rest) or _interesting(other):
            return False
        names = parts[1::3]
        if "\n".join(names).encode("utf-8", "surrogatepass").translate(None, _NAME_BYTES) or "" in names:
            return False
        facts = list(map(self._told.__getitem__, parts[2::3]))
        eager_devices = list(map(self._devices.__getitem__, eager[2::3]))
        if None in facts or None in eager_devices:
            return False
        scanner, others = self._scanner, rest.count("\n") + other.count("\n")
        # Everything here is called from C: PlacementRecord(name, *fact) for each would take three times as long.
        rows = map(add, zip(names), facts)
        records = map(tuple.__new__, repeat(PlacementRecord), rows)
        scanner.take_clean(records, lines - others - len(eager_devices))
        scanner.take_eager((op, device[1]) for op, device in zip(eager[1::3], eager_devices, strict=True) if device)
        blank = _blank_lines(rest) + _blank_lines(other)
        scanner.tally["B"] += blank
        scanner.tally["N"] += others - blank
        self._share = 1 - others / lines if lines else 1.0
        return True


def _interesting(text: str) -> bool:
    return any(hint in text for hint in HINTS) and INTEREST.search(text) is not None


def _parted(text: str) -> tuple[str, str]:
    """Part the lines that name a device in full from the others, where there are many of both."""
    lines = text.split("\n")
    told = [line for line in lines if "/job:" in line]
    other = [line for line in lines if "/job:" not in line]  # among them the empty one after the last line end
    told.append("")
    return "\n".join(told), "\n".join(other)


def _picked(text: str) -> tuple[str, str]:
    """Part the lines that name a device in full from the others, where there are few of them."""
    told, other = [], []
    position = end = 0
    find, rfind = text.find, text.rfind
    while (position := find("/job:", end)) >= 0:
        start = rfind("\n", end, position) + 1 or end
        other.append(text[end:start])
        end = find("\n", position) + 1 or len(text)
        told.append(text[start:end])
    other.append(text[end:])
    return "".join(told), "".join(other)


def _blank_lines(text: str) -> int:
    return len(_BLANK.findall(text)) + (text[:1] in "\n \t\r\f\v" and _FIRST_BLANK.match(text) is not None)
