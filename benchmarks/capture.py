"""What a recording costs: ratios to the same work without one, measured in turn in the same process.

    python benchmarks/capture.py [steps] [eager] [first] [import] [static]

Without a name, all of them. Each line ends with the goal.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def in_turn(bare: Callable[[], float], recorded: Callable[[], float], rounds: int) -> tuple[float, float]:
    """Median seconds of both, each round one of each, so that a slower moment of the machine meets both."""
    pairs = [(bare(), recorded()) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(name: str, bare: float, recorded: float, goal: float) -> None:
    print(f"{name}: {recorded * 1e3:.1f} ms against {bare * 1e3:.1f} ms, ratio {recorded / bare:.3f} (goal {goal})")


def steps() -> None:
    """Ten steady training steps of a Keras model; only the steps are timed, in a recording that is under way."""
    import tensorflow as tf

    from jupyter_placement import record

    model = tf.keras.Sequential(
        [tf.keras.Input((784,)), *(tf.keras.layers.Dense(512, "relu") for _ in range(3)), tf.keras.layers.Dense(10)]
    )
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    x, y = tf.random.normal([256, 784]), tf.zeros([256], tf.int32)

    def ten() -> None:
        for _ in range(10):
            model.train_on_batch(x, y)

    ten()

    def recorded() -> float:
        with record():
            ten()
            return timed(ten)

    report("ten training steps", *in_turn(lambda: timed(ten), recorded, 9), goal=1.05)


def eager() -> None:
    """1,000 eager operations on small tensors: the worst case, where the operation itself costs next to nothing."""
    import tensorflow as tf

    from jupyter_placement import record

    x = tf.random.normal([8, 8])

    def thousand() -> None:
        y = x
        for _ in range(500):
            y = tf.nn.relu(tf.matmul(y, x))

    thousand()

    def recorded() -> float:
        with record():
            return timed(thousand)

    report("1,000 eager operations", *in_turn(lambda: timed(thousand), recorded, 9), goal=2.5)


FIRST = """
import json, os, sys, time
import tensorflow as tf
from jupyter_placement import record
from contextlib import nullcontext
model = tf.keras.applications.ResNet50(weights=None)
optimizer = tf.keras.optimizers.Adam()
optimizer.build(model.trainable_variables)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy()

@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss

images, labels = tf.random.normal([2, 224, 224, 3]), tf.zeros([2], tf.int32)
with (record() if sys.argv[1] == "recorded" else nullcontext()) as recording:
    start = time.perf_counter()
    float(train_step(images, labels))
    seconds = time.perf_counter() - start
    end = time.perf_counter()
after = time.perf_counter() - end
nodes = recording.placement.graph.number_of_nodes() if recording else 0
print(json.dumps([seconds, after, nodes]))
"""


def first() -> None:
    """The first run of a ResNet50 training step, traced, placed and run once; each in a process of its own."""

    def run(how: str) -> tuple[float, float, int]:
        done = subprocess.run([sys.executable, "-c", FIRST, how], capture_output=True, text=True, check=True)
        return tuple(json.loads(done.stdout.splitlines()[-1]))

    runs = [(run("bare"), run("recorded")) for _ in range(3)]
    bare, recorded = (min(pair[side][0] for pair in runs) for side in (0, 1))
    _, after, nodes = runs[0][1]
    report("first run of ResNet50's step", bare, recorded, goal=1.10)
    print(f"  {nodes} nodes; making the Placement afterwards took {after:.2f} s")


def imports() -> None:
    """``import jupyter_placement`` against an empty program."""

    def program(code: str) -> float:
        return timed(lambda: subprocess.run([sys.executable, "-c", code], check=True))

    bare, imported = in_turn(lambda: program("pass"), lambda: program("import jupyter_placement"), 15)
    print(f"import: {(imported - bare) * 1e3:.0f} ms more than {bare * 1e3:.0f} ms (goal: at most 150 ms more)")


def static() -> None:
    """Size of the static output for 10,000 nodes."""
    import tensorflow as tf

    from jupyter_placement import record
    from jupyter_placement.report import static_bundle

    with record() as recording, tf.Graph().as_default():
        x = tf.random.normal([4, 64])
        for layer in range(500):
            with tf.name_scope(f"block_{layer // 12}/layer_{layer % 12}"):
                kernel = tf.compat.v1.get_variable(f"kernel_{layer}", [64, 64], use_resource=True)
                x = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, kernel), tf.zeros([64])))
        tf.compat.v1.gradients(x, tf.compat.v1.trainable_variables())
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
    placement = recording.placement
    start = time.perf_counter()
    bundle = static_bundle(placement)
    seconds = time.perf_counter() - start
    size = len(json.dumps(bundle))
    nodes = placement.graph.number_of_nodes()
    print(f"static output of {nodes} nodes: {size / 1e3:.0f} kB in {seconds:.2f} s (goal: under 1 MB)")


def main() -> None:
    names = {"steps": steps, "eager": eager, "first": first, "import": imports, "static": static}
    for name in sys.argv[1:] or names:
        names[name]()


if __name__ == "__main__":
    main()
