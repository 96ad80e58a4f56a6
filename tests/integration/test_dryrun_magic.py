"""``%%placement --on`` in a real kernel, and the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_placement.cli import main
from jupyter_placement.placement import Placement
from tests.kernel import Kernel

pytestmark = pytest.mark.kernel


def test_a_cell_is_placed_on_the_machine_that_it_names(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement\nimport tensorflow as tf")
    cell = """%%placement --on 2xT4 --quiet
@tf.function
def f(x):
    with tf.device("/gpu:1"):
        return tf.matmul(x, x, name="product")
f(tf.ones([2, 2]))"""
    kernel.run(cell)
    printed = kernel.run(
        "print([_placement.short(d['device']) for _, d in _placement.graph.nodes(data=True) if d['name'] == 'product'])"
    )
    assert "['GPU:1']" in str(printed)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tf = pytest.importorskip("tensorflow")
    graph = tf.Graph()
    with graph.as_default(), tf.device("/gpu:1"):
        tf.constant([1.0], name="one")
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    assert main(["dry-run", str(path), "--on", "2xT4", "--json", str(tmp_path / "out")]) == 0
    assert "GPU:1        1  100.0 %  T4" in capsys.readouterr().out
    assert Placement.load(tmp_path / "out.placement.json").meta["dry_run"] == "2xT4"
    assert main(["dry-run", str(path), "--on", "2xA100"]) == 2
    assert "did you mean A100-40GB or A100-80GB" in capsys.readouterr().err


def test_several_machines_make_a_table_and_hard_placement_is_theirs(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement\nimport tensorflow as tf")
    cell = """%%placement --on 1xT4 --on 2xT4 --hard --quiet -o compared
@tf.function
def f(x):
    with tf.device("/gpu:1"):
        return tf.matmul(x, x, name="product")
f(tf.ones([2, 2]))"""
    shown = kernel.run(cell)
    assert shown.status == "ok", shown.errors
    assert "1xT4: Cell In[2], line 5: product (MatMul) asks for /device:GPU:1, which" in shown.stdout
    assert "\n\nUnable to find any devices for spec /device:GPU:1" in shown.stdout
    assert kernel.evaluate("[one.placement is None for one in compared.outcomes]") == [True, False]
    assert kernel.evaluate("_placement.meta['dry_run']") == "2xT4"


def test_sessions_are_placed_and_eager_operations_are_told(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement\nimport tensorflow as tf")
    cell = """%%placement --on 2xT4 --quiet
tf.ones([3]) + 1.0
graph = tf.Graph()
with graph.as_default(), tf.device("/gpu:1"):
    tensor = tf.constant(2.0, name="two")
with tf.compat.v1.Session(graph=graph) as session:
    session.run(tensor)"""
    shown = kernel.run(cell)
    assert shown.status == "ok", shown.errors
    assert kernel.evaluate("_placement.short(_placement.graph.nodes['two']['device'])") == "GPU:1"
    assert "eager operations of the cell belong to no graph" in shown.stdout


def test_a_cell_without_graphs_says_so(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement\nimport tensorflow as tf")
    shown = kernel.run("%%placement --on 2xT4 --quiet\ntf.ones([3]) + 1.0")
    assert "--on places graphs, and the cell ran none" in shown.stderr


def test_fit_leaves_the_batch_open_and_batch_gives_it(kernel: Kernel) -> None:
    kernel.run(
        "%load_ext jupyter_placement\nimport numpy as np, tensorflow as tf\n"
        "from jupyter_placement import estimate_of\n"
        "model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])\n"
        "model.compile('adam', 'mse')"
    )
    cell = "%%placement --on 1xT4 {} --quiet\nmodel.fit(np.ones([8, 8]), np.ones([8, 1]), verbose=0)"
    read = "(lambda one: (one.verdict, one.open_inputs, one.step))(estimate_of(_placement).device('GPU:0'))"
    assert kernel.run(cell.format("")).status == "ok"
    verdict, inputs, small = kernel.evaluate(read)
    assert (verdict, inputs) == ("may not fit", 2)
    steps = []
    for batch in (1024, 2048):
        assert kernel.run(cell.format(f"--batch {batch}")).status == "ok"
        verdict, inputs, step = kernel.evaluate(read)
        assert (verdict, inputs) == ("fits", 0)
        assert step > small
        steps.append(step)
    assert 1.8 < steps[1] / steps[0] < 2.2


def test_a_batch_that_no_graph_leaves_open_is_told_and_the_cell_is_placed(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement\nimport tensorflow as tf")
    for machines in ("--on 1xT4", "--on 1xT4 --on 2xT4"):
        shown = kernel.run(
            f"%%placement {machines} --batch 8 --quiet\ntf.function(lambda x: x + 1, autograph=False)(tf.ones([8, 2]))"
        )
        assert shown.status == "ok", shown.errors
        assert kernel.evaluate("_placement.meta['dry_run']") == "1xT4"
        assert "not needed" in str(kernel.evaluate("[event.message for event in _placement.events]"))
