"""The tree of name scopes, with each edge lifted to the lowest scope that holds both its ends."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jupyter_placement.layout.fold import fold
from jupyter_placement.layout.scopes import Scope, ScopeTree
from jupyter_placement.summary import device_labels
from jupyter_placement.sums import in_host_memory

if TYPE_CHECKING:
    from jupyter_placement.placement import Placement

MAX_DEPTH = 48
MAX_CHILDREN = 60


def scope_tree(placement: Placement, max_children: int = MAX_CHILDREN) -> ScopeTree:
    """Make the tree of name scopes of a Placement.

    An operation whose name is also a scope lies in that scope. Several captured graphs become the first level.
    Scopes with more children than ``max_children`` have them folded: first the series of numbered siblings
    (``AddN_1``, ``AddN_2``...), then the rest by pages.

    Parameters
    ----------
    placement : Placement
        Whose operations to arrange.
    max_children : int
        The most children of any scope, at least 2.

    Returns
    -------
    ScopeTree
        The tree, with :attr:`Scope.links` filled.
    """
    tree = ScopeTree(placement, Scope("", "", "root"), labels=device_labels(placement))
    with _no_collection():
        tree.devices.update((node, data["device"]) for node, data in placement.graph.nodes(data=True))
        tree.host.update(in_host_memory(placement))
        _place_nodes(tree)
        for scope in [tree.root, *tree.scopes.values()]:
            fold(tree, scope, max_children)
        _count(tree)
        _lift_edges(tree)
    return tree


@contextmanager
def _no_collection() -> Iterator[None]:
    """Put off the search for garbage cycles: nothing made here is garbage.

    On Python 3.11 the collector took 0.8 of 1.3 s for 50,000 operations: it looks through all that is kept, again and
    again, as more is made.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _place_nodes(tree: ScopeTree) -> None:
    """Put each operation into the scope that its name says."""
    nodes = tree.placement.graph.nodes
    several = len({data.get("graph", "") for _, data in nodes(data=True)}) > 1
    tops: dict[str, Scope] = {}
    known: dict[tuple[str, str], Scope] = {}  # (graph, prefix of a name) -> scope
    names: list[tuple[str, str, str]] = []
    for node, data in nodes(data=True):
        graph, name = data.get("graph", "") if several else "", _regular(str(data.get("name", node)))
        if several and graph not in tops:
            tops[graph] = tree.add(tree.root, graph or "graph without a name", "graph")
            tree.root.scopes.append(tops[graph])
        prefix = name.rpartition("/")[0]
        if prefix and (graph, prefix) not in known:
            _make_scopes(tree, known, graph, prefix, tops.get(graph, tree.root))
        names.append((node, graph, name))
    for node, graph, name in names:
        # "loss" beside "loss/mul": the operation belongs into the scope, not beside it.
        scope = known.get((graph, name)) or known.get((graph, name.rpartition("/")[0])) or tops.get(graph, tree.root)
        scope.nodes.append(node)
        tree.home[node] = scope


def _regular(name: str) -> str:
    """Drop empty parts of a name, and keep the parts beyond the depth limit together as one."""
    if "//" in name or name.startswith("/") or name.endswith("/"):
        name = "/".join(part for part in name.split("/") if part)
    if name.count("/") >= MAX_DEPTH:
        parts = name.split("/", MAX_DEPTH)
        name = "/".join([*parts[:MAX_DEPTH], parts[MAX_DEPTH].replace("/", "\u2215")])
    return name


def _make_scopes(tree: ScopeTree, known: dict[tuple[str, str], Scope], graph: str, prefix: str, top: Scope) -> None:
    missing = []
    while prefix and (graph, prefix) not in known:
        missing.append(prefix)
        prefix = prefix.rpartition("/")[0]
    scope = known[graph, prefix] if prefix else top
    for one in reversed(missing):
        made = known[graph, one] = tree.add(scope, one.rpartition("/")[2], "scope")
        scope.scopes.append(made)
        scope = made


def _count(tree: ScopeTree) -> None:
    """Count the operations of each scope and the devices that they are on; give folds their right depth."""
    device_of, host = tree.devices, tree.host
    order = [tree.root]
    for scope in order:  # grows while it is read: parents come before their children
        for child in scope.scopes:
            child.depth = scope.depth + 1
        order.extend(scope.scopes)
    for scope in reversed(order):
        devices = scope.devices
        for node in scope.nodes:
            device = device_of[node]
            devices[device] = devices.get(device, 0) + 1
            scope.host += node in host
        for child in scope.scopes:
            for device, count in child.devices.items():
                devices[device] = devices.get(device, 0) + count
            scope.host += child.host
        scope.size = sum(devices.values())


def _lift_edges(tree: ScopeTree) -> None:
    meetings: dict[tuple[Scope, Scope], tuple[Scope, Scope | None, Scope | None]] = {}
    home = tree.home
    for producer, consumer, data in tree.placement.graph.edges(data=True):
        if producer == consumer:
            continue
        ends = home[producer], home[consumer]
        met = meetings.get(ends)
        if met is None:
            met = meetings[ends] = _meet(*ends)
        scope, source, target = met
        pair = (source or producer, target or consumer)
        index = len(tree.edges)
        tree.edges.append((producer, consumer, data))
        scope.links.setdefault(pair, []).append(index)


def _meet(one: Scope, other: Scope) -> tuple[Scope, Scope | None, Scope | None]:
    """Find the lowest scope that holds both, and the child of it on each side (``None`` when it is that scope)."""
    left: Scope | None = None
    right: Scope | None = None
    while one is not other:
        if one.depth >= other.depth:
            left = one
            assert one.parent is not None  # the root has depth 0, and only the root has no parent
            one = one.parent
        else:
            right = other
            assert other.parent is not None
            other = other.parent
    return one, left, right
