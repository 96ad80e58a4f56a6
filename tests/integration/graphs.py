"""Random graphs of single operations, as data that a test can change in one place and build again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

GPU_PINS = ("", "", "", "GPU:0", "GPU:1", "/device:GPU:*", "/gpu:1", "CPU:0", "/job:localhost", "GPU:7", "CPU:9")
PINS = ("", "", "", "CPU:0", "CPU:1", "CPU:2", "/job:localhost", "/device:CPU:*", "/cpu:1", "GPU:0", "CPU:9")


@dataclass(frozen=True)
class Step:
    """One operation: what it is, which earlier ones it takes, what it asks for."""

    kind: str
    inputs: tuple[int, ...] = ()
    pin: str = ""
    beside: int | None = None


@dataclass(frozen=True)
class Spec:
    """A graph, one step after the other."""

    steps: tuple[Step, ...] = field(default_factory=tuple)

    def without_pin(self, name: str) -> Spec | None:
        """Return the graph without the pin of one operation; None if it is none of these steps."""
        return self._changed(name, pin="")

    def without_colocation(self, name: str) -> Spec | None:
        """Return the graph without what one operation asks to be beside."""
        return self._changed(name, beside=None)

    def cast(self, name: str) -> Spec | None:
        """Return the graph with an operation on float32 in the place of one on int32; None if it is none of these."""
        kind = self.steps[int(name[1:])].kind if name.startswith("n") and name[1:].isdigit() else ""
        return self._changed(name, kind=kind.replace("int", "float")) if kind in ("matmulint", "reluint") else None

    def _changed(self, name: str, **change: Any) -> Spec | None:
        if not name.startswith("n") or not name[1:].isdigit():
            return None
        index = int(name[1:])
        if self.steps[index].kind in ("cond", "while", "call"):
            return None  # what is inside asks for the same device
        return Spec((*self.steps[:index], replace(self.steps[index], **change), *self.steps[index + 1 :]))


def random_spec(
    seed: int, size: int = 14, control_flow: bool = True, pins: Sequence[str] = PINS, more: Sequence[str] = ()
) -> Spec:
    """Make a graph of about ``size`` operations, the same for the same seed; ``more`` are kinds to draw from too."""
    chance = random.Random(seed)
    steps: list[Step] = []
    made: dict[str, list[int]] = {}

    def add(kind: str, gives: str, *inputs: int) -> int:
        beside = chance.randrange(len(steps)) if steps and chance.random() < 0.15 else None
        steps.append(Step(kind, inputs, chance.choice(pins), beside))
        made.setdefault(gives, []).append(len(steps) - 1)
        return len(steps) - 1

    def take(gives: str) -> int:
        return chance.choice(made[gives])

    add("float", "float")
    add("int", "int")
    add("string", "string")
    kinds = ["float", "int", "string", "add", "add", "addint", "join", "shape", "size", "cast", "identity"]
    kinds += ["resource", "resource", "ref", "ref", *(("cond", "while", "call") if control_flow else ()), *more]
    while len(steps) < size:
        kind = chance.choice(kinds)
        if kind in ("float", "int", "string"):
            add(kind, kind)
        elif kind == "add":
            add("add", "float", take("float"), take("float"))
        elif kind == "addint":
            add("add", "int", take("int"), take("int"))
        elif kind == "join":
            add("join", "string", take("string"), take("string"))
        elif kind in ("shape", "size"):
            add(kind, "vector" if kind == "shape" else "int", take(chance.choice(("float", "int", "string"))))
        elif kind == "cast":
            add("cast", "float", take("int"))
        elif kind == "identity":
            add("identity", "float", take("float"))
        elif kind == "matrix":
            add("matrix", "matrix")
        elif kind == "matmul":
            if "matrix" in made:
                add("matmulint", "matrix", take("matrix"), take("matrix"))
        elif kind == "relu":
            add("reluint", "int", take("int"))
        elif kind == "resource":
            variable = add("handle", "resource")
            add("assign_resource", "none", variable, take("float"))
            for _ in range(chance.randrange(3)):
                add("read", "float", variable)
        elif kind == "ref":
            variable = add("variable", "ref")
            add("assign_ref", "none", variable, take("float"))
            if chance.random() < 0.5:
                add("use_ref", "float", variable)
        else:
            add(kind, "float", take("float"))
    return Spec(tuple(steps))


def build(tf: Any, spec: Spec, graph: Any) -> list[Any]:
    """Add the operations of a spec to a graph that is the default one; return them."""
    raw, made = tf.raw_ops, []
    given: dict[int, Any] = {}

    def output(index: int) -> Any:
        return given[index] if index in given else made[index].outputs[0]

    for number, step in enumerate(spec.steps):
        name = f"n{number}"
        before = len(graph.get_operations())
        with tf.device(step.pin or None):
            inputs = [output(index) for index in step.inputs]
            if step.kind == "float":
                tf.constant(1.5 + number, name=name)
            elif step.kind == "int":
                tf.constant(number, tf.int32, name=name)
            elif step.kind == "string":
                tf.constant("a", name=name)
            elif step.kind == "add":
                raw.AddV2(x=inputs[0], y=inputs[1], name=name)
            elif step.kind == "join":
                raw.StringJoin(inputs=inputs, name=name)
            elif step.kind == "shape":
                raw.Shape(input=inputs[0], name=name)
            elif step.kind == "size":
                raw.Size(input=inputs[0], name=name)
            elif step.kind == "cast":
                raw.Cast(x=inputs[0], DstT=tf.float32, name=name)
            elif step.kind == "identity":
                raw.Identity(input=inputs[0], name=name)
            elif step.kind == "matrix":
                tf.constant([[1, 2], [3, number]], tf.int32, name=name)
            elif step.kind in ("matmulint", "matmulfloat"):
                if step.kind == "matmulfloat":
                    inputs = [tf.cast(one, tf.float32) for one in inputs]
                made_of = raw.MatMul(a=inputs[0], b=inputs[1], name=name)
                if step.kind == "matmulfloat":
                    given[number] = tf.cast(made_of, tf.int32)
            elif step.kind in ("reluint", "relufloat"):
                made_of = raw.Relu(
                    features=tf.cast(inputs[0], tf.float32) if step.kind == "relufloat" else inputs[0], name=name
                )
                if step.kind == "relufloat":
                    given[number] = tf.cast(made_of, tf.int32)
            elif step.kind == "handle":
                raw.VarHandleOp(dtype=tf.float32, shape=[], shared_name=name, name=name)
            elif step.kind == "assign_resource":
                raw.AssignVariableOp(resource=inputs[0], value=inputs[1], name=name)
            elif step.kind == "read":
                raw.ReadVariableOp(resource=inputs[0], dtype=tf.float32, name=name)
            elif step.kind == "variable":
                raw.VariableV2(shape=[], dtype=tf.float32, name=name)
            elif step.kind == "assign_ref":
                raw.Assign(ref=inputs[0], value=inputs[1], name=name)
            elif step.kind == "use_ref":
                raw.Identity(input=inputs[0], name=name)
            elif step.kind == "cond":
                x = inputs[0]
                given[number] = tf.cond(x > 0.0, lambda x=x: x + 1.0, lambda x=x: x - 1.0, name=name)
            elif step.kind == "while":
                given[number] = tf.while_loop(lambda x: x < 9.0, lambda x: x + 1.0, [inputs[0]], name=name)[0]
            else:
                given[number] = tf.function(lambda x: x * 2.0 + 1.0, autograph=False)(inputs[0])
        added = graph.get_operations()[before:]
        found = next((one for one in added if one.name == name), added[-1])
        if step.kind == "assign_ref":
            # Python gave it the device of the variable.
            found._set_device(step.pin if step.pin.startswith("/") or not step.pin else f"/device:{step.pin}")
        if step.beside is not None and found.name == name:
            found._set_attr("_class", tf.compat.v1.AttrValue(list={"s": [b"loc:@" + made[step.beside].name.encode()]}))
        made.append(found)
    return made
