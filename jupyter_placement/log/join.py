"""Join a log with a graph file: edges, requested devices, and why each node is where it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_placement.devices import satisfies
from jupyter_placement.placement import Event, Placement

if TYPE_CHECKING:
    from jupyter_placement.graphfile import GraphNode

# TensorFlow lowers a branch or a loop's body to nodes of the graph: while/body/_12/while/add.
_LOWERED = re.compile(r"/(body|cond|then|else)/_\d+/")


def join_graph(placement: Placement, nodes: list[GraphNode]) -> int:
    """Give a Placement the edges and requested devices of a graph.

    Parameters
    ----------
    placement : Placement
        Made of a log, without edges; changed in place.
    nodes : list of GraphNode
        The graph.

    Returns
    -------
    int
        How many operations of the log the graph does not have.
    """
    from jupyter_placement.log.build import fallback_events

    graph = placement.graph
    by_name: dict[str, list[str]] = {}
    for node, data in graph.nodes(data=True):
        by_name.setdefault(_LOWERED.sub(r"/\1/", data["name"]), []).append(node)
    known = {node.name: node for node in nodes}
    matched = 0
    for name, ids in by_name.items():
        found = known.get(name)
        if found is None:
            continue
        for node in ids:
            data = graph.nodes[node]
            if found.op and data["op"] and found.op != data["op"]:
                continue  # another graph's node of the same name
            matched += 1
            data["op"] = data["op"] or found.op
            data["requested"] = found.requested
            data["dtype"], data["shape"] = found.dtype, found.shape
            data["reason"] = _reason(found, data["device"])
            for key, producer in found.inputs:
                for source in _beside(placement, by_name.get(producer.rpartition(":")[0] or producer, []), node):
                    tensor = None if isinstance(key, str) else producer
                    placement.add_edge(source, node, key, tensor=tensor)
    unmatched = graph.number_of_nodes() - matched
    placement.events += fallback_events(placement)
    if not matched and graph:
        message = (
            "No operation of the log is in the graph file, so there are no edges. Give the graph that was run: for "
            "TensorFlow 1 tf.io.write_graph(sess.graph, ...), for TensorFlow 2 the function's "
            "get_concrete_function(...).graph.as_graph_def()."
        )
        placement.events.append(Event("note", message))
    return unmatched


def _reason(node: GraphNode, device: str | None) -> str:
    if node.requested and device:
        return "pinned" if satisfies(device, node.requested) else "fallback"
    return "colocated" if node.colocated else "default"


def _beside(placement: Placement, ids: list[str], consumer: str) -> list[str]:
    """Choose among the nodes of one name the one that is nearest to a consumer: same device, same task, any."""
    if len(ids) < 2:
        return ids
    nodes = placement.graph.nodes
    device = nodes[consumer]["device"] or ""
    task = device.split("/device:")[0]
    for near in (device, f"{task}/device:"):
        for one in ids:
            if (nodes[one]["device"] or "").startswith(near):
                return [one]
    return ids[:1]
