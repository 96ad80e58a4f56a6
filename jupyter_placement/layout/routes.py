"""The course of each line: straight down where the way is free, else along a lane beside the boxes in between."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

Point = tuple[float, float]
_STEPS = 10
_CLEAR = 9.0
_LANE = 7.0
_BEND = 26.0


class Area(NamedTuple):
    """A rectangle that no line should run through."""

    left: float
    top: float
    right: float
    bottom: float


def curve(start: Point, end: Point) -> list[Point]:
    """Sample a smooth line that leaves downward and arrives from above.

    Examples
    --------
    >>> points = curve((0, 0), (10, 20))
    >>> points[0], points[-1], len(points)
    ((0.0, 0.0), (10.0, 20.0), 11)
    """
    (x0, y0), (x3, y3) = start, end
    reach = max(10.0, (y3 - y0) / 2)
    return _bezier(start, (x0, y0 + reach), (x3, y3 - reach), end)


def around(start: Point, end: Point, aside: float = 36.0) -> list[Point]:
    """Sample a line that goes round on the right, for an edge that points upward or sideways."""
    x = max(start[0], end[0]) + aside
    return _bezier(start, (x, start[1]), (x, end[1]), end)


class Lanes:
    """Lanes between and beside the boxes of one view.

    Lines to the same place share a lane, as one bundle; others do not lie over each other.

    Parameters
    ----------
    areas : sequence of Area
        The boxes.
    """

    def __init__(self, areas: Sequence[Area]) -> None:
        self._areas = sorted(areas, key=lambda area: area.top)
        self._taken: list[tuple[float, float, float]] = []
        self._bundles: dict[Hashable, tuple[float, Point]] = {}

    def route(self, start: Point, end: Point, bundle: Hashable) -> list[Point]:
        """Return the course from a producer's lower side to a consumer's upper side below it.

        Parameters
        ----------
        start, end : tuple of float
            Where it leaves, and where it arrives if it arrives alone.
        bundle : hashable
            Lines with the same value may run together.
        """
        between = [area for area in self._areas if area.top < end[1] - 1 and area.bottom > start[1] + 1]
        direct = curve(start, end)
        if not any(_crosses(direct, area) for area in between):
            return direct
        top, bottom = start[1], end[1]
        shared = self._bundles.get(bundle)
        if shared is not None and not any(area.left - _CLEAR < shared[0] < area.right + _CLEAR for area in between):
            x, end = shared
        else:
            x = self._lane((start[0] + end[0]) / 2, between, top, bottom)
            self._bundles[bundle] = x, end
        self._taken.append((x, top, bottom))
        bend = min(_BEND, (bottom - top) / 3)
        first, last = (x, top + bend), (x, bottom - bend)
        return [*curve(start, first), *curve(last, end)]

    def _lane(self, wanted: float, between: Iterable[Area], top: float, bottom: float) -> float:
        """Find the free x nearest to the one that is wanted."""
        blocked = [(area.left - _CLEAR, area.right + _CLEAR) for area in between]
        blocked += [(x - _LANE, x + _LANE) for x, high, low in self._taken if high < bottom and low > top]
        blocked.sort()
        merged: list[tuple[float, float]] = []
        for left, right in blocked:
            if merged and left < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], right))
            else:
                merged.append((left, right))
        for left, right in merged:
            if left < wanted < right:
                return left if wanted - left < right - wanted else right
        return wanted


def _bezier(a: Point, b: Point, c: Point, d: Point) -> list[Point]:
    points = []
    for step in range(_STEPS + 1):
        t = step / _STEPS
        s = 1 - t
        i, j, k, m = s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t
        points.append((i * a[0] + j * b[0] + k * c[0] + m * d[0], i * a[1] + j * b[1] + k * c[1] + m * d[1]))
    return points


def _crosses(points: Iterable[Point], area: Area) -> bool:
    return any(area.left < x < area.right and area.top < y < area.bottom for x, y in points)
