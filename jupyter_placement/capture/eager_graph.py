"""The graph of the eager operations that ran."""

from __future__ import annotations

from jupyter_placement.capture.facts import PlacementFacts
from jupyter_placement.capture.graphs import Captured, EagerCall, EagerTensorFact
from jupyter_placement.capture.names import function_label
from jupyter_placement.capture.private import private_tensorflow
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.capture.sources import UserFrames
from jupyter_placement.capture.tensors import tensor_bytes
from jupyter_placement.devices import LOCAL_TASK
from jupyter_placement.placement import Placement

_CONSTANT = "_EagerConst"


def add_eager(placement: Placement, captured: Captured, facts: PlacementFacts) -> None:
    """Add the eager operations to a Placement, with the tensors between them as edges.

    A tensor that was there before, or that Python made, is a node of its own.

    Parameters
    ----------
    placement : Placement
        Has the graphs already.
    captured : Captured
        What was found.
    facts : PlacementFacts
        Where the facts go that explanations rest on.
    """
    builder = _EagerBuilder(placement, captured)
    builder.add()
    facts.add_eager(builder.existing)
    signatures = Signatures(private_tensorflow().op_defs, {}, str)
    for node, data in placement.graph.nodes(data=True):
        if data["graph"] == "eager":
            facts.add_node(node, signatures, None, [])


class _EagerBuilder:
    def __init__(self, placement: Placement, captured: Captured) -> None:
        self._placement = placement
        self._captured = captured
        self._frames = UserFrames()
        self.existing: list[str] = []
        self._numbers: dict[str, int] = {}
        self._makers: dict[int, tuple[str, int, EagerTensorFact]] = {}
        self._prefix = ""

    def _name(self, base: str) -> str:
        number = self._numbers.get(base, 0)
        self._numbers[base] = number + 1
        return base if number == 0 else f"{base}_{number}"

    def add(self) -> None:
        names = [
            (call, self._name((call.name or "").strip("/") or function_label(call.op))) for call in self._captured.eager
        ]
        sources = {
            number: self._name("resource" if _dtype(fact) == "resource" else "Const")
            for number, fact in self._captured.sources.items()
        }
        taken = self._placement.graph.nodes.keys()
        if any(name in taken for _, name in names) or any(name in taken for name in sources.values()):
            self._prefix = "eager/"
        for number, name in sources.items():
            self._add_source(number, name)
        for call, name in names:
            self._add_call(call, name)
        self._add_unseen()

    def _add_source(self, number: int, name: str) -> None:
        fact = self._captured.sources[number]
        op = "VarHandleOp" if _dtype(fact) == "resource" else _CONSTANT
        self._add_node(name, op, fact.device, "", (fact,))
        if number < self._captured.first_number:
            self.existing.append(self._prefix + name)
        self._makers[number] = (self._prefix + name, 0, fact)

    def _add_call(self, call: EagerCall, name: str) -> None:
        inputs = [self._makers[number] for number in call.inputs if number in self._makers]
        device = self._device(call, [fact for _, _, fact in inputs])
        compiled = self._captured.compiled.get(call.op)
        op = "PartitionedCall" if call.op.startswith("__") else call.op
        # TensorFlow completes what the user wrote; within this task the full name says no more than the short one.
        requested = call.requested.removeprefix(LOCAL_TASK)
        self._add_node(name, op, device, requested, call.outputs, compiled, call.source)
        for key, number in enumerate(call.inputs):
            if number not in self._makers:
                continue
            producer, index, fact = self._makers[number]
            self._placement.add_edge(
                producer,
                self._prefix + name,
                key,
                tensor=f"{self._placement.graph.nodes[producer]['name']}:{index}",
                dtype=_dtype(fact),
                shape=None if fact.shape is None else list(fact.shape),
                bytes=_bytes(fact),
            )
        for index, fact in enumerate(call.outputs):
            self._makers[fact.id] = (self._prefix + name, index, fact)

    def _device(self, call: EagerCall, inputs: list[EagerTensorFact]) -> str | None:
        if call.outputs:
            return call.outputs[0].device
        possible = self._captured.one_op_devices.get(call.op, set())
        if len(possible) == 1:
            return next(iter(possible))
        # An operation on a resource runs where the resource is.
        return next((fact.device for fact in inputs if _dtype(fact) == "resource"), None)

    def _add_unseen(self) -> None:
        """Add operations that TensorFlow placed and that no recorded call made: constants that nothing took, say."""
        graph = self._placement.graph
        seen = {(data["op"], data["device"]) for _, data in graph.nodes(data=True) if data["graph"] == "eager"}
        for op, found in self._captured.one_op_devices.items():
            for device in sorted(found):
                if (op, device) not in seen:
                    self._add_node(self._name("Const" if op == _CONSTANT else op), op, device, "", ())

    def _add_node(
        self,
        name: str,
        op: str,
        device: str | None,
        requested: str,
        outputs: tuple[EagerTensorFact, ...],
        compiled: int | None = None,
        source: tuple[str, int] | None = None,
    ) -> None:
        dtypes = [_dtype(fact) for fact in outputs]
        shapes = [None if fact.shape is None else list(fact.shape) for fact in outputs]
        host = bool(outputs) and device is not None and outputs[0].backing_device != device
        self._placement.add_node(
            self._prefix + name,
            name=name,
            op=op,
            device=device,
            requested=requested,
            dtype=dtypes[0] if len(dtypes) == 1 else (dtypes or None),
            shape=shapes[0] if len(shapes) == 1 else (shapes or None),
            memory="host" if host else "device",
            graph="eager",
            source=self._frames.named(source),
            compiled=compiled,
        )


def _dtype(fact: EagerTensorFact) -> str:
    import tensorflow as tf

    return str(tf.dtypes.as_dtype(fact.dtype).name)


def _bytes(fact: EagerTensorFact) -> int | None:
    return tensor_bytes(_dtype(fact), fact.shape)
