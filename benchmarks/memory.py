"""What memory sampling costs: ``python benchmarks/memory.py`` (needs gcc for the stand-in driver; Linux).

Prints one JSON object with the cost of a sample (8 cards, 50 processes each, stand-in driver), the share of one core at
two samples a second, and the longest gap between samples while ``tf.matmul`` runs on all cores. Every share comes with
its counterpart without sampling, from the same run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from jupyter_placement.memory import MemorySampler
from jupyter_placement.memory.host import HostReader
from jupyter_placement.memory.nvml import NvmlReader

CARDS, PROCESSES = 8, 50


def cost_of_a_sample(rounds: int) -> dict[str, float]:
    """Milliseconds of one reading of every card, and of the host."""
    reader = NvmlReader()
    reader.open()
    first = time.perf_counter()
    readings = reader.read()
    first = time.perf_counter() - first
    assert [len(reading.processes or ()) for reading in readings] == [PROCESSES] * CARDS
    cards = _times(reader.read, rounds)
    reader.close()
    host = HostReader()
    hosts = _times(lambda: host.read(0.0), rounds)
    return {
        "first_ms": round(1000 * first, 3),
        "cards_median_ms": round(1000 * statistics.median(cards), 3),
        "cards_p99_ms": round(1000 * sorted(cards)[int(0.99 * len(cards))], 3),
        "host_median_ms": round(1000 * statistics.median(hosts), 3),
    }


def _times(action: Any, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return times


def cpu_share(seconds: float, interval: float) -> dict[str, float]:
    """CPU time of this otherwise idle process, with and without a sampler, in percent of one core."""
    idle = _cpu_percent(seconds)
    with MemorySampler(interval) as sampler:
        threading.Event().wait(1.0)  # what is loaded once is not the running cost
        sampling = _cpu_percent(seconds)
    return {
        "interval_s": interval,
        "idle_percent": round(idle, 3),
        "sampling_percent": round(sampling, 3),
        "samples": len({sample.time for sample in sampler.samples}),
    }


def _cpu_percent(seconds: float) -> float:
    began, cpu = time.perf_counter(), time.process_time()
    threading.Event().wait(seconds)
    return 100 * (time.process_time() - cpu) / (time.perf_counter() - began)


def gaps_beside_matmul(seconds: float, interval: float, size: int) -> dict[str, float]:
    """Seconds between samples while ``tf.matmul`` keeps all cores busy, and what the sampling costs the products."""
    import tensorflow as tf

    matrix = tf.random.normal([size, size])

    def products(until: float) -> int:
        count = 0
        while time.perf_counter() < until:
            tf.matmul(matrix, matrix)
            count += 1
        return count

    products(time.perf_counter() + 1.0)
    rates: dict[str, list[float]] = {"bare": [], "sampled": []}
    times: list[list[float]] = []
    seconds /= 4
    for _ in range(10):  # bare and sampled in turn, so that a machine that gets slower slows both
        rates["bare"].append(products(time.perf_counter() + seconds) / seconds)
        moments: list[float] = []
        with MemorySampler(interval, lambda samples, now, notes, moments=moments: moments.append(time.perf_counter())):
            rates["sampled"].append(products(time.perf_counter() + seconds) / seconds)
        times.append(moments[:-1])  # the last one comes with the stop
    gaps = [after - before for moments in times for before, after in itertools.pairwise(moments)]
    return {
        "interval_s": interval,
        "size": size,
        "longest_gap_s": round(max(gaps), 3),
        "median_gap_s": round(statistics.median(gaps), 3),
        "samples": sum(map(len, times)),
        "products_sampled_to_bare": round(statistics.median(rates["sampled"]) / statistics.median(rates["bare"]), 4),
    }


def measure(arguments: argparse.Namespace) -> None:
    figures = {
        "cores": os.cpu_count(),
        "cards": CARDS,
        "processes_each": PROCESSES,
        "cost": cost_of_a_sample(arguments.rounds),
        "cpu": cpu_share(arguments.seconds, 0.5),
        "matmul": gaps_beside_matmul(arguments.seconds, 0.5, arguments.size),
    }
    print(json.dumps(figures, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description="What memory sampling costs.")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each measurement")
    parser.add_argument("--rounds", type=int, default=500, help="readings of which the cost is the median")
    parser.add_argument("--size", type=int, default=2000, help="rows and columns of the matrix")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        measure(arguments)
        return
    from tests.nvml.stub import build, card, process

    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "machine.txt"
        # This process's own number among others that run, so that names are looked up.
        lines = [card(k) for k in range(CARDS)]
        pids = [os.getpid(), *(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid != os.getpid())]
        pids = [*pids, *range(4_000_000, 4_000_000 + PROCESSES)][:PROCESSES]
        lines += [process(k, pid, 1 << 24) for k in range(CARDS) for pid in pids]
        script.write_text("\n".join(["driver\t550.54.15", *lines, ""]))
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(build(Path(folder))),
            "NVML_STUB_SCRIPT": str(script),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        command = [sys.executable, __file__, *sys.argv[1:], "--inside"]
        raise SystemExit(subprocess.run(command, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
