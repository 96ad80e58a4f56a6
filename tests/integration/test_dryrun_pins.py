"""What the user asked for reaches the placer as on the real machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from jupyter_placement.capture.requests import Requests, requested_device
from jupyter_placement.dryrun import close_helpers, dry_run, requests
from jupyter_placement.placement import Placement
from tests.integration.dryrun_truth import dry_error
from tests.kernel import Kernel

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", autouse=True)
def _end_helpers() -> Iterator[None]:
    yield
    close_helpers()


def on_devices(placement: Placement) -> dict[str, str]:
    return {data["name"]: placement.short(data["device"]) for _, data in placement.graph.nodes(data=True)}


@pytest.mark.parametrize(
    ("pin", "requested", "assigned"),
    [
        ("/gpu:1", "/device:GPU:1", "GPU:1"),
        ("/GPU:1", "/device:GPU:1", "GPU:1"),
        ("GPU:1", "/device:GPU:1", "GPU:1"),
        ("/device:GPU:1", "/device:GPU:1", "GPU:1"),
        ("/cpu:0", "/device:CPU:0", "CPU:0"),
        ("/device:CPU:*", "/device:CPU:*", "CPU:0"),
        ("/device:GPU:*", "/device:GPU:*", "GPU:0"),
        ("/job:localhost", "/job:localhost", "GPU:0"),
        ("/job:localhost/device:GPU:1", "/job:localhost/device:GPU:1", "GPU:1"),
        (
            "/job:localhost/replica:0/task:0/device:GPU:1",
            "/job:localhost/replica:0/task:0/device:GPU:1",
            "GPU:1",
        ),
        ("/replica:0/task:0/device:GPU:1", "/replica:0/task:0/device:GPU:1", "GPU:1"),
        ("", "", "GPU:0"),
        ("/gpu:7", "/device:GPU:7", "GPU:0"),
    ],
)
def test_a_pin_of_an_operation(pin: str, requested: str, assigned: str) -> None:
    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(x: Any) -> Any:
        with tf.device(pin or None):
            y = tf.nn.relu(x, name="pinned")
        return tf.nn.elu(y)

    placement = dry_run(step, tf.ones([2]), on="2xT4")
    assert placement.graph.nodes["pinned"]["requested"] == requested
    assert on_devices(placement)["pinned"] == assigned


def test_a_pin_to_another_task_is_refused() -> None:
    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(x: Any) -> Any:
        with tf.device("/job:ps/task:3"):
            return tf.nn.elu(tf.nn.relu(x, name="pinned"))

    for soft in (True, False):
        error = dry_error(step, tf.ones([2]), on="2xT4", soft=soft)
        assert "/job:ps" in error, soft
        assert "1000000" not in error


def test_device_functions_and_nested_pins() -> None:
    def chosen(op: Any) -> str:
        return "/gpu:1" if op.type == "Relu" else ""

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def inner(x: Any) -> Any:
        with tf.device("/cpu:0"):
            low = tf.tanh(x, name="low")
        return tf.nn.elu(low, name="free")

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(x: Any) -> Any:
        with tf.compat.v1.device(chosen):
            y = tf.nn.relu(x, name="chosen") + tf.nn.selu(x, name="others")
        with tf.device("/gpu:1"):
            z = inner(y)
        return tf.cond(tf.reduce_sum(z) > 0.0, lambda: inner(z), lambda: z, name="branch")

    found = on_devices(dry_run(step, tf.ones([2]), on="2xT4"))
    assert (found["chosen"], found["others"]) == ("GPU:1", "GPU:0")
    assert (found["PartitionedCall/low"], found["PartitionedCall/free"]) == ("CPU:0", "GPU:1")
    branch = {name.rpartition("/")[2]: device for name, device in found.items() if name.startswith("branch/then")}
    assert (branch["low"], branch["free"]) == ("CPU:0", "GPU:0")


def test_variables_and_constants_keep_what_they_asked_for() -> None:
    with requests():
        with tf.device("/gpu:1"):
            weights, number = tf.Variable(tf.ones([2, 2])), tf.Variable(1)
            given, drawn = tf.constant([[1.0, 2.0]] * 2), tf.random.normal([2, 2])
        with tf.device("/cpu:0"):
            low = tf.Variable(tf.ones([2, 2]))
        free = tf.Variable(tf.ones([2, 2]))
    with tf.device("/gpu:1"):
        lost = tf.Variable(tf.ones([2, 2]))

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(x: Any) -> Any:
        number.assign_add(1)
        for index, one in enumerate((weights, given, drawn, low, free, lost)):
            x = tf.matmul(x, one, name=f"product{index}")
        return x

    placement = dry_run(step, tf.ones([2, 2]), on="2xT4")
    made = {}
    for index in range(6):
        for producer, _, key in placement.graph.in_edges(f"product{index}", keys=True):
            source = producer if key == 1 else None
            if source is not None and placement.graph.nodes[source]["op"] == "ReadVariableOp":
                (source,) = [one for one, _ in placement.graph.in_edges(source)]
            if source is not None:
                made[index] = (on_devices(placement)[source], placement.graph.nodes[source]["requested"])
    asked = "/device:GPU:1"
    assert made == {
        0: ("GPU:1", asked),
        1: ("GPU:1", asked),
        2: ("GPU:1", asked),
        3: ("CPU:0", "/device:CPU:0"),
        4: ("GPU:0", ""),
        5: ("GPU:0", ""),
    }
    counter = [n for n, d in placement.graph.nodes(data=True) if d["op"] == "AssignAddVariableOp"]
    assert [on_devices(placement)[name] for name in counter] == ["CPU:0"]  # int32 has no GPU kernel


def test_layers_under_a_device_and_the_slots_of_their_optimizer() -> None:
    layers = tf.keras.layers
    with requests():
        inputs = tf.keras.Input((8,))
        with tf.device("/gpu:1"):
            dense = layers.Dense(4, name="pinned")
            hidden = dense(inputs)
        model = tf.keras.Model(inputs, layers.Dense(2, name="free")(hidden))
        model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    placement = dry_run(model, np.ones((3, 8)), np.ones((3, 2)), on="2xT4")
    variables = [
        (placement.short(data["device"]), data["requested"])
        for _, data in placement.graph.nodes(data=True)
        if data["op"] == "VarHandleOp"
    ]
    # Kernel and bias, and the momentum of each.
    assert variables.count(("GPU:1", "/device:GPU:1")) == 4
    assert all(device == "GPU:0" for device, asked in variables if asked == "")


def test_requests_are_kept_only_while_they_are_asked_for() -> None:
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.framework import constant_op, ops

    def hooks() -> tuple[Any, ...]:
        return (
            pywrap_tfe.TFE_Py_FastPathExecute,
            constant_op.convert_to_eager_tensor,
            ops._colocate_with_for_gradient,
        )

    before = hooks()
    kept = Requests()
    kept.install()
    with tf.device("/gpu:1"):
        inside = tf.constant([1.0])
    kept.uninstall()
    with tf.device("/gpu:1"):
        outside = tf.constant([1.0])
    assert (requested_device(inside)[-5:], requested_device(outside)) == ("GPU:1", "")
    assert hooks() == before
    with pytest.raises(ZeroDivisionError), requests():
        raise ZeroDivisionError
    assert hooks() == before


@pytest.mark.kernel
def test_cells_after_the_extension_is_loaded_keep_their_requests(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement")
    kernel.run("import tensorflow as tf\nwith tf.device('/gpu:1'):\n    early = tf.Variable(tf.ones([2, 2]))")
    cell = """%%placement --on 2xT4 --quiet
with tf.device("/gpu:1"):
    late = tf.Variable(tf.ones([2, 2]))
free = tf.Variable(tf.ones([2, 2]))
@tf.function
def f(x):
    return x @ early @ late @ free
f(tf.ones([2, 2]))"""
    shown = kernel.run(cell)
    assert shown.status == "ok", shown.errors
    found = kernel.evaluate(
        "[(_placement.short(d['device']), d['requested']) for _, d in _placement.graph.nodes(data=True) "
        "if d['op'] == 'VarHandleOp']"
    )
    assert [tuple(one) for one in found] == [("GPU:1", "/device:GPU:1"), ("GPU:1", "/device:GPU:1"), ("GPU:0", "")]
