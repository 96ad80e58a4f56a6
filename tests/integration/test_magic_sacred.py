"""What new users did to the magic in its first trial."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.tensorflow]

CHILD = "Mul: (Mul): /job:localhost/replica:0/task:0/device:CPU:0"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel with a function that an earlier cell has traced."""
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.run(
            "import contextlib, io, os, subprocess, sys, threading\nimport tensorflow as tf\nx = tf.constant(1.0)"
        )
        kernel.run("%load_ext jupyter_placement\nwarm = tf.function(lambda x: x * 2.0)\nwarm(x);")
        yield kernel


@pytest.mark.parametrize("stream", ["io.StringIO()", "open('redirected.txt', 'w+')"])
def test_a_redirected_stdout_gets_the_codes_own_text(kernel: Kernel, stream: str) -> None:
    cell = kernel.run(
        "%%placement --quiet\n"
        f"own = {stream}\n"
        "with contextlib.redirect_stdout(own):\n"
        "    print('mine'); warm(x); tf.function(lambda x: x - 1.0)(x)\n"
        "own.seek(0); text = own.read(); own.close()"
    )
    assert cell.status == "ok", cell.errors
    assert kernel.evaluate("text") == "mine\n"


def test_a_descriptor_that_the_code_redirects_gets_its_own_text(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%placement --quiet -o p\n"
        "before = os.dup(2); file = open('descriptor.txt', 'w+b'); os.dup2(file.fileno(), 2)\n"
        "os.write(2, b'mine\\n'); tf.function(lambda x: x / 3.0)(x)\n"
        "os.dup2(before, 2); os.close(before); file.seek(0); held = file.read().decode(); file.close()"
    )
    assert cell.status == "ok", cell.errors
    assert kernel.evaluate("held") == "mine\n"
    assert "RealDiv" in kernel.evaluate("[d['op'] for _, d in p.graph.nodes(data=True)]")


def test_the_lines_of_a_child_process_are_its_own(kernel: Kernel) -> None:
    cell = kernel.run(
        f"%%placement --quiet -o p\nsubprocess.run(['sh', '-c', \"echo '{CHILD}'; echo '{CHILD}' >&2\"])\nwarm(x);"
    )
    assert CHILD in cell.stdout
    assert CHILD in cell.stderr
    assert kernel.evaluate("p.counts.unmatched") == 0


def test_the_log_that_the_user_switched_on_leaves_the_output(kernel: Kernel, tmp_path: Path) -> None:
    with Kernel(tmp_path) as other:
        other.run("import tensorflow as tf\ntf.debugging.set_log_device_placement(True)\n%load_ext jupyter_placement")
        cell = other.run("%%placement --quiet\ny = tf.constant(1.0) + 2.0")
        assert "Executing op" not in cell.stdout + cell.stderr
        assert "(AddV2)" not in cell.stdout + cell.stderr
        assert "AddV2" in other.evaluate("[d['op'] for _, d in _placement.graph.nodes(data=True)]")


@pytest.mark.parametrize("line", ["%reload_ext jupyter_placement", "%unload_ext jupyter_placement"])
def test_an_extension_that_is_taken_out_in_a_recorded_cell_ends_the_recording(kernel: Kernel, line: str) -> None:
    cell = kernel.run(
        f"%%placement --quiet\ny = x + 4.0\nget_ipython().run_line_magic({line[1:].split()[0]!r}, 'jupyter_placement')"
    )
    assert cell.status == "ok", cell.errors
    kernel.run("%load_ext jupyter_placement")
    assert kernel.run("%%placement --quiet\nx + 1.0;").status == "ok"
    assert kernel.evaluate("[d['op'] for _, d in _placement.graph.nodes(data=True)].count('AddV2')") == 1


def test_what_hard_placement_refused_is_in_no_later_recording(kernel: Kernel) -> None:
    kernel.run("@tf.function\ndef refused(a):\n    with tf.device('GPU:0'): return a * 2.0")
    for _ in range(2):
        cell = kernel.run("%%placement --hard --quiet\nrefused(x)")
        assert cell.error is not None
        assert "ran on" not in cell.stdout
    kernel.run("%%placement --quiet\nx + 1.0;")
    assert kernel.evaluate("sorted({d['graph'] for _, d in _placement.graph.nodes(data=True)})") == ["eager"]


def test_names_of_files_in_quotes(kernel: Kernel, tmp_path: Path) -> None:
    cell = kernel.run(f'%%placement --quiet --save "{tmp_path}/my run"\nx + 1.0;')
    assert f"{tmp_path}/my run.placement.json" in cell.stdout
    assert (tmp_path / "my run.placement.json").exists()
    cell = kernel.run("%%placement --quiet --save .\nx + 1.0;")
    assert "that is a folder, not a file" in cell.stderr


@pytest.mark.parametrize("line", ['--save "unbalanced', '--save ""', "-o class"])
def test_wrong_values_are_usage(kernel: Kernel, line: str) -> None:
    cell = kernel.run(f"%%placement {line}\nran_anyway = True")
    shown = cell.stderr + cell.stdout + "".join(error.value for error in cell.errors)
    assert "Traceback" not in shown
    assert "See %%placement?" in shown or "needs" in shown
    assert kernel.evaluate("'ran_anyway' in globals()") is False


def test_a_recording_that_is_not_under_way_says_so(kernel: Kernel) -> None:
    cell = kernel.run("import jupyter_placement\njupyter_placement.Recording().stop()")
    assert cell.error is not None
    assert cell.error.name == "PlacementError"
    assert "not under way" in cell.error.value


@pytest.mark.parametrize("place", ["recording.Recording._build", "capture.sessions.SessionRecorder.uninstall"])
def test_an_interrupt_while_the_recording_ends_is_one_sentence(kernel: Kernel, place: str) -> None:
    holder, _, method = place.rpartition(".")
    kernel.run(
        "import signal, jupyter_placement.recording, jupyter_placement.capture.sessions\n"
        f"holder = jupyter_placement.{holder}; original = holder.{method}\n"
        "def interrupted(*args):\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    return original(*args)\n"
        f"holder.{method} = interrupted"
    )
    cell = kernel.run("%%placement --quiet\nwarm(x) + 1.0")
    kernel.run(f"holder.{method} = original")
    assert cell.status == "ok"
    assert cell.stderr == "Interrupted while the placement was made: it is not shown.\n"
    after = kernel.run("%%placement --quiet -o p\nwarm(x)")
    assert after.stderr == ""
    assert "Mul" in kernel.evaluate("[d['op'] for _, d in p.graph.nodes(data=True)]")
    assert kernel.evaluate("signal.getsignal(signal.SIGINT) is signal.default_int_handler")


def test_comments_may_stand_above_the_magic(kernel: Kernel) -> None:
    cell = kernel.run("# warm\n\n%%placement --quiet -o p\nwarm(x) * 0.0")
    assert cell.status == "ok", cell.errors
    assert "Mul" in kernel.evaluate("[d['op'] for _, d in p.graph.nodes(data=True)]")


def test_a_statement_with_a_semicolon_shows_no_result(kernel: Kernel) -> None:
    assert kernel.run("%placement --quiet warm(x);").result is None
    shown = kernel.run("%placement --quiet warm(x)").result
    assert shown is not None and "numpy=2.0" in shown["text/plain"]


def test_a_statement_that_awaits_says_where_that_works(kernel: Kernel) -> None:
    cell = kernel.run("%placement --quiet await later()")
    assert "'await' outside function: to await, put %%placement on top of a cell." in cell.stderr


def test_a_programs_own_run_cell_magic_shows_an_error_once(kernel: Kernel) -> None:
    cell = kernel.run("get_ipython().run_cell_magic('placement', '--quiet', 'a = 1\\nb = a / 0')")
    (error,) = cell.errors
    assert error.name == "ZeroDivisionError"
    assert "b = a / 0" in error.traceback
    kernel.run("got = get_ipython().run_cell_magic('placement', '--quiet', 'warm(x)')")
    assert kernel.evaluate("float(got)") == 2.0
