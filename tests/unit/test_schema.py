"""The JSON form: what is written follows the schema, and comes back exactly."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import jupyter_placement.placement
from jupyter_placement.placement import (
    EDGE_DEFAULTS,
    MIME_TYPE,
    NODE_DEFAULTS,
    REASONS,
    Counts,
    Device,
    Event,
    MemorySample,
    Placement,
)
from jupyter_placement.report import from_static_bundle, static_bundle
from tests.unit.placements import chain_placement, layers_placement, small_placement

SCHEMA = json.loads(
    (Path(jupyter_placement.placement.__file__).parent / "schema" / "placement.v1.schema.json").read_text("utf-8")
)
VALIDATOR = Draft202012Validator(SCHEMA)


def as_file(placement: Placement) -> Any:
    return json.loads(json.dumps(placement.to_json(), allow_nan=False))


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_knows_every_attribute_of_the_data_model() -> None:
    definitions = SCHEMA["$defs"]
    assert set(definitions["node"]["required"]) == {"id", "name", *NODE_DEFAULTS}
    assert set(definitions["edge"]["required"]) == {"source", "target", "key", *EDGE_DEFAULTS}
    assert definitions["node"]["properties"]["reason"]["enum"] == list(REASONS)
    for name in ("node", "edge", "device", "event", "counts", "sample", "placement"):
        assert set(definitions[name]["required"]) == set(definitions[name]["properties"])


@pytest.mark.parametrize(
    "placement",
    [Placement(), small_placement(), chain_placement(["a", "b"], compiled=3), layers_placement(600)],
    ids=["empty", "small", "compiled", "large"],
)
def test_every_form_follows_the_schema(placement: Placement) -> None:
    VALIDATOR.validate(as_file(placement))
    VALIDATOR.validate(json.loads(json.dumps(static_bundle(placement)[MIME_TYPE])))


WRONG: dict[str, Callable[[Any], Any]] = {
    "no version": lambda data: data.pop("version"),
    "another version": lambda data: data.update(version=2),
    "no graph": lambda data: data.pop("graph"),
    "an undirected graph": lambda data: data["graph"].update(directed=False),
    "a node without a name": lambda data: data["graph"]["nodes"][0].pop("name"),
    "an unknown reason": lambda data: data["graph"]["nodes"][0].update(reason="chance"),
    "an unknown memory": lambda data: data["graph"]["nodes"][0].update(memory="disk"),
    "a shape with text": lambda data: data["graph"]["nodes"][0].update(shape=["two"]),
    "a source without a line": lambda data: data["graph"]["nodes"][0].update(source=["cell 1"]),
    "a wrong edge key": lambda data: data["graph"]["edges"][0].update(key="first"),
    "negative bytes": lambda data: data["graph"]["edges"][0].update(bytes=-1),
    "an edge that may be a transfer": lambda data: data["graph"]["edges"][0].update(transfer=None),
    "an unknown kind of event": lambda data: data["events"][0].update(kind="surprise"),
    "a line that is no text": lambda data: data["log"].append(3),
    "a negative count": lambda data: data["counts"].update(lines=-1),
    "a sample without a device": lambda data: data["memory"][0].pop("device"),
    "unpacked data beside an encoding": lambda data: data.clear() or data.update(version=1, encoding="gzip+base64"),
    "another encoding": lambda data: data.clear() or data.update(version=1, encoding="zip", data="AAAA"),
    "data that is not base64": lambda data: data.clear() or data.update(version=1, encoding="gzip+base64", data="é"),
}


@pytest.mark.parametrize("spoil", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_does_not_follow_the_schema(spoil: Callable[[Any], Any]) -> None:
    data = copy.deepcopy(as_file(small_placement()))
    spoil(data)
    assert not VALIDATOR.is_valid(data)


text = st.text(max_size=8)
size = st.none() | st.integers(0, 2**60)
dimensions = st.lists(st.none() | st.integers(0, 2**31), max_size=4)
seconds = st.none() | st.floats(0, 1e6, allow_nan=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
node_attributes = st.fixed_dictionaries(
    {},
    optional={
        "op": st.none() | text,
        "device": st.none() | st.sampled_from(["/job:localhost/replica:0/task:0/device:GPU:0", "odd"]),
        "requested": text,
        "dtype": st.none() | text | st.lists(text, max_size=3),
        "shape": st.none() | dimensions | st.lists(st.none() | dimensions, max_size=3),
        "reason": st.sampled_from(REASONS),
        "memory": st.sampled_from(["device", "host"]),
        "graph": text,
        "source": st.none() | st.tuples(text, st.integers(0, 10**6)),
        "start": seconds,
        "duration": seconds,
        "compiled": st.none() | st.integers(0, 10**6),
    },
)
edge_attributes = st.fixed_dictionaries(
    {}, optional={"tensor": st.none() | text, "dtype": st.none() | text, "shape": st.none() | dimensions, "bytes": size}
)


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    placement = Placement(
        devices=draw(
            st.lists(st.builds(Device, st.text(min_size=1, max_size=8), st.none() | text, size, st.none() | text))
        ),
        events=draw(
            st.lists(
                st.builds(
                    Event,
                    st.sampled_from(["fallback", "oom", "note"]),
                    text,
                    st.lists(text, max_size=3).map(tuple),
                    st.lists(text, max_size=3).map(tuple),
                    st.dictionaries(text, json_values, max_size=3),
                ),
                max_size=3,
            )
        ),
        log=draw(st.lists(text, max_size=4)),
        counts=draw(st.builds(Counts, *[st.integers(0, 10**6)] * 4)),
        memory=draw(
            st.lists(
                st.builds(MemorySample, st.floats(0, 1e6), st.sampled_from(["host", "nvml:0"]), size, size, size, size),
                max_size=4,
            )
        ),
        meta=draw(st.dictionaries(text, json_values, max_size=3)),
    )
    names = draw(st.lists(text, unique=True, max_size=8))
    for name in names:
        placement.add_node(name, **draw(node_attributes))
    if names:
        ends = st.sampled_from(names)
        for key, (source, target) in enumerate(draw(st.lists(st.tuples(ends, ends), max_size=10))):
            placement.add_edge(source, target, draw(st.sampled_from([key, f"^{key}"])), **draw(edge_attributes))
    return placement


def assert_same(one: Placement, other: Placement) -> None:
    assert list(one.graph.nodes(data=True)) == list(other.graph.nodes(data=True))
    assert nx.utils.graphs_equal(one.graph, other.graph)
    for field in ("devices", "events", "log", "counts", "memory", "meta"):
        assert getattr(one, field) == getattr(other, field)


@settings(max_examples=120, deadline=None)
@given(placements())
def test_any_placement_comes_back_exactly_and_follows_the_schema(
    tmp_path_factory: pytest.TempPathFactory, placement: Placement
) -> None:
    VALIDATOR.validate(as_file(placement))
    path = placement.save(tmp_path_factory.getbasetemp() / "any")
    assert path.name == "any.placement.json"
    assert_same(Placement.load(path), placement)
    assert_same(from_static_bundle(json.loads(json.dumps(static_bundle(placement)))), placement)
