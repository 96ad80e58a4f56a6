"""Give each line of a view its course."""

from __future__ import annotations

from jupyter_placement.layout.routes import Area, Lanes, around
from jupyter_placement.layout.shapes import Box, Link


def route(links: list[Link], boxes: list[Box]) -> None:
    """Let the lines of a box leave and arrive side by side, ordered by where they go."""
    leaving: dict[int, list[Link]] = {}
    arriving: dict[int, list[Link]] = {}
    for link in links:
        leaving.setdefault(link.source, []).append(link)
        arriving.setdefault(link.target, []).append(link)

    def port(box: Box, at: int, number: int) -> float:
        return box.x + box.width * (0.15 + 0.7 * (at + 1) / (number + 1))

    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    for source, group in leaving.items():
        group.sort(key=lambda link: (boxes[link.target].x, link.target))
        starts.update({id(link): port(boxes[source], at, len(group)) for at, link in enumerate(group)})
    for target, group in arriving.items():
        group.sort(key=lambda link: (boxes[link.source].x, link.source))
        ends.update({id(link): port(boxes[target], at, len(group)) for at, link in enumerate(group)})
    lanes = Lanes([Area(box.x, box.y, box.x + box.width, box.y + box.height) for box in boxes if not box.opened])
    # Short lines first: they take the middle, long ones go round them.
    for link in sorted(links, key=lambda link: abs(boxes[link.target].y - boxes[link.source].y)):
        source_box, target_box = boxes[link.source], boxes[link.target]
        bottom = source_box.y + source_box.height
        if bottom < target_box.y:
            bundle = (link.target, link.totals.transfers > 0, link.totals.tensors > 0)
            link.points = lanes.route((starts[id(link)], bottom), (ends[id(link)], target_box.y), bundle)
        else:
            start = (source_box.x + source_box.width, source_box.y + source_box.height / 2)
            end = (target_box.x + target_box.width, target_box.y + target_box.height / 2)
            link.points = around(start, end)


def fit(boxes: list[Box], links: list[Link], width: float) -> float:
    """Move everything right where a lane runs left of the boxes, and return the width with all lanes."""
    xs = [x for link in links for x, _ in link.points]
    left, right = min([0.0, *xs]), max([width, *xs])
    if left < 0:
        for box in boxes:
            box.x -= left
        for link in links:
            link.points = [(x - left, y) for x, y in link.points]
    return right - left
