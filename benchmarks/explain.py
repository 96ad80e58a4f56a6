"""Explanations: the share of nodes without one, those with a source line, and the time for all of them.

    python benchmarks/explain.py [resnet50] [transformer] [lstm] [mirrored] [large]

Each model runs on two logical CPU devices, and but for the mirrored one is then placed on imagined GPUs (2xT4).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

# What runs the model, and what of it a dry run places, with its inputs.
Model = tuple[Callable[[], Any], Any, tuple[Any, ...]]


def resnet50(tf: Any) -> Model:
    model = tf.keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10)
    optimizer = tf.keras.optimizers.Adam()
    weights = model.trainable_variables
    optimizer.build(weights)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy()
    images, labels = tf.random.normal([2, 64, 64, 3]), tf.zeros([2], tf.int32)

    @tf.function
    def train_step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return lambda: train_step(images, labels), train_step, (images, labels)


def transformer(tf: Any, layers_: int = 4) -> Model:
    layers = tf.keras.layers
    tokens = tf.keras.Input((16,), dtype="int32")
    hidden = layers.Embedding(50, 32)(tokens)
    for _ in range(layers_):
        hidden = layers.LayerNormalization()(hidden + layers.MultiHeadAttention(4, 8)(hidden, hidden))
        inner = layers.Dense(32)(layers.Dense(64, activation="gelu")(hidden))
        hidden = layers.LayerNormalization()(hidden + layers.Dropout(0.1)(inner))
    return fitted(tf, tf.keras.Model(tokens, layers.Dense(50)(hidden)), [4, 16])


def large(tf: Any) -> Model:
    return transformer(tf, 12)


def lstm(tf: Any) -> Model:
    layers = tf.keras.layers
    stack = [layers.Embedding(50, 16), layers.LSTM(16, return_sequences=True), layers.LSTM(8), layers.Dense(50)]
    return fitted(tf, tf.keras.Sequential(stack), [4])


def fitted(tf: Any, model: Any, labels: list[int]) -> Model:
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = tf.zeros([4, 16], tf.int32), tf.zeros(labels, tf.int32)
    return lambda: model.fit(x, y, verbose=0), model, (x, y)


def mirrored(tf: Any) -> Model:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        weights = [tf.Variable(tf.random.normal([4, 4])) for _ in range(3)]
        optimizer = tf.keras.optimizers.Adam()
        optimizer.build(weights)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.nn.relu(y @ weight)
            loss = tf.reduce_mean(y)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    @tf.function
    def train(batch: Any) -> Any:
        return strategy.run(step, args=(batch,))

    def run() -> None:
        values = tf.data.Dataset.from_tensor_slices(tf.random.normal([8, 4])).batch(4)
        for batch in strategy.experimental_distribute_dataset(values):
            train(batch)

    return run, None, ()


MODELS = {"resnet50": resnet50, "transformer": transformer, "lstm": lstm, "mirrored": mirrored, "large": large}


def told(name: str, placement: Any) -> None:
    """Print the figures of one Placement."""
    from jupyter_placement.explain import Rules, findings, unknown_share

    times = []
    for _ in range(3):
        began = time.perf_counter()
        rules = Rules(placement)
        for node in placement.graph:
            rules.of(node)
        found = findings(placement, rules)
        times.append(time.perf_counter() - began)
    nodes = placement.graph.number_of_nodes()
    lines = sum(data["source"] is not None for _, data in placement.graph.nodes(data=True)) / nodes
    print(
        f"{name}: {nodes:,} nodes; unknown {100 * unknown_share(placement):.2f} % (goal: under 1 %); with a source "
        f"line {100 * lines:.1f} %; rules and {len(found)} findings in {min(times):.2f} s (goal: 0.5 s for 14,000)",
        flush=True,
    )


def main() -> None:
    import tensorflow as tf

    from jupyter_placement import record
    from jupyter_placement.dryrun import close_helpers, dry_run

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    for name in sys.argv[1:] or MODELS:
        run, what, args = MODELS[name](tf)
        with record() as recording:
            run()
        told(f"{name}, 2 CPUs", recording.placement)
        if what is not None:
            told(f"{name}, 2xT4", dry_run(what, *args, on="2xT4"))
    close_helpers()


if __name__ == "__main__":
    main()
