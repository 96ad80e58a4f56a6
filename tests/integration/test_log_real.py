"""Logs and graph files that TensorFlow itself writes are read whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_placement.graphfile import read_graph
from jupyter_placement.log import EagerRecord, LogRecords, read_log
from jupyter_placement.placement import Placement, PlacementError

PROGRAM = Path(__file__).parents[1] / "cases" / "real_logs.py"
TASK = "/job:localhost/replica:0/task:0"


class Run:
    """What a program wrote, apart and together, and what it says that is true."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, str(PROGRAM), kind, str(folder)]
        done = subprocess.run(command, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        self.out, self.err = done.stdout, done.stderr
        self.truth: Any = json.loads((folder / "truth.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run("session", tmp_path_factory.mktemp("session"))


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run("eager", tmp_path_factory.mktemp("eager"))


def names(log: LogRecords) -> set[tuple[str, str | None]]:
    return {(record.name, record.op) for record in log.placements}


def lines(text: bytes) -> int:
    return text.count(b": (")


def test_a_session_each_output_alone_and_both(session: Run) -> None:
    wanted = {(name, op) for name, op in session.truth["nodes"]}
    assert len(wanted) > 80
    out, err, both = read_log(session.out), read_log(session.err), read_log(session.out + session.err)
    assert names(out) == names(err) == names(both) == wanted
    assert out.placements == err.placements == both.placements
    assert both.counts.duplicate == both.counts.matched
    assert {record.device for record in both.placements} == {f"{TASK}/device:CPU:{number}" for number in (0, 1)}


def test_a_session_s_events(session: Run) -> None:
    text = "\n".join(session.truth["errors"])
    found = [(event.kind, event.node) for event in read_log(text.encode() + b"\n" + session.err).events]
    assert found == [
        ("unknown_device", "on_gpu"),
        ("cannot_colocate", "b"),
        ("no_kernel", "rnn"),
        ("device_ignored", "assign"),
    ]


def test_functions_and_eager_operations(eager: Run) -> None:
    log = read_log(eager.out + eager.err)
    assert read_log(eager.out).placements == read_log(eager.err).placements == log.placements
    assert lines(eager.out) == log.counts.matched + log.counts.duplicate - lines_of_placer(eager.err)
    ran = [event for event in log.events if isinstance(event, EagerRecord)]
    assert len(ran) == eager.err.count(b"Executing op ")
    assert {(event.op, event.device) for event in ran} >= {
        ("AddV2", f"{TASK}/device:CPU:0"),
        ("Sqrt", f"{TASK}/device:CPU:1"),
    }
    assert {(name, op) for name, op in eager.truth["function"]} <= names(log)


def lines_of_placer(text: bytes) -> int:
    return text.count(b"placer.cc:")


@pytest.mark.parametrize("file", ["graph.pb", "graph.pbtxt", "graph.meta"])
def test_a_session_with_its_graph(session: Run, file: str) -> None:
    placement = Placement.from_log(session.out + session.err, graph=session.folder / file)
    assert placement.counts.unmatched == 3  # handle, assign and its value are another graph's
    assert placement.graph.number_of_edges() == session.truth["edges"]
    assert placement.graph.nodes["w1"]["reason"] == "pinned"
    (event,) = [event for event in placement.events if event.kind == "fallback" and "soft" in event.nodes]
    assert event.details["requested"] == "/device:GPU:0"
    transfers = [data["tensor"] for _, _, data in placement.graph.edges(data=True) if data["transfer"]]
    assert transfers


@pytest.mark.parametrize("file", ["saved", "saved/saved_model.pb", "model.keras"])
def test_a_model_file(eager: Run, file: str) -> None:
    placement = Placement.from_log(eager.out + eager.err, graph=eager.folder / file)
    matmul = [node for node, data in placement.graph.nodes(data=True) if data["op"] == "BiasAdd"]
    assert any(placement.graph.in_degree(node) == 2 for node in matmul)


def test_a_loop_that_was_lowered(eager: Run) -> None:
    placement = Placement.from_log(eager.out + eager.err, graph=eager.folder / "loop.pb")
    grow = [node for node, data in placement.graph.nodes(data=True) if data["name"].endswith("/grow")]
    assert grow
    assert all(placement.graph.nodes[node]["dtype"] == "float32" for node in grow)


def test_the_command_with_a_graph(session: Run, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(session.out + session.err)
    command = [sys.executable, "-m", "jupyter_placement.cli", "log", str(tmp_path / "x.log"), "--graph"]
    done = subprocess.run(
        [*command, str(session.folder / "graph.pb")], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "asked /device:GPU:0, got CPU:0: 1 Square: soft" in done.stdout
    done = subprocess.run([*command, str(tmp_path / "x.log")], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"jupyter-placement: {tmp_path}/x.log holds no TensorFlow graph: give a GraphDef")


def test_what_is_no_graph(tmp_path: Path) -> None:
    (tmp_path / "x.pb").write_bytes(b"no graph at all, just text")
    (tmp_path / "empty.pbtxt").touch()
    (tmp_path / "x.keras").write_bytes(b"no zip")
    for name, said in {
        "gone.pb": "there is no graph file",
        "x.pb": "holds no TensorFlow graph",
        "empty.pbtxt": "holds no TensorFlow graph",
        "x.keras": "holds no Keras model that can be read here",
        "": "is a folder without a saved_model.pb",
    }.items():
        with pytest.raises(PlacementError, match=said):
            read_graph(tmp_path / name)
