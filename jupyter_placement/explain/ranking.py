"""What is worth knowing of a whole run, most important first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jupyter_placement.devices import device_type
from jupyter_placement.explain.hardware import cards_not_used
from jupyter_placement.explain.movement import movement_findings
from jupyter_placement.explain.rules import Rules
from jupyter_placement.explain.sentences import remedy, with_types
from jupyter_placement.placement import Placement
from jupyter_placement.summary import plural, some_names

# Most important first.
KINDS = (
    "error",
    "gpu_not_used",
    "no_such_device",
    "no_kernel",
    "overridden",
    "all_on_cpu",
    "device_without_effect",
    "ping_pong",
    "transfers",
    "sent_twice",
    "host_memory",
)
_PLACEMENT_ERRORS = ("no_kernel", "unknown_device", "cannot_colocate")


@dataclass(frozen=True)
class Finding:
    """Something in a run that is worth knowing.

    Attributes
    ----------
    kind : str
        One of :data:`KINDS`.
    message : str
        A plain sentence.
    remedy : str
        What to do; ``""`` where there is nothing.
    nodes : tuple of str
        Ids of the nodes that it is about.
    count : int
        How many nodes or tensors.
    bytes : int or None
        Bytes that move; ``None`` where that is not known or nothing moves.
    sources : tuple of (str, int)
        The user's lines that made these nodes, those of most nodes first.
    details : dict
        Facts by name, JSON values only.
    """

    kind: str
    message: str
    remedy: str = ""
    nodes: tuple[str, ...] = ()
    count: int = 0
    bytes: int | None = None
    sources: tuple[tuple[str, int], ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def where(self, shown: int = 3) -> str:
        """Name the first of the user's lines.

        Examples
        --------
        >>> Finding("overridden", "", sources=(("Cell In[3]", 2), ("model.py", 40))).where()
        'Cell In[3], line 2; model.py, line 40'
        """
        lines = [f"{file}, line {line}" for file, line in self.sources]
        more = f" and {len(lines) - shown:,} more" if len(lines) > shown else ""
        return "; ".join(lines[:shown]) + more


def findings(placement: Placement, rules: Rules | None = None) -> list[Finding]:
    """Return what is worth knowing of a whole run, most important first.

    Parameters
    ----------
    placement : Placement
        Where TensorFlow put each operation.
    rules : Rules, optional
        Those of the Placement, where they are there already.

    Examples
    --------
    >>> placement = Placement()
    >>> placement.add_node("a", op="Const", device="/job:localhost/replica:0/task:0/device:CPU:0", requested="/gpu:0")
    >>> print(findings(placement)[0].message)
    1 operation asked for /gpu:0, and there is no such device: 1 Const.
    """
    rules = rules or Rules(placement)
    found = [*_errors(placement), *_by_rule(rules), *_all_on_cpu(placement), *_without_effect(rules)]
    found += [
        Finding("gpu_not_used", message, advice, count=count) for message, advice, count in cards_not_used(placement)
    ]
    for kind, message, advice, nodes, count, size in movement_findings(placement):
        found.append(Finding(kind, message, advice, tuple(nodes), count, size, sources_of(placement, nodes)))
    found += _host_memory(placement)
    return sorted(found, key=lambda one: (KINDS.index(one.kind), -(one.bytes or 0), -one.count))


def sources_of(placement: Placement, nodes: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Return the user's lines that made some nodes, those of most nodes first."""
    graph = placement.graph.nodes
    counts = Counter(tuple(graph[node]["source"]) for node in nodes if graph[node]["source"] is not None)
    return tuple((str(file), int(line)) for (file, line), _ in counts.most_common())


def _errors(placement: Placement) -> list[Finding]:
    found = []
    for event in placement.events:
        if event.kind not in _PLACEMENT_ERRORS:
            continue
        nodes = tuple(node for node in event.nodes if node in placement.graph)
        source = event.details.get("source")
        sources = sources_of(placement, nodes) or (((str(source[0]), int(source[1])),) if source else ())
        found.append(
            Finding("error", event.message, "", nodes, max(len(nodes), 1), None, sources, {"event": event.kind})
        )
    return found


def _by_rule(rules: Rules) -> list[Finding]:
    placement = rules.placement
    groups: dict[tuple[Any, ...], list[str]] = {}
    for node, data in placement.graph.nodes(data=True):
        rule = rules.of(node)
        if rule.name == "no_such_device":
            groups.setdefault((rule.name, data["requested"]), []).append(node)
        elif rule.name == "no_kernel":
            key = (rule.name, data["requested"], data["op"], with_types(rule.facts))
            groups.setdefault(key, []).append(node)
        elif rule.name == "overridden":
            groups.setdefault((rule.name, data["requested"], rule.facts["decider"]), []).append(node)
    return [_rule_finding(rules, key, nodes) for key, nodes in groups.items()]


def _rule_finding(rules: Rules, key: tuple[Any, ...], nodes: list[str]) -> Finding:
    placement, kind, requested = rules.placement, key[0], key[1]
    graph = placement.graph.nodes
    asked = f"{plural(len(nodes), 'operation')} asked for {requested}"
    got = placement.short(graph[nodes[0]]["device"])
    if kind == "no_such_device":
        ops = Counter(str(graph[node]["op"]) for node in nodes)
        listed = some_names([f"{count:,} {op}" for op, count in ops.most_common()], 6)
        message = f"{asked}, and there is no such device: {listed}."
    elif kind == "no_kernel":
        message = (
            f"{asked} and got {got}: {key[2]}{key[3]} has no kernel for {device_type(requested) or 'that device'}."
        )
    else:
        name = rules.called(key[2])
        message = f"{asked} and got {got}: TensorFlow must keep it with {name}, which decides."
        if len(nodes) > 1:
            message = message.replace("keep it", "keep them")
    return Finding(
        kind,
        message,
        remedy(rules, rules.of(nodes[0])),
        tuple(nodes),
        len(nodes),
        None,
        sources_of(placement, nodes),
        {"requested": requested},
    )


def _all_on_cpu(placement: Placement) -> list[Finding]:
    gpus = [device.name for device in placement.devices if device.type == "GPU"]
    used = {device_type(name) for name in placement.device_counts()}
    if not gpus or used != {"CPU"}:
        return []
    names = some_names([placement.short(name) for name in gpus])
    nodes = [node for node, data in placement.graph.nodes(data=True) if data["device"] is not None]
    return [
        Finding(
            "all_on_cpu",
            f"All {plural(len(nodes), 'operation')} ran on the CPU, although TensorFlow has {names}.",
            "Look for a tf.device with a CPU around the code, and at the operations without a GPU kernel.",
            tuple(nodes),
            len(nodes),
            None,
            sources_of(placement, nodes),
        )
    ]


def _without_effect(rules: Rules) -> list[Finding]:
    placement = rules.placement
    found = []
    for label, facts in (placement.meta.get("explain") or {}).get("graphs", {}).items():
        called_on = facts.get("called_on")
        if not called_on:
            continue
        mine = [
            (node, data)
            for node, data in placement.graph.nodes(data=True)
            if data["graph"] == label and data["device"] is not None
        ]
        if not mine:
            continue
        wanted = rules.placer(mine[0][0]).default
        others = [node for node, data in mine if data["device"] != wanted and rules.of(node).name != "argument"]
        if 2 * len(others) < len(mine):
            continue
        asking = sum(bool(placement.graph.nodes[node]["requested"]) for node in others)
        advice = "Use tf.device inside the function, and make its variables on the device that you want."
        if 2 * asking >= len(others):
            advice = (
                "The function, or a tf.distribute strategy in it, asks for devices itself, and that goes first: change "
                "these requests."
            )
        there = placement.short(wanted) if wanted is not None else called_on
        all_of_them = (
            "none" if len(others) == len(mine) else f"{len(mine) - len(others):,} of its {len(mine):,} operations"
        )
        found.append(
            Finding(
                "device_without_effect",
                f"{label.partition(':')[2] or label} was called under tf.device({called_on!r}): {all_of_them} went to "
                f"{there}. tf.device around a call only decides for operations of the function that nothing else "
                "decides for.",
                advice,
                tuple(others),
                len(others),
                None,
                sources_of(placement, others),
            )
        )
    return found


def _host_memory(placement: Placement) -> list[Finding]:
    nodes = [
        node
        for node, data in placement.graph.nodes(data=True)
        if data["memory"] == "host" and data["device"] is not None and device_type(data["device"]) != "CPU"
    ]
    if not nodes:
        return []
    ops = Counter(str(placement.graph.nodes[node]["op"]) for node in nodes)
    listed = some_names([f"{count:,} {op}" for op, count in ops.most_common()], 6)
    return [
        Finding(
            "host_memory",
            f"The values of {plural(len(nodes), 'operation')} on a GPU live in host memory (int32 and shapes mostly): "
            f"{listed}.",
            "Nothing is wrong; for arithmetic that should run on the GPU use float32 or int64.",
            tuple(nodes),
            len(nodes),
            None,
            sources_of(placement, nodes),
        )
    ]
