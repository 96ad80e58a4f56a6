"""Keras models and training steps: placed as when they run, and left as they were."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_placement.dryrun import close_helpers, dry_run
from jupyter_placement.placement import Placement, PlacementError
from tests.integration.dryrun_truth import devices_by_name, really_run

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow
layers = tf.keras.layers
ON = "3xCPU"


@pytest.fixture(scope="module", autouse=True)
def _end_helpers() -> Iterator[None]:
    yield
    close_helpers()


def resnet50() -> tuple[Any, Any, Any]:
    model = tf.keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10)
    model.compile("adam", "sparse_categorical_crossentropy")
    return model, tf.ones([2, 32, 32, 3]), tf.constant([1, 2], tf.int64)


def transformer() -> tuple[Any, Any, Any]:
    words = tf.keras.Input((12,), dtype="int32")
    x = layers.Embedding(50, 16)(words)
    with tf.device("/cpu:1"):
        for _ in range(2):
            x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
            x = layers.LayerNormalization()(x + layers.Dense(16)(layers.Dense(32, "gelu")(x)))
    model = tf.keras.Model(words, layers.Dense(50)(x))
    model.compile(tf.keras.optimizers.AdamW(clipnorm=1.0), tf.keras.losses.SparseCategoricalCrossentropy(True))
    return model, tf.ones([3, 12], tf.int32), tf.ones([3, 12], tf.int32)


def lstm() -> tuple[Any, Any, Any]:
    model = tf.keras.Sequential(
        [
            tf.keras.Input((7, 5)),
            layers.LSTM(6, return_sequences=True, recurrent_dropout=0.2),
            layers.Bidirectional(layers.GRU(4)),
            layers.Dense(1),
        ]
    )
    model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), "mse", metrics=["mae"])
    return model, tf.ones([2, 7, 5]), tf.ones([2, 1])


def embedding() -> tuple[Any, Any, Any]:
    word, number = tf.keras.Input((), dtype="string"), tf.keras.Input((1,), dtype="int64")
    known = layers.StringLookup(vocabulary=["a", "b", "c"])(word)
    both = layers.Concatenate()([layers.Embedding(9, 4)(known), layers.Flatten()(layers.Embedding(9, 4)(number))])
    model = tf.keras.Model([word, number], layers.Dense(1, "sigmoid")(both))
    model.compile("adagrad", "binary_crossentropy")
    return model, [tf.constant(["a", "z"]), tf.constant([[1], [2]], tf.int64)], tf.ones([2, 1])


@pytest.mark.parametrize("make", [resnet50, transformer, lstm, embedding])
def test_train_steps_are_placed_as_when_they_run(make: Callable[[], tuple[Any, Any, Any]]) -> None:
    model, x, y = make()
    model.optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(x: Any, y: Any) -> Any:
        return model.train_step((x, y))

    dry = dry_run(step, x, y, on=ON)
    real = really_run(step, (x, y), "function:step")
    assert devices_by_name(dry) == real
    assert len(real) > 150
    # Given the model itself, it is the same step.
    whole = dry_run(model, x, y, on=ON)
    assert _operations(whole) == _operations(dry)
    assert {data["graph"] for _, data in whole.graph.nodes(data=True)} == {f"function:{model.name}.train_step"}


@pytest.mark.parametrize("make", [resnet50, lstm, embedding])
def test_predict_is_placed_as_when_it_runs(make: Callable[[], tuple[Any, Any, Any]]) -> None:
    model, x, _ = make()

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(x: Any) -> Any:
        return model.predict_step((x,))

    dry = dry_run(step, x, on=ON)
    assert devices_by_name(dry) == really_run(step, (x,), "function:step")
    assert _operations(dry_run(model, x, on=ON)) == _operations(dry)


def _operations(placement: Placement) -> Counter[tuple[str, str]]:
    return Counter((data["op"], data["device"]) for _, data in placement.graph.nodes(data=True))


def test_a_mirrored_step_is_placed_as_when_it_runs() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"])
    with strategy.scope():
        weights, total = tf.Variable(tf.ones([4, 4])), tf.Variable(0.0)
        dense = tf.keras.layers.Dense(3)
        dense.build((None, 4))

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(x: Any) -> Any:
        def one(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(dense(tf.nn.relu(x @ weights.read_value())))
            gradient = tape.gradient(loss, [weights, dense.kernel.value])
            context = tf.distribute.get_replica_context()
            summed = context.all_reduce("sum", gradient[0])
            weights.assign_sub(summed)
            return loss

        losses = strategy.run(one, args=(x,))
        total.assign_add(1.0)
        return strategy.reduce("sum", losses, axis=None)

    x = tf.ones([2, 4])
    dry = dry_run(step, x, on=ON)
    assert devices_by_name(dry) == really_run(step, (x,), "function:step")
    assert set(dry.device_counts()) == {f"/job:localhost/replica:0/task:0/device:CPU:{n}" for n in range(3)}


def test_a_mirrored_keras_model_is_traced_in_its_strategy() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(3)])
        model.compile("adam", "mse")
    placement = dry_run(model, tf.ones([2, 4]), tf.ones([2, 3]), on="2xCPU")
    products = [placement.short(d["device"]) for _, d in placement.graph.nodes(data=True) if d["op"] == "MatMul"]
    assert Counter(products) == {"CPU:0": 2, "CPU:1": 2}
    assert not model.optimizer.built


class Branches(tf.keras.Model):  # type: ignore[misc, name-defined]
    """A subclassed model with a dict of inputs, layers in lists and dicts, and state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = layers.Dense(3)
        self.rest = [layers.Dense(2), {"drop": layers.Dropout(0.5), "norm": layers.BatchNormalization()}]
        self.seen: dict[str, list[int]] = {"x": [1]}

    def call(self, inputs: dict[str, Any], training: bool = False) -> Any:
        both = self.first(inputs["p"]) + self.first(inputs["q"])
        both = self.rest[1]["norm"](both, training=training)
        self.add_loss(tf.reduce_mean(both))
        return self.rest[0](self.rest[1]["drop"](both, training=training))


def state(model: Any) -> dict[str, Any]:
    """Return what a dry run must not change."""
    found = {
        "built": [layer.built for layer in model._flatten_layers()],
        "weights": [(one.path, one.numpy().tolist()) for one in model.weights],
        "seeds": [one.numpy().tolist() for one in model.non_trainable_variables],
        "losses": len(model.losses),
        "name": tf.keras.layers.Dense(1).name,
        "seen": getattr(model, "seen", None),
    }
    if model.compiled:
        optimizer = model.optimizer
        found |= {
            "train_function": model.train_function,
            "optimizer": (id(optimizer), optimizer.built, [one.numpy().tolist() for one in optimizer.variables]),
            "metrics": [(one.name, [v.numpy().tolist() for v in one.variables]) for one in model.metrics],
        }
    return found


def unchanged_by(model: Any, *args: Any, **options: Any) -> Placement:
    before = state(model)
    chance = random.getstate(), np.random.get_state()[1].tolist()
    placement = dry_run(model, *args, on="2xT4", **options)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == chance
    after = state(model)
    number = int(before.pop("name").rpartition("_")[2] or 0)
    assert int(after.pop("name").rpartition("_")[2]) == number + 1
    assert after == before
    return placement


def test_a_model_stays_as_it_was() -> None:
    inputs = {"p": np.ones((4, 5), "float32"), "q": np.ones((4, 5))}
    targets = np.ones((4, 2))
    model = Branches()
    assert unchanged_by(model, inputs).device_counts()
    model.compile(tf.keras.optimizers.Adam(), "mse", metrics=["mae", tf.keras.metrics.MeanSquaredError()])
    unbuilt = unchanged_by(model, inputs, targets)
    assert not model.built
    model.fit(inputs, targets, epochs=2, verbose=0)
    fitted = unchanged_by(model, inputs, targets, np.ones(4))
    assert _kinds(fitted)["MatMul"] == _kinds(unbuilt)["MatMul"] == 7
    assert unchanged_by(model, inputs).device_counts()
    history = model.fit(inputs, targets, epochs=1, verbose=0).history
    assert history["loss"][0] > 0


def _kinds(placement: Placement) -> Counter[str]:
    return Counter(data["op"] for _, data in placement.graph.nodes(data=True))


def test_the_slots_of_an_optimizer_are_variables_of_the_step() -> None:
    model = tf.keras.Sequential([tf.keras.Input((8,)), layers.Dense(4)])
    model.compile("adam", "mse")
    dataset = tf.data.Dataset.from_tensors((np.ones((2, 8), "float32"), np.ones((2, 4), "float32")))
    for placement in (
        dry_run(model, np.ones((2, 8)), np.ones((2, 4)), on="1xT4"),
        dry_run(model, x=np.ones((2, 8)), y=np.ones((2, 4)), on="1xT4"),
        dry_run(model, dataset, on="1xT4"),
    ):
        kinds = _kinds(placement)
        # Kernel and bias with two slots each, iteration, learning rate, and the mean of the loss.
        assert kinds["VarHandleOp"] == 2 + 4 + 2 + 2
        assert kinds["AssignAddVariableOp"] == 4  # the slots
        assert kinds["AssignSubVariableOp"] == 2
    assert _kinds(dry_run(model, on="1xT4"))["VarHandleOp"] == 2


def test_keras_files_with_their_optimizer(tmp_path: Path) -> None:
    model = tf.keras.Sequential([tf.keras.Input((8,)), layers.Dense(4)])
    model.compile("adam", "mse")
    path = tmp_path / "model.keras"
    model.save(path)
    trained = dry_run(path, np.ones((2, 8)), np.ones((2, 4)), on="1xT4")
    assert _kinds(trained)["VarHandleOp"] == 10
    assert _kinds(dry_run(str(path), on="1xT4"))["VarHandleOp"] == 2
    path.write_bytes(b"no model")
    with pytest.raises(PlacementError, match=r"model\.keras holds no Keras model"):
        dry_run(path, on="1xT4")


def test_several_inputs_in_one_list_or_dict() -> None:
    first, second = tf.keras.Input((3,), name="first"), tf.keras.Input((5,), name="second")
    output = layers.Dense(2)(layers.Concatenate()([first, second]))
    a, b = np.ones((6, 3)), np.ones((6, 5))
    for inputs, given in (([first, second], [a, b]), ({"first": first, "second": second}, {"first": a, "second": b})):
        model = tf.keras.Model(inputs, output)
        shapes = [
            {tuple(d["shape"]) for _, d in placement.graph.nodes(data=True) if d["op"] == "MatMul"}
            for placement in (dry_run(model, given, on="1xT4"), dry_run(model, on="1xT4"))
        ]
        assert shapes == [{(6, 2)}, {(1, 2)}]


def test_what_a_model_needs_is_told() -> None:
    plain = tf.keras.Sequential([layers.Dense(2)])
    compiled = tf.keras.Sequential([tf.keras.Input((8,)), layers.Dense(2)])
    compiled.compile("sgd", "mse")
    x, y = np.ones((2, 8)), np.ones((2, 2))
    for args, options, said in (
        ((plain,), {}, r"this model has no known inputs yet: give one"),
        ((plain, x, y), {}, r"a train step needs model\.compile"),
        ((compiled,), {"batch_size": 0}, r"batch_size= is a whole number of examples, 1 or more, not 0"),
        ((compiled, x), {"batch_size": 2}, r"batch_size= stands for inputs that are not given"),
        ((compiled, x, y), {"train": False}, r"predict takes x alone"),
        ((compiled, x, y, y, y), {}, r"a model takes one batch"),
        ((compiled, x), {"x": x}, r"a model takes one batch"),
        ((compiled,), {"y": y}, r"a model needs x"),
    ):
        with pytest.raises(PlacementError, match=said):
            dry_run(*args, on="1xT4", **options)


def test_a_model_can_be_exported_after_a_dry_run(tmp_path: Path) -> None:
    inputs = tf.keras.Input((16,))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs))
    model.sizes = {"widths": [16, 1]}
    model.compile("adam", "mse", metrics=["mae"])
    x, y = np.ones([8, 16], "f"), np.ones([8, 1], "f")
    dry_run(model, x, y, on="2xT4")
    model.export(str(tmp_path / "before"), verbose=False)
    model.fit(x, y, verbose=0)
    dry_run(model, x, y, on="2xT4")
    model.export(str(tmp_path / "after"), verbose=False)
    tf.saved_model.save(model, str(tmp_path / "saved"))
    assert model.sizes == {"widths": [16, 1]}
    assert (tmp_path / "saved" / "saved_model.pb").exists()
