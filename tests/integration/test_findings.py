"""Findings on imagined GPUs and on logical CPUs: count, nodes, bytes, lines, sentence and remedy of each kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jupyter_placement import Placement, record
from jupyter_placement.dryrun import close_helpers, dry_run
from jupyter_placement.explain import Finding

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow
BIG = tf.TensorSpec([256, 256])  # 256 KiB


@pytest.fixture(scope="module", autouse=True)
def _end_helpers() -> Iterator[None]:
    yield
    close_helpers()


def lines_of(function: Callable[..., Any], *texts: str) -> set[tuple[str, int]]:
    lines, first = inspect.getsourcelines(function)
    return {(__file__, first + at) for at, line in enumerate(lines) if any(text in line for text in texts)}


def only(placement: Placement, kind: str) -> Finding:
    (found,) = [one for one in placement.findings() if one.kind == kind]
    assert found.message.endswith(".") and found.remedy.endswith(".")
    assert all(node in placement.graph for node in found.nodes)
    return found


def names(placement: Placement, finding: Finding) -> set[str]:
    return {placement.graph.nodes[node]["name"] for node in finding.nodes}


def on_gpus(function: Callable[..., Any], *specs: Any) -> Placement:
    return dry_run(tf.function(function, autograph=False), *specs, on="2xT4")


def test_fallbacks_by_operation_and_type() -> None:
    def step(x: Any) -> Any:
        whole = tf.cast(x, tf.int32)
        with tf.device("GPU:0"):
            a = tf.matmul(whole, whole, name="first")
            b = tf.matmul(a, whole, name="second")
            c = tf.strings.as_string(b, name="text")
        return c

    placement = on_gpus(step, BIG)
    found = {one.count: one for one in placement.findings() if one.kind == "no_kernel"}
    assert found.keys() == {2, 1}
    assert names(placement, found[2]) == {"first", "second"} and names(placement, found[1]) == {"text"}
    assert "2 operations asked for /device:GPU:0 and got CPU:0: MatMul with int32 has no kernel" in found[2].message
    assert set(found[2].sources) == lines_of(step, "first", "second")
    assert found[2].remedy.startswith("Cast to a type with a kernel for GPU")


def test_devices_that_do_not_exist() -> None:
    def step(x: Any) -> Any:
        with tf.device("GPU:5"):
            return tf.nn.relu(tf.nn.relu(x, name="one"), name="two")

    placement = on_gpus(step, BIG)
    found = only(placement, "no_such_device")
    assert (found.count, names(placement, found)) == (2, {"one", "two"})
    assert "/device:GPU:5, and there is no such device: 2 Relu" in found.message
    assert set(found.sources) == lines_of(step, "relu") and "/device:GPU:5" in found.remedy


def test_requests_overridden_by_colocation() -> None:
    def build() -> None:
        with tf.device("GPU:0"):
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], name="weight")
        with tf.device("GPU:1"):
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32, name="read")

    with tf.Graph().as_default() as graph:
        build()
    placement = dry_run(graph, on="2xT4")
    found = only(placement, "overridden")
    assert (found.count, names(placement, found)) == (1, {"read"})
    assert "keep it with weight, which decides" in found.message and "Put weight on the device" in found.remedy
    assert set(found.sources) == lines_of(build, "ReadVariableOp")


def test_transfers_by_bytes_and_count_ping_pong_and_sent_twice() -> None:
    def step(x: Any) -> None:
        with tf.device("GPU:0"):
            there = tf.nn.relu(x, name="there")
            again, more = tf.identity(there, name="again"), tf.identity(there, name="more")
        with tf.device("GPU:1"):
            away = tf.nn.tanh(there, name="away")
            tf.nn.sigmoid(there, name="also")
            tf.add(tf.nn.softplus(again, name="use_1"), tf.nn.softplus(more, name="use_2"))
        with tf.device("GPU:0"):
            tf.nn.relu(away, name="back")

    with tf.Graph().as_default() as graph, tf.device("GPU:0"):
        step(tf.compat.v1.placeholder(tf.float32, BIG.shape))
    placement = dry_run(graph, on="2xT4")
    moved = [one for one in placement.findings() if one.kind == "transfers"]
    sent = {one.message.split(" from ")[1].split(" each ")[0]: one for one in moved}
    assert sent["GPU:0 to GPU:1"].count == 3  # to two consumers it is sent once
    assert sent["GPU:0 to GPU:1"].bytes == 3 * 256 * 256 * 4
    assert names(placement, sent["GPU:0 to GPU:1"]) == {"there", "again", "more"}
    assert set(sent["GPU:0 to GPU:1"].sources) == lines_of(step, 'name="there"', "again, more")
    away = next(one for one in placement.findings() if one.kind == "ping_pong" and "away" in names(placement, one))
    assert (away.count, away.bytes) == (1, 2 * 256 * 256 * 4)
    assert "A tensor goes from GPU:0 to GPU:1 and back for away" in away.message
    assert set(away.sources) == lines_of(step, 'name="away"')
    again = only(placement, "sent_twice")
    assert (again.count, again.bytes) == (3, 3 * 256 * 256 * 4)
    assert "The value of there is sent to GPU:1 3 times" in again.message


def test_ping_pong_over_the_cpu() -> None:
    def step(x: Any) -> Any:
        with tf.device("GPU:0"):
            y = tf.nn.relu(x)
        with tf.device("CPU:0"):
            y = tf.nn.tanh(y, name="away")
        with tf.device("GPU:0"):
            return tf.nn.relu(y)

    placement = on_gpus(step, BIG)
    found = only(placement, "ping_pong")
    assert names(placement, found) == {"away"} and "from GPU:0 to CPU:0 and back" in found.message


def test_int32_in_host_memory() -> None:
    def step(x: Any) -> Any:
        with tf.device("GPU:0"):
            return tf.reshape(x, tf.concat([tf.shape(x, name="shape"), [1]], 0, name="longer"))

    placement = on_gpus(step, tf.TensorSpec([None, 4]))
    found = only(placement, "host_memory")
    assert {"shape", "longer"} <= names(placement, found) and found.count == len(found.nodes)
    assert set(found.sources) >= lines_of(step, "tf.shape")
    assert "live in host memory" in found.message


def test_everything_on_the_cpu_though_a_gpu_is_there() -> None:
    def step(x: Any) -> Any:
        with tf.device("CPU:0"):
            return tf.nn.relu(x, name="mine")

    with tf.Graph().as_default() as graph:
        step(tf.compat.v1.placeholder(tf.float32, [2]))
        graph.get_operations()[0]._set_device("/device:CPU:0")
    placement = dry_run(graph, on="2xT4")
    found = only(placement, "all_on_cpu")
    assert found.count == 2 and "TensorFlow has GPU:0, GPU:1" in found.message
    assert lines_of(step, "mine") <= set(found.sources)


def test_tf_device_around_the_call_of_a_function() -> None:
    @tf.function(autograph=False)
    def step(x: Any) -> Any:
        with tf.device("CPU:0"):
            return tf.nn.relu(x + 1.0)

    with record(interval=60) as recording, tf.device("CPU:2"):
        step(tf.ones([2]))
    placement = recording.placement
    assert placement is not None
    found = only(placement, "device_without_effect")
    assert "step was called under tf.device(" in found.message and "CPU:2" in found.message
    assert {"Relu", "add"} <= names(placement, found)
    assert set(found.sources) >= lines_of(step.python_function, "relu")
    with record(interval=60) as recording, tf.device("CPU:2"):
        tf.function(lambda x: tf.nn.relu(x + 1.0))(tf.ones([2]))
    assert recording.placement is not None
    assert [one for one in recording.placement.findings() if one.kind == "device_without_effect"] == []


def test_tf_device_around_a_strategy() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    @tf.function(autograph=False)
    def step(x: Any) -> Any:
        return strategy.run(lambda value: tf.nn.relu(value + 1.0), args=(x,))

    with record(interval=60) as recording, tf.device("CPU:2"):
        step(tf.ones([2]))
    placement = recording.placement
    assert placement is not None
    found = only(placement, "device_without_effect")
    assert "CPU:2" in found.message and found.count >= 6
    assert {placement.graph.nodes[node]["device"][-5:] for node in found.nodes} == {"CPU:0", "CPU:1"}


def test_tensorflow_sends_a_tensor_once_and_each_read_or_identity_again() -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        with tf.device("CPU:0"):
            x = v1.placeholder(tf.float32, [2], name="x")
            a = tf.raw_ops.Relu(features=x, name="a")
            again = [tf.raw_ops.Identity(input=a, name=f"again_{number}") for number in range(2)]
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="v", name="v")
            init = tf.raw_ops.AssignVariableOp(resource=handle, value=x)
            with tf.control_dependencies([init]):
                reads = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) for _ in range(2)]
        with tf.device("CPU:1"):
            parts = [a + 1.0, a * 2.0, *(value - 1.0 for value in (*again, *reads))]
            result = tf.add_n([tf.raw_ops.Tanh(x=part) for part in parts])
    config = v1.ConfigProto(device_count={"CPU": 2})
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    metadata = v1.RunMetadata()
    with record(interval=60) as recording, v1.Session(graph=graph, config=config) as session:
        options = v1.RunOptions(output_partition_graphs=True)
        session.run(result.op, {x: [1.0, 2.0]}, options=options, run_metadata=metadata)
    sends = [node for part in metadata.partition_graphs for node in part.node if node.op == "_Send"]
    sent = [node.input[0].split(":")[0] for node in sends if not node.input[0].startswith("^")]
    assert sorted(set(sent)) == sorted(sent)
    placement = recording.placement
    assert placement is not None
    (moved,) = [one for one in placement.findings() if one.kind == "transfers"]
    assert (moved.count, names(placement, moved)) == (len(sent), set(sent))
    twice = {one.message.split(" is ")[0]: one.count for one in placement.findings() if one.kind == "sent_twice"}
    assert twice == {"The value of a": 3, "The value of v": 2}
