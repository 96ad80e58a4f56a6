"""Dry runs against TensorFlow's real placer on logical CPU devices, and on imagined GPUs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_placement.devices import LOCAL_TASK
from jupyter_placement.dryrun import UnplaceableError, close_helpers, dry_run
from jupyter_placement.placement import Placement, PlacementError

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow
CPUS = 3  # as this process has


@pytest.fixture(scope="module", autouse=True)
def _end_helpers() -> Iterator[None]:
    yield
    close_helpers()


def generated_graph(seed: int, unknown: bool) -> Any:
    """Make a graph with pins, colocation, variables, device functions and control flow."""
    pick = random.Random(seed)
    v1 = tf.compat.v1
    devices = ["", "", "/cpu:0", "/device:CPU:1", "/cpu:2", f"{LOCAL_TASK}/device:CPU:1", "/device:CPU:*"]
    devices += ["/job:localhost", "/job:localhost/task:0/device:CPU:2", "CPU:1"]
    if unknown:
        devices += ["/gpu:0", "/device:GPU:7", "/cpu:9"]
    double = tf.function(lambda x: tf.nn.relu(x) * 2.0, autograph=False)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def nested(x: Any) -> Any:
        with tf.device("/cpu:1"):
            return double(double(x)) + 1.0

    graph = tf.Graph()
    with graph.as_default():
        values = [v1.placeholder(tf.float32, [4, 4], name="x")]
        for _ in range(pick.randrange(15, 40)):
            a, b = pick.choice(values), pick.choice(values)
            device: Any = pick.choice(devices)
            if device.startswith("/") and pick.random() < 0.1:
                device = lambda op, device=device: device if op.type == "MatMul" else ""  # noqa: E731
            with graph.device(device):
                kind = pick.randrange(13)
                if kind == 0:
                    values.append(tf.matmul(a, b))
                elif kind == 1:
                    with graph.colocate_with(a.op):
                        values.append(tf.nn.relu(b))
                elif kind == 2:
                    variable = v1.get_variable(f"v{len(values)}", [4, 4], use_resource=pick.random() < 0.5)
                    values.append(a + variable)
                elif kind == 3:
                    values.append(tf.cond(tf.reduce_sum(a) > 0, lambda a=a: a + 1.0, lambda b=b: b * 2.0))
                elif kind == 4:
                    values.append(tf.reshape(a, tf.shape(b)))
                elif kind == 5:
                    values.append(tf.concat(tf.split(a, 2), 0))
                elif kind == 6:
                    with graph.control_dependencies([b.op]):
                        values.append(tf.identity(a))
                elif kind == 7:
                    values.append(nested(a) if pick.random() < 0.5 else double(a))
                elif kind == 8:
                    values.append(tf.strings.to_number(tf.strings.join([tf.strings.as_string(a), "0"])))
                elif kind == 9:
                    count = v1.get_variable(f"c{len(values)}", [4, 4], pick.choice([tf.int64, tf.int32]))
                    values.append(tf.cast(v1.assign_add(count, tf.cast(a, count.dtype.base_dtype)), tf.float32))
                elif kind == 10 and v1.global_variables():
                    with v1.colocate_with(pick.choice(v1.global_variables()), ignore_existing=pick.random() < 0.5):
                        values.append(tf.nn.elu(a))
                elif kind == 11:
                    values.append(tf.identity(tf.identity(a)))
                else:
                    values.append(tf.while_loop(lambda i: tf.reduce_sum(i) < 9.0, lambda i: [i + 1.0], [a])[0])
        weights = [one for one in v1.trainable_variables() if one.dtype.is_floating]
        for weight, gradient in zip(weights, tf.gradients(values[-3:], weights), strict=True):
            if gradient is not None:
                with graph.device(pick.choice(devices)):
                    v1.assign_sub(weight, gradient)
    return graph


def really_placed(graph: Any, soft: bool) -> tuple[dict[str, str], str]:
    """Place a graph with a real session; return devices by node, and the error. Nothing runs."""
    from jupyter_placement.capture.records import LineCollector
    from jupyter_placement.capture.streams import StreamFilter

    lines = LineCollector()
    lines.always = lambda: True
    streams = StreamFilter(lines.take, lines.take_text)
    config = tf.compat.v1.ConfigProto(device_count={"CPU": CPUS}, log_device_placement=True, allow_soft_placement=soft)
    error = ""
    streams.start()
    try:
        with tf.compat.v1.Session(graph=graph, config=config) as session:
            try:
                session._extend_graph()
            except tf.errors.OpError as raised:
                error = raised.message
    finally:
        streams.drain()
        streams.stop()
    return {record.name: record.device for record in lines.pop()}, error


def devices_of(placement: Placement) -> dict[str, str]:
    return {data["name"]: data["device"] for _, data in placement.graph.nodes(data=True) if data["device"]}


@pytest.mark.parametrize("batch", range(4))
def test_generated_graphs_are_placed_as_by_the_real_placer(batch: int) -> None:
    nodes = 0
    for seed in range(batch * 50, batch * 50 + 50):
        graph = generated_graph(seed, unknown=seed % 2 == 0)
        real, error = really_placed(graph, soft=True)
        assert error == ""
        dry = devices_of(dry_run(graph, on=f"{CPUS}xCPU"))
        assert dry == real, f"seed {seed}"
        nodes += len(real)
    assert nodes > 1000


@pytest.mark.parametrize("seed", range(20))
def test_hard_placement_gives_the_same_error(seed: int) -> None:
    graph = generated_graph(seed, unknown=True)
    real, error = really_placed(graph, soft=False)
    if not error:
        assert devices_of(dry_run(graph, on=f"{CPUS}xCPU", soft=False)) == real
        return
    with pytest.raises(UnplaceableError) as raised:
        dry_run(graph, on=f"{CPUS}xCPU", soft=False)
    assert raised.value.text == error
    assert raised.value.event is not None
    assert str(raised.value) == f"{raised.value.event.message}\n\n{error}"


def test_functions_are_placed_as_when_they_run() -> None:
    from jupyter_placement.recording import record

    weights, count = tf.Variable(tf.ones([4, 4])), tf.Variable(0)

    @tf.function  # type: ignore[untyped-decorator]
    def inner(x: Any) -> Any:
        return tf.nn.relu(x @ weights)

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: Any) -> Any:
        count.assign_add(1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.cond(tf.reduce_sum(x) > 0, lambda: inner(x), lambda: x * 2.0))
        weights.assign_sub(tape.gradient(loss, weights))
        return loss, tf.strings.as_string(count)

    x = tf.ones([4, 4])
    dry = devices_of(dry_run(step, x, on="1xCPU"))
    with record() as recording:
        step(x)
    assert recording.placement is not None
    real = {
        data["name"]: data["device"]
        for _, data in recording.placement.graph.nodes(data=True)
        if data["graph"] == "function:step" and data["device"]
    }
    assert len(real) > 30
    # Grappler runs after the placer, and adds nodes of its own to what really ran.
    grappler = {name for name in real.keys() - dry.keys() if name.startswith("ConstantFoldingCtrl/")}
    assert dry == {name: device for name, device in real.items() if name not in grappler}


def test_on_imagined_gpus() -> None:
    number, weights = tf.Variable(0), tf.Variable(tf.ones([2, 2]))

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: Any) -> Any:
        number.assign_add(1)
        with tf.device("/gpu:1"):
            pinned = tf.matmul(x, weights, name="pinned")
        with tf.device("/gpu:5"):
            unknown = tf.nn.relu(pinned, name="unknown")
        return tf.tanh(unknown, name="unpinned"), tf.strings.as_string(pinned, name="text")

    placement = dry_run(step, tf.ones([2, 2]), on="2xT4")
    short = {name: placement.short(device) for name, device in devices_of(placement).items()}
    assert {name: short[name] for name in ("AssignAddVariableOp", "pinned", "unknown", "unpinned", "text")} == {
        "AssignAddVariableOp": "CPU:0",
        "pinned": "GPU:1",
        "unknown": "GPU:0",
        "unpinned": "GPU:0",
        "text": "CPU:0",
    }
    assert [event.kind for event in placement.events] == ["fallback"]
    assert int(number.numpy()) == 0
    with pytest.raises(PlacementError, match="Cannot assign a device for operation unknown"):
        dry_run(step, tf.ones([2, 2]), on="2xT4", soft=False)


def test_models_and_files(tmp_path: Path) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(4)])
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "saved", verbose=False)
    graph = tf.Graph()
    with graph.as_default(), tf.device("/gpu:1"):
        tf.constant([1.0], name="one")
    (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    for what in (model, tmp_path / "model.keras", tmp_path / "saved"):
        placement = dry_run(what, on="2xT4")
        (product,) = [data for _, data in placement.graph.nodes(data=True) if data["op"] == "MatMul"]
        assert placement.short(product["device"]) == "GPU:0"
    assert devices_of(dry_run(tmp_path / "graph.pb", on="2xT4")) == {"one": f"{LOCAL_TASK}/device:GPU:1"}
    with pytest.raises(PlacementError, match=r"no\.pb cannot be read"):
        dry_run(tmp_path / "no.pb", on="2xT4")


@pytest.mark.parametrize("order", ["/gpu:1 first", "/cpu:0 first"])
def test_colocation_conflicts_on_imagined_gpus(order: str) -> None:
    v1 = tf.compat.v1
    first, second = ("/gpu:1", "/cpu:0") if order == "/gpu:1 first" else ("/cpu:0", "/gpu:1")
    graph = tf.Graph()
    with graph.as_default():
        with graph.device(first):
            base = tf.ones([2, 2], name="base") + v1.placeholder(tf.float32, [2, 2], name="x")
            base = tf.nn.relu(base, name="group")
        with graph.device(second), v1.colocate_with(base, ignore_existing=True):
            tf.nn.elu(base, name="beside")
        graph.get_operation_by_name("beside")._set_device(second)
        with graph.device(first):
            weight = v1.get_variable("weight", [2, 2], use_resource=True)
        with graph.device(second):
            tf.raw_ops.ReadVariableOp(resource=weight.handle, dtype=tf.float32, name="read")
            reference = v1.get_variable("reference", [2, 2], use_resource=False)
        with graph.device(first):
            tf.raw_ops.Assign(ref=reference._variable, value=base, name="assign")
        graph.get_operation_by_name("assign")._set_device(first)
    placement = dry_run(graph, on="2xT4")
    short = {name: placement.short(device) for name, device in devices_of(placement).items()}
    # Two operations that ask for different types: neither request counts, and a GPU is tried first.
    assert (short["group"], short["beside"]) == ("GPU:0", "GPU:0")
    # What makes a variable keeps what it asked for.
    owners = {"/gpu:1": "GPU:1", "/cpu:0": "CPU:0"}
    assert short["weight"] == short["read"] == owners[first]
    assert short["reference"] == short["assign"] == owners[second]
    with pytest.raises(PlacementError, match="Cannot colocate nodes"):
        dry_run(graph, on="2xT4", soft=False)


def test_kinds_of_variables_on_imagined_gpus() -> None:
    graph = tf.Graph()
    kinds = (tf.float32, tf.int32, tf.int64, tf.bool, tf.string, tf.bfloat16)
    with graph.as_default(), graph.device("/gpu:1"):
        for kind in kinds:
            tf.raw_ops.VarHandleOp(dtype=kind, shape=[], name=kind.name)
            tf.raw_ops.VariableV2(shape=[], dtype=kind, name=f"reference_{kind.name}")
        tf.raw_ops.StringJoin(inputs=[tf.constant("a", name="given")], name="text")
    placement = dry_run(graph, on="2xT4")
    found = {name: placement.short(device) for name, device in devices_of(placement).items()}
    # As CUDA builds of 2.21 register their kernels: none for int32 (its tensors live in host memory) and strings.
    on_gpu = {name for kind in ("float32", "int64", "bool", "bfloat16") for name in (kind, f"reference_{kind}")}
    assert {name for name, device in found.items() if device == "GPU:1"} == on_gpu
    assert set(found.values()) == {"GPU:1", "CPU:0"}
