"""The edges that one drawn line stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from jupyter_placement.layout.scopes import Scope, ScopeTree
from jupyter_placement.sums import sent_once


@dataclass(slots=True)
class Totals:
    """What a drawn line stands for.

    Attributes
    ----------
    tensors : int
        Different tensors.
    bytes : int
        Size of those whose size is known.
    unknown : int
        Tensors whose size is not known.
    control : int
        Control edges.
    transfers : int
        Tensors that change device.
    transfer_bytes, transfer_unknown : int
        As ``bytes`` and ``unknown``, of the transfers.
    host : int
        Tensors that stay in host memory, although an end of them is on no CPU.
    pairs : dict
        Transfers by producer's and consumer's device, and by the direction of a copy within one device.
    names : list of str
        The first few tensors.
    """

    tensors: int = 0
    bytes: int = 0
    unknown: int = 0
    control: int = 0
    transfers: int = 0
    transfer_bytes: int = 0
    transfer_unknown: int = 0
    host: int = 0
    pairs: dict[tuple[str, str, str], int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)


class Lifted(NamedTuple):
    """A pair of drawn items and the indices of the edges from one to the other."""

    source: Scope | str
    target: Scope | str
    edges: list[int]


def total(tree: ScopeTree, edges: Iterable[int]) -> Totals:
    """Sum up edges; a tensor with several consumers on one device counts once."""
    found = Totals()
    devices = tree.devices
    seen: set[tuple[str, str, str, bool]] = set()
    for index in edges:
        producer, consumer, data = tree.edges[index]
        if data["control"]:
            found.control += 1
            continue
        target = devices[consumer] or ""
        tensor = sent_once(producer, target, data)
        if tensor in seen:
            continue
        seen.add(tensor)
        size = data["bytes"]
        found.tensors += 1
        found.bytes += size or 0
        found.unknown += size is None
        found.host += data.get("memory") == "host"
        if len(found.names) < 4:
            found.names.append(data["tensor"] or producer)
        if data["transfer"]:
            found.transfers += 1
            found.transfer_bytes += size or 0
            found.transfer_unknown += size is None
            source = devices[producer] or ""
            pair = (source, target, data["memory"] if source == target else "")
            found.pairs[pair] = found.pairs.get(pair, 0) + 1
    return found


def lifted_edges(tree: ScopeTree, opened: set[Scope]) -> Iterator[Lifted]:
    """Lift every edge to the drawn items that hold its ends, given the opened scopes (the root among them)."""
    for scope in opened:
        waiting = [Lifted(source, target, edges) for (source, target), edges in scope.links.items()]
        while waiting:
            lifted = waiting.pop()
            if lifted.source in opened:
                parts = _split(tree, lifted, 0)
                waiting += [Lifted(child, lifted.target, edges) for child, edges in parts.items()]
            elif lifted.target in opened:
                parts = _split(tree, lifted, 1)
                waiting += [Lifted(lifted.source, child, edges) for child, edges in parts.items()]
            else:
                yield lifted


def _split(tree: ScopeTree, lifted: Lifted, side: int) -> dict[Scope | str, list[int]]:
    """Group edges by the child, of the scope at one of their ends, that holds that end; done once a pair."""
    scope = lifted[side]
    assert isinstance(scope, Scope)  # an operation is never open
    key = (lifted.source, lifted.target, side)
    found = tree.splits.get(key)
    if found is None:
        found = {}
        children: dict[Scope, Scope | None] = {}
        for index in lifted.edges:
            producer, consumer, _ = tree.edges[index]
            node = consumer if side else producer
            home = tree.home[node]
            if home not in children:
                children[home] = next((one for one in home.ancestors() if one.parent is scope or one is scope), None)
            child = children[home]
            found.setdefault(node if child is None or child is scope else child, []).append(index)
        tree.splits[key] = found
    return found
