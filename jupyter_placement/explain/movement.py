"""What moves between devices, there and back, and twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import networkx as nx

from jupyter_placement.placement import Placement
from jupyter_placement.summary import plural, readable_bytes, some_names, transfer_size, transfers

_SHORT_STAY = 8
_VALUES = frozenset({"ReadVariableOp", "Identity", "_Arg"})
# kind, message, remedy, nodes, count, bytes
Movement = tuple[str, str, str, list[str], int, int | None]


def movement_findings(placement: Placement) -> list[Movement]:
    """Return findings on what moves between devices."""
    moving = [
        (producer, consumer, data)
        for producer, consumer, data in placement.graph.edges(data=True)
        if data["transfer"] and not data["control"]
    ]
    if not moving:
        return []
    return [*_pairs(placement, moving), *_ping_pong(placement, moving), *_twice(placement, moving)]


def _pairs(placement: Placement, moving: list[tuple[str, str, Any]]) -> list[Movement]:
    graph = placement.graph.nodes
    found: list[Movement] = []
    for pair in transfers(placement):
        if not pair.tensors:
            continue
        edges = [
            (producer, data)
            for producer, consumer, data in moving
            if graph[producer]["device"] == pair.source and graph[consumer]["device"] == pair.target
        ]
        in_host = len({data["tensor"] for _, data in edges if data.get("memory") == "host"})
        sizes: Counter[str] = Counter()
        for producer, data in edges:
            sizes[producer] = max(sizes[producer], data["bytes"] or 0)
        largest = [f"{graph[node]['name']} ({readable_bytes(size)})" for node, size in sizes.most_common(3) if size]
        message = (
            f"{plural(pair.tensors, 'tensor')} ({transfer_size(pair)}) move from {placement.short(pair.source)} to "
            f"{placement.short(pair.target)} in each step"
        )
        message += f"; {in_host:,} of them stay in host memory" if in_host else ""
        message += f". The largest: {', '.join(largest)}." if largest else "."
        advice = "Put the operations that use a tensor on the device that makes it, or move less and earlier."
        nodes = [node for node, _ in sizes.most_common()]
        found.append(("transfers", message, advice, nodes, pair.tensors, pair.bytes or None))
    return found


def _ping_pong(placement: Placement, moving: list[tuple[str, str, Any]]) -> list[Movement]:
    """Find the few operations that a tensor goes to another device for, and comes back from."""
    graph = placement.graph.nodes
    into: dict[str, set[str]] = {}
    out: dict[str, set[str]] = {}
    size: Counter[str] = Counter()
    for producer, consumer, data in moving:
        into.setdefault(consumer, set()).add(graph[producer]["device"])
        out.setdefault(producer, set()).add(graph[consumer]["device"])
        size[consumer] += data["bytes"] or 0
        size[producer] += data["bytes"] or 0
    near: nx.Graph[str] = nx.Graph()
    near.add_nodes_from({*into, *out})
    for producer, consumer, data in placement.graph.edges(data=True):
        if not data["control"] and not data["transfer"] and graph[producer]["op"] not in _VALUES:
            near.add_edge(producer, consumer)
    groups: dict[tuple[str, str], list[list[str]]] = {}
    for members in nx.connected_components(near):
        if len(members) > _SHORT_STAY:
            continue
        there_and_back = {home for one in members for home in into.get(one, ())} & {
            home for one in members for home in out.get(one, ())
        }
        for home in there_and_back:
            away = graph[next(iter(members))]["device"]
            groups.setdefault((home, away), []).append(sorted(members))
    found: list[Movement] = []
    for (home, away), stays in groups.items():
        nodes = [node for stay in stays for node in stay]
        names = some_names([graph[node]["name"] for node in nodes], 4)
        there, back = placement.short(home), placement.short(away)
        message = f"{plural(len(stays), 'time')} a tensor goes from {there} to {back} and back for {names}."
        advice = f"Put these operations on {there} too, or leave the device to TensorFlow."
        found.append(("ping_pong", message, advice, nodes, len(stays), sum(size[node] for node in nodes) or None))
    return found


def _twice(placement: Placement, moving: list[tuple[str, str, Any]]) -> list[Movement]:
    """Find variables whose value is read several times and sent to one device each time."""
    graph = placement.graph
    sent: dict[tuple[str, str], dict[str, int]] = {}
    for producer, consumer, data in moving:
        if graph.nodes[producer]["op"] == "ReadVariableOp":
            maker = next(iter(graph.predecessors(producer)), None)
            if maker is not None:
                key = (maker, graph.nodes[consumer]["device"])
                sent.setdefault(key, {})[producer] = data["bytes"] or 0
    found: list[Movement] = []
    for (maker, target), reads in sent.items():
        if len(reads) > 1:
            message = (
                f"The value of {graph.nodes[maker]['name']} is read {len(reads):,} times and sent to "
                f"{placement.short(target)} each time."
            )
            advice = "Read the variable once (tf.identity under tf.device) and use that value."
            found.append(("sent_twice", message, advice, list(reads), len(reads), sum(reads.values()) or None))
    return found
