"""The placements of a log: each once, and those that may be a torn copy kept apart until the log has ended."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jupyter_placement.log.records import PlacementRecord
from jupyter_placement.log.shapes import Sight

# Words of a progress bar or a print that ran into a name: "Epoch 1/3enc/conv", "step 11 loss 0.49enc/conv".
_RAN_INTO = re.compile(
    r"[|=%\[\]]|\d{1,9}/\d{1,9}\b|\b\d{1,9}/\d{1,9}[A-Za-z_]|\d\.\d|\bepoch\b|\bstep\b|\bloss\b|\d\d:\d\d|(?:^|\s)\d{1,9}[A-Za-z_.]"
    r"|(?:^|\s)\d{1,9}(?:\s|$)",
    re.IGNORECASE,
)


class PlacementTable:
    """The placements of a log, in the order of their first clean sight.

    A name with blanks in it may be a name that something ran into ("Epoch 1/3enc/conv"), or an odd name: whether its
    end is another operation's name is only known at the end.

    Attributes
    ----------
    placements : dict of PlacementRecord to bool
        ``False`` for those in doubt.
    demoted : list of int
        Numbers of lines that were counted as the first to tell a placement, and are not; to be cleared by who counts.
    """

    def __init__(self) -> None:
        self.placements: dict[PlacementRecord, bool] = {}
        self.demoted: list[int] = []
        # For each in doubt: its line, and how many such records make that line count.
        self._doubtful: dict[PlacementRecord, list[int]] = {}
        self._new_doubtful: list[PlacementRecord] = []
        self._new_clean = False

    def see(self, sight: Sight) -> bool:
        """Take in what a line shows, and tell whether that is new."""
        record = PlacementRecord(sight.name, sight.op, sight.device)
        known = self.placements.get(record)
        if sight.clean or sight.where == "prefix":
            if known is False:
                del self.placements[record]
                self._clear(record)
            self.placements[record] = True
            self._new_clean = self._new_clean or not known
            return not known
        if known is None:
            self.placements[record] = False
            self._doubtful[record] = []
            self._new_doubtful.append(record)
            return True
        return False

    def take_clean(self, records: Iterable[PlacementRecord]) -> int:
        """Take in placements that are known to be clean, and return how many of them are new."""
        before = len(self.placements)
        self.placements.update(dict.fromkeys(records, True))
        new = len(self.placements) - before
        for record in [record for record in self._doubtful if self.placements[record]]:
            del self.placements[record]
            self.placements[record] = True
            self._clear(record)
            new += 1
        return new

    def end_line(self, kind: str, number: int) -> None:
        """Say what kind of line it was that the last sights are from."""
        if self._new_doubtful and kind == "P" and not self._new_clean:
            still = [record for record in self._new_doubtful if record in self._doubtful]
            group = [number, len(still)]  # one for all of them
            self._doubtful.update((record, group) for record in still)
        if self._new_doubtful:
            self._new_doubtful = []
        self._new_clean = False

    def take_back_last(self, number: str, known: set[str]) -> bool:
        """Take the last placement back if its device ends in a number and is not known."""
        record = next(reversed(self.placements))
        if not record.device.endswith(number) or record.device in known:
            return False
        del self.placements[record]
        self._doubtful.pop(record, None)
        return True

    def settle(self) -> None:
        """At the end, drop what is a torn copy, or was in doubt and looks like it."""
        for record in list(self._doubtful):
            if _RAN_INTO.search(record.name) or self._has_twin(record):
                del self.placements[record]
                self._clear(record)

    def _clear(self, record: PlacementRecord) -> None:
        group = self._doubtful.pop(record)
        if group:
            group[1] -= 1
            if group[1] == 0:
                self.demoted.append(group[0])

    def _has_twin(self, record: PlacementRecord) -> bool:
        """Tell whether the end of a name is a name that was seen clean with the same type and device."""
        start = max(record.name.rfind(mark) for mark in " \t:()@;,+~$&#^") + 1
        return any(
            self.placements.get(PlacementRecord(record.name[position:], record.op, record.device))
            for position in range(start, min(start + 64, len(record.name)))
        )
