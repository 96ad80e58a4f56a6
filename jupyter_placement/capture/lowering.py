"""TensorFlow inlines functions and lowers control flow before it places a graph: the edges of the result.

The rules are those of ``lower_if_op.cc``, ``lower_while_op.cc`` and ``inline_function_utils.cc`` in
``tensorflow/core/common_runtime`` (read in 2.21). What was lowered, and under which names, is read off the names that
the placer logged, not assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.devices import DeviceSpec, device_name, parse_device

_NUMBERED = re.compile(r"(.*)/_(\d+)")
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_IFS = frozenset({"If", "StatelessIf"})
_WHILES = frozenset({"While", "StatelessWhile"})
_RESOURCE = 20  # types.proto: DT_RESOURCE
_CALLERS = "the call's"


@dataclass
class Frame:
    """One body: the graph itself, or a function inlined somewhere.

    Attributes
    ----------
    prefix : str
        What its nodes' names begin with in the lowered graph.
    function : str
        The function, ``""`` for the graph itself.
    nodes : list of (NodeDef, list of str)
        Each node with its inputs as ``node:k``, ``argument`` or ``^node``.
    arguments : dict of str to Reference
        What the function's arguments are.
    outputs : dict of (str, int) to Reference
        Where an output of a lowered node comes from now.
    lowered : dict of str to str
        Lowered nodes, each with the node that waits for its control inputs (``""``: none).
    requested : str
        Device that was requested for the call: it completes what the nodes of the body request themselves.
    call : str
        Name of the call that stood in its place.
    """

    prefix: str
    function: str
    nodes: list[tuple[Any, list[str]]]
    arguments: dict[str, Reference] = field(default_factory=dict)
    outputs: dict[tuple[str, int], Reference] = field(default_factory=dict)
    lowered: dict[str, str] = field(default_factory=dict)
    requested: str = ""
    call: str = ""

    def reference(self, source: str) -> Reference:
        """Return the reference of ``node:k`` or ``argument``."""
        name, _, index = source.rpartition(":")
        return Reference(self, name, int(index)) if name and index.isdigit() else Reference(self, source, 0)


@dataclass(frozen=True)
class Reference:
    """An output of a node of a frame; without a frame, one of the lowered graph."""

    frame: Frame | None
    name: str
    index: int

    def resolve(self) -> tuple[str, int]:
        """Return the name in the lowered graph, and the output. Only right once every frame is there."""
        current = self
        while current.frame is not None:
            frame = current.frame
            following = frame.arguments.get(current.name) or frame.outputs.get((current.name, current.index))
            if following is None:
                return frame.prefix + current.name, current.index
            current = following
        return current.name, current.index


@dataclass(frozen=True)
class Added:
    """What lowering asks for a node that it adds.

    Attributes
    ----------
    call : str
        The node that it stands for.
    requested : str
        Requested device.
    like : Reference or None
        The node whose request, and whose device if it has one already, it takes over in place of its own.
    beside : Reference or None
        What it is to be beside (``loc:@``).
    as_call : bool
        Whether it is to be beside what the call asked to be beside, as is seen of a conditional's nodes in 2.21.
    """

    call: str
    requested: str
    like: Reference | None = None
    beside: Reference | None = None
    as_call: bool = False


def completed_request(own: str, caller: str) -> str:
    """Complete the requested device of a node in an inlined body by that of the call (``MergeUnsetDevNames``).

    Examples
    --------
    >>> completed_request("", "/device:GPU:1"), completed_request("/job:worker", "/job:ps/device:CPU:0")
    ('/device:GPU:1', '/job:worker/device:CPU:0')
    """
    mine, outer = parse_device(own), parse_device(caller)
    if not own or not caller or mine is None or outer is None:
        return own or caller
    merged = DeviceSpec(
        outer.job if mine.job is None else mine.job,
        outer.replica if mine.replica is None else mine.replica,
        outer.task if mine.task is None else mine.task,
        outer.type if mine.type is None else mine.type,
        outer.id if mine.id is None else mine.id,
    )
    return own if merged == mine else device_name(merged)


class NumberedNames:
    """Names that TensorFlow made with a number that is unique in the graph, by what stands before it.

    Examples
    --------
    >>> names = NumberedNames(["w/enter/_2", "w/enter/_10", "w/merge/_11", "w"])
    >>> names.under("w/enter"), names.after("w/enter", 1)
    (['w/enter/_2', 'w/enter/_10'], ['w/merge/_11'])
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._by_base: dict[str, list[tuple[int, str]]] = {}
        self._by_number: dict[int, str] = {}
        for name in names:
            match = _NUMBERED.fullmatch(name)
            if match is not None:
                self._by_base.setdefault(match[1], []).append((int(match[2]), name))
                self._by_number[int(match[2])] = name
        for base, found in self._by_base.items():
            self._by_base[base] = sorted(set(found))

    def under(self, base: str) -> list[str]:
        """Return the names under a base, by number."""
        return [name for _, name in self._by_base.get(base, ())]

    def after(self, base: str, count: int) -> list[str]:
        """Return the names with the numbers right after a base's last; none unless all are there."""
        found = self._by_base.get(base)
        if not found:
            return []
        first = found[-1][0] + 1
        names = [self._by_number.get(number, "") for number in range(first, first + count)]
        return names if all(names) else []


class Lowering:
    """Lower the nodes that TensorFlow lowered.

    Parameters
    ----------
    names : NumberedNames
        Names that the placer logged.
    library : mapping of str to FunctionDef
        The functions that nodes call.
    signatures : Signatures
        Of operations and of these functions.
    """

    def __init__(self, names: NumberedNames, library: Mapping[str, Any], signatures: Signatures) -> None:
        self._names = names
        self._library = library
        self._signatures = signatures
        self.edges: list[tuple[str, int, Reference]] = []
        self.controls: list[tuple[str, str]] = []
        self.added: dict[str, Added] = {}
        self._as_call: set[str] = set()

    def lower(self, node: Any, inputs: Sequence[str], frame: Frame) -> list[Frame]:
        """Lower one node if TensorFlow did; return the bodies that stand in its place."""
        sources = [frame.reference(source) for source in inputs if not source.startswith("^")]
        name = frame.prefix + node.name
        requested = completed_request(node.device, frame.requested)
        before = len(self.added)
        bodies = self._bodies(node, name, sources, frame)
        for body in bodies:
            body.requested, body.call = requested, name
        for new in list(self.added)[before:]:
            added = self.added[new]
            own = requested if added.requested == _CALLERS else added.requested
            self.added[new] = Added(name, own, added.like, added.beside, new in self._as_call)
        return bodies

    def _add(self, *names: str, like: Reference | None = None, beside: Reference | None = None) -> None:
        for name in names:
            self.added[name] = Added("", _CALLERS if like is None and beside is None else "", like, beside)

    def _bodies(self, node: Any, name: str, sources: Sequence[Reference], frame: Frame) -> list[Frame]:
        if node.op in _CALLS:
            called = self._inline(name, node.attr["f"].func.name, sources)
            if called is None:
                return []
            body, outputs, begin = called
            frame.lowered[node.name] = begin
            frame.outputs.update({(node.name, index): output for index, output in enumerate(outputs)})
            return [body]
        if node.op in _IFS:
            return self._lower_if(node, name, sources, frame)
        if node.op in _WHILES:
            return self._lower_while(node, name, sources, frame)
        return []

    def _edge(self, consumer: str, *sources: Reference) -> None:
        self.edges.extend((consumer, key, source) for key, source in enumerate(sources))

    def _inline(
        self, name: str, function: str, sources: Sequence[Reference]
    ) -> tuple[Frame, list[Reference], str] | None:
        """Inline a call; return its body, its outputs, and the node that waits for its control inputs."""
        definition = self._library.get(function)
        begin, end = (self._names.under(f"Func/{name}/{kind}_control_node") for kind in ("input", "output"))
        inputs, outputs = (self._names.under(f"Func/{name}/{kind}") for kind in ("input", "output"))
        if definition is None or not (begin or end) or len(sources) != len(definition.signature.input_arg):
            return None
        signature = definition.signature
        self._add(*begin, *end)
        if len(inputs) == len(sources):
            for identity, source in zip(inputs, sources, strict=True):
                self._edge(identity, source)
                self._add(identity, like=source, beside=source)
            sources = [_node(identity) for identity in inputs]
        arguments = {argument.name: source for argument, source in zip(signature.input_arg, sources, strict=True)}
        body = Frame(name + "/", function, self._signatures.body(definition), arguments)
        results = [body.reference(result) for result in self._signatures.results(definition)]
        if len(outputs) == len(results):
            for identity, result in zip(outputs, results, strict=True):
                self._edge(identity, result)
                self._add(identity, beside=result)
            results = [_node(identity) for identity in outputs]
        for node in end[:1]:
            self.controls.append((name, node))
            for control in definition.control_ret.values():
                self.controls.append((node, body.prefix + control))
        return body, results, begin[0] if begin else ""

    def _branch(self, base: str, function: str, sources: Sequence[Reference]) -> tuple[Frame, list[Reference]] | None:
        for name in self._names.under(base):
            called = self._inline(name, function, sources)
            if called is not None:
                self._add(name)  # stays as an IdentityN or NoOp where its outputs can be fetched
                return called[0], called[1]
        return None

    def _lower_if(self, node: Any, name: str, sources: Sequence[Reference], frame: Frame) -> list[Frame]:
        predicate, *rest = sources
        switch_predicate = self._names.under(f"{name}/switch_pred")
        pivots = [self._names.under(f"{name}/pivot_{side}") for side in "ft"]
        switches = self._names.after(f"{name}/pivot_t", len(rest))
        if not switch_predicate or not all(pivots) or len(switches) != len(rest):
            return []
        branches = [
            self._branch(
                f"{name}/{kind}", node.attr[f"{kind}_branch"].func.name, [_node(one, side) for one in switches]
            )
            for kind, side in (("then", 1), ("else", 0))
        ]
        if None in branches:
            return []
        self._add(*switch_predicate, *(name for pivot in pivots for name in pivot))
        self._edge(switch_predicate[0], predicate, predicate)
        for side, pivot in enumerate(pivots):
            self._edge(pivot[0], _node(switch_predicate[0], side))
        for switch, source in zip(switches, rest, strict=True):
            self._edge(switch, source, predicate)
            self._add(switch, like=source, beside=source)
        merges = self._names.under(f"{name}/output")
        self._add(*merges, *self._names.under(f"{name}/branch_executed"))
        self._as_call.update(switch_predicate, *pivots, merges, self._names.under(f"{name}/branch_executed"))
        (then, then_outputs), (other, other_outputs) = (branch for branch in branches if branch is not None)
        for index, (merge, *outputs) in enumerate(zip(merges, then_outputs, other_outputs, strict=False)):
            self._edge(merge, *outputs)
            frame.outputs[(node.name, index)] = _node(merge)
        frame.lowered[node.name] = switch_predicate[0]
        for executed in self._names.under(f"{name}/branch_executed"):
            self.controls.append((name, executed))
        return [then, other]

    def _lower_while(self, node: Any, name: str, sources: Sequence[Reference], frame: Frame) -> list[Frame]:
        types = list(node.attr["T"].list.type)
        # A resource does not change in a loop: it enters once, and the body takes it from there.
        changing = [index for index, kind in enumerate(types) if kind != _RESOURCE]
        enters, merges, following, exits = (
            self._names.under(f"{name}/{kind}") for kind in ("enter", "merge", "next_iteration", "exit")
        )
        condition = self._names.under(f"{name}/LoopCond")
        switches = self._names.after(f"{name}/LoopCond", len(changing))
        if len(enters) < len(sources) or not condition:
            return []
        if not len(merges) == len(switches) == len(following) == len(exits) == len(changing):
            return []
        merge_of, switch_of = dict(zip(changing, merges, strict=True)), dict(zip(changing, switches, strict=True))
        seen = [_node(merge_of.get(index, enters[index])) for index in range(len(sources))]
        taken = [
            _node(switch_of[index], 1) if index in switch_of else _node(enters[index]) for index in range(len(sources))
        ]
        test = self._branch(f"{name}/cond", node.attr["cond"].func.name, seen)
        body = self._branch(f"{name}/body", node.attr["body"].func.name, taken)
        if test is None or body is None:
            return []
        for kind in ("LoopControlInputs", "loop_body_control", "LoopExecuted"):
            self._add(*self._names.under(f"{name}/{kind}"))
        self._add(*condition)
        for enter, source in zip(enters, sources, strict=False):
            self._edge(enter, source)
            self._add(enter, like=source)
        self._edge(condition[0], test[1][0])
        for position, index in enumerate(changing):
            self._edge(merges[position], _node(enters[index]), _node(following[position]))
            self._edge(switches[position], _node(merges[position]), _node(condition[0]))
            self._add(merges[position], like=_node(enters[index]))
            self._add(switches[position], following[position], like=_node(merges[position]))
            self._add(exits[position], like=_node(switches[position]))
            self._edge(exits[position], _node(switches[position]))
            self._edge(following[position], body[1][index])
            frame.outputs[(node.name, index)] = _node(exits[position])
        for index, source in enumerate(sources):
            if index not in merge_of:
                frame.outputs[(node.name, index)] = source
        for control in self._names.under(f"{name}/loop_body_control")[:1]:
            self._edge(control, _node(switches[0], 1))
        frame.lowered[node.name] = ""
        for executed in self._names.under(f"{name}/LoopExecuted"):
            self.controls.append((name, executed))
        return [test[0], body[0]]


def _node(name: str, index: int = 0) -> Reference:
    return Reference(None, name, index)
