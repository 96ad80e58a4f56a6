"""TensorFlow's placer over a Placement: which nodes must be on one device, and on which devices they may be.

The rules are those of ``placer.cc`` and ``colocation_graph.cc`` in ``tensorflow/core/common_runtime`` (read in 2.21).
What is worked out here is compared with what TensorFlow assigned: where the two differ, nothing is claimed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jupyter_placement.devices import DeviceSpec, parse_device
from jupyter_placement.kernel_table import signature, supported_types
from jupyter_placement.placement import Placement

ARGUMENTS = frozenset({"_Arg", "_DeviceArg"})
RESULTS = frozenset({"_Retval", "_DeviceRetval"})
METADATA = frozenset({"Shape", "Size", "Rank"})
OPEN = DeviceSpec()
# Device types by TensorFlow's priority of their factories; what is not known here comes between.
_PRIORITY = {"GPU": 210, "CPU": 70, "XLA_GPU": 50, "XLA_CPU": 50}
_DATASET = re.compile(r".*Dataset(V\d)?")
# input_colocation_exemption_registry.h: these hand resources on to the operations of a function.
_EXEMPT = frozenset(
    {
        "If",
        "StatelessIf",
        "Case",
        "StatelessCase",
        "While",
        "StatelessWhile",
        "For",
        "PartitionedCall",
        "StatefulPartitionedCall",
        "SymbolicGradient",
        "RemoteCall",
        "ReduceDataset",
        "DeleteMultiDeviceIterator",
        "BatchFunction",
    }
)


@dataclass
class Group:
    """Nodes that must be on one device.

    Attributes
    ----------
    members : list of str
        Their ids.
    strong : DeviceSpec
        What function arguments and the makers of variables ask for: it is not overridden.
    asked : DeviceSpec
        What all of them ask for.
    kinds : dict of str to int
        Device types that have a kernel for each of them, with priority.
    broken : bool
        Whether no device type has one for all.
    """

    members: list[str]
    strong: DeviceSpec = OPEN
    asked: DeviceSpec = OPEN
    kinds: dict[str, int] = field(default_factory=dict)
    broken: bool = False


class Placer:
    """The nodes of one captured graph, grouped as TensorFlow's placer groups them.

    Parameters
    ----------
    placement : Placement
        Where TensorFlow put each operation.
    nodes : list of str
        Those of one captured graph, in its order.
    called_on : str
        The device that was asked for around the call of a function, or ``""``.
    requests : mapping
        Requested devices that are to hold in place of those in the Placement, by node.
    loose : collection of str
        Nodes whose ``loc:@`` groups are to be ignored.
    """

    def __init__(
        self,
        placement: Placement,
        nodes: list[str],
        called_on: str = "",
        requests: Mapping[str, str] | None = None,
        loose: Collection[str] = (),
    ) -> None:
        self.graph = placement.graph
        self.nodes = nodes
        self.soft = bool(placement.meta.get("soft_placement", True))
        self._facts: dict[str, Any] = placement.meta.get("explain") or {}
        self._kernels: dict[str, Any] = placement.meta.get("kernels") or {}
        self._copies: dict[str, str] = self._facts.get("copies", {})
        self._requests = requests or {}
        self._loose = loose
        self.devices = [(name, spec) for name in placement.device_names() if (spec := parse_device(name)) is not None]
        self.default = self._matching_default(called_on)
        self.device_kinds = sorted({spec.type or "" for _, spec in self.devices}, key=lambda kind: -_rank(kind))
        self._supported: dict[tuple[str, str], dict[str, int]] = {}
        self.groups: dict[str, Group] = {}
        self.links: dict[str, list[tuple[str, str]]] = {}
        self._candidates: dict[int, list[str]] = {}
        self._build()

    def _matching_default(self, called_on: str) -> str | None:
        spec = parse_device(called_on) if called_on else None
        if spec is None:
            return None
        return next((name for name, one in self.devices if _matches(one, spec)), None)

    def requested(self, node: str) -> str:
        """Return the requested device of a node."""
        for one in (node, self._copies.get(node, node)):
            if one in self._requests:
                return self._requests[one]
        asked: str = self.graph.nodes[node]["requested"]
        return asked

    def supported(self, node: str) -> dict[str, int]:
        """Return the device types that have a kernel for a node, best first, with priorities."""
        data = self.graph.nodes[node]
        own = self._facts.get("types_of", {}).get(node)
        key = (node if own is not None else signature(self.graph, node), data["op"])
        found = self._supported.get(key)
        if found is None:
            types = own if own is not None else self._facts.get("types", {}).get(key[0], {})
            found = supported_types(self._kernels.get(data["op"]), types, self.device_kinds)
            self._supported[key] = found
        return found

    def _build(self) -> None:
        inside = set(self.nodes)
        for node in self.nodes:
            self.groups[node] = self._single(node)
        edges = self.graph.in_edges
        for node in self.nodes:
            op = self.graph.nodes[node]["op"] or ""
            if op in _EXEMPT:
                continue
            references = self._facts.get("references", {}).get(op, ())
            dataset = _DATASET.fullmatch(op)
            for producer, _, key, data in edges(node, keys=True, data=True):
                dtype = data["dtype"]
                if data["control"] or dtype is None or producer not in inside:
                    continue
                if (dtype == "resource" and not dataset) or key in references:
                    self._join(producer, node, "resource" if dtype == "resource" else "reference")
                elif dtype == "variant" and dataset and _DATASET.fullmatch(self.graph.nodes[producer]["op"] or ""):
                    self._join(producer, node, "dataset")
        heads: dict[str, str] = {}
        for node in self.nodes:
            if node not in self._loose:
                for name in self._facts.get("colocated", {}).get(node, ()):
                    if heads.setdefault(name, node) != node:
                        self._join(heads[name], node, "loc:@")
            if heads.setdefault(node, node) != node:
                self._join(heads[node], node, "loc:@")

    def _single(self, node: str) -> Group:
        group = Group([node], kinds=self.supported(node))
        assigned = self.assigned(node)
        if assigned is not None:
            group.strong = group.asked = parse_device(assigned) or OPEN
            return group
        requested = self.requested(node)
        if requested:
            group.asked = parse_device(requested) or OPEN
            if self.makes_resource(node):
                group.strong = group.asked
        return group

    def assigned(self, node: str) -> str | None:
        """Return the device that a node has before the placer begins: that of a function's argument."""
        argument = self._copies.get(node, node)
        data = self.graph.nodes[argument] if argument in self.graph else {}
        device: str | None = data.get("device")
        return device if data.get("op") in ARGUMENTS else None

    def result_of(self, node: str) -> str | None:
        """Return the node that a function's result is put beside: its producer, or what an Identity hands on."""
        seen: set[str] = set()
        producer = next(iter(self.producers(node)), None)
        while producer is not None and producer not in seen:
            seen.add(producer)
            decided = self.requested(producer) or self.assigned(producer) or self.links.get(producer)
            if decided or self.graph.nodes[producer]["op"] != "Identity":
                return producer
            producer = next(iter(self.producers(producer)), None)
        return None

    def makes_resource(self, node: str) -> bool:
        """Tell whether a node makes a variable or another resource: its own request is then not overridden."""
        dtype = self.graph.nodes[node]["dtype"]
        if not isinstance(dtype, str) or not (dtype == "resource" or dtype.endswith("_ref")):
            return False
        return all(data["control"] for *_, data in self.graph.in_edges(node, data=True))

    def _join(self, first: str, second: str, kind: str) -> None:
        a, b = self.groups[first], self.groups[second]
        self.links.setdefault(second, []).append((first, kind))
        if a is b:
            return
        asked = b.asked
        if kind != "loc:@" and not _compatible(a.asked, asked):
            asked = _overridden(a.asked, b.strong)
        merged, strong = _merged(a.asked, asked), _merged(a.strong, b.strong)
        if (
            merged is None
            or strong is None
            or not _compatible(a.strong, b.strong)
            or (not self.soft and not _compatible(a.asked, asked))
        ):
            return
        kinds = _intersection(a.kinds, b.kinds)
        if not kinds:
            a.broken = b.broken = True
            return
        if len(a.members) < len(b.members):
            a, b = b, a
        a.strong, a.kinds = strong, kinds
        a.asked = _overridden(merged, strong)
        for member in b.members:
            self.groups[member] = a
        a.members.extend(b.members)

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

    def _filtered(self, spec: DeviceSpec, kinds: Mapping[str, int]) -> list[str]:
        fitting = [
            (name != self.default, -kinds[one.type], -_rank(one.type), name)
            for name, one in self.devices
            if one.type is not None and one.type in kinds and _matches(one, spec)
        ]
        return [name for *_, name in sorted(fitting)]

    def free_devices(self, node: str) -> list[str]:
        """Return the devices that have a kernel for a node, were it alone and asked for none."""
        return self._filtered(OPEN, self.supported(node))

    def place(self) -> dict[str, str]:
        """Work out where each node goes; nodes that cannot be placed are left out."""
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
            if is_generator(self.graph, node):
                generators.append(node)
                continue
            possible = self._now(node, chosen)
            if not possible:
                continue
            follows = None
            if self.graph.nodes[node]["op"] in METADATA:
                follows = next((assigned.get(one) for one in self.producers(node)), None)
            assign(node, follows if follows in possible and follows is not None else possible[0])
        for node in self.nodes:
            if self.graph.nodes[node]["op"] in RESULTS:
                beside = self.result_of(node)
                if beside is not None and (self.requested(beside) or self.assigned(beside) or self.links.get(beside)):
                    assigned[node] = assigned.get(beside, assigned.get(node, ""))
        for node in generators:
            possible = self._now(node, chosen)
            if not possible:
                continue
            behind = {assigned.get(consumer) for _, consumer in self.graph.out_edges(node)}
            follows = next(iter(behind)) if len(behind) == 1 else None
            assign(node, follows if follows in possible and follows is not None else possible[0])
        return assigned

    def _now(self, node: str, chosen: Mapping[int, str]) -> list[str]:
        group = self.groups[node]
        return [chosen[id(group)]] if id(group) in chosen else self.candidates(node)

    def producers(self, node: str) -> Iterable[str]:
        """Return the producers of a node's inputs, data before control."""
        edges = self.graph.in_edges(node, keys=True)
        return [producer for producer, _, key in sorted(edges, key=_input_order)]


def is_generator(graph: Any, node: str) -> bool:
    """Tell whether the placer puts a node with its consumers: no data input, one output that is no reference."""
    dtype = graph.nodes[node]["dtype"]
    if not isinstance(dtype, str) or dtype.endswith("_ref"):
        return False
    return all(data["control"] for *_, data in graph.in_edges(node, data=True))


def _input_order(edge: tuple[str, str, int | str]) -> tuple[bool, int, str]:
    key = str(edge[2])
    return key.startswith("^"), len(key), key


def _rank(kind: str | None) -> int:
    return _PRIORITY.get(kind or "", 200)


def _matches(device: DeviceSpec, spec: DeviceSpec) -> bool:
    return all(wanted is None or wanted == given for wanted, given in zip(spec, device, strict=True))


def _compatible(a: DeviceSpec, b: DeviceSpec) -> bool:
    return all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))


def _merged(a: DeviceSpec, b: DeviceSpec) -> DeviceSpec | None:
    """Merge two requests (``MergeDevNames`` with soft placement): types or numbers that differ are dropped."""
    if a == b or b == OPEN:
        return a
    if a == OPEN:
        return b
    if not _compatible(a._replace(type=None, id=None), b._replace(type=None, id=None)):
        return None
    job = a.job if a.job is not None else b.job
    replica = a.replica if a.replica is not None else b.replica
    task = a.task if a.task is not None else b.task
    if a.type is not None and b.type is not None and a.type != b.type:
        return DeviceSpec(job, replica, task, None, None)
    kind = a.type if a.type is not None else b.type
    if a.id is not None and b.id is not None and a.id != b.id:
        return DeviceSpec(job, replica, task, kind, None)
    return DeviceSpec(job, replica, task, kind, a.id if a.id is not None else b.id)


def _overridden(a: DeviceSpec, strong: DeviceSpec) -> DeviceSpec:
    if strong == OPEN or a == strong:
        return a
    return DeviceSpec(*(s if s is not None else own for own, s in zip(a, strong, strict=True)))  # type: ignore[arg-type]


def _intersection(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    if a == b and list(a) == list(b):
        return a
    first, second = {k: v for k, v in a.items() if k in b}, {k: v for k, v in b.items() if k in a}
    if any(second.values()) and not any(first.values()):
        return second
    if any(first.values()) and any(second.values()) and list(first) != list(second):
        return dict.fromkeys(sorted(first, key=lambda kind: -_rank(kind)), 0)
    return first
