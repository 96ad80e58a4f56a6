"""Kernels in different states: TensorFlow not there yet, not installed, already used, with more CPU devices."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.tensorflow]

TRAIN = """
import tensorflow as tf
tf.keras.utils.set_random_seed(5)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dropout(0.5),
                             tf.keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
x = tf.random.normal([16, 4]); y = tf.random.normal([16, 1])
"""
STEPS = """
losses = [float(model.train_on_batch(x, y)) for _ in range(10)]
after = float(tf.random.uniform([])), [float(tf.reduce_sum(v)) for v in model.trainable_variables]
"""


def test_tensorflow_is_imported_in_the_cell_itself(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement")
    assert kernel.evaluate("'tensorflow' in __import__('sys').modules") is False
    cell = kernel.run(
        "%%placement --cpus 2 --quiet\n"
        "import os\n"
        "os.environ['TF_ENABLE_ONEDNN_OPTS'] = '0'\n"
        "import tensorflow as tf\n"
        "with tf.device('CPU:1'):\n"
        "    x = tf.matmul(tf.ones([2, 2]), tf.ones([2, 2]))\n"
        "f = tf.function(lambda x: tf.nn.relu(x, name='in_function'))\n"
        "f(x)\n"
        "len(tf.config.list_logical_devices('CPU'))"
    )
    assert cell.result == {"text/plain": "2"}
    # What the cell sets before its import holds: TensorFlow says that it uses oneDNN where it does.
    assert "oneDNN" not in cell.stderr
    found = kernel.evaluate(
        "{d['op']: (d['device'][-5:], d['requested']) for _, d in _placement.graph.nodes(data=True)}"
    )
    assert found["MatMul"] == ["CPU:1", "/device:CPU:1"]
    assert found["Relu"][0] == "CPU:0"


def test_a_cell_that_configures_devices_itself(kernel: Kernel) -> None:
    kernel.run("import tensorflow as tf\n%load_ext jupyter_placement")
    cell = kernel.run(
        "%%placement --quiet\n"
        "cpu = tf.config.list_physical_devices('CPU')[0]\n"
        "tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)\n"
        "with tf.device('CPU:2'): tf.ones([2]) * 2.0\n"
        "len(tf.config.list_logical_devices('CPU'))"
    )
    assert cell.result == {"text/plain": "3"}, cell.errors
    assert "CPU:2" in kernel.evaluate("[d['device'][-5:] for _, d in _placement.graph.nodes(data=True)]")


def test_a_recorded_cell_without_tensorflow_does_not_start_it(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement")
    cell = kernel.run("%%placement --quiet\nx = 1")
    assert "Nothing was placed: the code did not import TensorFlow." in cell.stdout
    assert kernel.evaluate("'tensorflow' in __import__('sys').modules") is False
    kernel.run("import tensorflow as tf")
    kernel.run("%%placement --quiet\nx = 1")
    assert kernel.evaluate("__import__('jupyter_placement.capture.private', fromlist=['x']).current_context() is None")


def test_cpus_that_no_tensorflow_was_there_to_make_are_told(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement")
    cell = kernel.run("%%placement --quiet --cpus 2\n1 + 1")
    assert "The 2 logical CPU devices were not made." in cell.stdout


def test_tensorflow_is_not_installed(start_kernel: Callable[..., Kernel], tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, package=None: None if name == 'tensorflow' else find(name, package)\n"
    )
    kernel = start_kernel(PYTHONPATH=str(hidden))
    assert kernel.run("%load_ext jupyter_placement").status == "ok"
    cell = kernel.run("%%placement\nran = True")
    shown = cell.stderr + "".join(error.value for error in cell.errors)
    assert "TensorFlow is not installed for this kernel: %pip install tensorflow" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("first", ["train", "load"])
def test_losses_random_numbers_and_variables_are_the_same(start_kernel: Callable[..., Kernel], first: str) -> None:
    bare, recorded = start_kernel(), start_kernel()
    bare.run(TRAIN)
    bare.run(STEPS)
    bare.run(STEPS)
    for code in (TRAIN, "%load_ext jupyter_placement") if first == "train" else ("%load_ext jupyter_placement", TRAIN):
        assert recorded.run(code).status == "ok"
    assert recorded.run("%%placement --quiet\n" + STEPS).status == "ok"
    assert recorded.run("%%placement --quiet\n" + STEPS).status == "ok"
    assert recorded.evaluate("_placement.graph.number_of_nodes() > 50")
    assert recorded.evaluate("losses") == bare.evaluate("losses")
    assert recorded.evaluate("after") == bare.evaluate("after")


def test_a_cell_run_again_and_again(kernel: Kernel) -> None:
    kernel.run("import tensorflow as tf\n%load_ext jupyter_placement\nf = tf.function(lambda x: x * 2.0)")
    code = "%%placement --quiet\nf(tf.constant(1.0))"
    counts = []
    for _ in range(4):
        assert kernel.run(code).status == "ok"
        counts.append(
            kernel.evaluate("sorted(d['name'] for _, d in _placement.graph.nodes(data=True) if d['graph'] != 'eager')")
        )
    assert counts[0] == counts[1] == counts[2] == counts[3]
    assert "mul" in counts[0]


def test_unloaded_the_magic_is_gone(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement")
    kernel.run("%unload_ext jupyter_placement")
    cell = kernel.run("%%placement\n1")
    assert "placement" in cell.stderr + "".join(error.value for error in cell.errors)
    assert cell.result is None
    kernel.run("%load_ext jupyter_placement")
    assert kernel.run("%%placement --quiet\n1").result == {"text/plain": "1"}


def test_outside_ipython(tmp_path: Path) -> None:
    import subprocess

    script = tmp_path / "script.py"
    script.write_text(
        "import jupyter_placement, os\n"
        "print('first')\n"
        "with jupyter_placement.record(cpus=2) as recording:\n"
        "    import tensorflow as tf\n"
        "    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:\n"
        "        print(sess.run(tf.constant(2.0, name='a')))\n"
        "    os.write(1, b'from C\\n')\n"
        "print(sorted(recording.placement.graph))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "first\n2.0\nfrom C\n['a']\n", done.stderr
    assert "(Const)" not in done.stderr
