"""Where a node would be without what decided."""

from __future__ import annotations

from typing import Any

from jupyter_placement.explain.rule import Rule
from jupyter_placement.explain.rules import Rules


def otherwise(rules: Rules, node: str, rule: Rule) -> tuple[str | None, dict[str, Any]]:
    """Work out where a node would be without what decided: a request, or its colocation.

    A request goes from all nodes that must be with the one that decides and ask for the same: one ``tf.device`` made
    them, and gradients take it over.

    Returns
    -------
    str or None
        Full device name; ``None`` where nothing decided that can be taken away, or where it is not known.
    dict
        What would be gone: ``without`` (``"request"``, ``"colocation"``, ``"history"``), and of a request ``shared``,
        the other nodes that it goes from too.
    """
    if rules.kind(node) not in ("session", "function"):
        return None, {}
    because = rule.facts.get("because")
    if rule.name == "sticky" or because == "sticky":
        return rules.in_a_new_session(node), {"without": "history"}
    if rule.name in ("pinned", "pinned_partly", "no_such_device", "no_kernel"):
        return _without_request(rules, node, node)
    if rule.name in ("colocated", "overridden"):
        if {kind for _, kind in rules.placer(node).links.get(node, ())} == {"loc:@"}:
            return rules.without(node, loose={node}), {"without": "colocation"}
        if rule.name == "overridden" and because in ("conflict", "unavailable"):
            return _without_request(rules, node, node)
        if because == "request":
            return _without_request(rules, node, rule.facts["decider"])
    return None, {}


def _without_request(rules: Rules, node: str, decider: str) -> tuple[str | None, dict[str, Any]]:
    placer = rules.placer(node)
    asked = placer.requested(decider)
    shared = [one for one in placer.groups[decider].members if one != decider and placer.requested(one) == asked]
    found = rules.without(node, requests=dict.fromkeys((decider, *shared), ""))
    return found, {"without": "request", "shared": shared}
