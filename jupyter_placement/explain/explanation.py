"""The rule of one node in plain sentences: which it was, what it rests on, and what would change it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from jupyter_placement.explain.otherwise import otherwise
from jupyter_placement.explain.rules import Rules
from jupyter_placement.explain.sentences import remedy, sentence
from jupyter_placement.placement import Placement, PlacementError


@dataclass(frozen=True)
class Explanation:
    """Why a node is where it is.

    Attributes
    ----------
    node : str
        Its id.
    rule : str
        Which rule applied: a key of :data:`~jupyter_placement.explain.rule.RULES`.
    reason : str
        The one word of the data model for it.
    text : str
        The rule and what it rests on, in plain sentences.
    remedy : str
        What to change; ``""`` where the node is where it was asked to be, or nothing was asked.
    facts : dict
        What the rule rests on, JSON values only; ``otherwise`` is the device that the node would be on without what
        decided, where that is known, ``without`` says without what (``"request"``, ``"colocation"``, ``"history"``),
        and ``shared`` lists the nodes that a request would go from too, because they must be with the one that decides
        and ask for the same.
    """

    node: str
    rule: str
    reason: str
    text: str
    remedy: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.text} {self.remedy}".rstrip()


def explain(placement: Placement | Rules, node: str) -> Explanation:
    """Say which rule of TensorFlow's put a node where it is, and what would change it.

    Parameters
    ----------
    placement : Placement or Rules
        Where TensorFlow put each operation; rules that are kept make many calls quick.
    node : str
        Id of the node.

    Raises
    ------
    KeyError
        When the Placement has no such node.

    Examples
    --------
    >>> placement = Placement()
    >>> placement.add_node("a", op="Const", device="/job:localhost/replica:0/task:0/device:CPU:0", requested="/gpu:0")
    >>> explain(placement, "a").rule
    'no_such_device'
    >>> print(explain(placement, "a").text)
    a (Const) is on CPU:0: it asked for /gpu:0, and there is no such device. TensorFlow had CPU:0.
    """
    graph = placement.graph
    if node not in graph:
        raise KeyError(f"the placement has no node {node!r}{_near(str(node), graph)}")
    rules = placement if isinstance(placement, Rules) else Rules(placement)
    rule = rules.of(node)
    facts = dict(rule.facts)
    other, without = otherwise(rules, node, rule)
    if other is not None:
        facts |= {"otherwise": other, **without}
    return Explanation(node, rule.name, rule.reason, sentence(rules, node, rule, facts), remedy(rules, rule), facts)


def set_reasons(placement: Placement) -> None:
    """Set the ``reason`` of each node."""
    rules = Rules(placement)
    for node, data in placement.graph.nodes(data=True):
        data["reason"] = rules.of(node).reason


def unknown_share(placement: Placement) -> float:
    """Return the share of the placed nodes for which no rule explains the device, from 0 to 1.

    Examples
    --------
    >>> placement = Placement()
    >>> placement.add_node("a", op="Const", device="/job:localhost/replica:0/task:0/device:CPU:0")
    >>> unknown_share(placement), unknown_share(Placement())
    (1.0, 0.0)
    """
    rules = Rules(placement)
    found = [rules.of(node).reason for node, data in placement.graph.nodes(data=True) if data["device"] is not None]
    return found.count("unknown") / len(found) if found else 0.0


def without_kernel(placement: Placement, kind: str = "GPU") -> dict[str, list[str]]:
    """Return the operations that have no kernel for a device type.

    Parameters
    ----------
    placement : Placement
        One that was recorded: a log alone tells no kernels.
    kind : str
        Device type, in any case.

    Returns
    -------
    dict of str to list of str
        Ids of the nodes by operation and types, ``"MatMul (T: string)"``, most first.

    Raises
    ------
    PlacementError
        When the kernels are those of a TensorFlow that was built without GPU kernels: they would all be missing. When
        the placement tells no kernels, or none is for such a device type.

    Examples
    --------
    >>> placement = Placement(meta={"kernels": {"Print": [
    ...     {"device": "CPU", "types": {"T": ["string"]}, "host": [], "priority": 0, "label": ""}]},
    ...     "explain": {"types": {"Print()->string": {"T": "string"}}}})
    >>> placement.add_node("p", op="Print", dtype="string")
    >>> without_kernel(placement)
    {'Print (T: string)': ['p']}
    """
    from jupyter_placement.kernel_table import kernel_for, signature

    facts, kernels = placement.meta.get("explain") or {}, placement.meta.get("kernels") or {}
    kind = _kind(kind, kernels)
    if "kernels" not in placement.meta:
        raise PlacementError("this placement does not tell kernels: a log alone does not; record it, or use dry_run")
    if kind == "GPU" and facts.get("note"):
        raise PlacementError(facts["note"])
    found: dict[str, list[str]] = {}
    for node, data in placement.graph.nodes(data=True):
        rows = kernels.get(data["op"])
        if rows is None:
            continue
        types: Mapping[str, Any] = facts.get("types_of", {}).get(node) or facts.get("types", {}).get(
            signature(placement.graph, node), {}
        )
        if kernel_for(rows, types, kind) is None:
            named = ", ".join(f"{name}: {_shown(value)}" for name, value in sorted(types.items()))
            found.setdefault(f"{data['op']} ({named})" if named else str(data["op"]), []).append(node)
    return dict(sorted(found.items(), key=lambda one: (-len(one[1]), one[0])))


def _kind(kind: str, kernels: Mapping[str, Any]) -> str:
    """Return a device type as TensorFlow writes it."""
    known = {"CPU", "GPU", "TPU"}.union(row["device"] for rows in kernels.values() for row in rows) - {"DEFAULT"}
    if not isinstance(kind, str) or kind.upper() not in known:
        raise PlacementError(f"{kind!r} is no device type that has kernels: {', '.join(sorted(known))}")
    return kind.upper()


def _near(name: str, graph: nx.MultiDiGraph[str]) -> str:
    """Suggest nodes for a name that none has."""
    near = [node for node, data in graph.nodes(data=True) if data["name"] == name or name.lower() in node.lower()]
    near = near[:3] if name and near else difflib.get_close_matches(name, list(graph)[:5000], n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ": its nodes are in placement.graph"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else ", ".join(value)


__all__ = ["Explanation", "explain", "set_reasons", "unknown_share", "without_kernel"]
