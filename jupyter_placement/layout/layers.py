"""Layered drawing of one scope's children: rows from producers to consumers, few crossings.

Cycles are broken depth first (collapsing scopes makes them), rows come from longest paths, the order within a row from
barycentre sweeps. Nothing here is recursive, and nothing here knows what an item is: items are numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SWEEPS = 4


def rows_of(count: int, edges: Iterable[tuple[int, int]], widths: Sequence[float], most: float) -> list[list[int]]:
    """Arrange items in rows, so that edges point downward where cycles allow it.

    Parameters
    ----------
    count : int
        Items are numbered from 0.
    edges : iterable of (int, int)
        Producer and consumer; no loops.
    widths : sequence of float
        Width of each item, gap included.
    most : float
        Width of a row; a wider set of items is cut into several rows.

    Returns
    -------
    list of list of int
        Items of each row, from left to right. Items without edges come last.

    Examples
    --------
    >>> rows_of(4, [(0, 1), (1, 2), (2, 0)], [1, 1, 1, 1], 10)
    [[0], [1], [2], [3]]
    """
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in sorted(set(edges)):
        after[source].append(target)
    after = _without_cycles(after)
    before: list[list[int]] = [[] for _ in range(count)]
    for source, targets in enumerate(after):
        for target in targets:
            before[target].append(source)
    ranks = _ranks(after, before)
    rows: list[list[int]] = []
    for item in range(count):
        if after[item] or before[item]:
            while len(rows) <= ranks[item]:
                rows.append([])
            rows[ranks[item]].append(item)
    _uncross(rows, after, before)
    alone = [item for item in range(count) if not after[item] and not before[item]]
    return [part for row in [*rows, alone] for part in _cut(row, widths, most) if part]


def _without_cycles(after: list[list[int]]) -> list[list[int]]:
    """Turn round each edge that closes a cycle, found depth first from the items without producers."""
    fed = {target for targets in after for target in targets}
    starts = [item for item in range(len(after)) if item not in fed] + list(range(len(after)))
    state = [0] * len(after)  # 0 not seen, 1 on the path, 2 done
    straight: list[list[int]] = [[] for _ in after]
    for start in starts:
        if state[start]:
            continue
        state[start] = 1
        path = [(start, iter(after[start]))]
        while path:
            item, targets = path[-1]
            target = next(targets, None)
            if target is None:
                state[item] = 2
                path.pop()
            elif state[target] == 1:
                straight[target].append(item)
            else:
                straight[item].append(target)
                if state[target] == 0:
                    state[target] = 1
                    path.append((target, iter(after[target])))
    return [sorted(set(targets)) for targets in straight]


def _ranks(after: list[list[int]], before: list[list[int]]) -> list[int]:
    """Longest path from the producers; an item that only produces goes down to just above its first consumer."""
    waiting = [len(sources) for sources in before]
    order = [item for item, number in enumerate(waiting) if number == 0]
    ranks = [0] * len(after)
    for item in order:  # grows while it is read
        for target in after[item]:
            ranks[target] = max(ranks[target], ranks[item] + 1)
            waiting[target] -= 1
            if waiting[target] == 0:
                order.append(target)
    for item in order:
        if not before[item] and after[item]:
            ranks[item] = max(0, min(ranks[target] for target in after[item]) - 1)
    return ranks


def _uncross(rows: list[list[int]], after: list[list[int]], before: list[list[int]]) -> None:
    position = {item: (at + 0.5) / len(row) for row in rows for at, item in enumerate(row)}

    def sort(row: list[int], neighbours: list[list[int]]) -> None:
        def centre(item: int) -> float:
            near = neighbours[item]
            return sum(position[one] for one in near) / len(near) if near else position[item]

        row.sort(key=centre)
        for at, item in enumerate(row):
            position[item] = (at + 0.5) / len(row)

    for _ in range(SWEEPS):
        for row in rows[1:]:
            sort(row, before)
        for row in reversed(rows[:-1]):
            sort(row, after)


def _cut(row: list[int], widths: Sequence[float], most: float) -> list[list[int]]:
    """Cut a row that is too wide into rows of about the same width."""
    total = sum(widths[item] for item in row)
    parts = max(1, -int(-total // most)) if most > 0 else len(row)
    share = max(total / parts, 0.0)
    cut: list[list[int]] = [[]]
    filled = 0.0
    for item in row:
        if cut[-1] and (filled + widths[item] > most or filled >= share):
            cut.append([])
            filled = 0.0
        cut[-1].append(item)
        filled += widths[item]
    return cut


def places_of(
    rows: Sequence[Sequence[int]], edges: Iterable[tuple[int, int]], widths: Sequence[float], width: float
) -> list[float]:
    """Choose the left side of each item, near the middle of the items that it is connected with.

    Parameters
    ----------
    rows : sequence of sequence of int
        Items of each row, from left to right.
    edges : iterable of (int, int)
        Producer and consumer.
    widths : sequence of float
        Width of each item, gap included.
    width : float
        Of the whole; every row must fit.

    Returns
    -------
    list of float
        Left side of each item.
    """
    near: list[list[int]] = [[] for _ in widths]
    row_of = {item: at for at, row in enumerate(rows) for item in row}
    for source, target in edges:
        if row_of[source] != row_of[target]:
            near[source].append(target)
            near[target].append(source)
    left = [0.0] * len(widths)
    for row in rows:
        x = (width - sum(widths[item] for item in row)) / 2
        for item in row:
            left[item] = x
            x += widths[item]
    for turn in range(2 * SWEEPS):
        for row in rows if turn % 2 == 0 else rows[::-1]:
            _settle(row, near, left, widths, width)
    return left


def _settle(
    row: Sequence[int], near: list[list[int]], left: list[float], widths: Sequence[float], width: float
) -> None:
    wanted = []
    for item in row:
        centres = [left[one] + widths[one] / 2 for one in near[item]]
        wanted.append(sum(centres) / len(centres) - widths[item] / 2 if centres else left[item])
    # From the left no item starts before the one on its left ends; from the right none runs over the edge.
    edge = 0.0
    for at, item in enumerate(row):
        left[item] = max(wanted[at], edge)
        edge = left[item] + widths[item]
    edge = width
    for item in reversed(row):
        left[item] = min(left[item], edge - widths[item])
        edge = left[item]
