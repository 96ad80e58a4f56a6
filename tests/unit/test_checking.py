"""A saved placement that somebody changed by hand: one sentence, or as if nothing were missing."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_placement import Event, MemorySample, Placement, PlacementError


def saved() -> Any:
    placement = Placement(events=[Event("note", "A note.")], memory=[MemorySample(1.0, "host", used=5)])
    placement.add_node("a", op="Const", device="/job:localhost/replica:0/task:0/device:CPU:0")
    placement.add_node("b", op="Neg", device="/job:localhost/replica:0/task:0/device:CPU:0")
    placement.add_edge("a", "b", 0, tensor="a:0", dtype="float32", bytes=4)
    return json.loads(json.dumps(placement.to_json()))


def set_at(*path: Any) -> Callable[[Any], None]:
    *keys, last, value = path

    def change(data: Any) -> None:
        for key in keys:
            data = data[key]
        data[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_at("graph", "edges", 0, "source", "gone"),
        set_at("graph", "nodes", 0, "id", "renamed"),
        set_at("graph", "nodes", 0, "device", 5),
        set_at("graph", "nodes", 0, "op", ["a"]),
        set_at("graph", "nodes", 0, "name", "half \ud800"),
        set_at("graph", "edges", 0, "bytes", "12"),
        set_at("graph", "edges", 0, "bytes", True),
        set_at("graph", "edges", 0, "key", None),
        set_at("memory", 0, "used", "5GB"),
        set_at("memory", 0, "device", 5),
        set_at("events", 0, "lines", [5]),
        set_at("meta", "ab"),
        set_at("log", [5]),
        set_at("version", "1"),
    ],
)
def test_what_is_wrong_is_one_sentence(change: Callable[[Any], None]) -> None:
    data = saved()
    change(data)
    with pytest.raises(PlacementError) as raised:
        Placement.from_json(data)
    assert "\n" not in str(raised.value)


def test_what_is_left_out_is_filled_in() -> None:
    data = saved()
    whole = copy.deepcopy(data)
    for name in ("requested", "reason", "memory", "graph", "source", "name"):
        del data["graph"]["nodes"][0][name]
    for name in ("transfer", "control", "shape"):
        del data["graph"]["edges"][0][name]
    assert Placement.from_json(data).to_json() == Placement.from_json(whole).to_json()


@pytest.mark.parametrize("text", ["[" * 100_000, "", "[]", "nonsense"])
def test_a_file_that_is_no_placement_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.placement.json"
    path.write_text(text)
    with pytest.raises(PlacementError, match="not a saved placement"):
        Placement.load(path)


def test_a_byte_order_mark_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "x.placement.json"
    path.write_text(json.dumps(saved()), encoding="utf-8-sig")
    assert Placement.load(path).graph.number_of_nodes() == 2


@pytest.mark.parametrize("name", [".", ""])
def test_a_folder_is_no_file_to_save_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlacementError, match="a folder, not a file"):
        Placement().save(name)


@pytest.mark.parametrize("given", [5, None, {}, [5], []])
def test_what_is_no_log_is_one_sentence(given: Any) -> None:
    with pytest.raises(PlacementError, match="needs a file"):
        Placement.from_log(given)
