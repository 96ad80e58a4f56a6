"""What is printed in a recorded cell comes out, by whomever and however it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.tensorflow]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.run("import os, sys, threading, time, subprocess\nimport tensorflow as tf\nv1 = tf.compat.v1")
        kernel.run("%load_ext jupyter_placement\ntf.constant(1.0) + 1.0;")
        yield kernel


def summary_cut_off(stdout: str) -> str:
    """The cell's own text, without the summary that ``--quiet`` prints behind it."""
    return re.split(r"^(?:\d+ operations? on|Nothing was placed)", stdout, flags=re.MULTILINE)[0]


def test_python_and_c_lines_are_in_the_order_in_which_they_were_written(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%placement --quiet\n"
        "functions = [tf.function(getattr(tf, name)) for name in ('abs', 'sin', 'cos', 'tan', 'exp')]\n"
        "for i in range(1000):\n"
        "    print(f'python {i}')\n"
        "    os.write(1, b'C %d\\n' % i)\n"
        "    if i % 200 == 0: functions[i // 200](tf.constant(1.0))"
    )
    expected = "".join(f"python {i}\nC {i}\n" for i in range(1000))
    assert summary_cut_off(cell.stdout) == expected


def test_a_hundred_thousand_lines(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%placement --quiet\n"
        "for i in range(50000):\n"
        "    os.write(1, b'out %d\\n' % i)\n"
        "    os.write(2, b'err %d\\n' % i)",
        timeout=240,
    )
    assert summary_cut_off(cell.stdout) == "".join(f"out {i}\n" for i in range(50000))
    assert "".join(re.findall(r"err \d+\n", cell.stderr)) == "".join(f"err {i}\n" for i in range(50000))


def test_text_without_a_final_newline(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%placement --quiet -o p\n"
        "os.write(1, b'no newline')\n"
        "with tf.Graph().as_default(), v1.Session() as s: s.run(tf.constant(1.0, name='glued'))\n"
        "os.write(1, b'the end')"
    )
    assert cell.stdout.startswith("no newlinethe end")
    assert kernel.evaluate("list(p.graph)") == ["glued"]


def test_text_without_a_newline_comes_while_the_cell_runs(kernel: Kernel) -> None:
    cell = kernel.start("%%placement --quiet\nos.write(1, b'50 %...')\nevent = threading.Event()\nevent.wait(60)")
    kernel.wait_until(lambda: "50 %..." in cell.stdout)
    kernel.interrupt()
    kernel.finish(cell)


def test_binary_junk_on_descriptor_2(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%placement --quiet\n"
        "os.write(2, bytes(range(256)) * 40 + b'\\n')\n"
        "os.write(2, b'after the junk\\n')\n"
        "tf.constant(1.0) + 1.0;"
    )
    assert cell.status == "ok"
    assert "after the junk" in cell.stderr
    assert "\ufffd" in cell.stderr


def test_a_users_line_that_looks_like_a_placement_stays(kernel: Kernel) -> None:
    cell = kernel.run("%%placement --quiet\nprint('loss: (mean): 0.25')\nprint('Device mapping: no known devices.')")
    assert summary_cut_off(cell.stdout) == "loss: (mean): 0.25\nDevice mapping: no known devices.\n"


def test_the_next_cell_prints_no_placement_line(kernel: Kernel) -> None:
    kernel.run(
        "%%placement --quiet\n"
        "sess = v1.Session(graph=tf.Graph())\n"
        "with sess.graph.as_default(): a = tf.constant(1.0)\n"
        "sess.run(a);"
    )
    cell = kernel.run(
        "with sess.graph.as_default(): b = a + 1.0\n"
        "print(sess.run(b))\n"
        "tf.function(lambda x: x * 3.0)(tf.constant(1.0))\n"
        "print(v1.Session(graph=tf.Graph()) is not None)"
    )
    assert cell.stdout == "2.0\nTrue\n"
    assert "/device:CPU:0" not in cell.stderr


def test_a_child_process_that_outlives_the_cell(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%placement --quiet\n"
        "child = subprocess.Popen([sys.executable, '-c', \"import sys\\n\"\n"
        "    \"print('child begins', flush=True)\\nsys.stdin.readline()\\nprint('child ends', flush=True)\"],\n"
        "    stdin=subprocess.PIPE)\n"
        "None"
    )
    assert cell.status == "ok"
    later = kernel.run("child.stdin.write(b'go\\n'); child.stdin.close(); child.wait()")
    assert later.result == {"text/plain": "0"}
    kernel.wait_until(lambda: "child ends" in cell.stdout + later.stdout)


def test_a_thread_that_goes_on_printing(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%placement --quiet\n"
        "go, done = threading.Event(), threading.Event()\n"
        "def talk():\n"
        "    print('thread begins'); go.wait(); print('thread ends'); os.write(1, b'and its C text\\n'); done.set()\n"
        "threading.Thread(target=talk).start()"
    )
    assert cell.status == "ok"
    later = kernel.run("go.set(); done.wait()")
    kernel.wait_until(lambda: "thread ends" in cell.stdout + later.stdout)
    kernel.wait_until(lambda: "and its C text" in cell.stdout + later.stdout)


def test_two_hundred_runs_leave_nothing_behind(kernel: Kernel) -> None:
    state = (
        "len(os.listdir('/proc/self/fd')), threading.active_count(), len(sys.meta_path), sys.stdout.write.__qualname__"
    )
    kernel.run("%%placement --quiet\ntf.constant(1.0) + 1.0;")
    before = kernel.evaluate(state)
    for _ in range(200):
        assert kernel.run("%%placement --quiet\ntf.constant(1.0) + 1.0;", settle=False).status == "ok"
    after = kernel.evaluate(state)
    # What the tests before this one left open may have been closed meanwhile.
    assert after[0] <= before[0] and after[1] <= before[1]
    assert after[2:] == before[2:]
