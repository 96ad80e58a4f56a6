"""Every input of tests/cases/logs comes out as its JSON file says; the README there has the conventions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_placement.log import LogReader, LogRecords, read_log

CASES = Path(__file__).parents[1] / "cases" / "logs"
NAMES = sorted(path.stem for path in CASES.glob("*.json"))


def case(name: str) -> tuple[bytes, dict[str, Any]]:
    return (CASES / f"{name}.log").read_bytes(), json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))


def told(log: LogRecords) -> tuple[object, ...]:
    return log.placements, log.devices, log.events, log.counts


def test_there_are_cases() -> None:
    assert len(NAMES) >= 36
    assert all((CASES / f"{name}.log").is_file() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_records_and_kinds(name: str) -> None:
    data, expected = case(name)
    log = read_log(data, keep_kinds=True)
    assert log.line_kinds == expected["line_kinds"]
    form = log.to_json()
    for key in ("placements", "devices", "events"):
        assert form[key] == expected[key]
    assert form["counts"]["noise_lines"] == expected["noise_lines"]
    names = {record.name for record in log.placements} | {record.device for record in log.placements}
    assert not names & set(expected["phantoms"])


@pytest.mark.parametrize("name", NAMES)
def test_in_bulk_it_is_the_same(name: str) -> None:
    data, _ = case(name)
    assert told(read_log(data)) == told(read_log(data, keep_kinds=True))


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("name", NAMES)
def test_in_pieces_it_is_the_same(name: str, size: int) -> None:
    data, _ = case(name)
    reader = LogReader()
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    assert told(reader.finish()) == told(read_log(data))


@pytest.mark.parametrize("name", NAMES)
def test_wrapped_by_a_container_it_is_the_same(name: str) -> None:
    data, expected = case(name)
    if expected["hard"] or data.startswith(b"\xff\xfe") or name.startswith("52"):
        pytest.skip("what a container does to a damaged line, or to one of its own, is not told")
    lines = data.decode("utf-8").replace("\r\n", "\n").split("\n")
    wrapped = "".join(json.dumps({"log": f"{line}\n", "stream": "stderr"}) + "\n" for line in lines)
    log = read_log(wrapped)
    assert log.placements == read_log(data).placements
    assert [event.kind for event in log.events] == [event["kind"] for event in expected["events"]]


@pytest.mark.parametrize("name", NAMES)
def test_cut_anywhere_nothing_is_invented(name: str) -> None:
    data, expected = case(name)
    whole = {(record.name, record.device) for record in read_log(data).placements}
    steps = range(1, len(data), max(1, len(data) // 60))
    for end in steps:
        found = {(record.name, record.device) for record in read_log(data[:end]).placements}
        # A cut may take the clean twin away from a torn line, which only damaged inputs have.
        assert expected["hard"] or found <= whole, data[:end][-120:]
