"""What a recording finds, against what TensorFlow itself says."""

from __future__ import annotations

import os
import threading
from collections import Counter
from typing import Any

import pytest

from jupyter_placement import Placement, PlacementError, record

pytestmark = pytest.mark.tensorflow

CPU0, CPU1 = (f"/job:localhost/replica:0/task:0/device:CPU:{number}" for number in (0, 1))


@pytest.fixture(scope="module")
def tf() -> Any:
    """TensorFlow, already used, on two logical CPU devices."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    assert float(tf.constant(1.0) + 1.0) == 2.0
    assert len(tf.config.list_logical_devices("CPU")) == 2
    return tf


def nodes(placement: Placement, graph: str) -> dict[str, dict[str, Any]]:
    return {data["name"]: data for _, data in placement.graph.nodes(data=True) if data["graph"] == graph}


def edges(placement: Placement, graph: str) -> set[tuple[str, str, int | str]]:
    inside = {node: data["name"] for node, data in placement.graph.nodes(data=True) if data["graph"] == graph}
    return {(inside[a], inside[b], k) for a, b, k in placement.graph.edges(keys=True) if a in inside and b in inside}


def partitions(metadata: Any) -> dict[str, str]:
    """Name and device of what really ran, but for what TensorFlow put in to send and receive."""
    return {
        node.name: node.device
        for graph in metadata.partition_graphs
        for node in graph.node
        if not node.op.startswith(("_Send", "_Recv", "_HostSend", "_HostRecv"))
    }


def test_a_session_agrees_with_the_partitions_that_ran(tf: Any) -> None:
    v1 = tf.compat.v1
    with record() as recording, tf.Graph().as_default():
        with tf.device("/cpu:1"):
            a = tf.constant([[1.0, 2.0]], name="a")
        b = tf.constant([[3.0], [4.0]], name="b")
        v = v1.get_variable("v", [1, 1], initializer=v1.zeros_initializer())
        with tf.device("/cpu:1"):
            product = tf.matmul(a, tf.add(b, v, name="add"), name="product")
        c = tf.add(product, v, name="c")
        with v1.Session(config=v1.ConfigProto(device_count={"CPU": 2})) as session:
            session.run(v1.global_variables_initializer())
            options, metadata = v1.RunOptions(output_partition_graphs=True), v1.RunMetadata()
            assert session.run(c, options=options, run_metadata=metadata).tolist() == [[11.0]]
    found = nodes(recording.placement, "session:0")
    ran = {name: device for name, device in partitions(metadata).items() if name in found}
    assert {"product", "c"} <= ran.keys()
    assert set(ran.values()) == {CPU0, CPU1}
    assert {name: found[name]["device"] for name in ran} == ran
    assert (found["a"]["requested"], found["a"]["reason"]) == ("/device:CPU:1", "pinned")
    assert (found["b"]["requested"], found["b"]["device"], found["b"]["reason"]) == ("", CPU1, "followed")
    assert (found["c"]["requested"], found["c"]["reason"]) == ("", "default")
    assert (found["product"]["dtype"], found["product"]["shape"]) == ("float32", [1, 1])
    graph = recording.placement.graph
    assert graph.edges["add/ReadVariableOp", "add", 1]["transfer"] is True
    assert graph.edges["b", "add", 0] == {
        "tensor": "b:0",
        "dtype": "float32",
        "shape": [2, 1],
        "bytes": 8,
        "memory": "device",
        "transfer": False,
        "control": False,
    }
    assert graph.edges["v/Assign", "init", "^0"]["control"] is True


def test_every_operation_of_the_graph_is_there_once(tf: Any) -> None:
    with record() as recording, tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [4], name="x")
        for _ in range(50):
            x = tf.nn.relu(x + 1.0)
        with tf.compat.v1.Session() as session:
            session.run(x, {"x:0": [0.0] * 4})
    names = [operation.name for operation in graph.get_operations()]
    assert Counter(data["name"] for _, data in recording.placement.graph.nodes(data=True)) == Counter(names)
    assert recording.placement.counts.matched == len(names)
    assert recording.placement.counts.unmatched == 0


@pytest.mark.parametrize("way", ["run", "make_callable", "partial_run", "monitored"])
def test_each_way_to_run_a_session(tf: Any, way: str) -> None:
    v1 = tf.compat.v1
    with record() as recording, tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        x = v1.placeholder(tf.float32, [], name="x")
        y = tf.multiply(x, 2.0, name="y")
        if way == "monitored":
            with v1.train.MonitoredSession() as session:
                assert session.run(y, {x: 3.0}) == 6.0
        else:
            with v1.Session() as session:
                if way == "run":
                    assert session.run(y, {x: 3.0}) == 6.0
                elif way == "make_callable":
                    assert session.make_callable(y, [x])(3.0) == 6.0
                else:
                    handle = session.partial_run_setup([y], [x])
                    assert session.partial_run(handle, y, {x: 3.0}) == 6.0
    assert nodes(recording.placement, "session:0")["y"]["device"] == CPU0


def test_a_session_that_was_opened_before(tf: Any) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v = v1.get_variable("v", [], initializer=v1.zeros_initializer(), use_resource=True)
        with tf.device("/cpu:1"):
            step = tf.add(v1.assign_add(v, 1.0), 0.0, name="step")
        session = v1.Session(config=v1.ConfigProto(device_count={"CPU": 2}))
        session.run(v1.global_variables_initializer())
        session.run(step)
        with record() as recording:
            assert session.run(step) == 2.0
        assert session.run(v) == 2.0
    found = nodes(recording.placement, "session:0")
    assert found["step"]["device"] == CPU1
    assert all(data["device"] for data in found.values())


def test_a_session_that_lives_on_stays_quiet(tf: Any, capfd: pytest.CaptureFixture[str]) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        with record() as first:
            session = v1.Session()
            session.run(tf.constant(1.0, name="one"))
        capfd.readouterr()
        session.run(tf.constant(2.0, name="two"))
        out, err = capfd.readouterr()
        assert "(Const)" not in out + err
        with record() as second:
            session.run(tf.constant(3.0, name="three"))
        assert nodes(first.placement, "session:0").keys() == {"one"}
        assert nodes(second.placement, "session:0").keys() == {"one", "two", "three"}
        assert {data["device"] for data in nodes(second.placement, "session:0").values()} == {CPU0}


def lowered(tf: Any) -> Any:
    """A function with a nested one, a loop, a condition, a variable and a random number."""
    v = tf.Variable(3.0)

    @tf.function
    def inner(x: Any) -> Any:
        return x * x

    @tf.function
    def outer(x: Any) -> Any:
        with tf.device("CPU:1"):
            y = inner(x) + v
            v.assign_add(tf.random.uniform([]))
        for i in tf.range(3):
            y = y + tf.cast(i, tf.float32) * v
            if tf.reduce_sum(y) > 5.0:
                y = inner(y) * 0.5
        return tf.cond(y > 0.0, lambda: y * 2.0, lambda: y - v)

    return outer, v


def test_a_new_function_and_the_same_traced_before_are_placed_alike(tf: Any) -> None:
    function, variable = lowered(tf)
    with record() as new:
        function(tf.constant(1.0))
    value = variable.numpy()
    with record() as again:
        function(tf.constant(1.0))
    assert variable.numpy() > value

    def plain(placement: Placement) -> dict[str, tuple[Any, ...]]:
        # Nodes that lowering adds carry numbers, which differ; TensorFlow's optimiser adds others.
        return {
            name: (data["op"], data["device"], data["requested"], data["dtype"], data["shape"])
            for name, data in nodes(placement, "function:outer").items()
            if "/_" not in name and "Optimizer" not in name and "Folding" not in name
        }

    assert plain(new.placement) == plain(again.placement)
    found = plain(new.placement)
    assert found["add"][:3] == ("AddV2", CPU1, "/device:CPU:1")
    assert found["PartitionedCall/mul"][:3] == ("Mul", CPU1, "/device:CPU:1")
    assert all(device is not None for _, device, *_ in found.values())


def test_placing_again_runs_nothing(tf: Any) -> None:
    function, variable = lowered(tf)
    tf.random.set_seed(7)
    bare = [float(function(tf.constant(1.0))) for _ in range(3)]
    final = variable.numpy()
    function, variable = lowered(tf)
    tf.random.set_seed(7)
    recorded = [float(function(tf.constant(1.0)))]
    for _ in range(2):
        with record() as recording:
            recorded.append(float(function(tf.constant(1.0))))
        assert nodes(recording.placement, "function:outer")
    assert recorded == bare
    assert variable.numpy() == final


def test_lowered_edges_are_those_of_tensorflows_own_lowering(tf: Any) -> None:
    """Placed again without the optimiser, TensorFlow's graph after placement has every edge: ours must be the same."""
    from jupyter_placement.capture.private import private_tensorflow
    from jupyter_placement.capture.signatures import Signatures
    from jupyter_placement.capture.structure import parse_input, structure_of

    function, _ = lowered(tf)
    function(tf.constant(1.0))
    known: dict[Any, Any] = {}
    with record(known=known):
        function(tf.constant(1.0))
    (graph,) = (graph for graph in known.values() if graph.label == "function:outer")
    placed = {node.name: node for node in graph.placed.node}
    library = {item.signature.name: item for item in graph.graph_def.library.function}
    signatures = Signatures(private_tensorflow().op_defs, library, lambda kind: tf.dtypes.as_dtype(kind).name)
    structure = structure_of(graph.graph_def, [record.name for record in graph.records], signatures, graph.shapes)
    compared = 0
    for name, node in placed.items():
        theirs = [parse_input(source) for source in node.input if not source.startswith("^")]
        ours = {key: (producer, index) for key, producer, index in structure.inputs.get(name, []) if index >= 0}
        if name.endswith("branch_executed/_0") or "branch_executed" in name:
            continue  # a Merge of the two pivots; it carries no tensor of the user's
        assert ours == dict(enumerate(theirs)), name
        compared += 1
    assert compared > 120


@pytest.mark.parametrize("again", [False, True])
def test_keras(tf: Any, again: bool) -> None:
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3, name="wide"), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    x, y = tf.ones([8, 4]).numpy(), tf.ones([8, 1]).numpy()
    if again:
        model.fit(x, y, verbose=0)
        model.predict(x, verbose=0)
    with record() as recording:
        model.fit(x, y, verbose=0)
        model.predict(x, verbose=0)
    fit = nodes(recording.placement, "function:multi_step_on_iterator")
    assert any(name.endswith("wide_1/MatMul") and data["device"] == CPU0 for name, data in fit.items())
    assert any("gradient_tape" in name for name in fit)
    predict = nodes(recording.placement, "function:one_step_on_data_distributed")
    assert any(name.endswith("wide_1/MatMul") and data["device"] == CPU0 for name, data in predict.items())
    assert not recording.placement.counts.unmatched


def test_tf_data(tf: Any) -> None:
    with record() as recording:
        assert [int(x) for x in tf.data.Dataset.range(3).map(lambda x: x * 2)] == [0, 2, 4]
    eager = nodes(recording.placement, "eager")
    assert {"RangeDataset", "MapDataset", "IteratorGetNext"} <= eager.keys()
    mapped = nodes(recording.placement, "function:Dataset_map_lambda")
    assert (mapped["mul"]["op"], mapped["mul"]["device"], mapped["mul"]["reason"]) == ("Mul", CPU0, "followed")


def test_gradients_of_a_function(tf: Any) -> None:
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def loss(x: Any) -> Any:
        return tf.reduce_sum(x * v)

    with record() as recording:
        with tf.GradientTape() as tape:
            y = loss(tf.ones([2]))
        assert tape.gradient(y, v).numpy().tolist() == [1.0, 1.0]
    assert "mul" in nodes(recording.placement, "function:loss:forward")
    assert "gradients/mul_grad/Mul" in nodes(recording.placement, "function:loss:backward")


def test_a_mirrored_strategy(tf: Any) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with record() as recording:
        with strategy.scope():
            v = tf.Variable(2.0)

        @tf.function
        def step(x: Any) -> Any:
            return strategy.reduce("SUM", strategy.run(lambda x: x * v, args=(x,)), axis=None)

        assert float(step(tf.constant(3.0))) == 12.0
    found = nodes(recording.placement, "function:step")
    assert found["mul"]["device"] == CPU0
    assert found["replica_1/mul"]["device"] == CPU1


def test_compiled_by_xla_is_one_node_that_says_so(tf: Any) -> None:
    @tf.function(jit_compile=True)
    def compiled(x: Any) -> Any:
        return tf.nn.relu(x * 2.0) + 1.0

    @tf.function
    def around(x: Any) -> Any:
        return compiled(x) - 1.0

    with record() as recording:
        compiled(tf.ones([4]))
        around(tf.ones([4]))
    call = nodes(recording.placement, "eager")["compiled"]
    assert (call["op"], call["device"]) == ("PartitionedCall", CPU0)
    assert call["compiled"] >= 4
    inner = nodes(recording.placement, "function:around")["PartitionedCall"]
    assert (inner["device"], inner["compiled"]) == (CPU0, call["compiled"])
    assert ("a" not in inner) and "Relu" not in nodes(recording.placement, "function:around")


def test_eager_operations_with_the_edges_between_them(tf: Any) -> None:
    with record() as recording:
        with tf.device("CPU:1"):
            a = tf.random.uniform([2, 3])
        b = tf.matmul(a, a, transpose_b=True)
        parts = tf.split(b, 2)
        tf.concat(parts, 0)
    found = nodes(recording.placement, "eager")
    assert (found["RandomUniform"]["device"], found["RandomUniform"]["requested"]) == (CPU1, "/device:CPU:1")
    assert (found["MatMul"]["device"], found["MatMul"]["shape"]) == (CPU0, [2, 2])
    assert found["split"]["shape"] == [[1, 2], [1, 2]]
    assert found["split"]["dtype"] == ["float32", "float32"]
    graph = recording.placement.graph
    assert {(a, k) for a, b, k in graph.in_edges("MatMul", keys=True)} == {("RandomUniform", 0), ("RandomUniform", 1)}
    assert graph.edges["RandomUniform", "MatMul", 0]["bytes"] == 24
    assert graph.edges["RandomUniform", "MatMul", 0]["transfer"] is True
    assert [data["tensor"] for _, _, data in graph.in_edges("concat", data=True)][:2] == ["split:0", "split:1"]


def test_names_of_two_graphs_do_not_mix(tf: Any) -> None:
    v1 = tf.compat.v1
    with record() as recording:
        for _ in range(2):
            with tf.Graph().as_default(), v1.Session() as session:
                session.run(tf.constant(1.0, name="same"))
    ids = {node: data["graph"] for node, data in recording.placement.graph.nodes(data=True)}
    assert ids == {"same": "session:0", "session:1/same": "session:1"}


def test_functions_called_in_other_threads(tf: Any) -> None:
    functions = []
    for number in range(4):

        @tf.function
        def work(x: Any, number: int = number) -> Any:
            return tf.add(x, float(number), name=f"only_{number}") * 2.0

        functions.append(work)
    with record() as recording:
        threads = [threading.Thread(target=function, args=(tf.constant(1.0),)) for function in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    names = {data["name"] for _, data in recording.placement.graph.nodes(data=True) if data["device"] == CPU0}
    assert {f"only_{number}" for number in range(4)} <= names
    assert recording.placement.counts.unmatched == 0


def test_everything_is_put_back(tf: Any) -> None:
    from jupyter_placement.capture.private import private_tensorflow

    private = private_tensorflow()

    def state() -> dict[str, Any]:
        import sys

        context = private.context.context()
        return {
            "soft": context._soft_device_placement,
            "fast": private.pywrap_tfe.TFE_Py_FastPathExecute,
            "execute": private.execute.execute,
            "session": (private.BaseSession.__init__, private.BaseSession._extend_graph),
            "function": private.AtomicFunction.__dict__["cached_definition"],
            "context": private.context.Context.ensure_initialized,
            "descriptors": sorted(os.listdir("/proc/self/fd")),
            "one": os.fstat(1).st_ino,
            "two": os.fstat(2).st_ino,
            "threads": threading.active_count(),
            "path": list(sys.meta_path),
        }

    before = state()
    with record():
        tf.constant(1.0) + 1.0
    assert state() == before
    with pytest.raises(ZeroDivisionError), record():
        tf.constant(1.0) + 1.0
        raise ZeroDivisionError
    assert state() == before


def test_soft_placement_that_the_code_sets_itself_stays(tf: Any) -> None:
    with record():
        tf.config.set_soft_device_placement(False)
    assert tf.config.get_soft_device_placement() is False
    with record():
        assert tf.config.get_soft_device_placement() is True
    assert tf.config.get_soft_device_placement() is False
    tf.config.set_soft_device_placement(True)


def test_recordings_do_not_nest(tf: Any) -> None:
    with record(), pytest.raises(PlacementError, match="under way already"), record():
        pass
    with record() as recording:
        tf.constant(1.0) + 1.0
    assert recording.placement.graph


def test_another_number_of_cpus_needs_a_new_process(tf: Any) -> None:
    with pytest.raises(PlacementError, match="already started with 2 logical CPU devices: restart"), record(cpus=3):
        pass
    with record(cpus=2):
        pass


def test_colocation_that_overrides_a_request(tf: Any) -> None:
    with record() as recording, tf.Graph().as_default():
        with tf.device("/cpu:0"):
            a = tf.constant(1.0, name="a")
        with tf.device("/cpu:1"), tf.compat.v1.colocate_with(a, ignore_existing=False):
            tf.constant(2.0, name="b")
        with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(device_count={"CPU": 2})) as session:
            session.run("b:0")
    found = nodes(recording.placement, "session:0")
    assert found["a"]["device"] == found["b"]["device"]
    assert found["b"]["reason"] in ("pinned", "colocated")


def test_a_large_graph(tf: Any) -> None:
    with record() as recording, tf.Graph().as_default() as graph:
        x = tf.constant(0.0)
        for _ in range(2500):
            x = tf.identity(x + 1.0)
        with tf.compat.v1.Session() as session:
            assert session.run(x) == 2500.0
    assert recording.placement.graph.number_of_nodes() == len(graph.get_operations()) > 5000
    assert recording.placement.counts.unmatched == 0


def test_steps_are_the_function_calls(tf: Any) -> None:
    double = tf.function(lambda x: x * 2.0)
    with record() as recording:
        for _ in range(3):
            double(tf.constant(1.0))
    steps = recording.placement.meta["steps"]
    assert len(steps) == 3
    assert all(0 <= begin <= end <= recording.placement.meta["duration"] for begin, end in steps)
    assert steps == sorted(steps)


def test_out_of_memory_is_explained(tf: Any) -> None:
    with pytest.raises(tf.errors.ResourceExhaustedError), record() as recording:
        tf.zeros([1 << 33, 1 << 10])
    (event,) = recording.placement.events
    assert event.kind == "oom"
    assert "Fill asked for 32.0 TiB" in event.message
    assert "What to do:" in event.message


def test_a_session_without_a_configuration_has_the_logical_devices(tf: Any) -> None:
    with record() as recording, tf.Graph().as_default():
        with tf.device("/cpu:1"):
            tf.constant(1.0, name="second")
        with tf.compat.v1.Session() as session:
            session.run("second:0")
    assert nodes(recording.placement, "session:0")["second"]["device"] == CPU1
