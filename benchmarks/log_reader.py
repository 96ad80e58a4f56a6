"""Speed and memory of the log reader: ``python benchmarks/log_reader.py [LINES]``.

Writes logs as TensorFlow writes them into a temporary folder, reads each once so that it lies in the page cache, and
prints the best of several runs as a ratio to ``grep -c`` of the same file in the same run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RUNS = 7
TASK = "/job:localhost/replica:0/task:0"
OPS = ("MatMul", "Const", "Identity", "VariableV2", "Conv2DBackpropFilter", "AssignVariableOp", "ReadVariableOp")
NOISE = "Epoch {0}: step {0} loss 0.{0:06d} accuracy 0.9{0:06d}, learning rate 0.001, 12 examples/s, {0:050d}\n"


def write_log(path: Path, lines: int, noise: float = 0.0) -> None:
    """Write a log in which each placement stands twice, as TensorFlow writes it, and other text between."""
    with path.open("w") as file:
        written = number = 0
        owed = 0.0
        while written < lines:
            name = f"Adam/gradients/model_{number % 7}/encoder/block_{number // 100}/MatMul_{number}"
            body = f"{name}: ({OPS[number % 7]}): {TASK}/device:GPU:{number % 8}\n"
            stamp = f"2022-05-03 10:00:{number % 60:02d}.{number % 1_000_000:06d}"
            file.write(f"{body}{stamp}: I tensorflow/core/common_runtime/placer.cc:114] {body}")
            written += 2
            owed += 2 * noise / (1 - noise)
            while owed >= 1 and written < lines:
                file.write(NOISE.format(written))
                written += 1
                owed -= 1
            number += 1


def best(action: Callable[[], object]) -> float:
    """Return the shortest time of several runs, in seconds."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def grep(path: Path) -> None:
    subprocess.run(["grep", "-c", "/job:", path], stdout=subprocess.PIPE, check=True)


def read(path: Path) -> tuple[int, int]:
    from jupyter_placement.log import read_log

    log = read_log(path)
    return log.counts.lines, len(log.placements)


def peak_memory(path: Path | None) -> int:
    """Return the most memory, in bytes, that a process of its own held to read a file, or only to import the reader."""
    # Not ru_maxrss: a process starts with that of the one that made it.
    code = "import re\nfrom jupyter_placement.log import read_log\n"
    code += f"log = read_log({os.fspath(path)!r})\n" if path else ""
    code += "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


def report(path: Path) -> float:
    lines, placements = read(path)
    size = path.stat().st_size
    base, seconds = best(lambda: grep(path)), best(lambda: read(path))
    memory = peak_memory(path) - peak_memory(None)
    print(
        f"{path.name:<22} {lines:>9,} lines {size / 1e6:6.1f} MB {placements:>8,} placements  grep -c {base:6.3f} s  "
        f"read {seconds:6.3f} s  ratio {seconds / base:5.1f}  {lines / seconds:>10,.0f} lines/s  "
        f"memory / size {memory / size:5.2f}"
    )
    return seconds


def main() -> None:
    """Write the logs, read them, print the figures."""
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        seconds = {}
        for count in sorted({10_000, 100_000, lines}):
            path = Path(folder) / f"placements-{count}.log"
            write_log(path, count)
            seconds[count] = report(path)
        for noise in (0.5, 0.95):
            path = Path(folder) / f"other-text-{100 * noise:.0f}.log"
            write_log(path, lines, noise)
            report(path)
            path.unlink()
        growth = seconds[lines] / seconds[10_000]
        print(
            f"growth from 10,000 to {lines:,} lines: {growth:.1f} times the time, {lines / 10_000:.0f} times the lines"
        )


if __name__ == "__main__":
    main()
