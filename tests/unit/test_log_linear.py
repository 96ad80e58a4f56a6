"""The time that reading takes grows with the input, whatever is in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from jupyter_placement.log import read_log

TASK = "/job:localhost/replica:0/task:0"
SIZE = 1_000_000
LONG: dict[str, Callable[[int], str]] = {
    "one line": lambda n: "x" * n,
    "one line of blanks": lambda n: " " * n,
    "brackets": lambda n: "(" * n,
    "square brackets": lambda n: "[" * n,
    "openings": lambda n: ": (" * (n // 3),
    "a name": lambda n: "n" * n + f": (Const): {TASK}/device:CPU:0",
    "names with blanks": lambda n: "n " * (n // 2) + f": (Const): {TASK}/device:CPU:0",
    "jobs": lambda n: ": /job:a" * (n // 8),
    "a job": lambda n: ": /job:" + "a" * n,
    "placements without line ends": lambda n: f"a: (Const): {TASK}/device:CPU:0" * (n // 60),
    "types without devices": lambda n: "a: (Const): /job:x" * (n // 18),
    "prefixes": lambda n: "I tensorflow/core/common_runtime/placer.cc:1] " * (n // 47),
    "prefix lines": lambda n: "I tensorflow/core/common_runtime/placer.cc:1] a\n" * (n // 49),
    "errors on one line": lambda n: (
        "Cannot assign a device for operation x: Could not satisfy explicit device "
        "specification '' because the node a " * (n // 120)
    ),
    "error lines": lambda n: "Cannot assign a device for operation x: Could not\n" * (n // 50),
    "group": lambda n: (
        "Failed to place the graph without changing the devices of some resources\n"
        + "Colocation members:\n"
        + "  x (VariableV2) /device:GPU:1\n" * (n // 31)
    ),
    "arrows": lambda n: " -> device:" * (n // 11),
    "device lines": lambda n: "".join(f"{TASK}/device:GPU:0 -> device: {i}, name: c{i}\n" for i in range(n // 90)),
    "same card": lambda n: "".join(
        f"{TASK}/device:GPU:0 -> device: 0, name: c, pci bus id: 0000:{i % 256:02x}:00.0\n" for i in range(n // 90)
    ),
    "json": lambda n: '{"log":' * (n // 7),
    "quotes": lambda n: '"' * n + "/job:",
    "escapes": lambda n: "\\x1b[" * (n // 5) + "/job:",
    "out of memory": lambda n: "OOM when allocating tensor with shape[" * (n // 38),
    "dumps": lambda n: "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1GiB (rounded to 1)\n" * (n // 80),
    "torn": lambda n: f"Epoch 1/3a: (Const): {TASK}/device:CPU:0\n" * (n // 75),
    "odd names": lambda n: "".join(f"odd name {i:x}é: (Const): {TASK}/device:CPU:0\n" for i in range(n // 75)),
    "carriage returns": lambda n: f"\ra: (Const): {TASK}/device:CPU:0" * (n // 60),
    "wrapped": lambda n: f"a: (Const): {TASK}\n/device:CPU:0\n" * (n // 60),
    "digits": lambda n: f"a: (Const): {TASK}/device:CPU:" + "1" * n,
}


def test_nasty_inputs_end() -> None:
    """A megabyte of each takes a tenth of a second; were one quadratic it would take many minutes."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split("\n")[:-1] == list(LONG)


if __name__ == "__main__":
    for name, make in LONG.items():
        print(name, flush=True)
        read_log(make(SIZE) + "\n")
