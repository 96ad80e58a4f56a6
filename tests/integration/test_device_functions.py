"""The functions for ``tf.compat.v1.device``, shown by where TensorFlow then places what."""

from __future__ import annotations

from typing import Any

import pytest

import jupyter_placement.devices as devices
from jupyter_placement import Placement, record

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def tf() -> Any:
    """TensorFlow on three logical CPU devices."""
    import tensorflow as tf

    assert len(tf.config.list_logical_devices("CPU")) >= 3, "the tests of one process share three CPU devices"
    return tf


def session(tf: Any, choose: Any, sizes: list[int], use: bool = False) -> Placement:
    """Place variables of these sizes, and a product of each, under a device function."""
    v1 = tf.compat.v1
    with record(interval=60) as recording, tf.Graph().as_default(), tf.compat.v1.device(choose):
        for number, size in enumerate(sizes):
            made = v1.get_variable(f"w{number}", [size], use_resource=use)
            tf.multiply(made, 2.0, name=f"y{number}")
        with v1.Session(config=v1.ConfigProto(device_count={"CPU": 3})) as running:
            running._extend_graph()
    assert recording.placement is not None
    return recording.placement


def short(placement: Placement, names: list[str]) -> list[str]:
    found = {data["name"]: placement.short(data["device"]) for _, data in placement.graph.nodes(data=True)}
    return [found[name] for name in names]


@pytest.mark.parametrize("use", [False, True])
def test_variables_on(tf: Any, use: bool) -> None:
    placement = session(tf, devices.variables_on("CPU:1", others="CPU:2"), [4, 4], use)
    assert short(placement, ["w0", "w1", "y0", "y1"]) == ["CPU:1", "CPU:1", "CPU:2", "CPU:2"]
    assert "overridden" not in {finding.kind for finding in placement.findings()}


def test_round_robin(tf: Any) -> None:
    placement = session(tf, devices.round_robin(["CPU:1", "CPU:2"], ops={"Mul"}), [4, 4, 4])
    assert short(placement, ["y0", "y1", "y2"]) == ["CPU:1", "CPU:2", "CPU:1"]


def test_by_scope(tf: Any) -> None:
    placement = session(tf, devices.by_scope({"w1": "CPU:1", "y0": "CPU:2"}), [4, 4])
    assert short(placement, ["w0", "w1", "y0", "y1"]) == ["CPU:0", "CPU:1", "CPU:2", "CPU:0"]


@pytest.mark.parametrize("use", [False, True])
def test_balance_bytes(tf: Any, use: bool) -> None:
    placement = session(tf, devices.balance_bytes(["CPU:1", "CPU:2"]), [100, 60, 30, 20], use)
    assert short(placement, ["w0", "w1", "w2", "w3"]) == ["CPU:1", "CPU:2", "CPU:2", "CPU:2"]


def test_inside_a_function(tf: Any) -> None:
    @tf.function
    def product(x: Any) -> Any:
        with tf.compat.v1.device(devices.round_robin(["CPU:1", "CPU:2"], ops={"MatMul"})):
            return tf.matmul(tf.matmul(x, x, name="first"), x, name="second")

    with record(interval=60) as recording:
        product(tf.ones([2, 2]))
    assert recording.placement is not None
    assert short(recording.placement, ["first", "second"]) == ["CPU:1", "CPU:2"]


@pytest.mark.parametrize("wrong", [["card 0"], [], "GPU:0", 3])
def test_no_device_is_said_in_a_sentence(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"no device name|give the devices as a list"):
        devices.round_robin(wrong)


@pytest.mark.parametrize(
    "wrong",
    [lambda: devices.variables_on("foo"), lambda: devices.variables_on(""), lambda: devices.by_scope({"a": 3})],
)
def test_a_word_that_is_no_device_type_and_none_at_all(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"no device name|needs a device for the variables"):
        wrong()
