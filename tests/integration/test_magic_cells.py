"""A recorded cell is a cell as always: its result, text, errors and state are those of the same cell without us."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.tensorflow]

SESSION = """
import tensorflow as tf
v1 = tf.compat.v1
with tf.Graph().as_default(), v1.Session() as sess:
    a = tf.constant(2.0, name="a")
    b = tf.constant(3.0, name="b")
    print(sess.run(tf.add(a, b, name="c")))
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel in which TensorFlow was used before the extension came."""
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        assert kernel.run("import tensorflow as tf\nearlier = tf.constant(1.0) + 1.0").status == "ok"
        assert kernel.run("%load_ext jupyter_placement").status == "ok"
        yield kernel


def test_the_result_is_out_and_the_text_is_the_cells_own(kernel: Kernel) -> None:
    cell = kernel.run("%%placement --quiet\nprint('before')\nx = tf.constant([1.0, 2.0]) * 3.0\nfloat(x[1])")
    assert cell.status == "ok"
    assert cell.result is not None
    assert cell.result["text/plain"] == "6.0"
    assert cell.stdout.startswith("before\n")
    assert kernel.evaluate(f"Out[{cell.execution_count}]") == 6.0
    assert kernel.evaluate("sorted({d['op'] for _, d in _placement.graph.nodes(data=True)})") == sorted(
        ["Mul", "StridedSlice", "_EagerConst"]
    )


def test_a_semicolon_hides_the_result(kernel: Kernel) -> None:
    assert kernel.run("%%placement --quiet\n1 + 1;").result is None


def test_a_session_is_placed_and_its_log_stays_out_of_the_output(kernel: Kernel) -> None:
    cell = kernel.run("%%placement --quiet -o mine" + SESSION)
    assert cell.status == "ok"
    assert cell.stdout.startswith("5.0\n")
    assert "(Const)" not in cell.stdout + cell.stderr
    assert kernel.evaluate("{n: d['op'] for n, d in mine.graph.nodes(data=True)}") == {
        "a": "Const",
        "b": "Const",
        "c": "AddV2",
    }
    assert kernel.evaluate("[(a, b, k) for a, b, k in mine.graph.edges(keys=True)]") == [["a", "c", 0], ["b", "c", 1]]
    assert kernel.evaluate("mine.counts.matched, mine.counts.unmatched") == [3, 0]


def test_an_exception_is_shown_once_with_the_cells_own_line(kernel: Kernel) -> None:
    bare = kernel.run("#\n#\ny = tf.constant(1.0) + 2.0\n1 / 0")
    cell = kernel.run("%%placement --quiet -o partly\n#\ny = tf.constant(1.0) + 2.0\n1 / 0")
    assert len(cell.errors) == 1
    assert cell.error is not None and bare.error is not None
    assert cell.error.name == "ZeroDivisionError"
    assert "----> 4 1 / 0" in cell.error.traceback
    assert cell.error.traceback.count("\n") == bare.error.traceback.count("\n")
    assert "jupyter_placement" not in cell.error.traceback
    assert "AddV2" in kernel.evaluate("[d['op'] for _, d in partly.graph.nodes(data=True)]")


def test_an_error_in_a_function_has_no_frame_of_ours(kernel: Kernel) -> None:
    code = "@tf.function\ndef f(x):\n    tf.debugging.assert_equal(x, 1.0)\n    return x\nf(tf.constant(2.0))"
    bare = kernel.run("#\n" + code)
    cell = kernel.run("%%placement --quiet\n" + code)
    assert bare.error is not None and cell.error is not None
    assert cell.error.name == bare.error.name == "InvalidArgumentError"
    assert "jupyter_placement" not in cell.error.traceback
    assert cell.error.traceback.count("\n") == bare.error.traceback.count("\n")


def test_a_wrong_argument_of_an_operation_has_no_frame_of_ours(kernel: Kernel) -> None:
    bare = kernel.run("#\ntf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))")
    cell = kernel.run("%%placement --quiet\ntf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))")
    assert bare.error is not None and cell.error is not None
    assert cell.error.name == bare.error.name
    assert "jupyter_placement" not in cell.error.traceback
    assert cell.error.traceback.count("\n") == bare.error.traceback.count("\n")


def test_run_all_stops_at_a_recorded_error(kernel: Kernel) -> None:
    first, second = kernel.run_all("%%placement --quiet\nraise KeyError('stop')", "reached = True")
    assert first.status == "error"
    assert second.status == "aborted"


def test_a_syntax_error_is_shown_once_and_nothing_is_recorded(kernel: Kernel) -> None:
    kernel.run("_placement = 'kept'")
    cell = kernel.run("%%placement --quiet\nx = (1,\ny = 2")
    assert [error.name for error in cell.errors] == ["SyntaxError"]
    assert kernel.evaluate("_placement") == "kept"
    assert kernel.run("%%placement --quiet\nx = 1").status == "ok"


def test_sys_exit_is_as_always(kernel: Kernel) -> None:
    bare = kernel.run("import sys\nsys.exit(3)")
    cell = kernel.run("%%placement --quiet\nimport sys\nsys.exit(3)")
    assert cell.status == bare.status
    assert [error.name for error in cell.errors] == [error.name for error in bare.errors]
    assert kernel.run("'alive'").result == {"text/plain": "'alive'"}


def test_an_interrupt_ends_the_cell_and_keeps_what_was_captured(kernel: Kernel) -> None:
    cell = kernel.start("%%placement --quiet -o cut\nz = tf.constant(1.0) + 5.0\nprint('ready')\nwhile True: pass")
    kernel.wait_until(lambda: "ready" in cell.stdout)
    kernel.interrupt()
    kernel.finish(cell)
    assert [error.name for error in cell.errors] == ["KeyboardInterrupt"]
    assert "jupyter_placement" not in cell.errors[0].traceback
    assert "AddV2" in kernel.evaluate("[d['op'] for _, d in cut.graph.nodes(data=True)]")
    assert kernel.run("%%placement --quiet\ntf.constant(1.0) + 1.0").status == "ok"


def test_top_level_await_is_on_the_kernels_own_loop(kernel: Kernel) -> None:
    kernel.run("import asyncio\ntask = asyncio.ensure_future(asyncio.sleep(0.05, 'from an earlier cell'))")
    cell = kernel.run(
        "%%placement --quiet\nw = tf.constant(1.0) + 2.0\nawait asyncio.sleep(0.01)\nprint(await task)\nawait task"
    )
    assert cell.status == "ok", cell.errors
    assert cell.stdout.startswith("from an earlier cell\n")
    assert cell.result == {"text/plain": "'from an earlier cell'"}
    assert kernel.evaluate("[d['op'] for _, d in _placement.graph.nodes(data=True)]").count("AddV2") == 1


def test_a_cancelled_await_ends_the_recording(kernel: Kernel) -> None:
    cancel = "asyncio.get_running_loop().call_later(0.05, asyncio.current_task().cancel)\nawait asyncio.sleep(600)"
    bare = kernel.run(cancel)
    cell = kernel.run("%%placement --quiet\n" + cancel)
    assert (cell.status, [error.name for error in cell.errors]) == (bare.status, [error.name for error in bare.errors])
    assert kernel.run("%%placement --quiet\n1").status == "ok"


def test_magics_shell_commands_and_strings_of_the_cell(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%placement --quiet\n"
        "listed = %who_ls str\n"
        "!echo from the shell\n"
        "%time q = 6 * 7\n"
        'text = """%%placement\n  !no command\n%not a magic"""\n'
        "len(text.splitlines()), q"
    )
    assert cell.status == "ok", cell.errors
    assert "from the shell" in cell.stdout
    assert cell.result == {"text/plain": "(3, 42)"}
    assert kernel.evaluate("text") == "%%placement\n  !no command\n%not a magic"


def test_another_cell_magic_below(kernel: Kernel) -> None:
    cell = kernel.run("%%placement --quiet\n%%time\nt = tf.constant(1.0) + 2.0\n")
    assert cell.status == "ok", cell.errors
    assert "Wall time" in cell.stdout
    assert "AddV2" in kernel.evaluate("[d['op'] for _, d in _placement.graph.nodes(data=True)]")


def test_another_cell_magic_above(kernel: Kernel) -> None:
    cell = kernel.run("%%time\n%%placement --quiet\nt = tf.constant(1.0) - 2.0\n")
    assert cell.status == "ok", cell.errors
    assert "Wall time" in cell.stdout
    assert "Sub" in kernel.evaluate("[d['op'] for _, d in _placement.graph.nodes(data=True)]")


@pytest.mark.parametrize("inner", ["%%placement\n1", "get_ipython().run_cell('%%placement\\n1')"])
def test_nested_is_one_sentence(kernel: Kernel, inner: str) -> None:
    cell = kernel.run("%%placement --quiet\n" + inner)
    assert "does not nest" in cell.stderr + cell.stdout + "".join(error.value for error in cell.errors)
    assert "Traceback" not in cell.stderr + cell.stdout
    assert kernel.run("%%placement --quiet\n1").status == "ok"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--nonsense", "unrecognized arguments: --nonsense"),
        ("--cpus many", "invalid int value"),
        ("--cpus 0", "--cpus needs a number from 1 on"),
        ("--batch 8", "--batch is for the estimate of --on, which is not given"),
        ("--on 1xT4 --batch 0", "--batch is a number of examples, 1 or more, not 0"),
        ("-o not-a-name", "-o needs a name for a variable"),
        ("--interval 0", "--interval needs seconds"),
    ],
)
def test_a_wrong_option_is_usage_and_the_cell_does_not_run(kernel: Kernel, line: str, sentence: str) -> None:
    kernel.run("ran = False")
    cell = kernel.run(f"%%placement {line}\nran = True")
    shown = cell.stderr + "".join(error.value for error in cell.errors)
    assert sentence in shown
    assert "Traceback" not in shown
    assert kernel.evaluate("ran") is False


def test_cpus_after_tensorflow_started_says_to_restart(kernel: Kernel) -> None:
    cell = kernel.run("%%placement --cpus 3\nran = True")
    shown = cell.stderr + "".join(error.value for error in cell.errors)
    assert "already started with 1 logical CPU device: restart the kernel to run with 3" in shown
    assert not cell.data
    assert kernel.run("%%placement --quiet --cpus 1\n1").status == "ok"


def test_help_explains_every_option(kernel: Kernel) -> None:
    shown = kernel.evaluate("get_ipython().find_cell_magic('placement').__doc__")
    for option in ("--output", "--cpus", "--hard", "--static", "--quiet", "--save", "--interval", "--on", "--batch"):
        assert option in shown
    assert "%%placement --cpus 2 -o mine" in shown


def test_a_statement(kernel: Kernel) -> None:
    cell = kernel.run("%placement --quiet -o one tf.constant(2.0) * 4.0")
    assert cell.result is not None
    assert "8.0" in cell.result["text/plain"]
    assert "Mul" in kernel.evaluate("[d['op'] for _, d in one.graph.nodes(data=True)]")
    assert kernel.run("%placement --quiet k = 5").result is None
    assert kernel.evaluate("k") == 5


def test_a_cell_without_tensorflow_says_why_nothing_is_shown(kernel: Kernel) -> None:
    cell = kernel.run("%%placement --quiet\nx = 1")
    assert "Nothing was placed: TensorFlow ran no operation." in cell.stdout


def test_saved_where_asked_and_one_sentence_where_not(kernel: Kernel, tmp_path: Path) -> None:
    cell = kernel.run(f"%%placement --quiet --save {tmp_path}/step\ntf.constant(1.0) + 1.0;")
    assert f"The placement is in {tmp_path}/step.placement.json." in cell.stdout
    assert kernel.evaluate(
        "import_ := __import__('jupyter_placement').Placement.load(r'%s').to_json() == _placement.to_json()"
        % (tmp_path / "step.placement.json")
    )
    cell = kernel.run(f"%%placement --quiet --save {tmp_path}/no/such/folder/step\ntf.constant(1.0) + 1.0;")
    assert cell.status == "ok"
    assert "could not be saved" in cell.stderr


def test_hard_placement_raises_tensorflows_error_and_keeps_the_placement(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%placement --quiet --hard -o hard\n"
        "with tf.Graph().as_default(), tf.compat.v1.Session() as sess:\n"
        "    with tf.device('/gpu:7'): bad = tf.constant(1.0, name='bad')\n"
        "    sess.run(bad)"
    )
    assert cell.error is not None
    assert "Cannot assign a device for operation" in cell.error.value
    assert kernel.evaluate("[(e.kind, list(e.nodes)) for e in hard.events]") == [["unknown_device", ["bad"]]]
    assert kernel.evaluate("hard.graph.nodes['bad']['device'], hard.graph.nodes['bad']['requested']") == [
        None,
        "/device:GPU:7",
    ]
    assert kernel.evaluate("tf.config.get_soft_device_placement()") is True


def test_soft_placement_is_a_fallback(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%placement --quiet -o soft\n"
        "with tf.Graph().as_default(), tf.compat.v1.Session() as sess:\n"
        "    with tf.device('/gpu:7'): bad = tf.constant(1.0, name='bad')\n"
        "    sess.run(bad)"
    )
    assert cell.status == "ok"
    assert kernel.evaluate("soft.graph.nodes['bad']['reason'], [e.kind for e in soft.events]") == [
        "fallback",
        ["fallback"],
    ]
