"""Which nodes of a graph must be on one device, as TensorFlow's placer finds it.

The rules are those of ``colocation_graph.cc`` in ``tensorflow/core/common_runtime`` (read in 2.21).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from jupyter_placement.devices import DeviceSpec, parse_device
from jupyter_placement.explain.inputs import Inputs
from jupyter_placement.explain.requests import OPEN, Group, compatible, intersection, matches, merged, overridden, rank
from jupyter_placement.kernel_table import supported_types, types_taken
from jupyter_placement.placement import Placement

ARGUMENTS = frozenset({"_Arg", "_DeviceArg"})
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


class Colocation:
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
    fresh : bool
        Whether nodes that were placed in an earlier run of the session are to be placed again.
    inputs : Inputs, optional
        Those of the Placement, where they are there already.
    devices : sequence of str, optional
        The names of the Placement's devices, where they are there already.
    """

    def __init__(
        self,
        placement: Placement,
        nodes: list[str],
        called_on: str = "",
        requests: Mapping[str, str] | None = None,
        loose: Collection[str] = (),
        fresh: bool = False,
        inputs: Inputs | None = None,
        devices: Sequence[str] | None = None,
    ) -> None:
        self.graph = placement.graph
        self.inputs = inputs or Inputs(placement.graph)
        self.nodes = nodes
        self.soft = bool(placement.meta.get("soft_placement", True))
        self._imagined = "dry_run" in placement.meta
        self._facts: dict[str, Any] = placement.meta.get("explain") or {}
        self._kernels: dict[str, Any] = placement.meta.get("kernels") or {}
        self._copies: dict[str, str] = self._facts.get("copies", {})
        self._before: dict[str, str] = {} if fresh else self._facts.get("placed_before", {})
        self._requests = requests or {}
        self._loose = loose
        devices = placement.device_names() if devices is None else devices
        self.devices = [(name, spec) for name in devices if (spec := parse_device(name)) is not None]
        self.default = self._matching_default(called_on)
        self.device_kinds = sorted({spec.type or "" for _, spec in self.devices}, key=lambda kind: -rank(kind))
        self._types_of: dict[str, Any] = self._facts.get("types_of", {})
        self._supported: dict[str, dict[str, int]] = {}
        self.groups: dict[str, Group] = {}
        self.links: dict[str, list[tuple[str, str]]] = {}
        self._candidates: dict[int, list[str]] = {}
        self._fitting: dict[tuple[DeviceSpec, tuple[tuple[str, int], ...]], list[str]] = {}
        self._linked: dict[str, list[str]] | None = None
        self._order: dict[str, int] = {}
        self._build()

    def _matching_default(self, called_on: str) -> str | None:
        spec = parse_device(called_on) if called_on else None
        if spec is None:
            return None
        return next((name for name, one in self.devices if matches(one, spec)), None)

    def requested(self, node: str) -> str:
        """Return the requested device of a node."""
        if self._requests:
            for one in (node, self._copies.get(node, node)):
                if one in self._requests:
                    return self._requests[one]
        asked: str = self.inputs.nodes[node]["requested"]
        return asked

    def supported(self, node: str) -> dict[str, int]:
        """Return the device types that have a kernel for a node, best first, with priorities."""
        key = node if node in self._types_of else self.inputs.signature(node)
        found = self._supported.get(key)
        if found is None:
            rows = self._kernels.get(self.inputs.nodes[node]["op"])
            found = self._supported[key] = supported_types(rows, self.types(node), self.device_kinds)
        return found

    def types(self, node: str) -> dict[str, Any]:
        """Return the type attributes of a node that some kernel of its operation asks about."""
        own: dict[str, Any] | None = self._types_of.get(node)
        return own if own is not None else self._facts.get("types", {}).get(self.inputs.signature(node), {})

    def types_taken(self, node: str, kind: str) -> dict[str, list[str]]:
        """Return the types with which a device type has a kernel for a node's operation, by attribute."""
        return types_taken(self._kernels.get(self.inputs.nodes[node]["op"]) or [], self.types(node), kind)

    def _build(self) -> None:
        inside = set(self.nodes)
        for node in self.nodes:
            self.groups[node] = self._single(node)
        for node in self.nodes:
            op = self.inputs.nodes[node]["op"] or ""
            if op in _EXEMPT:
                continue
            references = self._facts.get("references", {}).get(op, ())
            dataset = _DATASET.fullmatch(op)
            for key, producer, data in self.inputs.of(node):
                dtype = data["dtype"]
                if data["control"] or dtype is None or producer not in inside:
                    continue
                if (dtype == "resource" and not dataset) or key in references:
                    self._join(producer, node, "resource" if dtype == "resource" else "reference")
                elif dtype == "variant" and dataset and _DATASET.fullmatch(self.inputs.nodes[producer]["op"] or ""):
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
        """Return the device that a node has before the placer begins: a function's argument, or one placed before."""
        if node in self._before:
            return self._before[node]
        argument = self._copies.get(node, node)
        data = self.inputs.nodes[argument] if argument in self.graph else {}
        if self.is_free_variable(argument):
            return next(iter(self.free_devices(argument)), None)
        device: str | None = data.get("device")
        return device if data.get("op") in ARGUMENTS else None

    def is_free_variable(self, node: str) -> bool:
        """Tell whether a node stands for a variable that a function of a dry run takes, and that asked for no device.

        It is there before the function is called, so it is placed by itself. A request of its own holds anyway.
        """
        if not self._imagined or self.inputs.nodes.get(node, {}).get("op") != "VarHandleOp" or self.requested(node):
            return False
        graph = self._facts.get("graphs", {}).get(self.inputs.nodes[node]["graph"], {})
        return bool(graph.get("kind") == "function")

    def free_devices(self, node: str) -> list[str]:
        """Return the devices that have a kernel for a node, were it alone and asked for none."""
        return self._filtered(OPEN, self.supported(node))

    def _filtered(self, spec: DeviceSpec, kinds: Mapping[str, int]) -> list[str]:
        key = (spec, tuple(kinds.items()))
        found = self._fitting.get(key)
        if found is None:
            fitting = [
                (name != self.default, -kinds[one.type], -rank(one.type), name)
                for name, one in self.devices
                if one.type is not None and one.type in kinds and matches(one, spec)
            ]
            found = self._fitting[key] = [name for *_, name in sorted(fitting)]
        return found

    def component(self, nodes: Iterable[str]) -> list[str]:
        """Return all nodes that some, or what takes their request over, are linked to; in their order.

        Also those which what they ask for keeps apart.
        """
        if self._linked is None:
            self._linked = {}
            for second, links in self.links.items():
                for first, _ in links:
                    self._linked.setdefault(first, []).append(second)
                    self._linked.setdefault(second, []).append(first)
            self._order = {node: number for number, node in enumerate(self.nodes)}
        found = set(nodes)
        found |= {node for node, of in self._copies.items() if of in found and node in self._order}
        waiting = list(found)
        while waiting:
            for other in self._linked.get(waiting.pop(), ()):
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        return sorted(found, key=self._order.__getitem__)

    def makes_resource(self, node: str) -> bool:
        """Tell whether a node makes a variable or another resource: its own request is then not overridden."""
        dtype = self.inputs.nodes[node]["dtype"]
        if not isinstance(dtype, str) or not (dtype == "resource" or dtype.endswith("_ref")):
            return False
        return self.inputs.takes_no_tensor(node)

    def _join(self, first: str, second: str, kind: str) -> None:
        a, b = self.groups[first], self.groups[second]
        self.links.setdefault(second, []).append((first, kind))
        if a is b:
            return
        asked = b.asked
        if kind != "loc:@" and not compatible(a.asked, asked):
            asked = overridden(a.asked, b.strong)
        both, strong = merged(a.asked, asked), merged(a.strong, b.strong)
        if (
            both is None
            or strong is None
            or not compatible(a.strong, b.strong)
            or (not self.soft and not compatible(a.asked, asked))
        ):
            return
        kinds = intersection(a.kinds, b.kinds)
        if not kinds:
            a.broken = b.broken = True
            return
        if len(a.members) < len(b.members):
            a, b = b, a
        a.strong, a.kinds = strong, kinds
        a.asked = overridden(both, strong)
        for member in b.members:
            self.groups[member] = a
        a.members.extend(b.members)
