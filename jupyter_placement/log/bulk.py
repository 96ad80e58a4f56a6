"""Many clean lines at once, with one compiled pattern: what makes a log of a million lines take a second.

Everything or nothing: text that holds one damaged, wrapped or odd line is left to the scanner.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import repeat

from jupyter_placement.log.records import PlacementRecord
from jupyter_placement.log.scanner import BLANKS, HINTS, INTEREST, Scanner
from jupyter_placement.log.shapes import full_name

# A line, and the copy of it behind the log prefix that TensorFlow writes at once. The groups are wide, because a class
# that excludes one character is matched several times faster than a precise one; what they caught is checked in bulk.
# The look ahead keeps the blanks from being given back one by one: time would grow with their number squared.
_PAIR = re.compile(
    r"^[ \t]*(?=[^ \t])(?:[IWEF\d][^:\n]*:\d[^\]\n]*\] )?([^:\n]*): \(([^)\n]*)\):? ?(/job:[^\n]*)\n"
    r"(?:[^\]\n]*\] \1: \(\2\):? ?\3\n)?",
    re.MULTILINE,
)
_EAGER = re.compile(r"^[ \t]*(?=[^ \t])(?:[^\n\]]*\] )?Executing op ([^\s]+) in device (/job:[^\n]*)\n", re.MULTILINE)
_NAME_BYTES = bytes(
    byte for byte in range(128) if chr(byte).isalnum() or chr(byte) in "_.\\/>-\n"
)  # no "^" and nothing that is not ASCII: rare, and the scanner knows them
_BLANK = re.compile(rf"\n[{BLANKS}]*(?=\n)")
_FIRST_BLANK = re.compile(rf"[{BLANKS}]*\n")
_OP = re.compile(r"[A-Za-z_][^\s():]{0,250}", re.ASCII)


class _Cache(dict[str, str]):
    """Remembers what a function made of a text; ``""`` where it refused it."""

    def __init__(self, make: Callable[[str], str | None]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> str:
        if len(self) > 10_000:  # a log has few devices and operation types; text that is no log may have many
            self.clear()
        made = self[text] = self._make(text) or ""
        return made


class BulkReader:
    """Reads text whose lines are all clean, or no part of it."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._ops = _Cache(lambda text: text if _OP.fullmatch(text) else None)
        self._devices = _Cache(lambda text: full_name(text.rstrip(" \t")))
        self._dense = True

    def read(self, text: str) -> bool:
        """Read whole lines of text into the scanner.

        Returns
        -------
        bool
            Whether it did; otherwise nothing has changed.
        """
        lines = text.count("\n")
        told, other = (text, "") if self._dense else _with_device(text)
        parts = _PAIR.split(told)
        rest = "".join(parts[::4])
        eager: list[str] = []
        if "Executing op" in rest:
            eager = _EAGER.split(rest)
            rest = "".join(eager[::3])
        if "/job:" in rest or _interesting(rest) or _interesting(other):
            return False
        names = parts[1::4]
        if "\n".join(names).encode("utf-8", "surrogatepass").translate(None, _NAME_BYTES) or "" in names:
            return False
        ops = list(map(self._ops.__getitem__, parts[2::4]))
        devices = list(map(self._devices.__getitem__, parts[3::4]))
        eager_devices = list(map(self._devices.__getitem__, eager[2::3]))
        if "" in devices or "" in ops or "" in eager_devices:
            return False
        scanner, others = self._scanner, rest.count("\n") + other.count("\n")
        records = map(tuple.__new__, repeat(PlacementRecord), zip(names, ops, devices, strict=True))
        scanner.take_clean(records, lines - others - len(eager_devices))
        scanner.take_eager(zip(eager[1::3], eager_devices, strict=True))
        blank = _blank_lines(rest) + _blank_lines(other)
        scanner.tally["B"] += blank
        scanner.tally["N"] += others - blank
        self._dense = others * 8 < lines * 7
        return True


def _interesting(text: str) -> bool:
    return any(hint in text for hint in HINTS) and INTEREST.search(text) is not None


def _with_device(text: str) -> tuple[str, str]:
    """Part the lines that name a device in full from the others."""
    told, other = [], []
    position = end = 0
    find, rfind = text.find, text.rfind
    while (position := find("/job:", end)) >= 0:
        start = rfind("\n", end, position) + 1 or end
        other.append(text[end:start])
        end = find("\n", position) + 1
        told.append(text[start:end])
    other.append(text[end:])
    return "".join(told), "".join(other)


def _blank_lines(text: str) -> int:
    return len(_BLANK.findall(text)) + (text[:1] in "\n \t\r\f\v" and _FIRST_BLANK.match(text) is not None)
