"""The memory layer on a real NVIDIA driver: ``pytest tests/integration/test_memory_gpu.py`` on a machine with a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from jupyter_placement.memory import CardReading, MemorySampler
from jupyter_placement.memory.nvml_worker import NvmlAnswer, read_cards

pytestmark = pytest.mark.gpu
TIMEOUT = 300.0
MIB = 1 << 20


@pytest.fixture(scope="module")
def answer() -> NvmlAnswer:
    answer = read_cards(30.0)
    if not answer.cards:
        pytest.skip(answer.notes[0])
    return answer


@pytest.fixture(scope="module")
def tensorflow_gpu(answer: NvmlAnswer) -> None:
    code = "import tensorflow as tf; print(len(tf.config.list_physical_devices('GPU')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.stdout.split()[-1:] in ([], ["0"]):
        pytest.skip("TensorFlow sees no GPU on this machine (is it installed with CUDA, as tensorflow[and-cuda]?)")


def run(code: str, **environment: str) -> Any:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def whole_cards(answer: NvmlAnswer) -> list[CardReading]:
    return [reading for reading in answer.readings if reading.card.mig is None]


def test_each_card_is_read_or_says_why_not(answer: NvmlAnswer) -> None:
    for reading in answer.readings:
        for name in ("total", "used", "free", "utilisation", "processes", "process"):
            assert getattr(reading, name) is not None or reading.reasons[name].startswith("not "), (reading.card, name)
        for name in ("name", "uuid", "pci_bus_id"):
            assert getattr(reading.card, name) is not None or reading.card.reasons[name], (reading.card, name)


def test_nvidia_smi_says_the_same(answer: NvmlAnswer) -> None:
    fields = "index,uuid,name,pci.bus_id,memory.total"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except FileNotFoundError:
        pytest.skip("nvidia-smi is not on this machine")
    rows = [row.split(", ") for row in said.strip().splitlines()]
    ours = [
        [
            str(one.card.index),
            one.card.uuid,
            one.card.name,
            f"0000{one.card.pci_bus_id}".upper(),
            str(round((one.total or 0) / MIB)),
        ]
        for one in whole_cards(answer)
    ]
    assert ours == rows


def test_sampling_a_real_card(answer: NvmlAnswer) -> None:
    keys = {card.key for card in answer.cards}
    seen = threading.Event()
    ticks: list[set[str]] = []

    def show(samples: list[Any], time: float, notes: list[str]) -> None:
        ticks.append({sample.device for sample in samples})
        if sum(tick >= keys for tick in ticks) >= 5:
            seen.set()

    with MemorySampler(0.1, show) as sampler:
        assert seen.wait(60), (ticks, sampler.notes)
    assert "The NVIDIA driver went away" not in " ".join(sampler.notes)


def test_a_hundred_cycles_leave_nothing(answer: NvmlAnswer) -> None:
    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("jupyter-placement")]

    for _ in range(2):  # the driver opens files once for the whole process
        MemorySampler(0.1).start().stop()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        MemorySampler(0.1).start().stop()
    for thread in threading.enumerate():
        if thread.name.startswith("jupyter-placement"):
            thread.join(30)
    assert threads() == []
    assert len(os.listdir("/proc/self/fd")) <= before


THREE_TRUTHS = """
import json, os, threading
import tensorflow as tf
from jupyter_placement.memory import MemorySampler
from jupyter_placement.memory.mapping import match_cards, parse_description
from jupyter_placement.memory.tensorflow_memory import device_descriptions
from jupyter_placement.placement import Device

limit = 2048
gpu = tf.config.list_physical_devices("GPU")[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=limit)])
with tf.device("GPU:0"):
    held = tf.Variable(tf.zeros([64, 1 << 20]))  # 256 MiB
    held.numpy()
used_before = tf.config.experimental.get_memory_info("GPU:0")
limits = {}
descriptions = {name: parse_description(text) for name, text in device_descriptions().items()}
descriptions = {name: one for name, one in descriptions.items() if one}
came = threading.Event()
ticks = []

def show(samples, time, notes):
    ticks.append(samples)
    if any(one.device.startswith("nvml:") for one in samples):
        came.set()

with MemorySampler(0.1, show) as sampler:
    assert came.wait(60), sampler.notes
name = "/job:localhost/replica:0/task:0/device:GPU:0"
ours = [one for one in sampler.samples if one.device == name][-1]
(match,) = [m for m in match_cards([Device(name)], sampler.cards, os.environ, descriptions)]
environment = match_cards([Device(name)], sampler.cards, os.environ)[0]
(card,) = [one for one in sampler.readings if one.card.key == match.card.key]
print(json.dumps({
    "tensorflow": [ours.used, ours.peak, ours.total],
    "info_after": tf.config.experimental.get_memory_info("GPU:0"),
    "info_before": used_before,
    "by": match.by,
    "same": match.card.key == environment.card.key,
    "used": card.used,
    "process": card.process,
    "process_reason": card.reasons.get("process", ""),
}))
"""


@pytest.mark.tensorflow
def test_the_three_truths_on_one_card(tensorflow_gpu: None) -> None:
    seen = run(THREE_TRUTHS)
    used, peak, limit = seen["tensorflow"]
    assert used >= 256 * MIB
    assert peak >= used
    assert limit == 2048 * MIB
    # Telling the devices once more has taken no memory.
    assert seen["info_after"]["current"] == seen["info_before"]["current"]
    assert seen["by"] == "pci"
    assert seen["used"] >= used
    if seen["process"] is None:
        assert seen["process_reason"]
    else:
        assert seen["process"] >= used


NOT_STARTED = """
import json, threading
from jupyter_placement.memory import MemorySampler
from jupyter_placement.memory.nvml_worker import read_cards
import os

def own():
    return sum(one.process or 0 for one in read_cards(30).readings)

before = own()
came = threading.Event()
with MemorySampler(0.05, lambda samples, time, notes: came.set()):
    assert came.wait(60)
print(json.dumps([before, own()]))
"""


def test_showing_memory_takes_none(answer: NvmlAnswer) -> None:
    assert run(NOT_STARTED) == [0, 0]


FULL = """
import json
import tensorflow as tf
from jupyter_placement.memory.nvml_worker import read_cards
from jupyter_placement.memory.oom import explain_oom
from jupyter_placement.memory.oom_facts import read_oom

gpu = tf.config.list_physical_devices("GPU")[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=512)])
try:
    with tf.device("GPU:0"):
        tf.zeros([1 << 20, 1 << 10]).numpy()  # 4 GiB
except tf.errors.ResourceExhaustedError as error:
    (event,) = read_oom(str(error))
    print(json.dumps(explain_oom(event, readings=read_cards(30).readings).text().splitlines()))
"""


@pytest.mark.tensorflow
def test_a_real_out_of_memory(tensorflow_gpu: None) -> None:
    lines = run(FULL)
    assert lines[0].startswith("Out of memory on GPU:0")
    assert "4.0 GiB" in lines[0]
    assert "What to do:" in lines
