"""Placement lines as they arrive on two descriptors, and to which graph each belongs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from jupyter_placement.log import EagerRecord, PlacementRecord, is_log_header, is_twin, parse_line


class LineCollector:
    """Collect the placement lines of a run; every other line is left alone.

    TensorFlow writes each line twice, on descriptor 1 and, behind a log prefix, on descriptor 2.

    Attributes
    ----------
    lines : list of str
        The lines of the placement log, without their copies.
    other : list of str
        The last other lines on descriptor 2.
    read, matched, duplicate : int
        Lines read; those that told a placement; those that told one again.
    drain : callable
        Waits until the lines that were written have arrived.
    follow : callable
        Called with whether lines are expected, to watch a ``sys.stdout`` that the code has put in the place of the one
        before.
    always : callable
        Tells whether the code has TensorFlow's placement log switched on itself.
    own_log : bool
        Whether other log lines of TensorFlow are taken as well: they tell of what a recording itself has TensorFlow do.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.other: list[str] = []
        self._found: dict[int, list[PlacementRecord]] = {1: [], 2: []}
        self.own_log = False
        self.drain: Callable[[], None] = lambda: None
        self.follow: Callable[[bool], None] = lambda on: None
        self.always: Callable[[], bool] = lambda: False
        self._expected = 0
        self._lock = threading.Lock()
        self.read = 0
        self.duplicate = 0
        self.matched = 0

    def expect(self, on: bool) -> None:
        """Begin or end to expect lines of the log from this process; what was written before is sorted out first."""
        self.drain()
        with self._lock:
            self._expected += 1 if on else -1
            self.follow(self._expected > 0)

    def take(self, descriptor: int, line: str) -> bool:
        """Note a line if it is one of the placement log; tell whether it is."""
        self.read += 1
        record = parse_line(line)
        if record is not None and not self._expected and not self.always():
            record = None  # a child process's, or the code's own: TensorFlow has nothing to log here now
        if isinstance(record, PlacementRecord):
            self._found[descriptor].append(record)
            if descriptor == 1:
                self.lines.append(line)
            return True
        if isinstance(record, EagerRecord) or (self._expected and is_log_header(line)):
            self.lines.append(line)
            return True
        if self.own_log and is_twin(line):
            return True
        if descriptor == 2:
            self.other.append(line)
            del self.other[:-2000]
        return False

    def take_text(self, text: str) -> bool:
        """Note what is written through ``sys.stdout`` if it is of the placement log; tell whether it is.

        Where Python has registered as TensorFlow's log listener, a new session's table of devices and the lines of
        eager operations are printed by Python (seen on 2.21).
        """
        if not self._expected and not self.always():
            return False
        lines = text.splitlines()
        if not lines or not all(
            not line or is_log_header(line) or isinstance(parse_line(line), EagerRecord) for line in lines
        ):
            return False
        self.lines.extend(line for line in lines if line)
        self.read += len(lines)
        return any(lines)

    def pop(self) -> list[PlacementRecord]:
        """Return the placements since the last call, each told once."""
        first, second = self._found[1], self._found[2]
        self._found = {1: [], 2: []}
        missing = Counter(second) - Counter(first)
        extra = []
        for record in second:
            if missing[record] > 0:
                missing[record] -= 1
                extra.append(record)
        self.duplicate += len(second) - len(extra)
        self.matched += len(first) + len(extra)
        return first + extra


def node_names(graph_def: Any) -> set[tuple[str, str]]:
    """Return ``(name, op)`` of each node of a GraphDef."""
    return {(node.name, node.op) for node in graph_def.node}


def split_records(
    records: Sequence[PlacementRecord], expected: Sequence[set[tuple[str, str]]]
) -> list[list[PlacementRecord]]:
    """Share a run of placement lines out among the graphs that were placed meanwhile.

    The placer writes one graph after the other. A line belongs to the first graph that still waits for it; one that
    no graph names (a node that TensorFlow added and took away again) to the graph of the line before it.

    Parameters
    ----------
    records : sequence of PlacementRecord
        In the order of the log.
    expected : sequence of set of (str, str)
        Name and operation type of the nodes of each graph, in the order in which they were placed.

    Returns
    -------
    list of list of PlacementRecord
        One list for each graph.

    Examples
    --------
    >>> lines = [PlacementRecord("a", "Const", "D0"), PlacementRecord("a", "Const", "D1")]
    >>> split_records(lines, [{("a", "Const")}, {("a", "Const")}]) == [lines[:1], lines[1:]]
    True
    """
    shares: list[list[PlacementRecord]] = [[] for _ in expected]
    if not expected:
        return shares
    waiting = [set(keys) for keys in expected]
    current = 0
    for record in records:
        key = (record.name, record.op or "")
        if key not in waiting[current]:
            later = next((i for i in range(len(waiting)) if key in waiting[i]), None)
            current = current if later is None else later
        waiting[current].discard(key)
        shares[current].append(record)
    return shares
