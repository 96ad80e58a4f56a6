"""Host memory on imagined GPUs: which tensors are in it, and what is copied for their consumers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_placement import Placement
from jupyter_placement.capture.facts import kernel_rows
from jupyter_placement.dryrun import close_helpers, dry_run
from jupyter_placement.kernel_table import kernel_for
from jupyter_placement.sums import handed_over, transfers

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", autouse=True)
def _end_helpers() -> Iterator[None]:
    yield
    close_helpers()


@pytest.fixture(scope="module")
def placed() -> Placement:
    raw = tf.raw_ops
    with tf.Graph().as_default() as graph:
        with tf.device("GPU:0"):
            x = tf.compat.v1.placeholder(tf.float32, [4, 4], name="x")
            whole = raw.Cast(x=x, DstT=tf.int32, name="whole")  # on the GPU, in its memory
            one = tf.constant(1, name="one")
            plus = raw.AddV2(x=whole, y=one, name="plus")  # int32: in host memory
            twice = raw.AddV2(x=plus, y=plus, name="twice")
            back = raw.Cast(x=twice, DstT=tf.float32, name="back")
            shape = raw.Shape(input=x, name="shape")
            raw.Reshape(tensor=back, shape=shape, name="reshaped")
            handle = raw.VarHandleOp(dtype=tf.float32, shape=[], name="handle")
            raw.ReadVariableOp(resource=handle, dtype=tf.float32, name="read")
            wide = raw.Cast(x=x, DstT=tf.int64, name="wide")
            raw.AddV2(x=wide, y=wide, name="wide_plus")
        with tf.device("GPU:1"):
            raw.Cast(x=twice, DstT=tf.float32, name="other")
            raw.AddV2(x=twice, y=twice, name="other_plus")
        with tf.device("CPU:0"):
            raw.Print(input=twice, data=[twice], name="print")
            raw.AddN(inputs=[back, back], name="on_cpu")
            start = tf.constant(3, name="start")
        with tf.device("GPU:0"):
            raw.Fill(dims=tf.expand_dims(start, 0), value=1.5, name="fill")
    return dry_run(graph, on="2xT4")


def edge(placement: Placement, producer: str, consumer: str, key: int = 0) -> tuple[str, bool]:
    data: Any = placement.graph.edges[producer, consumer, key]
    return data["memory"], data["transfer"]


def test_what_a_kernel_keeps_in_host_memory_is_marked(placed: Placement) -> None:
    memory = {node: data["memory"] for node, data in placed.graph.nodes(data=True)}
    on_gpu = {node for node, data in placed.graph.nodes(data=True) if "GPU" in data["device"]}
    assert {node for node in on_gpu if memory[node] == "host"} >= {"one", "plus", "twice", "shape", "other_plus"}
    # int32 of a Cast is in the GPU's memory; a handle names a variable that is there.
    for node in ("whole", "back", "reshaped", "handle", "read", "wide", "wide_plus", "other", "fill"):
        assert node in on_gpu and memory[node] == "device"
    assert memory["print"] == memory["start"] == "device"  # a CPU's own memory


def test_a_consumer_on_the_same_gpu_that_wants_host_memory_needs_no_copy(placed: Placement) -> None:
    assert edge(placed, "plus", "twice") == ("host", False)
    assert edge(placed, "shape", "reshaped", 1) == ("host", False)
    assert edge(placed, "wide", "wide_plus") == ("device", False)
    assert edge(placed, "handle", "read") == ("device", False)


def test_a_consumer_on_the_same_gpu_that_wants_the_other_memory_needs_one(placed: Placement) -> None:
    assert edge(placed, "whole", "plus") == ("to_host", True)
    assert edge(placed, "twice", "back") == ("to_device", True)


def test_between_devices_only_what_leaves_host_memory_is_copied(placed: Placement) -> None:
    assert edge(placed, "twice", "other") == ("to_device", True)
    assert edge(placed, "twice", "other_plus") == ("host", False)
    assert edge(placed, "twice", "print") == ("host", False)
    assert edge(placed, "back", "on_cpu") == ("device", True)
    assert handed_over(placed) >= 2


def test_copies_are_counted_once_for_each_memory(placed: Placement) -> None:
    found = {(one.source[-5:], one.target[-5:], one.memory): one for one in transfers(placed)}
    assert {key: (one.tensors, one.bytes) for key, one in found.items()} == {
        ("GPU:0", "GPU:0", "to_host"): (1, 64),
        ("GPU:0", "GPU:0", "to_device"): (1, 64),
        ("GPU:0", "GPU:1", ""): (1, 64),
        ("GPU:0", "CPU:0", ""): (1, 64),
    }
    there_and_back = [one for one in placed.findings() if one.kind == "ping_pong"]
    assert [set(one.nodes) >= {"plus", "twice"} and "host memory" in one.message for one in there_and_back] == [True]


def test_the_marks_are_those_of_the_registry(placed: Placement) -> None:
    for node, data in placed.graph.nodes(data=True):
        if "GPU" not in data["device"] or not isinstance(data["dtype"], str) or data["dtype"] == "resource":
            continue
        rows = kernel_rows(data["op"])
        assert rows is not None
        (output,) = [one.name for one in _definition(data["op"]).output_arg]
        kernel = kernel_for(rows, placed.meta["explain"]["types"].get(_key(placed, node), {}), "GPU")
        assert kernel is not None and (output in kernel["host"]) == (data["memory"] == "host"), node


def _key(placement: Placement, node: str) -> str:
    from jupyter_placement.kernel_table import signature

    return signature(placement.graph, node)


def _definition(op: str) -> Any:
    from jupyter_placement.capture.private import private_tensorflow

    return private_tensorflow().op_defs.get(op)
