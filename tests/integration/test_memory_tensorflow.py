"""Memory beside a real TensorFlow: it is not started, its allocators are read, and its C++ code holds nothing up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

TIMEOUT = 300.0

NOT_STARTED = """
import json, threading
import tensorflow as tf
from jupyter_placement.memory import MemorySampler
from tensorflow.python.eager import context

came = threading.Event()
with MemorySampler(0.01, lambda samples, time, notes: came.set()) as sampler:
    assert came.wait(60)
untouched = context.context_safe() is None
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
print(json.dumps({"untouched": untouched, "devices": sorted({one.device for one in sampler.samples})}))
"""

ALLOCATORS = """
import json
import tensorflow as tf
from jupyter_placement.memory.tensorflow_memory import TensorFlowReader

reader = TensorFlowReader("CPU")
before = reader.read(0.0)
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.zeros([1000])
after = reader.read(1.5)
limits = {device.name: device.memory_limit_bytes for device in tf.compat.v1.Session().list_devices()}
print(json.dumps({"before": len(before), "after": [vars(sample) for sample in after], "limits": limits}))
"""

# The main thread waits in TensorFlow's C++ code for an element that only the third sample puts there.
HELD = """
import json
import tensorflow as tf
from jupyter_placement.memory import MemorySampler

queue = tf.queue.FIFOQueue(1, [tf.int32], shapes=[()])
held = []

def show(samples, time, notes):
    held.append(time)
    if len(held) == 3:
        queue.enqueue(7)

with MemorySampler(0.02, show) as sampler:
    value = int(queue.dequeue())
    during = len(held)
print(json.dumps({"value": value, "during": during, "notes": sampler.notes}))
"""


def run(code: str, **environment: str) -> Any:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_sampling_does_not_start_tensorflow() -> None:
    assert run(NOT_STARTED) == {"untouched": True, "devices": ["host"]}


def test_allocators_are_read_once_tensorflow_has_started() -> None:
    seen = run(ALLOCATORS)
    task = "/job:localhost/replica:0/task:0/device:CPU:"
    assert seen["before"] == 0
    assert seen["after"] == [
        {"time": 1.5, "device": f"{task}{k}", "used": 0, "total": seen["limits"][f"{task}{k}"], "process": 0, "peak": 0}
        for k in (0, 1)
    ]


def test_sampling_goes_on_while_cpp_code_holds_the_main_thread() -> None:
    seen = run(HELD)
    assert seen["value"] == 7
    assert seen["during"] >= 3
    assert all(note.startswith("No GPU is shown: ") for note in seen["notes"])
