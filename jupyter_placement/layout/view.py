"""One view of a Placement: boxes and lines with their positions, for a set of opened scopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jupyter_placement.devices import sort_key
from jupyter_placement.layout.layers import places_of, rows_of
from jupyter_placement.layout.links import Totals, lifted_edges, total
from jupyter_placement.layout.routes import Area, Lanes, around
from jupyter_placement.layout.scopes import Scope, ScopeTree

MAX_MARKS = 320
MAX_LINKS = 400
WIDTH = 920.0
NODE_HEIGHT, SCOPE_HEIGHT, TITLE = 36.0, 46.0, 26.0
GAP_X, GAP_Y, PAD = 14.0, 34.0, 12.0
_CHAR = 6.4


@dataclass(slots=True)
class Box:
    """A drawn operation or scope.

    Attributes
    ----------
    kind : str
        ``"node"``, or the kind of its :class:`Scope`.
    key : str
        The operation's id, or the scope's path.
    label : str
        What is written on it, cut to its width by whoever draws it.
    x, y, width, height : float
        Left and upper side and size, in pixels at natural size; y grows downward.
    opened : bool
        Whether it is the frame of an opened scope.
    depth : int
        How many opened scopes hold it.
    size : int
        Operations that it stands for.
    devices : list of (str or None, int)
        Operations by device, in the devices' order, never-placed ones last.
    """

    kind: str
    key: str
    label: str
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0
    opened: bool = False
    depth: int = 0
    size: int = 1
    devices: list[tuple[str | None, int]] = field(default_factory=list)


@dataclass(slots=True)
class Link:
    """A drawn line between two boxes.

    Attributes
    ----------
    source, target : int
        Indices of the boxes in :attr:`View.boxes`.
    points : list of (float, float)
        Its course.
    totals : Totals
        The edges that it stands for.
    """

    source: int
    target: int
    points: list[tuple[float, float]]
    totals: Totals


@dataclass(slots=True)
class View:
    """Everything to draw.

    Attributes
    ----------
    boxes : list of Box
        Frames of opened scopes come before what is in them.
    links : list of Link
        The lines.
    width, height : float
        Of the whole, in pixels at natural size.
    opened : tuple of str
        Paths of the scopes that are open.
    closed : tuple of str
        Paths of those that were asked for and stay closed, because the picture would hold too much.
    hidden_links : int
        Lines left out, those of the fewest tensors, because there were too many.
    """

    boxes: list[Box]
    links: list[Link]
    width: float
    height: float
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    hidden_links: int = 0


def default_opened(tree: ScopeTree) -> tuple[str, ...]:
    """Choose what is open at first: the captured graphs if they are few, and scopes that are alone in theirs."""
    opened: list[str] = []
    waiting = [tree.root]
    graphs = tree.root.scopes
    several = 1 < len(graphs) <= 4 and all(scope.kind == "graph" for scope in graphs)
    if several and sum(_children(scope) for scope in graphs) <= 80:
        opened = [scope.path for scope in graphs]
        waiting = list(graphs)
    for scope in waiting:
        while len(scope.scopes) == 1 and not scope.nodes:
            scope = scope.scopes[0]
            opened.append(scope.path)
    return tuple(opened)


def layout(tree: ScopeTree, opened: Sequence[str] = (), width: float = WIDTH, max_marks: int = MAX_MARKS) -> View:
    """Lay out the scopes of a Placement, those opened in place.

    Parameters
    ----------
    tree : ScopeTree
        From :func:`scope_tree`.
    opened : sequence of str
        Paths of the scopes to open, the latest last; a scope in a closed one is not seen. Unknown paths are ignored.
    width : float
        Width to aim at, in pixels.
    max_marks : int
        The most boxes; when more would be seen, the scopes opened first are closed.

    Returns
    -------
    View
        Boxes and lines.
    """
    shown, closed = _bounded(tree, opened, max_marks)
    order = sorted(shown, key=lambda scope: scope.depth)
    frames: dict[Scope, _Frame] = {}
    for scope in reversed(order):
        frames[scope] = _arrange(tree, scope, shown, frames, max(width - 2 * PAD * scope.depth, width / 2))
    boxes: list[Box] = []
    index: dict[Scope | str, int] = {}
    origins = {tree.root: (0.0, 0.0, 0)}
    for scope in order:
        left, top, depth = origins[scope]
        for item, (x, y, wide, high) in frames[scope].places.items():
            box = _box(tree, item, left + x, top + y, wide, high, depth)
            if isinstance(item, Scope) and item in shown:
                box.opened = True
                origins[item] = (box.x + PAD, box.y + TITLE + PAD, depth + 1)
            index[item] = len(boxes)
            boxes.append(box)
    links, hidden = _links(tree, shown, boxes, index)
    whole = frames[tree.root]
    return View(
        boxes,
        links,
        _fit(boxes, links, whole.width),
        whole.height,
        tuple(scope.path for scope in order[1:]),
        closed,
        hidden,
    )


@dataclass(slots=True)
class _Frame:
    """The children of one opened scope, placed; and its size without padding."""

    places: dict[Scope | str, tuple[float, float, float, float]]
    width: float
    height: float


def _children(scope: Scope) -> int:
    return len(scope.scopes) + len(scope.nodes)


def _bounded(tree: ScopeTree, opened: Sequence[str], most: int) -> tuple[set[Scope], tuple[str, ...]]:
    """Take the scopes to open, the latest first, with all that hold them, while there is room."""
    wanted = {path: tree.scopes[path] for path in opened if path in tree.scopes}
    shown = {tree.root}
    marks = _children(tree.root)
    refused = []
    for path, scope in reversed(wanted.items()):
        if any(one is not tree.root and one.path not in wanted for one in scope.ancestors()):
            continue
        new = [one for one in scope.ancestors() if one not in shown]
        more = sum(_children(one) for one in new)
        if marks + more > most and len(shown) > 1:
            refused.append(path)
            continue
        shown.update(new)
        marks += more
    return shown, tuple(path for path in refused if wanted[path] not in shown)


def _size(tree: ScopeTree, item: Scope | str) -> tuple[float, float]:
    label = tree.label(item)
    if isinstance(item, str):
        return min(max(len(label) * _CHAR + 18, 84.0), 190.0), NODE_HEIGHT
    return min(max(len(label) * _CHAR * 1.1 + 22, 112.0), 210.0), SCOPE_HEIGHT


def _arrange(tree: ScopeTree, scope: Scope, shown: set[Scope], frames: dict[Scope, _Frame], most: float) -> _Frame:
    items: list[Scope | str] = [*scope.scopes, *scope.nodes]
    numbers = {item: number for number, item in enumerate(items)}
    edges = [(numbers[source], numbers[target]) for source, target in scope.links]
    sizes = []
    for item in items:
        if isinstance(item, Scope) and item in shown:
            wide, high = frames[item].width + 2 * PAD, frames[item].height + 2 * PAD + TITLE
            sizes.append((max(wide, _size(tree, item)[0] + 40), high))
        else:
            sizes.append(_size(tree, item))
    widths = [size[0] + GAP_X for size in sizes]
    rows = rows_of(len(items), edges, widths, most)
    width = max((sum(widths[number] for number in row) for row in rows), default=0.0)
    lefts = places_of(rows, edges, widths, width)
    places: dict[Scope | str, tuple[float, float, float, float]] = {}
    y = 0.0
    for row in rows:
        high = max(sizes[number][1] for number in row)
        for number in row:
            # Boxes of one row stand on its middle line; a tall frame does not push its neighbours to its top.
            top = y + (high - sizes[number][1]) / 2
            places[items[number]] = (lefts[number] + GAP_X / 2, top, *sizes[number])
        y += high + GAP_Y
    return _Frame(places, width, max(y - GAP_Y, 0.0))


def _box(tree: ScopeTree, item: Scope | str, x: float, y: float, width: float, height: float, depth: int) -> Box:
    label = tree.label(item)
    if isinstance(item, str):
        return Box("node", item, label, x, y, width, height, depth=depth, devices=[(tree.devices[item], 1)])
    devices = sorted(item.devices.items(), key=lambda one: (one[0] is None, sort_key(one[0] or "")))
    return Box(item.kind, item.path, label, x, y, width, height, depth=depth, size=item.size, devices=devices)


def _links(
    tree: ScopeTree, shown: set[Scope], boxes: list[Box], index: dict[Scope | str, int]
) -> tuple[list[Link], int]:
    links = []
    for source, target, edges in lifted_edges(tree, shown):
        key = (source, target)
        totals = tree.totals.get(key)
        if totals is None:
            totals = tree.totals[key] = total(tree, edges)
        links.append(Link(index[source], index[target], [], totals))
    links.sort(key=lambda link: (link.totals.transfers, link.totals.tensors, -link.source, -link.target), reverse=True)
    hidden = len(links) - MAX_LINKS
    del links[MAX_LINKS:]
    _route(links, boxes)
    return links, max(hidden, 0)


def _route(links: list[Link], boxes: list[Box]) -> None:
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


def _fit(boxes: list[Box], links: list[Link], width: float) -> float:
    """Move everything right where a lane runs left of the boxes, and return the width with all lanes."""
    xs = [x for link in links for x, _ in link.points]
    left, right = min([0.0, *xs]), max([width, *xs])
    if left < 0:
        for box in boxes:
            box.x -= left
        for link in links:
            link.points = [(x - left, y) for x, y in link.points]
    return right - left
