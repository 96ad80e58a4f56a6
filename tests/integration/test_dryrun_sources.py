"""What can be placed: files of all kinds, SavedModels, lists; on the devices that are described."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_placement.devices import LOCAL_TASK
from jupyter_placement.dryrun import close_helpers, dry_run
from jupyter_placement.placement import Device, Placement, PlacementError

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", autouse=True)
def _end_helpers() -> Iterator[None]:
    yield
    close_helpers()


def on_device(placement: Placement, name: str) -> str:
    return placement.short(placement.graph.nodes[name]["device"])


@pytest.fixture
def graph() -> Any:
    made = tf.Graph()
    with made.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [3, 4], name="x")
        with tf.device("/gpu:1"):
            y = tf.matmul(x, tf.ones([4, 5]), name="product")
        with tf.compat.v1.colocate_with(y):
            tf.nn.relu(y, name="beside")
    return made


def meta_graph(graph: Any) -> Any:
    return tf.compat.v1.MetaGraphDef(graph_def=graph.as_graph_def())


def saved_model(graph: Any) -> Any:
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2.SavedModel(meta_graphs=[meta_graph(graph)])


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("kind", [lambda graph: graph.as_graph_def(), meta_graph, saved_model])
def test_graph_files_with_their_shapes(tmp_path: Path, graph: Any, text: bool, kind: Any) -> None:
    from google.protobuf import text_format

    message = kind(graph)
    path = tmp_path / ("graph.pbtxt" if text else "graph.pb")
    if text:
        path.write_text(text_format.MessageToString(message))
    else:
        path.write_bytes(message.SerializeToString())
    placement = dry_run(path, on="2xT4")
    assert [on_device(placement, name) for name in ("x", "product", "beside")] == ["GPU:1", "GPU:1", "GPU:1"]
    assert placement.graph.nodes["beside"]["shape"] == [3, 5]
    assert placement.graph.nodes["product"]["requested"] == "/device:GPU:1"
    (edge,) = placement.graph.get_edge_data("x", "product").values()
    assert (edge["bytes"], edge["transfer"]) == (3 * 4 * 4, False)


def test_a_frozen_graph(tmp_path: Path) -> None:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    weights = tf.Variable(tf.ones([4, 2]))
    function = tf.function(lambda x: tf.matmul(x, weights)).get_concrete_function(tf.TensorSpec([3, 4]))
    frozen = convert_variables_to_constants_v2(function)
    tf.io.write_graph(frozen.graph, str(tmp_path), "frozen.pb", as_text=False)
    for placement in (dry_run(tmp_path / "frozen.pb", on="1xT4"), dry_run(frozen.graph.as_graph_def(), on="1xT4")):
        (product,) = [data for _, data in placement.graph.nodes(data=True) if data["op"] == "MatMul"]
        assert (product["shape"], placement.short(product["device"])) == ([3, 2], "GPU:0")


def test_signatures_of_a_saved_model(tmp_path: Path) -> None:
    module = tf.Module()
    module.weights = tf.Variable(tf.ones([4, 2]))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])  # type: ignore[untyped-decorator]
    def serve(x: Any) -> Any:
        with tf.device("/gpu:1"):
            return {"y": tf.matmul(x, module.weights)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])  # type: ignore[untyped-decorator]
    def lengths(text: Any) -> Any:
        return {"length": tf.strings.length(text)}

    module.serve, module.lengths = serve, lengths
    signatures = {"serving_default": serve, "lengths": lengths}
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures)
    default = dry_run(tmp_path / "saved", on="2xT4")
    assert _ops(default, "MatMul") == ["GPU:1"]
    named = dry_run(str(tmp_path / "saved"), signature="lengths", on="2xT4")
    assert _ops(named, "StringLength") == ["CPU:0"]
    assert {data["graph"] for _, data in named.graph.nodes(data=True)} == {"function:lengths"}
    with pytest.raises(PlacementError, match="has no signature 'other'; it has lengths, serving_default"):
        dry_run(tmp_path / "saved", signature="other", on="2xT4")
    # The file inside is a session's graph, as a server loads it: a call stands for the function.
    inside = dry_run(tmp_path / "saved" / "saved_model.pb", on="2xT4")
    assert _ops(inside, "StatefulPartitionedCall")
    tf.saved_model.save(tf.Module(), str(tmp_path / "bare"))
    with pytest.raises(PlacementError, match="has no signature: save the model with signatures="):
        dry_run(tmp_path / "bare", on="2xT4")


def _ops(placement: Placement, op: str) -> list[str]:
    return [placement.short(data["device"]) for _, data in placement.graph.nodes(data=True) if data["op"] == op]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("no.pb", None, r"no\.pb cannot be read: No such file"),
        ("text.pb", b"this is no graph", r"text\.pb holds no TensorFlow graph: give a GraphDef"),
        ("empty.pbtxt", b"", r"empty\.pbtxt holds no TensorFlow graph"),
        ("folder", None, r"folder holds no SavedModel that can be read here"),
    ],
)
def test_files_that_hold_nothing_to_place(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    elif name == "folder":
        path.mkdir()
    with pytest.raises(PlacementError, match=said):
        dry_run(path, on="2xT4")


def test_a_list_is_one_placement(graph: Any) -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def first(x: Any) -> Any:
        return tf.nn.relu(x)

    @tf.function  # type: ignore[untyped-decorator]
    def second(x: Any, y: Any) -> Any:
        return tf.add(x, y, name="sum")

    x = np.ones([2, 3], "float32")
    placement = dry_run([(first, x), (second, x, x), graph], on="2xT4")
    graphs = {data["graph"] for _, data in placement.graph.nodes(data=True)}
    assert graphs == {"function:first", "function:second", "session:0"}
    ids = ("Relu", "second/sum", "session:0/product")
    assert [on_device(placement, name) for name in ids] == ["GPU:0", "GPU:0", "GPU:1"]


def test_a_concrete_function_and_a_graph_with_an_unknown_operation() -> None:
    concrete = tf.function(lambda x: tf.nn.relu(x, name="mine")).get_concrete_function(tf.TensorSpec([2]))
    assert on_device(dry_run(concrete, on="1xT4"), "mine") == "GPU:0"
    graph_def = tf.compat.v1.GraphDef()
    graph_def.node.add(name="strange", op="NoSuchOperation")
    with pytest.raises(PlacementError, match="NoSuchOperation"):
        dry_run(graph_def, on="1xT4")


def test_devices_as_they_are_described(graph: Any) -> None:
    devices = [
        Device("GPU:0", physical_name="Mine", memory_limit=8 << 30),
        Device(f"{LOCAL_TASK}/device:GPU:1", physical_name="Other", memory_limit=4 << 30),
    ]
    placement = dry_run(graph, on=devices)
    assert placement.device_names() == [f"{LOCAL_TASK}/device:{one}" for one in ("CPU:0", "GPU:0", "GPU:1")]
    assert on_device(placement, "product") == "GPU:1"
    assert placement.meta["dry_run"] == placement.device_names()
