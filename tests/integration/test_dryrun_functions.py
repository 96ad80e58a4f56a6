"""Functions: dry runs against what TensorFlow does when it runs them on logical CPU devices."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_placement.dryrun import close_helpers, dry_run
from tests.integration.dryrun_truth import devices_by_name, dry_error, real_error, really_run

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow
ON = "3xCPU"
FULL = "/job:localhost/replica:0/task:0/device:CPU:1"
PINS = ["", "", "", "", "/cpu:0", "/cpu:1", "/device:CPU:2", "CPU:1", "/device:CPU:*", FULL, "/job:localhost"]
UNKNOWN = ["/gpu:0", "/device:GPU:3", "/cpu:9"]
PLACES = ["", "", "/cpu:0", "/cpu:1", "/cpu:2"]


@pytest.fixture(scope="module", autouse=True)
def _end_helpers() -> Iterator[None]:
    yield
    close_helpers()


class Generated:
    """A random function with its inputs: pins, nested functions, control flow, variables, gradients, strings."""

    def __init__(self, seed: int, unknown: bool) -> None:
        self._pick = random.Random(seed)
        self._pins = PINS + UNKNOWN if unknown else PINS
        self._variables = []
        for _ in range(3):
            with self._place():
                self._variables.append(tf.Variable(tf.ones([4, 4])))
        with self._place():
            self._count = tf.Variable(0, dtype=tf.int64)
            self._constant = tf.constant([[1.5] * 4] * 4)
        with self._place():
            self.args = (tf.ones([4, 4]), tf.constant(3))
        self._inner = tf.function(self._inner_body, autograph=False)
        self._deeper = tf.function(self._deeper_body, autograph=False)
        self.function = tf.function(self._step, autograph=False)

    def _place(self) -> Any:
        return tf.device(self._pick.choice(PLACES) or None)

    def _pin(self) -> Any:
        pin = self._pick.choice(self._pins)
        if pin.startswith("/") and self._pick.random() < 0.1:
            return tf.compat.v1.device(lambda op: pin if op.type in ("AddV2", "MatMul") else "")
        return tf.device(pin or None)

    def _inner_body(self, a: Any, b: Any) -> Any:
        with self._pin():
            product = tf.matmul(a, b)
        with self._pin():
            total = tf.nn.relu(product) + self._variables[0]
        return total, tf.identity(product)

    def _deeper_body(self, a: Any) -> Any:
        with self._pin():
            first, second = self._inner(a, self._variables[1])
        return tf.tanh(first) + second

    def _grow(self, values: list[Any], steps: int, depth: int = 0) -> Any:
        pick = self._pick
        for _ in range(steps):
            a, b, kind = pick.choice(values), pick.choice(values), pick.randrange(14)
            with self._pin():
                if kind == 0:
                    values.append(tf.matmul(a, b))
                elif kind == 1:
                    values.append(self._inner(a, b)[pick.randrange(2)])
                elif kind == 2:
                    values.append(self._deeper(a))
                elif kind == 3 and depth < 2:
                    then, other = pick.randrange(1, 4), pick.randrange(1, 4)
                    values.append(
                        tf.cond(
                            tf.reduce_sum(a) > 0,
                            lambda a=a, b=b, n=then: self._grow([a, b], n, depth + 1),
                            lambda b=b, n=other: self._grow([b], n, depth + 1),
                        )
                    )
                elif kind == 4 and depth < 2:
                    body = lambda i, x, b=b: (i + 1, self._grow([x, b], 2, depth + 1))  # noqa: E731
                    values.append(tf.while_loop(lambda i, x: i < 3, body, [tf.constant(0), a])[1])
                elif kind == 5:
                    pick.choice(self._variables).assign_add(a * 0.1)
                elif kind == 6:
                    self._count.assign_add(tf.cast(tf.size(a), tf.int64))
                elif kind == 7:
                    values.append(a + self._constant + pick.choice(self._variables))
                elif kind == 8:
                    values.append(tf.reshape(tf.transpose(a), tf.shape(b)))
                elif kind == 9:
                    values.append(tf.identity(tf.identity(a)))
                elif kind == 10:
                    values.append(tf.strings.to_number(tf.strings.as_string(a)))
                elif kind == 11:
                    values.append(tf.cast(tf.cast(a, tf.int32) + 1, tf.float32))
                elif kind == 12:
                    with tf.compat.v1.colocate_with(pick.choice(self._variables).handle, ignore_existing=True):
                        values.append(tf.nn.elu(a))
                else:
                    values.append(a * 2.0)
        return values[-1]

    def _step(self, x: Any, number: Any) -> Any:
        with tf.GradientTape() as tape:
            y = self._grow([x, tf.ones([4, 4])], self._pick.randrange(5, 16))
            with self._pin():
                loss = tf.reduce_mean(y)
        if self._pick.random() < 0.6:
            gradients = tape.gradient(loss, self._variables)
            for variable, gradient in zip(self._variables, gradients, strict=True):
                if gradient is not None:
                    variable.assign_sub(gradient)
        with self._pin():
            last = tf.identity(y)
        return loss, y, last, number + 1, tf.strings.as_string(number), self._count.read_value()


@pytest.mark.parametrize("batch", range(4))
def test_generated_functions_are_placed_as_when_they_run(batch: int) -> None:
    nodes = 0
    for seed in range(batch * 15, batch * 15 + 15):
        made = Generated(seed, unknown=seed % 2 == 0)
        real = really_run(made.function, made.args, "function:_step")
        dry = devices_by_name(dry_run(made.function, *made.args, on=ON))
        assert dry == real, f"seed {seed}"
        nodes += len(real)
    assert nodes > 2000


@pytest.mark.parametrize("batch", range(2))
def test_hard_placement_of_functions_gives_the_same_devices(batch: int) -> None:
    for seed in range(batch * 10, batch * 10 + 10):
        made = Generated(seed, unknown=False)
        real = really_run(made.function, made.args, "function:_step", soft=False)
        assert devices_by_name(dry_run(made.function, *made.args, on=ON, soft=False)) == real, f"seed {seed}"


def test_hard_placement_of_functions_gives_the_same_error() -> None:
    errors = 0
    for seed in range(40):
        made = Generated(seed, unknown=True)
        error = real_error(made.function, made.args)
        assert dry_error(made.function, *made.args, on=ON, soft=False) == error, f"seed {seed}"
        errors += bool(error)
    assert errors > 20


def test_what_else_a_function_may_hold_is_placed_as_when_it_runs() -> None:
    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator]
    def compiled(x: Any) -> Any:
        return tf.nn.relu(x) * 2.0

    @tf.function  # type: ignore[untyped-decorator]
    def plain(x: Any) -> Any:
        return tf.tanh(x)

    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
    stateful = tf.random.Generator.from_seed(1)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(x: Any) -> Any:
        with tf.device("/cpu:1"):
            y = compiled(x)
        case = tf.switch_case(tf.size(x) % 3, [lambda: plain(y), lambda: y * 3.0, lambda: y])
        mapped = tf.map_fn(lambda row: plain(row) + 1.0, case)
        counted = tf.data.Dataset.range(3).reduce(tf.constant(0, tf.int64), lambda a, b: a + b)
        python = tf.numpy_function(lambda a: a, [mapped], tf.float32)
        ragged = tf.map_fn(lambda row: row * 2, tf.ragged.constant([[1.0, 2.0], [3.0]])).flat_values
        return mapped, counted, python, ragged, table.lookup(tf.constant(["a"])), stateful.normal([2])

    args = (tf.ones([2, 2]),)
    dry = dry_run(step, *args, on=ON)
    assert devices_by_name(dry) == really_run(step, args, "function:step")
    assert [data["device"][-5:] for _, data in dry.graph.nodes(data=True) if data["op"] == "PartitionedCall"] == [
        "CPU:1"
    ]


@pytest.mark.parametrize("returned", [True, False])
def test_a_malformed_device_is_refused_as_by_tensorflow(returned: bool) -> None:
    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(x: Any) -> Any:
        with tf.compat.v1.device(lambda op: "CPU:1"):  # tf.device itself would make "/device:CPU:1" of it
            y = x * 2.0
        return y if returned else tf.nn.relu(y)

    error = real_error(step, [tf.ones([2])])
    parse, place = "Failed to parse explicit device specification CPU:1", "Malformed device specification 'CPU:1' in"
    assert error.startswith(parse if returned else place)
    # The number of the node differs: the graph that is placed has nodes of its own for the function's ends.
    assert _without_number(dry_error(step, tf.ones([2]), on=ON, soft=False)) == _without_number(error)


def _without_number(message: str) -> str:
    return re.sub(r" id:\d+ ", " ", message)


def test_keyword_inputs_plain_values_and_structures() -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def step(x: Any, table: dict[str, Any], scale: float = 1.0, training: bool = False) -> Any:
        y = x @ table["w"] + table["b"]
        return tf.nn.relu(y, name="trained") * scale if training else y

    x, table = tf.ones([2, 3]), {"w": tf.ones([3, 4]), "b": tf.TensorSpec([4])}
    plain = dry_run(step, x, table, on="1xT4")
    trained = dry_run(step, x, table=table, training=True, scale=2.0, on="1xT4")
    assert "trained" not in plain.graph
    assert trained.graph.nodes["trained"]["shape"] == [2, 4]
    assert trained.graph.nodes["trained"]["source"][0] == __file__
    assert trained.meta["dry_run"] == "1xT4"


def test_what_a_function_raises_itself_is_raised_as_it_is() -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def broken(x: Any) -> Any:
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        dry_run(broken, tf.ones([2]), on="1xT4")


def test_inputs_that_do_not_fit_are_one_sentence() -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def step(x: Any, flag: bool = False) -> Any:
        return x

    @tf.function(input_signature=[tf.TensorSpec([2])])  # type: ignore[untyped-decorator]
    def fixed(x: Any) -> Any:
        return x

    for args, options, said in (
        ((step,), {}, r"step does not take the 0 inputs given: missing a required argument: 'x'\."),
        ((step, 1, 2, 3), {}, r"step does not take the 3 inputs given: too many positional arguments\."),
        ((step, 1), {"flaag": True}, r"step does not take the 2 inputs given: got an unexpected keyword .*'flaag'\."),
        ((fixed, tf.ones([3])), {}, r"fixed does not take the 1 input given: "),
        (([],), {}, r"there is nothing to place: the list is empty"),
        ((lambda x: x, 1), {}, r"function objects cannot be placed: put @tf\.function above it"),
        ((tf.Graph(), 1), {}, r"inputs are for a function or a model"),
        ((step, 1), {"train": True}, r"train= is for a Keras model"),
        ((step, 1), {"signature": "x"}, r"signature= names a signature of a SavedModel"),
        ((object(),), {}, r"object objects cannot be placed; what can be: a tf\.function"),
        ((step.get_concrete_function(1).graph,), {}, r"FuncGraph objects cannot be placed: give the function that"),
        ((tf.Graph(),), {}, r"there is nothing to place: the graph has no operations"),
        ((step, 1), {"python": ""}, r"python= is the path of another environment's Python, not ''"),
    ):
        with pytest.raises(ValueError, match=said) as raised:
            dry_run(*args, on="1xT4", **options)
        assert "\n" not in str(raised.value)


def test_a_dry_run_inside_a_function_is_refused_at_once() -> None:
    @tf.function
    def inner(x: Any) -> Any:
        return x + 1

    @tf.function(autograph=False)
    def outer(x: Any) -> Any:
        dry_run(inner, x, on="1xT4")
        return x

    with pytest.raises(ValueError, match=r"dry_run is called while a tf\.function is traced"):
        outer(tf.ones([2]))
