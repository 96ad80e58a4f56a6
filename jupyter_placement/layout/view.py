"""One view of a Placement: boxes and lines with their positions, for a set of opened scopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_placement.devices import sort_key
from jupyter_placement.layout.layers import places_of, rows_of
from jupyter_placement.layout.links import lifted_edges, total
from jupyter_placement.layout.routing import fit, route
from jupyter_placement.layout.scopes import Scope, ScopeTree
from jupyter_placement.layout.shapes import Box, Link, View

MAX_MARKS = 320
MAX_LINKS = 400
WIDTH = 920.0
NODE_HEIGHT, SCOPE_HEIGHT, TITLE = 36.0, 46.0, 26.0
GAP_X, GAP_Y, PAD = 14.0, 34.0, 12.0
_CHAR = 6.4


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
    order = sorted(shown, key=lambda scope: (scope.depth, scope.path))
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
        fit(boxes, links, whole.width),
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
        box = Box("node", item, label, x, y, width, height, depth=depth, devices=[(tree.devices[item], 1)])
        box.host = int(item in tree.host)
        return box
    devices = sorted(item.devices.items(), key=lambda one: (one[0] is None, sort_key(one[0] or "")))
    box = Box(item.kind, item.path, label, x, y, width, height, depth=depth, size=item.size, devices=devices)
    box.host = item.host
    return box


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
    route(links, boxes)
    return links, max(hidden, 0)
