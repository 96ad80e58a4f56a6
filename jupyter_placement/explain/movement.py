"""What moves between devices, and between host memory and a device's own; there and back, and twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jupyter_placement.devices import device_type
from jupyter_placement.explain.placer import RESULTS
from jupyter_placement.placement import Placement
from jupyter_placement.summary import device_labels, plural, readable_bytes, some_names, transfer_size, transfers
from jupyter_placement.sums import HOST_MEMORY, sent_once

_SHORT_STAY = 8
_VALUES = frozenset({"ReadVariableOp", "Identity", "_Arg"})
# kind, message, remedy, nodes, count, bytes
Movement = tuple[str, str, str, list[str], int, int | None]
_Edges = list[tuple[str, str, Any]]


def movement_findings(placement: Placement) -> list[Movement]:
    """Return findings on what moves between devices."""
    moving: _Edges = [
        (producer, consumer, data)
        for producer, consumer, data in placement.graph.edges(data=True)
        if data["transfer"] and not data["control"]
    ]
    if not moving:
        return []
    return [*_pairs(placement, moving), *_ping_pong(placement, moving), *_twice(placement, moving)]


def _pairs(placement: Placement, moving: _Edges) -> list[Movement]:
    graph, labels = placement.graph.nodes, device_labels(placement)
    by_pair: dict[tuple[str, str, str], _Edges] = {}
    for producer, consumer, data in moving:
        source, target = graph[producer]["device"], graph[consumer]["device"]
        key = (source, target, data["memory"] if source == target else "")
        by_pair.setdefault(key, []).append((producer, consumer, data))
    found: list[Movement] = []
    for pair in transfers(placement):
        if not pair.tensors:
            continue
        sizes: Counter[str] = Counter()
        for producer, _, data in by_pair[pair.source, pair.target, pair.memory]:
            sizes[producer] = max(sizes[producer], data["bytes"] or 0)
        largest = [f"{graph[node]['name']} ({readable_bytes(size)})" for node, size in sizes.most_common(3) if size]
        source, target = pair.ends(labels)
        moves = "moves" if pair.tensors == 1 else "move"
        what = f"{plural(pair.tensors, 'tensor')} ({transfer_size(pair)})"
        message = f"{what} {moves} from {source} to {target} each time"
        message += f". The largest: {', '.join(largest)}." if largest else "."
        if pair.memory:
            advice = "int32 values are made and used in host memory: for arithmetic on the GPU use float32 or int64."
        else:
            advice = "Put the operations that use a tensor on the device that makes it, or move less and earlier."
        nodes = [node for node, _ in sizes.most_common()]
        found.append(("transfers", message, advice, nodes, pair.tensors, pair.bytes or None))
    return found


def _ping_pong(placement: Placement, moving: _Edges) -> list[Movement]:
    """Find the few operations that a tensor goes to another device for, or to host memory, and comes back from."""
    graph = placement.graph.nodes
    across = [
        edge
        for edge in moving
        if graph[edge[0]]["device"] != graph[edge[1]]["device"] and graph[edge[1]]["op"] not in RESULTS
    ]
    within = [edge for edge in moving if graph[edge[0]]["device"] == graph[edge[1]]["device"]]
    return [*_stays(placement, across, ""), *_stays(placement, within, HOST_MEMORY)]


def _stay(graph: Any, start: str, where: str) -> list[str]:
    """Return the nodes around one that its tensors reach without a transfer; none when they are more than a few.

    In host memory (``where``) only what makes values there counts.
    """
    nodes = graph.nodes
    device = nodes[start]["device"]
    found, waiting = {start}, [start]
    while waiting:
        node = waiting.pop()
        edges = [(producer, producer, data) for producer, _, data in graph.in_edges(node, data=True)]
        edges += [(node, consumer, data) for _, consumer, data in graph.out_edges(node, data=True)]
        for producer, other, data in edges:
            if data["control"] or data["transfer"] or nodes[producer]["op"] in _VALUES or other in found:
                continue
            if nodes[other]["device"] != device or (where and nodes[other]["memory"] != "host"):
                continue
            if len(found) == _SHORT_STAY:
                return []
            found.add(other)
            waiting.append(other)
    return sorted(found)


def _stays(placement: Placement, edges: _Edges, where: str) -> list[Movement]:
    graph, labels = placement.graph.nodes, device_labels(placement)
    into: dict[str, set[str]] = {}
    out: dict[str, set[str]] = {}
    sent: dict[str, dict[Any, tuple[str, int]]] = {}  # by node: what TensorFlow sends, the other device, bytes
    for producer, consumer, data in edges:
        one = sent_once(producer, graph[consumer]["device"], data)
        sent.setdefault(consumer, {})[one] = graph[producer]["device"], data["bytes"] or 0
        sent.setdefault(producer, {})[one] = graph[consumer]["device"], data["bytes"] or 0
        into.setdefault(consumer, set()).add(graph[producer]["device"])
        out.setdefault(producer, set()).add(graph[consumer]["device"])
    groups: dict[tuple[str, str], list[list[str]]] = {}
    seen: set[str] = set()
    for node in into:
        if node in seen or (where and graph[node]["memory"] != "host"):
            continue
        members = _stay(placement.graph, node, where)
        seen.update(members)
        there_and_back = {home for one in members for home in into.get(one, ())} & {
            home for one in members for home in out.get(one, ())
        }
        for home in there_and_back:
            other = graph[node]["device"]
            if device_type(home) == "CPU" and device_type(other) != "CPU":
                continue  # that is what a GPU is for
            away = where or labels[other]
            groups.setdefault((home, away), []).append(members)
    found: list[Movement] = []
    for (home, away), stays in groups.items():
        nodes = [node for stay in stays for node in stay]
        names = some_names([graph[node]["name"] for node in nodes], 4)
        there = labels[home]
        times = "A" if len(stays) == 1 else f"{len(stays):,} times a"
        message = f"{times} tensor goes from {there} to {away} and back for {names}."
        advice = f"Put these operations on {there} too, or leave the device to TensorFlow."
        if where:
            advice = f"Use a dtype that {there} computes with in its own memory: float32 or int64, not int32."
        moves = {one: size for node in nodes for one, (end, size) in sent.get(node, {}).items() if end == home}
        found.append(("ping_pong", message, advice, nodes, len(stays), sum(moves.values()) or None))
    return found


def _twice(placement: Placement, moving: _Edges) -> list[Movement]:
    """Find values that are sent to one device more than once.

    A tensor with many consumers on a device is sent there once (twice where only some want it in host memory). A
    variable is sent once for each operation that reads it, and a tensor once for each Identity that hands it on.
    """
    graph, labels = placement.graph, device_labels(placement)
    sent: dict[tuple[str, str, str], dict[tuple[str, str, str, bool], int]] = {}
    for producer, consumer, data in moving:
        target = graph.nodes[consumer]["device"]
        key = sent_once(producer, target, data)
        sent.setdefault((*_origin(graph, producer, key[1]), target), {})[key] = data["bytes"] or 0
    found: list[Movement] = []
    for (origin, _, target), times in sent.items():
        if len(times) < 2:
            continue
        nodes = list(dict.fromkeys(producer for producer, *_ in times))
        name, where = graph.nodes[origin]["name"], labels[target]
        advice = "Hand it on once (tf.identity under tf.device of that device) and use that value."
        if any(graph.nodes[node]["op"] == "ReadVariableOp" for node in nodes):
            message = f"The value of {name} is read {len(times):,} times and sent to {where} each time."
            advice = "Read the variable once (tf.identity under tf.device) and use that value."
        elif len(nodes) == 1:
            message = f"The value of {name} is sent to {where} twice: into its memory, and into host memory."
            advice = "Cast it to int32 for the operations that want it in host memory before it is sent."
        else:
            message = f"The value of {name} is sent to {where} {len(times):,} times, once by each Identity."
        found.append(("sent_twice", message, advice, nodes, len(times), sum(times.values()) or None))
    return found


def _origin(graph: Any, producer: str, tensor: str) -> tuple[str, str]:
    """Return where a value comes from: the variable that is read, or the tensor that identities hand on."""
    output = tensor.rpartition(":")[2]
    seen = {producer}
    while graph.nodes[producer]["op"] in ("Identity", "ReadVariableOp"):
        edge = next((one for one in graph.in_edges(producer, keys=True, data=True) if one[2] == 0), None)
        if edge is None or edge[0] in seen or edge[3]["transfer"]:
            break
        read = graph.nodes[producer]["op"] == "ReadVariableOp"
        producer, output = edge[0], (edge[3]["tensor"] or ":0").rpartition(":")[2]
        seen.add(producer)
        if read:
            break
    return producer, output
