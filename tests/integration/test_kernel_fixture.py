"""The kernel fixture shows what a notebook would show; the other tests here rely on it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.kernel import Kernel, KernelDied

pytestmark = pytest.mark.kernel


def test_it_is_this_python_in_a_home_of_its_own(kernel: Kernel) -> None:
    seen = kernel.evaluate(
        "[__import__('sys').executable, __import__('os').path.expanduser('~'), __import__('os').getcwd()]"
    )
    assert seen == [sys.executable, str(kernel.home), str(kernel.home)]
    assert kernel.evaluate("get_ipython().profile_dir.location").startswith(str(kernel.home))
    assert kernel.evaluate("__import__('os').getpid()") == kernel.pid


def test_python_output_is_in_order_and_whole(module_kernel: Kernel) -> None:
    cell = module_kernel.run(
        "import sys\n"
        "for number in range(500):\n"
        "    print('out', number, flush=True)\n"
        "    print('err', number, file=sys.stderr, flush=True)"
    )
    assert (cell.status, cell.error, cell.data) == ("ok", None, [])
    texts = [item.content["text"] for item in cell.outputs]
    assert "".join(texts) == "".join(f"out {number}\nerr {number}\n" for number in range(500))
    assert cell.stdout == "".join(f"out {number}\n" for number in range(500))
    assert cell.stderr == "".join(f"err {number}\n" for number in range(500))


@pytest.mark.parametrize("size", [1, 990, 1000, 50_000])
def test_bytes_of_the_descriptors_arrive_before_the_cell_is_done(module_kernel: Kernel, size: int) -> None:
    cell = module_kernel.run(f"import os\n_ = os.write(1, b'a' * {size}), os.write(2, b'b' * {size})")
    assert (cell.stdout, cell.stderr) == ("a" * size, "b" * size)
    assert module_kernel.run("pass").outputs == []


def test_bytes_that_are_read_late_still_belong_to_their_cell(kernel: Kernel) -> None:
    # The thread that reads descriptor 1 is held, at the lock of its buffer, until the next request begins.
    kernel.run(
        "import os, sys, threading\n"
        "go, stream, lock = threading.Event(), sys.stdout, sys.stdout._buffer_lock\n"
        "class Held:\n"
        "    def __enter__(self):\n"
        "        if threading.current_thread() is stream.watch_fd_thread:\n"
        "            go.wait()\n"
        "        return lock.__enter__()\n"
        "    def __exit__(self, *exc):\n"
        "        return lock.__exit__(*exc)\n"
        "get_ipython().events.register('pre_execute', go.set)\n"
        "stream._buffer_lock = Held()",
        settle=False,
    )
    cell = kernel.run("go.clear()\n_ = os.write(1, b'late')")
    assert cell.stdout == "late"
    assert kernel.run("print('next')").stdout == "next\n"


def test_descriptor_output_of_a_failed_cell_arrives_too(module_kernel: Kernel) -> None:
    cell = module_kernel.run("import os\nos.write(1, b'before')\n1 / 0")
    assert (cell.status, cell.stdout) == ("error", "before")


def test_an_error_shows_once_with_its_line(module_kernel: Kernel) -> None:
    cell = module_kernel.run("x = 1\nraise ValueError('no ' + 'good')")
    assert cell.status == "error"
    assert [(one.name, one.value) for one in cell.errors] == [("ValueError", "no good")]
    assert cell.error is not None
    assert "----> 2 raise ValueError" in cell.error.traceback
    assert "\x1b" not in cell.error.traceback


def test_display_data_and_result(module_kernel: Kernel) -> None:
    cell = module_kernel.run("display({'text/html': '<b>x</b>', 'text/plain': 'x'}, raw=True)\n6 * 7")
    assert cell.data == [{"text/html": "<b>x</b>", "text/plain": "x"}, {"text/plain": "42"}]
    assert cell.result == {"text/plain": "42"}
    update = module_kernel.run("handle = display('a', display_id='d')\nhandle.update('b')")
    assert (update.data, update.updates) == ([{"text/plain": "'a'"}], [{"text/plain": "'b'"}])


def test_a_failed_cell_aborts_the_queue(module_kernel: Kernel) -> None:
    cells = module_kernel.run_all("1", "1 / 0", "print('never')")
    assert [cell.status for cell in cells] == ["ok", "error", "aborted"]
    assert cells[2].outputs == []
    assert module_kernel.run("print('again')").stdout == "again\n"


def test_interrupt_and_output_while_it_runs(kernel: Kernel) -> None:
    cell = kernel.start("import threading\nprint('started', flush=True)\nthreading.Event().wait(600)")
    kernel.wait_until(lambda: "started" in cell.stdout)
    assert cell.status == "running"
    kernel.interrupt()
    kernel.finish(cell, timeout=30)
    assert cell.error is not None
    assert cell.error.name == "KeyboardInterrupt"
    assert kernel.run("1 + 1").result == {"text/plain": "2"}


def test_a_thread_that_goes_on_prints_into_a_finished_cell(kernel: Kernel) -> None:
    cell = kernel.run(
        "import threading\n"
        "go = threading.Event()\n"
        "thread = threading.Thread(target=lambda: (go.wait(), print('late', flush=True)))\n"
        "thread.start()"
    )
    assert cell.outputs == []
    other = kernel.run("go.set(); thread.join()")
    kernel.wait_until(lambda: "late" in cell.stdout + other.stdout)


def test_restart_and_widget_traffic(kernel: Kernel) -> None:
    first = kernel.pid
    kernel.run("x = 1")
    kernel.restart()
    assert kernel.pid != first
    cell = kernel.run("x")
    assert cell.error is not None
    assert cell.error.name == "NameError"
    slider = kernel.run("import ipywidgets\nipywidgets.IntSlider()")
    assert {item.content["target_name"] for item in slider.comms if item.type == "comm_open"} == {"jupyter.widget"}


def test_a_dead_kernel_is_said_so_and_all_end(start_kernel: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = start_kernel(PLACEMENT_FIXTURE="set")
    assert kernel.evaluate("__import__('os').environ['PLACEMENT_FIXTURE']") == "set"
    with pytest.raises(KernelDied):
        kernel.run("import os\nos._exit(3)", timeout=30)
    other = start_kernel()
    pid = other.pid
    other.shutdown()
    assert not psutil.pid_exists(pid)
    assert "PYTEST_CURRENT_TEST" in os.environ
