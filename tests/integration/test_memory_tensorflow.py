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


TOO_LATE = """
import json
import tensorflow as tf
from jupyter_placement.memory.limit import MemoryLimitError, limit_memory

before = limit_memory(memory_limit=100)
tf.zeros([1])
try:
    limit_memory(memory_limit=100)
except MemoryLimitError as error:
    print(json.dumps({"before": before, "after": str(error)}))
"""

PLANNED_CODE = """
import json
import tensorflow as tf
from jupyter_placement.memory.plan import plan_memory

ways = [{"fraction": 0.4}, {"memory_limit": 2048}, {"allow_growth": True}, {}]
for way in ways:
    plan = plan_memory(**way, cards=["16 GiB"])
    exec(plan.tf2)
set_in_tf1 = []
for way in ways:
    plan = plan_memory(**way, cards=["16 GiB"])
    names = {"tf": tf}
    exec(plan.tf1, names)
    names["session"].close()
    options = names["config"].gpu_options
    limits = [list(one.memory_limit_mb) for one in options.experimental.virtual_devices]
    set_in_tf1.append([round(options.per_process_gpu_memory_fraction, 6), limits, options.allow_growth])
print(json.dumps(set_in_tf1))
"""


def test_a_limit_after_the_start_is_too_late() -> None:
    seen = run(TOO_LATE)
    assert seen["before"] == "TensorFlow sees no GPU: there is nothing to limit."
    assert "has started already" in seen["after"]
    assert "restart the kernel" in seen["after"]


def test_the_lines_of_a_plan_run() -> None:
    assert run(PLANNED_CODE) == [[0.4, [], False], [0, [[2048]], False], [0, [], True], [0, [], False]]


REAL_OOM = """
import json
import tensorflow as tf
from jupyter_placement.memory.host import HostReader
from jupyter_placement.memory.oom import explain_oom
from jupyter_placement.memory.oom_facts import read_oom

try:
    tf.zeros([1_000_000, 1_000_000, 1000])
except tf.errors.ResourceExhaustedError as error:
    (event,) = read_oom(str(error))
    print(json.dumps(explain_oom(event, samples=[HostReader().read(0.0)]).text().splitlines()))
"""


def test_a_real_out_of_memory_on_the_cpu() -> None:
    what, machine, _, advice = run(REAL_OOM)
    assert what == "Out of memory on the CPU: an operation asked for 3638.0 TiB (shape 1000000 x 1000000 x 1000)."
    assert machine.startswith("The machine has ")
    assert "larger than the machine's memory" in advice
