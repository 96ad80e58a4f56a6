"""Fold the children of a scope that has too many of them to be drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jupyter_placement.layout.scopes import Scope, ScopeTree

_NUMBER = re.compile(r"_?\d+$")
_SHORTEST_SERIES = 8


def fold(tree: ScopeTree, scope: Scope, most: int) -> None:
    """Put children of a scope into new scopes between it and them, until no more than ``most`` are left.

    Parameters
    ----------
    tree : ScopeTree
        The tree that gets the new scopes.
    scope : Scope
        Whose children to fold.
    most : int
        The most children that it, and every fold made, may have.
    """
    children: list[Scope | str] = [*scope.scopes, *scope.nodes]
    if len(children) <= most:
        return
    series: dict[tuple[str, bool], list[Scope | str]] = {}
    for child in children:
        series.setdefault((_NUMBER.sub("", tree.label(child)), isinstance(child, str)), []).append(child)
    kept: list[Scope | str] = []
    for (stem, _), members in series.items():
        if len(members) < _SHORTEST_SERIES or len(members) == len(children):
            kept.extend(members)
        else:
            kept.append(_fold_of(tree, scope, f"{stem}…", "series", members, most))
    _adopt(tree, scope, _paged(tree, scope, kept, most))


def _paged(tree: ScopeTree, parent: Scope, items: list[Scope | str], most: int) -> list[Scope | str]:
    """Group neighbours into pages, and pages into pages, until there are few enough."""
    while len(items) > most:
        pages: list[Scope | str] = []
        for at in range(0, len(items), most):
            members = items[at : at + most]
            if len(members) == 1:
                pages.append(members[0])
                continue
            first, last = _edge_label(tree, members[0], 0), _edge_label(tree, members[-1], -1)
            pages.append(_fold_of(tree, parent, f"{first} … {last}", "page", members, most))
        items = pages
    return items


def _edge_label(tree: ScopeTree, item: Scope | str, side: int) -> str:
    label = tree.label(item)
    return label.split(" … ")[side]


def _fold_of(
    tree: ScopeTree,
    parent: Scope,
    label: str,
    kind: str,
    members: Sequence[Scope | str],
    most: int,
) -> Scope:
    made = tree.add(parent, label, kind)
    _adopt(tree, made, _paged(tree, made, list(members), most))
    return made


def _adopt(tree: ScopeTree, scope: Scope, children: list[Scope | str]) -> None:
    scope.scopes, scope.nodes = [], []
    for child in children:
        if isinstance(child, str):
            scope.nodes.append(child)
            tree.home[child] = scope
        else:
            scope.scopes.append(child)
            child.parent = scope
