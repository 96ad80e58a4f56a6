"""Dry runs against TensorFlow's real placer on logical CPU devices, and on imagined GPUs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_placement.devices import LOCAL_TASK
from jupyter_placement.dryrun import close_helpers, dry_run
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
    if unknown:
        devices += ["/gpu:0", "/device:GPU:7", "/cpu:9"]
    graph = tf.Graph()
    with graph.as_default():
        values = [v1.placeholder(tf.float32, [4, 4], name="x")]
        for _ in range(pick.randrange(15, 40)):
            a, b = pick.choice(values), pick.choice(values)
            device: Any = pick.choice(devices)
            if pick.random() < 0.1:
                device = lambda op, device=device: device if op.type == "MatMul" else ""  # noqa: E731
            with graph.device(device):
                kind = pick.randrange(8)
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
                else:
                    values.append(tf.while_loop(lambda i: tf.reduce_sum(i) < 9.0, lambda i: [i + 1.0], [a])[0])
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
    with pytest.raises(PlacementError) as raised:
        dry_run(graph, on=f"{CPUS}xCPU", soft=False)
    assert str(raised.value) == error


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
