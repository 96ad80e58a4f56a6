"""How long a dry run takes, beside TensorFlow's own import and placement of the same graph in the same process.

    python benchmarks/dryrun.py [GRAPH.pb ...]

Without a file: the train steps of ResNet50, of a small transformer and of an LSTM, and a random graph of 50,000
operations. One line for each:

- nodes of the graph, and operations that the placer placed;
- ``first``: seconds of the first placement, with the start of the helper process;
- ``next``: seconds of a later one: the graph is prepared, sent, placed, and the log read; the best of three;
- ``own``: seconds of ``import_graph_def`` with a session's placer in this process, on four logical CPU devices; the
  best of three;
- ``ratio``: ``next`` divided by ``own``;
- ``dry_run``: seconds of the whole call, from the graph to the Placement with reasons and estimate.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
MACHINE = "4xT4"
ROUNDS = 3


def resnet50() -> Any:
    import tensorflow as tf

    model = tf.keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10)
    model.compile("adam", "sparse_categorical_crossentropy")
    return train_step(model, tf.TensorSpec([8, 32, 32, 3]), tf.TensorSpec([8], tf.int64))


def transformer() -> Any:
    import tensorflow as tf

    layers = tf.keras.layers
    words = tf.keras.Input((32,), dtype="int32")
    x = layers.Embedding(1000, 64)(words)
    for _ in range(4):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 16)(x, x))
        x = layers.LayerNormalization()(x + layers.Dense(64)(layers.Dense(256, "gelu")(x)))
    model = tf.keras.Model(words, layers.Dense(1000)(x))
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return train_step(model, tf.TensorSpec([8, 32], tf.int32), tf.TensorSpec([8, 32], tf.int32))


def lstm() -> Any:
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input((50, 16)), layers.LSTM(64), layers.Dense(1)])
    model.compile("adam", "mse")
    return train_step(model, tf.TensorSpec([8, 50, 16]), tf.TensorSpec([8, 1]))


def random_graph(nodes: int = 50_000) -> Any:
    import tensorflow as tf

    pick = random.Random(0)
    graph_def = tf.compat.v1.GraphDef()
    graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
    first = graph_def.node.add(name="n0", op="Placeholder")
    first.attr["dtype"].type = tf.float32.as_datatype_enum
    for number in range(1, nodes):
        node = graph_def.node.add(
            name=f"n{number}", op="AddV2", device=pick.choice(["", "", "/cpu:0", "/device:GPU:1"])
        )
        node.attr["T"].type = tf.float32.as_datatype_enum
        node.input.extend(f"n{pick.randrange(max(0, number - 50), number)}" for _ in range(2))
    return graph_def


def train_step(model: Any, x: Any, y: Any) -> Any:
    import tensorflow as tf

    model.optimizer.build(model.trainable_variables)
    step = tf.function(lambda x, y: model.train_step((x, y)), autograph=False)
    return step.get_concrete_function(x, y).graph.as_graph_def()


MODELS: dict[str, Callable[[], Any]] = {
    "ResNet50 train step": resnet50,
    "transformer train step": transformer,
    "LSTM train step": lstm,
    "random graph": random_graph,
}


def graphs(paths: list[str]) -> Iterator[tuple[str, Any]]:
    import tensorflow as tf

    for path in paths:
        yield Path(path).stem, tf.compat.v1.GraphDef.FromString(Path(path).read_bytes())
    if not paths:
        for name, make in MODELS.items():
            yield name, make()


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def own(graph_def: Any) -> None:
    """Do what a user would do to have TensorFlow place a graph."""
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True, device_count={"CPU": 4})
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        session._extend_graph()


def main(paths: list[str]) -> None:
    from jupyter_placement.dryrun import close_helpers, dry_run, parse_machine
    from jupyter_placement.dryrun.helper import Helper
    from jupyter_placement.dryrun.preparation import Preparation

    machine = parse_machine(MACHINE)
    devices = [
        {"name": one.name, "type": one.type, "memory": one.memory_limit, "description": one.physical_name or ""}
        for one in machine
    ]
    for name, graph_def in graphs(paths):
        helper = Helper()

        def place(helper: Helper = helper, graph_def: Any = graph_def) -> Any:
            return helper.place(Preparation(graph_def, machine).graph, devices)

        first, reply = timed(place)
        if reply.error:
            print(f"{name}: {reply.error[:200]}")
            continue
        again = min(timed(place)[0] for _ in range(ROUNDS))
        helper.close()
        theirs = min(timed(lambda graph_def=graph_def: own(graph_def))[0] for _ in range(ROUNDS))
        dry_run(graph_def, on=MACHINE)
        whole, placement = timed(lambda graph_def=graph_def: dry_run(graph_def, on=MACHINE))
        print(
            f"{name}: {len(graph_def.node)} nodes, {len(reply.log)} placed; first {first:.2f} s, next {again:.3f} s, "
            f"own {theirs:.3f} s, ratio {again / theirs:.2f}; dry_run {whole:.2f} s for "
            f"{placement.graph.number_of_nodes()} operations",
            flush=True,
        )
    close_helpers()


if __name__ == "__main__":
    main(sys.argv[1:])
