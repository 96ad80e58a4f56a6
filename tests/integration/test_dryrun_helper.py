"""The helper process: killed, late, interrupted, in a poor environment, of another Python, left alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_placement.dryrun import helper, parse_machine
from jupyter_placement.dryrun.helper import Helper
from jupyter_placement.dryrun.helpers import Helpers
from jupyter_placement.dryrun.preparation import Preparation
from jupyter_placement.placement import PlacementError
from tests.kernel import Kernel

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow
MACHINE = parse_machine("2xT4")
DEVICES = [
    {"name": one.name, "type": one.type, "memory": one.memory_limit, "description": one.physical_name or ""}
    for one in MACHINE
]
SECONDS = 60.0


@pytest.fixture
def one_helper() -> Iterator[Helper]:
    found = Helper()
    yield found
    found.close()


def wait_for(condition: Callable[[], Any]) -> Any:
    """Return the first value of a condition that is true."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
    raise AssertionError("it did not happen")


def chain(nodes: int) -> bytes:
    """Make a graph of many operations."""
    graph_def = tf.compat.v1.GraphDef()
    first = graph_def.node.add(name="n0", op="Placeholder")
    first.attr["dtype"].type = 1
    for number in range(1, nodes):
        node = graph_def.node.add(name=f"n{number}", op="Neg", device=("", "/gpu:1", "/cpu:0")[number % 3])
        node.attr["T"].type = 1
        node.input.append(f"n{number // 2}")
    return Preparation(graph_def, MACHINE).graph


def is_placing(pid: int | None) -> bool:
    """Tell whether a helper is in the middle of a placement: its log is kept in memory until it is read."""
    if pid is None:
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/fd/1").stat().st_size > 0
    return False


def has_ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def listening_beyond_loopback(pid: int) -> list[str]:
    """Return the local addresses, in the kernel's form, on which a process listens to others than this machine."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        target = os.readlink(f"/proc/{pid}/fd/{name}")
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            loopback = fields[1].split(":")[0].endswith("0100007F")
            if fields[3] == "0A" and fields[9] in inodes and not loopback:
                found.append(fields[1])
    return found


def test_killed_in_the_middle_it_is_replaced_and_twice_is_told(one_helper: Helper) -> None:
    graph = chain(50_000)
    whole = one_helper.place(graph, DEVICES)
    assert len(whole.log) == 50_000
    killed: set[int] = set()

    def kill(times: int) -> None:
        for _ in range(times):
            pid = wait_for(lambda: one_helper.pid if one_helper.pid not in killed else None)
            wait_for(lambda pid=pid: is_placing(pid))
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill, args=(1,))
    killer.start()
    assert sorted(one_helper.place(graph, DEVICES).log) == sorted(whole.log)
    killer.join()
    assert (len(killed), one_helper.started) == (1, 2)
    killer = threading.Thread(target=kill, args=(2,))
    killer.start()
    with pytest.raises(PlacementError, match=r"died twice over this graph \(killed by signal 9\)"):
        one_helper.place(graph, DEVICES)
    killer.join()
    assert one_helper.pid is None
    assert sorted(one_helper.place(graph, DEVICES).log) == sorted(whole.log)


def test_late_it_is_killed(one_helper: Helper) -> None:
    graph = chain(50_000)
    one_helper.place(chain(3), DEVICES)
    pid = one_helper.pid
    assert pid is not None
    with pytest.raises(PlacementError, match=r"did not answer within 0\.05 seconds and was ended; give timeout= more"):
        one_helper.place(graph, DEVICES, timeout=0.05)
    assert has_ended(pid)
    assert len(one_helper.place(chain(3), DEVICES).log) == 3


def test_interrupted_it_leaves_no_process_behind(one_helper: Helper) -> None:
    graph = chain(50_000)
    one_helper.place(chain(3), DEVICES)
    pid = one_helper.pid
    assert pid is not None

    def interrupt() -> None:
        wait_for(lambda: is_placing(pid))
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        one_helper.place(graph, DEVICES)
    interrupter.join()
    assert has_ended(pid)
    assert one_helper.pid is None
    assert [child.pid for child in psutil.Process().children() if "helper_main" in " ".join(child.cmdline())] == []
    assert len(one_helper.place(chain(3), DEVICES).log) == 3


def test_closed_in_the_middle_it_is_told(one_helper: Helper) -> None:
    graph = chain(50_000)
    one_helper.place(chain(3), DEVICES)

    def close() -> None:
        wait_for(lambda: is_placing(one_helper.pid))
        one_helper.close()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(PlacementError, match="its process was closed meanwhile"):
        one_helper.place(graph, DEVICES)
    closer.join()
    assert one_helper.pid is None


def test_grown_it_is_replaced(one_helper: Helper, monkeypatch: pytest.MonkeyPatch) -> None:
    one_helper.place(chain(3), DEVICES)
    first = one_helper.pid
    monkeypatch.setattr(helper, "_GROWN", 1)
    assert len(one_helper.place(chain(3), DEVICES).log) == 3
    assert one_helper.pid != first
    assert one_helper.started == 2
    assert first is not None
    assert has_ended(first)


def test_many_threads_wait_for_each_other(one_helper: Helper) -> None:
    graphs = [chain(10 * number) for number in range(1, 17)]
    answers: dict[int, int] = {}

    def place(number: int) -> None:
        answers[number] = len(one_helper.place(graphs[number], DEVICES).log)

    threads = [threading.Thread(target=place, args=(number,)) for number in range(len(graphs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: 10 * (number + 1) for number in range(len(graphs))}
    assert one_helper.started == 1


@pytest.mark.parametrize("folder", ["/proc", "/no/such/folder"])
def test_neither_a_proxy_nor_a_disk_without_room_matters(
    one_helper: Helper, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["127.0.0.1:1"]}}')
    monkeypatch.setenv("TF_CPP_VMODULE", "placer=5")
    assert len(one_helper.place(chain(50), DEVICES).log) == 50
    pid = one_helper.pid
    assert pid is not None
    assert listening_beyond_loopback(pid) == []
    written = [one.path for one in psutil.Process(pid).open_files() if one.mode not in ("r", "rb")]
    assert [path for path in written if "placement-log" not in path] == []


def test_when_the_user_s_process_dies_the_helper_ends() -> None:
    code = """
import os, signal, sys, time
from jupyter_placement.dryrun.helper import Helper
from jupyter_placement.dryrun import parse_machine
helper = Helper()
helper.request({"kind": "costs"}, b"")
if os.fork() == 0:
    os.setsid()
    os.close(1)
    time.sleep(120)  # holds the pipe to the helper open
print(helper.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=root, text=True) as user:
        assert user.stdout is not None
        pid = int(user.stdout.readline())
        assert user.wait(SECONDS) == -signal.SIGKILL
        wait_for(lambda: has_ended(pid))
    for process in psutil.process_iter(["cmdline"]):
        if code in (process.info["cmdline"] or []):
            process.kill()


def test_a_process_that_is_forked_off_has_helpers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = Helpers()
    mine = helpers.of()
    assert helpers.of() is mine
    assert helpers.of(sys.executable) is mine
    assert helpers.of("/another/python") is not mine
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert helpers.of() is not mine


def test_progress_is_told_once(one_helper: Helper) -> None:
    told: list[str] = []
    for _ in range(2):
        one_helper.place(chain(3), DEVICES, progress=told.append)
    assert told == ["Starting TensorFlow for dry runs (a few seconds, once)..."]


@pytest.mark.kernel
def test_two_notebooks_at_once(start_kernel: Callable[..., Kernel]) -> None:
    kernels = [start_kernel(), start_kernel()]
    cell = """import os
import tensorflow as tf
from jupyter_placement.dryrun import dry_run
from jupyter_placement.dryrun.helpers import HELPERS
placed = []
for number in range(20):
    with tf.Graph().as_default() as graph, tf.device(f"/gpu:{number % 2}"):
        tf.constant(float(number), name="one")
    placed.append(dry_run(graph, on="2xT4").graph.nodes["one"]["device"][-5:])
"""
    threads = [threading.Thread(target=kernel.run, args=(cell,)) for kernel in kernels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [kernel.evaluate("placed") for kernel in kernels] == [["GPU:0", "GPU:1"] * 10] * 2
    pids = [kernel.evaluate("HELPERS.of().pid") for kernel in kernels]
    assert len(set(pids)) == 2
    for kernel in kernels:
        kernel.run("HELPERS.close()")
    assert [has_ended(pid) for pid in pids] == [True, True]
