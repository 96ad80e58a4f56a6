"""A Placement's nodes with their inputs, read once: networkx takes several times as long for each look."""

from __future__ import annotations

from typing import Any

import networkx as nx

from jupyter_placement.kernel_table import signature_of

Input = tuple[int | str, str, dict[str, Any]]


class Inputs:
    """What each node takes.

    Parameters
    ----------
    graph : networkx.MultiDiGraph
        That of a Placement.

    Attributes
    ----------
    nodes : dict
        Attributes by node.
    """

    def __init__(self, graph: nx.MultiDiGraph[str]) -> None:
        self.nodes: dict[str, dict[str, Any]] = {node: data for node, data in graph.nodes(data=True)}
        self._of: dict[str, list[Input]] = {node: [] for node in self.nodes}
        for producer, consumer, key, data in graph.edges(keys=True, data=True):
            self._of[consumer].append((key, producer, data))
        for found in self._of.values():
            if len(found) > 1:
                found.sort(key=_order)
        self._signatures: dict[str, str] = {}

    def of(self, node: str) -> list[Input]:
        """Return key, producer and attributes of each edge into a node, data before control, by input."""
        return self._of[node]

    def producers(self, node: str) -> list[str]:
        """Return the producers of a node's inputs, data before control."""
        return [producer for _, producer, _ in self._of[node]]

    def signature(self, node: str) -> str:
        """Return the signature of a node's operation, as :func:`~jupyter_placement.kernel_table.signature` does."""
        found = self._signatures.get(node)
        if found is None:
            data = self.nodes[node]
            kinds = [edge["dtype"] for _, _, edge in self._of[node] if not edge["control"]]
            found = self._signatures[node] = signature_of(data["op"], kinds, data["dtype"])
        return found

    def takes_no_tensor(self, node: str) -> bool:
        """Tell whether a node has no input but control edges."""
        inputs = self._of[node]
        return not inputs or bool(inputs[0][2]["control"])


def _order(one: Input) -> tuple[bool, int, str]:
    key = str(one[0])
    return isinstance(one[0], str), len(key), key
