"""What an earlier run of a session placed stays where it is: seen with TensorFlow's own sessions."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_placement import Placement, record
from jupyter_placement.explain import explain, unknown_share

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def config() -> Any:
    return tf.compat.v1.ConfigProto(device_count={"CPU": 3})


def first_part() -> Any:
    variable = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="v", name="v")
    tf.raw_ops.AssignVariableOp(resource=variable, value=1.0, name="init")
    return variable


def second_part(variable: Any) -> None:
    with tf.device("CPU:1"):
        tf.raw_ops.AssignAddVariableOp(resource=variable, value=2.0, name="grow")
        tf.constant(1.0, name="pinned")
    tf.raw_ops.ReadVariableOp(resource=variable, dtype=tf.float32, name="read")


def places(placement: Placement) -> dict[str, str]:
    return {data["name"]: data["device"][-5:] for _, data in placement.graph.nodes(data=True)}


def made(recording: Any) -> Placement:
    placement: Placement | None = recording.placement
    assert placement is not None
    return placement


def check(grown: Placement, graph: Any) -> None:
    """Compare the explanations with what a new session does with the same graph."""
    with record(interval=60) as recording, tf.compat.v1.Session(graph=graph, config=config()) as session:
        session._extend_graph()
    new = places(made(recording))
    assert {name: new[name] for name in ("v", "grow", "read")} == dict.fromkeys(("v", "grow", "read"), "CPU:1")
    now = places(grown)
    assert {name: now[name] for name in ("v", "grow", "read")} == dict.fromkeys(("v", "grow", "read"), "CPU:0")
    found = {name: explain(grown, name) for name in ("v", "grow", "read", "init", "pinned")}
    assert {name: one.rule for name, one in found.items()} == {
        "v": "sticky",
        "init": "sticky",
        "grow": "overridden",
        "read": "colocated",
        "pinned": "pinned",
    }
    for name in ("v", "init", "grow", "read"):
        assert found[name].facts["otherwise"].endswith(new[name]), name
        assert "In a new session it would be on CPU:1." in found[name].text
        assert found[name].remedy.startswith("Run the whole graph in a new session")
    assert "v decides: an earlier run of this session placed it" in found["grow"].text
    assert unknown_share(grown) == 0.0


def test_a_graph_that_grows_between_two_runs_of_one_recording() -> None:
    with (
        tf.Graph().as_default() as graph,
        record(interval=60) as recording,
        tf.compat.v1.Session(config=config()) as session,
    ):
        variable = first_part()
        session.run("init")
        second_part(variable)
        session.run("read:0")
    check(made(recording), graph)


def test_a_session_that_an_earlier_recording_saw() -> None:
    with tf.Graph().as_default() as graph:
        with record(interval=60):
            session = tf.compat.v1.Session(config=config())
            variable = first_part()
            session.run("init")
        with record(interval=60) as recording:
            second_part(variable)
            session.run("read:0")
        check(made(recording), graph)
        # Nothing new: TensorFlow logs nothing, and a new session would tell of other devices.
        with record(interval=60) as recording:
            session.run("read:0")
        check(made(recording), graph)
        session.close()


def test_a_session_that_grew_where_nobody_recorded() -> None:
    with tf.Graph().as_default() as graph:
        with record(interval=60):
            session = tf.compat.v1.Session(config=config())
            session.run(tf.constant(1.0))
        variable = first_part()
        session.run("init")
        with record(interval=60) as recording:
            second_part(variable)
            session.run("read:0")
        check(made(recording), graph)
        session.close()


def test_without_growth_there_is_no_history() -> None:
    with (
        tf.Graph().as_default(),
        record(interval=60) as recording,
        tf.compat.v1.Session(config=config()) as session,
    ):
        second_part(first_part())
        session.run("init")
        session.run("read:0")
    found = made(recording)
    assert found.meta["explain"]["placed_before"] == {}
    assert explain(found, "v").rule == "colocated" and places(found)["v"] == "CPU:1"
