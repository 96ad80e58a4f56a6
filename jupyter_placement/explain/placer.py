"""TensorFlow's placer over a Placement: on which devices each node may be, and which one it gets.

The rules are those of ``placer.cc`` and ``colocation_graph.cc`` in ``tensorflow/core/common_runtime`` (read in 2.21).
What is worked out here is compared with what TensorFlow assigned: where the two differ, nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jupyter_placement.explain.colocation import Colocation
from jupyter_placement.explain.requests import OPEN, Group

RESULTS = frozenset({"_Retval", "_DeviceRetval"})
METADATA = frozenset({"Shape", "Size", "Rank"})
IDENTITIES = frozenset({"Identity", "RefIdentity"})


class Placer(Colocation):
    """Place the nodes of one captured graph as TensorFlow's placer does; takes what :class:`Colocation` takes."""

    def candidates(self, node: str) -> list[str]:
        """Return the devices that a node may be on, the one that TensorFlow takes first."""
        group = self.groups[node]
        found = self._candidates.get(id(group))
        if found is None:
            found = self._candidates[id(group)] = self._possible(group)
        return found

    def _possible(self, group: Group) -> list[str]:
        found = self._filtered(group.asked, group.kinds)
        if found or group.asked == OPEN or not self.soft:
            return found
        strong = group.strong
        for spec in (
            group.asked._replace(
                type=group.asked.type if strong.type is not None else None,
                id=group.asked.id if strong.id is not None else None,
            ),
            group.asked._replace(type=None, id=None),
        ):
            found = self._filtered(spec, group.kinds)
            if found:
                break
        return found

    def place(self, around: Around | None = None) -> dict[str, str]:
        """Work out where each node goes; nodes that cannot be placed are left out.

        Parameters
        ----------
        around : Around, optional
            The whole graph as it is, where this is a part of it.
        """
        assigned: dict[str, str] = {}
        chosen: dict[int, str] = {}
        generators = []

        def assign(node: str, device: str) -> None:
            assigned[node] = device
            chosen.setdefault(id(self.groups[node]), device)

        for node in self.nodes:
            device = self.assigned(node)
            if device is not None:
                assign(node, device)
        for node in self.nodes:
            if node in assigned:
                continue
            if self.is_generator(node):
                generators.append(node)
                continue
            possible = self._now(node, chosen)
            if not possible:
                continue
            follows = None
            if self.inputs.nodes[node]["op"] in METADATA or self.hands_on(node):
                producer = next(iter(self.inputs.producers(node)), None)
                follows = None if producer is None else assigned.get(producer)
                if around is not None and producer is not None and producer not in self.groups:
                    follows = around.before(producer, node)
            assign(node, follows if follows in possible and follows is not None else possible[0])
        for node in self.nodes:
            if self.inputs.nodes[node]["op"] in RESULTS:
                beside = self.result_of(node)
                if beside is not None and (self.requested(beside) or self.assigned(beside) or self.links.get(beside)):
                    assigned[node] = assigned.get(beside, assigned.get(node, ""))
        for node in generators:
            possible = self._now(node, chosen)
            if not possible:
                continue
            there = around.placed if around is not None else {}
            behind = {assigned.get(consumer, there.get(consumer)) for _, consumer in self.graph.out_edges(node)}
            follows = next(iter(behind)) if len(behind) == 1 else None
            assign(node, follows if follows in possible and follows is not None else possible[0])
        return assigned

    def result_of(self, node: str) -> str | None:
        """Return the node that a function's result is put beside: its producer, or what an Identity hands on."""
        seen: set[str] = set()
        producer = next(iter(self.inputs.producers(node)), None)
        while producer is not None and producer not in seen:
            seen.add(producer)
            decided = self.requested(producer) or self.assigned(producer) or self.links.get(producer)
            if decided or self.inputs.nodes[producer]["op"] != "Identity":
                return producer
            producer = next(iter(self.inputs.producers(producer)), None)
        return None

    def hands_on(self, node: str) -> bool:
        """Tell whether the placer puts a node beside its input: an Identity between two that ask for the same.

        This is ``MatchIdentityOperation``. A node that nothing takes counts as taken by the graph's end, which asks for
        nothing.
        """
        if self.inputs.nodes[node]["op"] not in IDENTITIES or self.requested(node):
            return False
        inputs = self.inputs.producers(node)
        if len(inputs) != 1 or self.graph.out_degree(node) > 1:
            return False
        taken = next((self.requested(consumer) for consumer in self.graph.successors(node)), "")
        return self.requested(inputs[0]) == taken

    def _now(self, node: str, chosen: Mapping[int, str]) -> list[str]:
        group = self.groups[node]
        return [chosen[id(group)]] if id(group) in chosen else self.candidates(node)

    def is_generator(self, node: str) -> bool:
        """Tell whether the placer puts a node with its consumers: no data input, one output that is no reference."""
        dtype = self.inputs.nodes[node]["dtype"]
        return isinstance(dtype, str) and not dtype.endswith("_ref") and self.inputs.takes_no_tensor(node)


class Around:
    """A whole graph as it is placed, for placing a part of it again.

    Parameters
    ----------
    placer : Placer
        That of the graph.

    Attributes
    ----------
    placed : dict of str to str
        The device of each node.
    """

    def __init__(self, placer: Placer) -> None:
        self.placer = placer
        self.placed = placer.place()
        self._position = {node: number for number, node in enumerate(placer.nodes)}

    def tells(self, part: Sequence[str]) -> bool:
        """Tell whether what is outside of a part stays as it is whatever the part asks for.

        An Identity whose consumer asks for something else may go elsewhere, and what follows its input goes with it.
        """
        inside = set(part)
        for node in part:
            op = self.placer.inputs.nodes[node]["op"]
            if op in RESULTS:
                return False
            if op in METADATA or op in IDENTITIES:
                for producer in self.placer.inputs.producers(node):
                    if producer not in inside and self.placer.inputs.nodes[producer]["op"] in IDENTITIES:
                        return False
        return True

    def before(self, producer: str, node: str) -> str | None:
        """Return where an outer producer is, as far as that is decided when it is a node's turn."""
        there = self._position.get(producer)
        if there is None or there > self._position[node] or self.placer.is_generator(producer):
            return self.placer.assigned(producer) if there is not None else None
        return self.placed.get(producer)
