"""A name scope, and the tree of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_placement.layout.links import Totals
    from jupyter_placement.placement import Placement


@dataclass(slots=True, eq=False)
class Scope:
    """A name scope, a captured graph, or a fold of siblings.

    Attributes
    ----------
    path : str
        What names it; unique in its tree.
    label : str
        What is written on it.
    kind : str
        ``"root"``, ``"graph"`` (a captured graph), ``"scope"``, ``"series"`` (siblings with numbered names), or
        ``"page"`` (some of too many siblings).
    parent : Scope or None
        The scope that holds it.
    depth : int
        Its distance from the root.
    scopes, nodes : list
        The scopes and the ids of the operations directly in it.
    size : int
        Operations in it, at any depth.
    devices : dict
        How many of those each device holds (``None``: never placed).
    host : int
        How many of those are on another device than a CPU and have their values in host memory.
    links : dict
        For each pair of children with edges from one to the other, the indices of those edges in
        :attr:`ScopeTree.edges`.
    """

    path: str
    label: str
    kind: str = "scope"
    parent: Scope | None = None
    depth: int = 0
    scopes: list[Scope] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    size: int = 0
    devices: dict[str | None, int] = field(default_factory=dict)
    host: int = 0
    links: dict[tuple[Scope | str, Scope | str], list[int]] = field(default_factory=dict)

    def ancestors(self) -> Iterator[Scope]:
        """Go from this scope to the root, both included."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def __repr__(self) -> str:
        return f"<Scope {self.path!r}: {self.size} operations>"


@dataclass(slots=True, eq=False)
class ScopeTree:
    """The name scopes of a Placement.

    Attributes
    ----------
    placement : Placement
        Whose scopes they are.
    root : Scope
        The scope of everything.
    scopes : dict
        Every scope but the root, by path.
    home : dict
        The scope that each operation lies directly in, by its id.
    edges : list of tuple
        Producer, consumer and attributes of each edge.
    devices : dict
        The device of each operation, by its id.
    host : set
        Ids of the operations on another device than a CPU whose values are in host memory.
    totals : dict
        What the lines drawn before stand for, by their ends, so that each is summed up once.
    splits : dict
        The edges of a pair by what is in its producer (0) or consumer (1), so that they are looked at once.
    labels : dict
        The short name of each device; :meth:`Placement.short` goes through all operations each time.
    """

    placement: Placement
    root: Scope
    scopes: dict[str, Scope] = field(default_factory=dict)
    home: dict[str, Scope] = field(default_factory=dict)
    edges: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    devices: dict[str, str | None] = field(default_factory=dict)
    host: set[str] = field(default_factory=set)
    totals: dict[tuple[Scope | str, Scope | str], Totals] = field(default_factory=dict)
    splits: dict[tuple[Scope | str, Scope | str, int], dict[Scope | str, list[int]]] = field(default_factory=dict)
    labels: dict[str | None, str] = field(default_factory=dict)

    def label(self, item: Scope | str) -> str:
        """Return what is written on a scope or an operation."""
        if isinstance(item, Scope):
            return item.label
        data = self.placement.graph.nodes[item]
        name = str(data.get("name", item))
        mark = "" if data.get("compiled") is None else " (XLA)"
        return (name.rstrip("/").rpartition("/")[2] or name or "(no name)") + mark

    def opened_for(self, node: str) -> list[str]:
        """Return the paths of the scopes to open so that an operation is seen, outermost first."""
        return [scope.path for scope in self.home[node].ancestors() if scope.parent is not None][::-1]

    def add(self, parent: Scope, label: str, kind: str) -> Scope:
        """Make a scope with a path of its own; its parent does not hold it yet."""
        path = f"{parent.path}/{label}" if parent.path else label
        while path in self.scopes:
            path += "'"
        scope = self.scopes[path] = Scope(path, label, kind, parent, parent.depth + 1)
        return scope
