"""Which rule of TensorFlow's put a node where it is."""

from __future__ import annotations

from typing import Any

from jupyter_placement.devices import device_type, parse_device, satisfies
from jupyter_placement.explain.colocation import ARGUMENTS
from jupyter_placement.explain.inputs import Inputs
from jupyter_placement.explain.placer import METADATA, RESULTS, Around, Placer
from jupyter_placement.explain.requests import OPEN
from jupyter_placement.explain.rule import Rule
from jupyter_placement.placement import Placement
from jupyter_placement.summary import device_labels


class Rules:
    """The rules of all nodes of a Placement, each found when it is first asked for.

    Parameters
    ----------
    placement : Placement
        Where TensorFlow put each operation.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.graph = placement.graph
        self.inputs = Inputs(placement.graph)
        self._facts: dict[str, Any] = placement.meta.get("explain") or {}
        self._existing = set(self._facts.get("existing", ()))
        self._optimized = set(self._facts.get("optimized", ()))
        self._by_graph: dict[str, list[str]] = {}
        for node, data in self.graph.nodes(data=True):
            self._by_graph.setdefault(data["graph"], []).append(node)
        self._before: dict[str, str] = self._facts.get("placed_before", {})
        self._placers: dict[str, Placer] = {}
        self._fresh: dict[str, tuple[Placer, dict[str, str]]] = {}
        self._rules: dict[str, Rule] = {}
        self._deciders: dict[int, tuple[str, str]] = {}
        self._around: dict[str, Around] = {}
        self._labels: dict[str | None, str] | None = None

    def placer(self, node: str) -> Placer:
        """Return the placer's view of the graph that a node is of.

        Where an earlier run of a session placed some of it, that is taken into account if a new session would place the
        node elsewhere.
        """
        label = self.inputs.nodes[node]["graph"]
        if label not in self._placers:
            self._placers[label] = self.other_placer(label)
            if any(one in self._before for one in self._by_graph[label]):
                fresh = self.other_placer(label, fresh=True)
                self._fresh[label] = fresh, fresh.place()
        if label in self._fresh and self.in_a_new_session(node) == self.inputs.nodes[node]["device"]:
            return self._fresh[label][0]
        return self._placers[label]

    def in_a_new_session(self, node: str) -> str | None:
        """Return where a session without a history would place a node; ``None`` where that is not known."""
        found = self._fresh.get(self.inputs.nodes[node]["graph"])
        return None if found is None else found[1].get(node)

    def other_placer(self, label: str, **change: Any) -> Placer:
        """Return the placer's view of a graph with other requests, or without some colocation."""
        called_on = self._facts.get("graphs", {}).get(label, {}).get("called_on", "")
        return Placer(self.placement, self._by_graph[label], called_on, inputs=self.inputs, **change)

    def without(self, node: str, **change: Any) -> str | None:
        """Work out where a node would be with other requests, or without some colocation; ``None`` if nowhere.

        Only what must be with it is placed again, as long as that tells the same as to place the whole graph.
        """
        label = self.inputs.nodes[node]["graph"]
        around = self._around.get(label)
        if around is None:
            around = self._around[label] = Around(self.other_placer(label))
        part = around.placer.component([node, *change.get("requests", ()), *change.get("loose", ())])
        if not around.tells(part):
            return self.other_placer(label, **change).place().get(node)
        called_on = self._facts.get("graphs", {}).get(label, {}).get("called_on", "")
        devices = [name for name, _ in around.placer.devices]
        placer = Placer(self.placement, part, called_on, inputs=self.inputs, devices=devices, **change)
        return placer.place(around).get(node)

    def short(self, device: str | None) -> str:
        """Write a device name for people, as :meth:`Placement.short` does."""
        if self._labels is None:
            self._labels = device_labels(self.placement)
        label = self._labels.get(device)
        return self.placement.short(device) if label is None else label

    def called(self, node: str) -> str:
        """Name a node for people: what a function takes by the name of the variable that it is."""
        data = self.inputs.nodes.get(node)
        if data is None:
            return node
        variable = self.variable(node)
        if variable:
            return f"variable {variable}"
        return f"argument {data['name']}" if data["op"] in ARGUMENTS else str(data["name"])

    def variable(self, node: str) -> str:
        """Return the name of the variable that a node of a function stands for, or ``""``."""
        of: str = self._facts.get("copies", {}).get(node, node)
        name: str = self._facts.get("variables", {}).get(of, "")
        return name

    def kind(self, node: str) -> str:
        """Return what a node's graph is: ``session``, ``function``, ``data``, ``eager``; ``""`` where not known."""
        kind: str = self._facts.get("graphs", {}).get(self.inputs.nodes[node]["graph"], {}).get("kind", "")
        return kind

    def of(self, node: str) -> Rule:
        """Return the rule of a node.

        Raises
        ------
        KeyError
            When the Placement has no such node.
        """
        found = self._rules.get(node)
        if found is None:
            found = self._rules[node] = self._find(node)
        return found

    def _find(self, node: str) -> Rule:
        data = self.inputs.nodes[node]
        kind, device = self.kind(node), data["device"]
        if device is None:
            return Rule("never_placed")
        if not kind:
            return self._without_facts(data)
        if kind == "data":
            return Rule("data_function")
        if kind == "eager":
            return self._eager(node, data, device)
        if data["compiled"] is not None:
            asked = bool(data["requested"]) and satisfies(device, data["requested"])
            return Rule("compiled", {"operations": data["compiled"]}, "pinned" if asked else "default")
        if data["op"] in ARGUMENTS:
            return Rule("argument")
        if node in self._optimized:
            return Rule("optimized")
        if data["op"] in RESULTS:
            beside = self.placer(node).result_of(node)
            if beside is not None and self.inputs.nodes[beside]["device"] == device:
                return Rule("result", {"beside": beside})
            if beside is not None and satisfies(device, self.inputs.nodes[beside]["requested"] or "/job:none"):
                return Rule("result", {"beside": beside, "requested": self.inputs.nodes[beside]["requested"]})
        copied = self._facts.get("copies", {}).get(node)
        if copied is not None and self.placer(node).assigned(node) == device:
            return Rule("argument", {"of": copied})
        if node in self._before and self.placer(node).assigned(node) == device:
            return Rule("sticky", {"requested": data["requested"]})
        if "GroupCrossDeviceControlEdges" in data["name"]:
            return self._control_group(node, device)
        if data["op"] == "VarHandleOp" and self.placer(node).is_free_variable(node):
            kinds = list(self.placer(node).supported(node))
            return Rule("default", {"kinds": kinds}) if self.placer(node).assigned(node) == device else Rule("unknown")
        return self._requested(node, data) if data["requested"] else self._free(node, data)

    def _control_group(self, node: str, device: str) -> Rule:
        """Explain a NoOp that TensorFlow adds to send one control signal to another device in place of many."""
        producers = [one for one in self.inputs.producers(node) if self.inputs.nodes[one]["device"] == device]
        return Rule("control_group", {"producers": len(producers)}) if producers else Rule("unknown")

    def _without_facts(self, data: dict[str, Any]) -> Rule:
        """Only a log and perhaps a graph file: what the request alone tells."""
        requested, device = data["requested"], data["device"]
        if requested and satisfies(device, requested):
            return Rule(_pin(requested))
        if requested and not self._existing_devices(requested):
            return Rule("no_such_device", {"requested": requested})
        return Rule("unknown", reason=data["reason"])

    def _existing_devices(self, requested: str) -> list[str]:
        return [name for name in self.placement.device_names() if satisfies(name, requested)]

    def _requested(self, node: str, data: dict[str, Any]) -> Rule:
        requested, device, placer = data["requested"], data["device"], self.placer(node)
        if device not in placer.candidates(node):
            return Rule("unknown")
        if satisfies(device, requested):
            return Rule(_pin(requested))
        there = self._existing_devices(requested)
        if not there:
            return Rule("no_such_device", {"requested": requested})
        kinds = placer.supported(node)
        if all(_kind(name) not in kinds for name in there):
            return self._no_kernel(node, requested, list(kinds))
        return Rule("overridden", {"requested": requested, **self._group(node)})

    def _no_kernel(self, node: str, requested: str, kinds: list[str]) -> Rule:
        placer = self.placer(node)
        types, taken = placer.types(node), placer.types_taken(node, device_type(requested) or "")
        return Rule("no_kernel", {"requested": requested, "kinds": kinds, "types": types, "takes": taken})

    def _free(self, node: str, data: dict[str, Any]) -> Rule:
        device, placer = data["device"], self.placer(node)
        group, candidates = placer.groups[node], placer.candidates(node)
        if device not in candidates:
            return Rule("unknown")
        alone = len(group.members) == 1
        if not alone and (group.asked != OPEN or list(group.kinds) != list(placer.supported(node))):
            return Rule("colocated", self._group(node))
        if placer.is_generator(node):
            behind = [consumer for _, consumer in self.graph.out_edges(node)]
            if behind and all(self.inputs.nodes[one]["device"] == device for one in behind):
                return Rule("generator", {"beside": behind[0], "consumers": len(set(behind))})
        if data["op"] in METADATA:
            producer = next(iter(self.inputs.producers(node)), None)
            if producer is not None and self.inputs.nodes[producer]["device"] == device:
                return Rule("metadata", {"beside": producer})
        if placer.hands_on(node):
            (producer,) = self.inputs.producers(node)
            if self.inputs.nodes[producer]["device"] == device:
                return Rule("identity", {"beside": producer})
        if node in placer.links:
            return Rule("colocated", self._group(node))
        if device == candidates[0]:
            return Rule("call_device" if device == placer.default else "default", {"kinds": list(group.kinds)})
        if not alone and any(
            self.inputs.nodes[one]["device"] == device and one != node and one in placer.links for one in group.members
        ):
            return Rule("colocated", self._group(node))
        return Rule("unknown")

    def _group(self, node: str) -> dict[str, Any]:
        """Return the facts of a colocation group: how many, who decides, and why."""
        placer = self.placer(node)
        group = placer.groups[node]
        device = self.inputs.nodes[node]["device"]
        decider, why = self._decider(placer, node, device)
        return {"size": len(group.members), "decider": decider, "because": why, "links": placer.links.get(node, [])[:4]}

    def _decider(self, placer: Placer, node: str, device: str) -> tuple[str, str]:
        key = id(placer.groups[node])
        found = self._deciders.get(key)
        if found is None:
            found = self._deciders[key] = self._find_decider(placer, node, device)
        return found

    def _find_decider(self, placer: Placer, node: str, device: str) -> tuple[str, str]:
        nodes = self.inputs.nodes
        members = placer.groups[node].members
        for member in members:
            if nodes[member]["op"] in ARGUMENTS:
                return member, "argument"
            copied = self._facts.get("copies", {}).get(member)
            if copied in nodes and nodes[copied]["op"] in ARGUMENTS:
                return copied, "argument"
            if placer.is_free_variable(member):
                limited = list(placer.supported(member)) != placer.device_kinds
                return member, "kernels" if limited else "argument"
            if placer.assigned(member) is not None:
                return member, "sticky"
        asking = [one for one in members if placer.requested(one)]
        for member in (*(one for one in asking if placer.makes_resource(one)), *asking):
            if satisfies(device, placer.requested(member)):
                return member, "request"
        kind = _kind(device)
        for member in members:
            supported = placer.supported(member)
            if next(iter(supported), None) == kind and list(supported) != placer.device_kinds:
                return member, "kernels"
        if asking:
            different = len({placer.requested(one) for one in asking}) > 1
            return asking[0], "conflict" if different else "unavailable"
        return next((one for one in members if one not in placer.links), members[0]), "first"

    def _eager(self, node: str, data: dict[str, Any], device: str) -> Rule:
        requested, op = data["requested"], data["op"]
        if node in self._existing:
            return Rule("existing")
        placer = self.placer(node)
        if data["compiled"] is not None:
            asked = bool(requested) and satisfies(device, requested)
            return Rule("compiled", {"operations": data["compiled"]}, "pinned" if asked else "default")
        if op == "PartitionedCall":
            return Rule("function_call")
        if requested and satisfies(device, requested):
            return Rule(_pin(requested))
        for _, producer, edge in self.inputs.of(node):
            if edge["dtype"] == "resource" and self.inputs.nodes[producer]["device"] == device:
                asked = self.inputs.nodes[producer]["requested"]
                because = "request" if asked and satisfies(device, asked) else "first"
                facts = {"size": 2, "decider": producer, "because": because, "links": [(producer, "resource")]}
                return Rule("overridden", {"requested": requested, **facts}) if requested else Rule("colocated", facts)
        kinds = placer.supported(node)
        if requested:
            there = self._existing_devices(requested)
            if not there:
                return Rule("no_such_device", {"requested": requested})
            if all(_kind(name) not in kinds for name in there):
                return self._no_kernel(node, requested, list(kinds))
            return Rule("unknown")
        first = next(iter(placer.free_devices(node)), None)
        if device == first:
            return Rule("default", {"kinds": list(kinds)})
        if op == "_EagerConst":
            return Rule("constant")
        if _kind(device) == "CPU" and all(edge["dtype"] in ("int32", "int64") for *_, edge in self.inputs.of(node)):
            return Rule("small_on_host")
        return Rule("unknown")


def _pin(requested: str) -> str:
    spec = parse_device(requested)
    return "pinned" if spec is not None and spec.type is not None and spec.id is not None else "pinned_partly"


def _kind(device: str) -> str | None:
    spec = parse_device(device)
    return None if spec is None else spec.type
