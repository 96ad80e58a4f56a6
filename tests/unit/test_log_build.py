"""A Placement of logs: nodes, devices, events with sentences, and the edges of a graph."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from jupyter_placement.graphfile import GraphNode
from jupyter_placement.log import EventRecord, read_log
from jupyter_placement.log.build import placement_from_log
from jupyter_placement.log.messages import explain_event
from jupyter_placement.placement import Counts, Device, Placement, PlacementError

TASK = "/job:localhost/replica:0/task:0"
CPU, GPU = f"{TASK}/device:CPU:0", f"{TASK}/device:GPU:0"
CASES = Path(__file__).parents[1] / "cases" / "logs"


def case(name: str) -> Placement:
    return placement_from_log(next(CASES.glob(f"{name}-*.log")))


def test_nodes_and_counts() -> None:
    placement = case("05")
    assert list(placement.graph.nodes(data="op")) == [  # type: ignore[comparison-overlap]
        ("gradients/score/sub_grad/Sum", "Sum"),
        ("gradients/score/sub_grad/tuple/group_deps", "NoOp"),
        ("feed_1", "Placeholder"),
        ("feed/initial_value", "Const"),
    ]
    assert placement.device_counts() == {CPU: 2, GPU: 2}
    assert placement.counts == Counts(lines=8, matched=4, duplicate=4, unmatched=0)
    assert placement.log[0] == f"gradients/score/sub_grad/Sum: (Sum): {GPU}"
    assert placement.graph.number_of_edges() == 0
    assert placement.summary().splitlines()[-1].startswith("Transfers are not known")


def test_devices() -> None:
    assert case("31").devices == [Device(GPU, "Tesla T4", 14258 << 20, "0000:00:05.0")]


def test_one_name_on_two_devices() -> None:
    graph = case("27").graph
    assert list(graph) == ["input", "output_RetVal", "GPU:1/input", "MatMul", "eager/_EagerConst"]
    assert graph.nodes["GPU:1/input"]["name"] == "input"
    assert graph.nodes["GPU:1/input"]["device"] == GPU.replace("GPU:0", "GPU:1")
    assert graph.nodes["eager/_EagerConst"]["graph"] == "eager"


def test_one_name_of_two_types_on_one_device() -> None:
    log = f"x: (_Arg): {CPU}\nx: (Const): {CPU}\nx: (Mul): {CPU}\n"
    assert list(placement_from_log(log).graph) == ["x", "CPU:0/x", "CPU:0:2/x"]


def test_eager_operations_without_graphs() -> None:
    placement = case("29")
    assert list(placement.graph) == [
        "eager/VarHandleOp",
        "eager/__inference_scratch_graph_365",
        "eager/__inference_scratch_graph_370",
        "eager/StatefulPartitionedCall",
    ]
    (event,) = placement.events
    assert event.kind == "note"
    assert event.message.startswith("4 operations ran eagerly: 1 VarHandleOp on XLA_GPU:0, ")
    assert [row["count"] for row in event.details["operations"]] == [1, 1, 1, 1]


def test_several_tasks() -> None:
    worker = "/job:worker/replica:0/task:0/device:GPU:0"
    other = "/job:worker/replica:0/task:1/device:GPU:0"
    ps = "/job:ps/replica:0/task:0/device:CPU:0"
    logs = [
        f"w: (VariableV2): {ps}\nloss: (Mean): {worker}\n".encode(),
        io.BytesIO(f"w: (VariableV2): {ps}\nloss: (Mean): {other}\n".encode()),
        read_log(f"w: (VariableV2): {ps}\n"),
    ]
    placement = placement_from_log(logs)
    assert list(placement.graph) == ["w", "loss", "worker:1/GPU:0/loss"]
    assert placement.device_counts() == {ps: 1, worker: 1, other: 1}
    assert placement.counts.lines == 5


def test_a_graph_gives_edges_requests_and_fallbacks() -> None:
    log = f"a: (Const): {CPU}\nb: (Neg): {GPU}\nc: (Unique): {CPU}\nd: (Identity): {GPU}\nextra: (Const): {CPU}\n"
    graph = [
        GraphNode("a", "Const", "/device:CPU:0", (), dtype="float32", shape=[2, None]),
        GraphNode("b", "Neg", "", ((0, "a:0"), ("^0", "c"))),
        GraphNode("c", "Unique", "/device:GPU:0", ((0, "a:0"),)),
        GraphNode("d", "Identity", "", ((0, "c:1"), (1, "gone:0")), colocated=True),
        GraphNode("never", "Const"),
    ]
    placement = placement_from_log(log, graph)
    edges = [
        (a, b, key, data["tensor"], data["transfer"]) for a, b, key, data in placement.graph.edges(keys=True, data=True)
    ]
    assert sorted(edges, key=str) == [
        ("a", "b", 0, "a:0", True),
        ("a", "c", 0, "a:0", False),
        ("c", "b", "^0", None, True),
        ("c", "d", 0, "c:1", True),
    ]
    reasons = dict(placement.graph.nodes(data="reason"))  # type: ignore[arg-type]
    assert reasons == {"a": "pinned", "b": "default", "c": "fallback", "d": "colocated", "extra": "unknown"}
    assert placement.graph.nodes["a"]["shape"] == [2, None]
    (event,) = placement.events
    assert (event.kind, event.nodes) == ("fallback", ("c",))
    assert event.message.startswith("c (Unique) asked for /device:GPU:0 and ran on CPU:0:")
    assert placement.counts.unmatched == 1


def test_edges_stay_within_a_task() -> None:
    tasks = [f"/job:worker/replica:0/task:{number}/device:CPU:0" for number in (0, 1)]
    log = "".join(f"x: (Const): {task}\ny: (Neg): {task}\n" for task in tasks)
    placement = placement_from_log(log, [GraphNode("x", "Const"), GraphNode("y", "Neg", "", ((0, "x:0"),))])
    assert sorted(placement.graph.edges()) == [("worker:1/CPU:0/x", "worker:1/CPU:0/y"), ("x", "y")]


def test_a_graph_of_another_program() -> None:
    placement = placement_from_log(f"a: (Const): {CPU}\n", [GraphNode("b", "Const")])
    assert placement.events[-1].message.startswith("No operation of the log is in the graph file")
    assert placement.counts.unmatched == 1


def test_a_driver_that_refuses_again_and_again_is_one_event() -> None:
    events = case("64").events
    assert [event.kind for event in events] == ["oom"] * 4
    assert events[0].details["refused"] == [8053063680, 7247757312]
    assert events[0].message.startswith("2 times in a row: the driver refused an allocation of 7.5 GiB")
    assert len(events[0].lines) == 2
    assert events[1].message.startswith("An allocation in GPU_0_bfc did not fit and TensorFlow went on without it")
    assert events[2].nodes == ("clone_0/block17/BiasAdd",)
    assert events[3].message.startswith(
        "Out of memory: an allocation (a tensor of shape [64, 2016, 9, 9]) for second/AvgPool_1 on GPU:0 did not fit."
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("07", "TensorFlow ignored that feed_queue_Dequeue asks for /device:GPU:0"),
        ("20", "Score/__raw_ (ScalarSummary) asks for /device:GPU:0, but cannot run there: TensorFlow has no kernel"),
        ("21", "lane_3/scan/pack/slice (StridedSlice) asks for /device:GPU:3, but cannot run there: it must"),
        ("22", "rank_0/net/L2Loss asks for /device:GPU:0, which TensorFlow does not have; it has: CPU:0, XLA_CPU:0"),
        ("32", "Out of memory: an allocation of 18.0 MiB (a tensor of shape [3, 3, 512, 1024]) for Stateful"),
        ("60", "The log is cut off here: placements may be missing."),
        ("61", "The group of stitch/table, stitch/table_insert/LookupTableInsertV2, which asked for /job:localhost/"),
        ("62", "rnn/cud (CudnnRNN) cannot run: TensorFlow has no kernel of it for the chosen device and these types;"),
        ("63", "in/epochs/CountUpTo (CountUpTo) must be on one device with operations that require /job:localhost/"),
        ("67", "The log is cut off here"),
    ],
)  # fmt: skip
def test_sentences(name: str, sentence: str) -> None:
    (event, *_) = case(name).events
    assert event.message.startswith(sentence)
    assert event.message.endswith(".")
    assert event.lines


def test_an_event_of_another_kind_has_a_sentence() -> None:
    assert explain_event(EventRecord("something_new", "a")) == "a: something new."


def test_from_log(tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    file.write_text(f"a: (Const): {GPU}\n")
    for source in (file, str(file), f"a: (Const): {GPU}", f"a: (Const): {GPU}".encode(), [file]):
        assert Placement.from_log(source).device_counts() == {GPU: 1}  # type: ignore[arg-type]


def test_it_can_be_saved(tmp_path: Path) -> None:
    placement = Placement.from_log([CASES / "27-tf2-eager-micrographs-dml.log", CASES / "61-colocation-changed.log"])
    assert Placement.load(placement.save(tmp_path / "x")).to_json() == placement.to_json()


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(PlacementError, match=r"the log 'nowhere\.log' cannot be read: No such file"):
        Placement.from_log("nowhere.log")


def test_an_empty_log_says_how_to_switch_it_on() -> None:
    assert "tf.debugging.set_log_device_placement(True)" in Placement.from_log("").summary()
