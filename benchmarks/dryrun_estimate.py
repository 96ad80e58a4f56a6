"""How far a dry run's estimates are from what TensorFlow measures, on this machine's CPU.

    python benchmarks/dryrun_estimate.py [MODEL ...]

For training steps of eleven models:

- the most memory of a step's own tensors, against the allocation records of a session's step, with TensorFlow's graph
  optimizer as it is and without it;
- tensors and bytes that move when loss and update are on a second logical CPU, against what the partitions send;
- the time of a step on one core, against a session's. The card that it is estimated for has the rates of a product of
  matrices and of an addition that were measured here first; the rank correlation tells how good the order of the
  operations' times is.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parents[1]))

from jupyter_placement.dryrun import Card, close_helpers, dry_run, estimate_of
from jupyter_placement.dryrun.sources import graph_of
from jupyter_placement.placement import Placement
from tests.integration.measured_models import LARGE, MODELS
from tests.integration.measured_steps import Measured, measure

ALL = {**MODELS, **LARGE}


def main(names: Sequence[str]) -> None:
    core = one_core()
    rows: list[tuple[str, Placement, Measured]] = []
    for name in names or ALL:
        function, args = ALL[name]()
        began = time.perf_counter()
        placement = dry_run(function, *args, on=[core])
        seconds = time.perf_counter() - began
        captured = graph_of(function, args)
        plain = measure(captured, placement, optimize=False)
        # The order, and with it the peak, differs from run to run: what has to fit is the most.
        default = max((measure(captured, placement) for _ in range(3)), key=lambda one: one.peak)
        rows.append((name, placement, default))
        memory = estimate_of(placement).device("CPU:0")
        assert memory.variables + memory.slots == plain.variables, "variables are exact"
        print(
            f"{name}: {placement.graph.number_of_nodes()} operations, dry run {seconds:.2f} s\n"
            f"  memory: estimate {memory.step:,} B; measured {compared(memory.step, plain.peak)} without the graph "
            f"optimizer, {compared(memory.step, default.peak)} with it",
            flush=True,
        )
        moved(name)
    times(rows)
    close_helpers()


def one_core() -> Card:
    """Return a card with this machine's rates, as a model reaches them with one thread."""
    import tensorflow as tf

    from jupyter_placement.dryrun.schedule import COMPUTE_SHARE, MEMORY_SHARE

    tf.config.threading.set_intra_op_parallelism_threads(1)
    square, long = tf.ones([1024, 1024]), tf.ones([1 << 23])
    product = fastest(lambda: tf.matmul(square, square).numpy())
    addition = fastest(lambda: tf.add(long, long)[0].numpy())
    flops, bandwidth = 2 * 1024**3 / product, 3 * 4 * (1 << 23) / addition
    print(f"one core: {flops / 1e9:.0f} GFLOP/s in a product of matrices, {bandwidth / 1e9:.1f} GB/s in an addition")
    rates = {"float32": flops / COMPUTE_SHARE, "float64": flops / 2 / COMPUTE_SHARE}
    return Card("one core", 8 << 30, bandwidth / MEMORY_SHARE, rates, units=1, type="CPU")


def fastest(run: Callable[[], object]) -> float:
    times = []
    for _ in range(7):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def compared(estimated: int, measured: int) -> str:
    return f"{measured:,} B ({estimated / measured - 1:+.1%})"


def moved(name: str) -> None:
    function, args = ALL[name](loss_on="/cpu:1")
    placement = dry_run(function, *args, on="2xCPU")
    transfers = estimate_of(placement).transfers
    real = measure(graph_of(function, args), placement, cpus=2, optimize=False, steps=1).transfers
    print(
        f"  transfers: estimate {sum(one.tensors for one in transfers)} tensors, "
        f"{sum(one.size for one in transfers):,} B; measured {len(real)} tensors, {sum(real):,} B"
    )


def times(rows: Sequence[tuple[str, Placement, Measured]]) -> None:
    pairs = [(estimate_of(placement).seconds or math.nan, real.seconds) for _, placement, real in rows]
    off = math.exp(sum(abs(math.log(real / estimated)) for estimated, real in pairs) / len(pairs))
    print(f"time of a step on one core: off by a factor of {off:.2f} (geometric mean)")
    for (name, placement, real), (estimated, measured) in zip(rows, pairs, strict=True):
        nodes = placement.graph.nodes
        both = [(nodes[one]["duration"], real.times[one]) for one in nodes if one in real.times]
        print(
            f"  {name}: estimate {estimated * 1e3:.2f} ms, measured {measured * 1e3:.2f} ms "
            f"({estimated / measured - 1:+.0%}); rank correlation of {len(both)} operations' times "
            f"{rank_correlation(both):.2f}"
        )


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Return Spearman's coefficient."""
    left, right = ranks([one for one, _ in pairs]), ranks([one for _, one in pairs])
    middle = (len(pairs) - 1) / 2
    covariance = sum((a - middle) * (b - middle) for a, b in zip(left, right, strict=True))
    spread = [math.sqrt(sum((one - middle) ** 2 for one in values)) for values in (left, right)]
    return covariance / (spread[0] * spread[1]) if all(spread) else math.nan


def ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for number in order[begin:end]:
            found[number] = (begin + end - 1) / 2  # ties share their mean
        begin = end
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
