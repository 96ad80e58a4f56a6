"""The command ``jupyter-placement log``."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import pytest

from jupyter_placement.cli import main
from jupyter_placement.cli_log import write_graphml
from jupyter_placement.cli_watch import Progress
from jupyter_placement.placement import Placement

TASK = "/job:localhost/replica:0/task:0"
CASES = Path(__file__).parents[1] / "cases" / "logs"
LOG = CASES / "27-tf2-eager-micrographs-dml.log"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        status = main(["log", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.json")))
def test_records(name: str, run: Run) -> None:
    expected = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    status, out, err = run(CASES / f"{name}.log", "--records")
    if expected["placements"] or expected["events"]:
        assert (status, err) == (0, "")
        form = json.loads(out)
        assert form.keys() == {"placements", "devices", "events", "counts"}
        assert all(form[key] == expected[key] for key in ("placements", "devices", "events"))
        assert form["counts"]["noise_lines"] == expected["noise_lines"]
    else:
        assert (status, out) == (1, "")
        assert err.startswith("jupyter-placement: no placement line is in ")


def test_the_summary(run: Run) -> None:
    status, out, err = run(LOG)
    assert (status, err) == (0, "")
    assert out == Placement.from_log(LOG).summary() + "\n"


def test_colours(run: Run) -> None:
    _, out, _ = run(LOG, "--color", "always")
    assert out.startswith("\x1b[1m5 operations on 2 devices\x1b[0m\n  \x1b[38;2;230;159;0mGPU:0\x1b[0m")
    assert "\x1b" not in run(LOG, "--color", "never")[1] + run(LOG)[1]


def test_files(run: Run, tmp_path: Path) -> None:
    names = {kind: tmp_path / f"x.{kind}" for kind in ("json", "html", "graphml")}
    status, _, err = run(LOG, *(part for kind, path in names.items() for part in (f"--{kind}", path)))
    assert status == 0
    assert err.splitlines() == [f"wrote {path}" for path in names.values()]
    placement = Placement.from_log(LOG)
    assert Placement.load(names["json"]).to_json() == placement.to_json()
    assert names["html"].read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert set(nx.read_graphml(names["graphml"])) == set(placement.graph)


def test_json_on_standard_output(run: Run) -> None:
    _, out, err = run(LOG, "--json", "-")
    assert (json.loads(out), err) == (json.loads(json.dumps(Placement.from_log(LOG).to_json())), "")


def test_graphml_of_anything(tmp_path: Path) -> None:
    placement = Placement()
    placement.add_node("a\x00é", op=None, shape=[1, None], source=("f.py", 3))
    placement.add_node("b", op="Neg")
    placement.add_edge("a\x00é", "b", 0, shape=[1])
    placement.add_edge("a\x00é", "b", "^0")
    write_graphml(placement, tmp_path / "x.graphml")
    graph = nx.read_graphml(tmp_path / "x.graphml")
    assert graph.nodes["a\ufffdé"]["shape"] == "[1, null]"
    assert "op" not in graph.nodes["a\ufffdé"]
    assert sorted(data["control"] for _, _, data in graph.edges(data=True)) == [False, True]


def test_several_files(run: Run, tmp_path: Path) -> None:
    logs = [tmp_path / name for name in ("worker-0.log", "ps-0.log")]
    for path in logs:
        path.write_text(f"a: (Const): {TASK}/device:CPU:0\n{path.stem}: (Const): {TASK}/device:CPU:0\n")
    assert run(*logs)[1].startswith("3 operations on 1 device\n")
    form = json.loads(run(*logs, "--records")[1])
    assert [row["name"] for row in form["placements"]] == ["a", "worker-0", "ps-0"]
    assert form["counts"]["lines"] == 4


def make_binary(folder: Path) -> Path:
    (folder / "x.bin").write_bytes(b"\x7fELF\x02\x01\0\0\0text\n")
    return folder / "x.bin"


def make_empty(folder: Path) -> Path:
    (folder / "empty.log").touch()
    return folder / "empty.log"


def make_other(folder: Path) -> Path:
    (folder / "other.log").write_text("loss: 0.5\n")
    return folder / "other.log"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda folder: folder / "gone.log", "there is no file {}"),
        (lambda folder: folder, "{} is a directory: give the log file itself, or several of them"),
        (make_binary, "{} is a binary file: give the text that TensorFlow printed"),
        (make_empty, "{} is empty; keep both outputs of the program: python program.py > file.log 2>&1"),
        (make_other, "no placement line is in {}; switch the log on and run again. TensorFlow 2: "
         "tf.debugging.set_log_device_placement(True) before anything else runs; TensorFlow 1: "
         "tf.Session(config=tf.ConfigProto(log_device_placement=True)). Keep standard output and standard error: "
         "python program.py > file.log 2>&1"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(make: Callable[[Path], Path], sentence: str, run: Run, tmp_path: Path) -> None:
    path = make(tmp_path)
    assert run(path) == (1, "", f"jupyter-placement: {sentence.format(path)}\n")


def test_what_cannot_be_written(run: Run, tmp_path: Path) -> None:
    status, out, err = run(LOG, "--html", tmp_path / "no" / "x.html")
    assert (status, out) == (1, "")
    assert err == f"jupyter-placement: {tmp_path}/no/x.html cannot be written: No such file or directory\n"


@pytest.mark.parametrize("arguments", [[], ["log"], ["log", "x", "--colour"], ["nothing"]])
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("usage: jupyter-placement")


def test_usage_of_follow(run: Run) -> None:
    assert run("-", "--follow")[0] == 2
    assert run("a", "b", "--follow")[0] == 2


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["log", "--help"])
    out = capsys.readouterr().out
    assert stopped.value.code == 0
    assert "examples:" in out
    assert "tf.debugging.set_log_device_placement(True)" in out


def test_the_bar() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    class Impatient(Progress):
        def advance(self, size: int) -> None:
            self._next = 0.0
            super().advance(size)

    screen = Terminal()
    before, sys.stderr = sys.stderr, screen
    try:
        with Progress(100) as quick:
            quick.advance(100)
        assert screen.getvalue() == ""
        with Impatient(4_000_000) as bar:
            bar.advance(2_000_000)
    finally:
        sys.stderr = before
    assert screen.getvalue() == f"\r\x1b[K[{'#' * 15}{'.' * 15}]  50 %  2 MB\r\x1b[K"


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "jupyter_placement.cli", "log", *arguments]
    return subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_standard_input() -> None:
    process = start("-", "--records")
    out, err = process.communicate(f"a: (Const): {TASK}/device:CPU:0\n", timeout=60)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["placements"] == [{"name": "a", "op": "Const", "device": f"{TASK}/device:CPU:0"}]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_following_a_file(tmp_path: Path) -> None:
    import pty

    path = tmp_path / "train.log"
    path.write_text(f"a: (Const): {TASK}/device:CPU:0\nb: (Con")
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "jupyter_placement.cli", "log", str(path), "--follow"]
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    try:
        wait_for(screen, "1 lines, 1 placements")
        with path.open("a") as log:
            log.write(f"st): {TASK}/device:CPU:0\n")
        wait_for(screen, "2 lines, 2 placements")
        path.write_text(f"c: (Const): {TASK}/device:CPU:0\n")
        wait_for(screen, "3 lines, 3 placements")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(screen)
    assert process.returncode == 0
    assert out.startswith("3 operations on 1 device\n")


def wait_for(screen: int, text: str) -> None:
    shown = ""
    while text not in shown:
        ready, _, _ = select.select([screen], [], [], 60)
        assert ready, f"{text!r} was not shown, but {shown[-300:]!r}"
        shown += os.read(screen, 4096).decode()


def test_no_tensorflow_is_loaded() -> None:
    code = f"import sys; from jupyter_placement.cli import main; main(['log', {str(LOG)!r}])\n"
    code += "print(sorted({'tensorflow', 'IPython', 'plotly', 'ipywidgets'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_text("".join(f"n{i}: (Const): {TASK}/device:CPU:0\n" for i in range(20_000)))
    process = start(str(path), "--records")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full to stand for a full disk")
def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("a: (Const): /job:localhost/replica:0/task:0/device:CPU:0\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "jupyter_placement.cli", "log", str(log)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("jupyter-placement: the output could not be written: No space left")
    assert done.stderr.count("\n") == 1
