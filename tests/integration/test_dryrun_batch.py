"""Models and graphs whose batch is not known: shapes with a batch, held against real calls with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_placement.cli import main
from jupyter_placement.dryrun import close_helpers, dry_run, estimate_of
from jupyter_placement.dryrun.sources import graph_of
from jupyter_placement.placement import Placement, PlacementError

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow
layers = tf.keras.layers
BATCH = 6


@pytest.fixture(scope="module", autouse=True)
def _end_helpers() -> Iterator[None]:
    yield
    close_helpers()


class Nested(tf.Module):  # type: ignore[misc]
    """Calls, a condition and loops, one of which changes its variable's shape."""

    def __init__(self) -> None:
        self.weights = tf.Variable(tf.ones([4, 4]))

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def inner(self, x: Any) -> Any:
        return tf.nn.relu(x @ self.weights)

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def serve(self, x: Any) -> Any:
        x = self.inner(x)
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: self.inner(x), lambda: x * 2)
        _, z = tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, tf.tanh(z @ self.weights)), [0, y])
        flat = tf.reshape(z, [tf.shape(z)[0] * 2, 2])
        invariants = [tf.TensorShape([]), tf.TensorShape([None, 4])]
        _, grown = tf.while_loop(
            lambda i, z: i < 2, lambda i, z: (i + 1, tf.concat([z, z], 0)), [0, z], shape_invariants=invariants
        )
        return {"z": z, "flat": flat, "grown": grown}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    module = Nested()
    tf.saved_model.save(module, str(tmp_path / "saved"), {"serving_default": module.serve})
    return tmp_path / "saved"


def shapes(graph: Any, op: str) -> set[Any]:
    """Return the shapes of the first output of each node of a type, in all functions that are called."""
    nodes = [("", node) for node in graph.graph_def.node]
    nodes += [(body.signature.name, node) for body in graph.graph_def.library.function for node in body.node_def]
    return {
        tuple(graph.shapes[function][node.name][0])
        for function, node in nodes
        if node.op == op and function in graph.shapes
    }


def test_a_saved_model_has_the_shapes_of_a_real_call(saved: Path) -> None:
    graph = graph_of(saved, keywords={"batch_size": BATCH})
    (called,) = [node for node in graph.graph_def.node if node.op == "StatefulPartitionedCall"]
    real = tf.saved_model.load(str(saved)).signatures["serving_default"](x=tf.ones([BATCH, 4]))
    told = graph.shapes[""][called.name]
    # What comes out of the call is what comes out of the signature, in the order of its names.
    for name, shape in zip(sorted(real), told, strict=False):
        found = real[name].shape.as_list()
        assert shape == ([None, 4] if name == "grown" else found)
    assert shapes(graph, "MatMul") == {(BATCH, 4)}
    assert shapes(graph, "Tanh") == {(BATCH, 4)}
    assert shapes(graph, "Reshape") == {(2 * BATCH, 2)}
    assert shapes(graph, "ConcatV2") == {(None, 4)}


def test_a_signature_takes_its_inputs_by_name_or_its_only_one_without(saved: Path) -> None:
    spec = tf.TensorSpec([BATCH, 4])
    for graph in (
        graph_of(saved, keywords={"x": spec}),
        graph_of(saved, (spec,)),
        graph_of(saved, (np.ones((6, 4), "f"),)),
    ):
        assert shapes(graph, "Tanh") == {(BATCH, 4)}
    placement = dry_run(saved, x=spec, on="1xT4")
    assert {tuple(data["shape"]) for _, data in placement.graph.nodes(data=True) if data["op"] == "Relu"} == {
        (BATCH, 4)
    }


@pytest.mark.parametrize(
    ("args", "keywords", "said"),
    [
        ((), {"y": 1.0}, "the signature 'serving_default' takes x: float32 (None, 4); give each by its name"),
        ((1.0, 2.0), {}, "the signature 'serving_default' takes x: float32 (None, 4); give each by its name"),
        ((tf.TensorSpec([3, 5]),), {}, "is float32 (None, 4); given is float32 (3, 5)"),
        ((tf.TensorSpec([3, 4], tf.int32),), {}, "is float32 (None, 4); given is int32 (3, 4)"),
        (("text",), {}, "is float32 (None, 4); given is string ()"),
    ],
)
def test_other_inputs_than_a_signature_takes(saved: Path, args: Any, keywords: Any, said: str) -> None:
    with pytest.raises(PlacementError) as caught:
        dry_run(saved, *args, on="1xT4", **keywords)
    assert said in str(caught.value)


def test_without_a_batch_the_shapes_stay_unknown_and_the_note_says_what_to_give(saved: Path) -> None:
    assert shapes(graph_of(saved), "Tanh") == {(None, 4)}
    notes = estimate_of(dry_run(saved, on="1xT4")).notes
    assert any("batch_size= (--batch)" in note for note in notes)
    assert not any("of unknown size, so" in note for note in estimate_of(dry_run(saved, on="1xT4", batch_size=4)).notes)


def test_a_function_that_is_called_with_two_shapes_keeps_what_is_common() -> None:
    graph = tf.Graph()
    with graph.as_default():

        @tf.function(input_signature=[tf.TensorSpec([None, None])])  # type: ignore[untyped-decorator]
        def twice(x: Any) -> Any:
            return tf.nn.relu(x)

        x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
        twice(x)
        twice(tf.concat([x, x], 0))
    assert shapes(graph_of(graph, keywords={"batch_size": 5}), "Relu") == {(None, 3)}


def test_a_keras_saved_model_has_the_shapes_that_its_layers_have(tmp_path: Path) -> None:
    model = tf.keras.Sequential([tf.keras.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(2)])
    model.export(str(tmp_path / "exported"), verbose=False)
    graph = graph_of(tmp_path / "exported", keywords={"batch_size": BATCH})
    assert shapes(graph, "Conv2D") == {(BATCH, 6, 6, 4)}
    assert shapes(graph, "MatMul") == {tuple(model(np.ones([BATCH, 8, 8, 3])).shape)}


@pytest.mark.parametrize("kind", ["graph", "graph_def", "pb", "pbtxt"])
def test_placeholders_of_graphs(tmp_path: Path, kind: str) -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], name="x")
        tf.reshape(tf.matmul(x, tf.ones([4, 5])), [-1], name="flat")
    what: Any = graph if kind == "graph" else graph.as_graph_def()
    if kind.startswith("pb"):
        tf.io.write_graph(graph, str(tmp_path), f"g.{kind}", as_text=kind == "pbtxt")
        what = tmp_path / f"g.{kind}"
    nodes = dry_run(what, on="1xT4", batch_size=7).graph.nodes
    assert (nodes["x"]["shape"], nodes["flat"]["shape"]) == ([7, 4], [35])


def test_batches_that_do_not_fit_are_told() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
        tf.reshape(x, [3, 4])
    with pytest.raises(PlacementError, match="the graph does not take batch_size=5: "):
        dry_run(graph, on="1xT4", batch_size=5)
    fixed = tf.Graph()
    with fixed.as_default():
        tf.compat.v1.placeholder(tf.float32, [3, 2])
    with pytest.raises(PlacementError, match="no input of this graph has an unknown first dimension"):
        dry_run(fixed, on="1xT4", batch_size=5)


def test_batch_size_is_an_input_of_a_function() -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def f(batch_size: int) -> Any:
        return tf.zeros([batch_size, 2], name="made") + 1

    made = [data["shape"] for _, data in dry_run(f, batch_size=3, on="1xT4").graph.nodes(data=True)]
    assert [3, 2] in made


def arguments(placement: Placement) -> list[tuple[Any, str]]:
    return [
        (data["shape"], data["dtype"])
        for _, data in placement.graph.nodes(data=True)
        if data["op"] == "_Arg" and str(data["name"]).startswith("batch")
    ]


def test_a_keras_model_and_the_batch_that_is_assumed() -> None:
    model = tf.keras.Sequential([tf.keras.Input((None, 5)), layers.Dense(3)])
    without, given = dry_run(model, on="1xT4"), dry_run(model, on="1xT4", batch_size=16)
    assert arguments(without)[0][0] == [1, 1, 5]
    assert arguments(given)[0][0] == [16, 1, 5]
    said = "No batch was given: a batch of 1 is assumed; batch_size= (--batch) gives another."
    told = [event.message for event in without.events if event.kind == "note"]
    assert told[0] == said == estimate_of(without).notes[0]
    assert said not in estimate_of(given).notes
    assert "1 more dimension of the inputs unknown: 1 is assumed" in estimate_of(given).notes[0]


@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        ({"b": "sparse_categorical_crossentropy", "c": "mse"}, [([4], "int64"), ([4, 1], "float32")]),
        (["mse", tf.keras.losses.SparseCategoricalCrossentropy()], [([4, 3], "float32"), ([4], "int64")]),
        ("mse", [([4, 3], "float32"), ([4, 1], "float32")]),
    ],
)
def test_labels_as_outputs_and_losses_tell_them(loss: Any, labels: list[Any]) -> None:
    x = tf.keras.Input((5,))
    model = tf.keras.Model(x, [layers.Dense(3, "softmax", name="b")(x), layers.Dense(1, name="c")(x)])
    model.compile("sgd", loss)
    assert arguments(dry_run(model, on="1xT4", train=True, batch_size=4))[1:] == labels


def test_labels_that_cannot_be_told_are_asked_for() -> None:
    x = tf.keras.Input((5, 2))
    model = tf.keras.Model(x, layers.Dense(3)(x))
    model.compile("sgd", "ctc")
    with pytest.raises(PlacementError, match=r"labels of the loss ctc have a shape of their own; give y"):
        dry_run(model, on="1xT4", train=True)


@pytest.mark.parametrize("suffix", ["keras", "h5"])
def test_the_command_for_a_training_step(tmp_path: Path, suffix: str, capfd: pytest.CaptureFixture[str]) -> None:
    model = tf.keras.Sequential([tf.keras.Input((5,)), layers.Dense(3, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy")
    path, out = tmp_path / f"m.{suffix}", tmp_path / "out.json"
    model.save(path)
    close_helpers()  # that the command starts one, and says so
    capfd.readouterr()
    assert main(["dry-run", str(path), "--on", "1xT4", "--batch", "64", "--train", "--json", str(out)]) == 0
    printed, told = capfd.readouterr()
    assert "fits" in printed
    assert told.splitlines() == ["Starting TensorFlow for dry runs (a few seconds, once)...", f"wrote {out}"]
    assert arguments(Placement.load(out)) == [([64, 5], "float32"), ([64], "int64")]


def test_an_interrupt_ends_the_command_and_its_helper(saved: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter_placement.cli", "dry-run", str(saved), "--on", "1xT4", "--batch", "4"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Starting TensorFlow")  # the helper is being started
    helpers: list[int] = []
    while not helpers and process.poll() is None:
        helpers = [int(one) for one in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")
    assert helpers
    assert not any(os.path.exists(f"/proc/{one}") for one in helpers)


def test_a_reader_that_has_gone_is_no_error(saved: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "jupyter_placement.cli", "dry-run", str(saved), "--on", "1xT4"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    os.close(writing)
    assert ended.stderr.splitlines() == ["Starting TensorFlow for dry runs (a few seconds, once)..."]


def test_elements_of_a_data_set_take_the_batch_also_beside_graphs_without_one() -> None:
    data = iter(tf.data.Dataset.from_tensor_slices(np.ones([10, 3], "f")).batch(4))

    @tf.function(autograph=False)
    def step(iterator: Any) -> Any:
        return tf.nn.relu(next(iterator))

    @tf.function(autograph=False)
    def fixed(x: Any) -> Any:
        return tf.tanh(x)

    one, other = step.get_concrete_function(data), fixed.get_concrete_function(tf.TensorSpec([2, 2]))
    placement = dry_run([one, other], on="1xT4", batch_size=BATCH)
    found = {data["op"]: data["shape"] for _, data in placement.graph.nodes(data=True)}
    assert (found["IteratorGetNext"], found["Relu"], found["Tanh"]) == ([BATCH, 3], [BATCH, 3], [2, 2])
    assert estimate_of(dry_run(one, on="1xT4")).device("GPU:0").verdict == "may not fit"
    with pytest.raises(PlacementError, match="has nothing to stand for"):
        dry_run([other, other], on="1xT4", batch_size=BATCH)
