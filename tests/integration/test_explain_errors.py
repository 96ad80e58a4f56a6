"""Errors of hard placement, each as a sentence with the operation, the user's line and what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jupyter_placement import Event, Placement, PlacementError, record
from jupyter_placement.capture.failed import failure_event
from jupyter_placement.dryrun import close_helpers, dry_run
from jupyter_placement.dryrun.machine import parse_machine
from jupyter_placement.dryrun.sources import graph_of

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", autouse=True)
def _end_helpers() -> Iterator[None]:
    yield
    close_helpers()


def unknown_device(x: Any) -> Any:
    with tf.device("GPU:3"):
        return tf.nn.relu(x, name="mine")


def no_kernel(x: Any) -> Any:
    sizes = {"num_layers": 1, "num_units": 1, "input_size": 1, "T": tf.float32, "S": tf.int32}
    with tf.device("CPU:0"):
        return tf.raw_ops.CudnnRNNParamsSize(**sizes, name="mine")


def cannot_colocate(x: Any) -> Any:
    beside = tf.identity(x, name="beside")
    mine = tf.add(beside, 1.0, name="mine")
    mine.op._set_attr("_class", tf.compat.v1.AttrValue(list={"s": [b"loc:@beside"]}))
    beside.op._set_device("/device:CPU:0")
    mine.op._set_device("/device:CPU:1")
    return mine


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


CASES = [
    (unknown_device, "unknown_device", "relu", "mine (Relu) asks for /device:GPU:3", "Correct the tf.device"),
    (no_kernel, "no_kernel", "CudnnRNN", "mine (CudnnRNNParamsSize)", "Put it on another device"),
    (cannot_colocate, "cannot_colocate", "tf.add", "mine and beside must be on one device", "Ask for the same device"),
]


def only_failure(placement: Placement | None, kind: str) -> Event:
    assert placement is not None
    (found,) = [event for event in placement.events if event.kind == kind]
    return found


def check(event: Event, function: Callable[..., Any], at: str, sentence: str, remedy: str) -> None:
    line = line_of(function, at)
    assert event.message.startswith(f"{__file__}, line {line}: ")
    assert sentence in event.message and remedy in event.message
    assert event.details["source"] == [__file__, line]
    assert event.nodes[0].endswith("mine")
    assert event.lines  # TensorFlow's own text


@pytest.mark.parametrize(("function", "kind", "at", "sentence", "remedy"), CASES)
@pytest.mark.parametrize("caught", [False, True])
def test_in_a_function(
    function: Callable[..., Any], kind: str, at: str, sentence: str, remedy: str, caught: bool
) -> None:
    if caught:
        with record(interval=60, soft=False) as recording, pytest.raises(tf.errors.InvalidArgumentError):
            tf.function(function)(tf.ones([2]))
    else:
        with pytest.raises(tf.errors.InvalidArgumentError), record(interval=60, soft=False) as recording:
            tf.function(function)(tf.ones([2]))
    event = only_failure(recording.placement, kind)
    check(event, function, at, sentence, remedy)
    assert recording.placement is not None
    finding = recording.placement.findings()[0]
    assert (finding.kind, finding.where()) == ("error", f"{__file__}, line {line_of(function, at)}")


def test_in_a_function_that_another_calls() -> None:
    inner = tf.function(unknown_device)
    with pytest.raises(tf.errors.InvalidArgumentError), record(interval=60, soft=False) as recording:
        tf.function(lambda x: inner(x) + 1.0)(tf.ones([2]))
    event = only_failure(recording.placement, "unknown_device")
    check(event, unknown_device, "relu", "mine (Relu) asks for /device:GPU:3", "Correct the tf.device")


@pytest.mark.parametrize(("function", "kind", "at", "sentence", "remedy"), CASES)
def test_in_a_session(function: Callable[..., Any], kind: str, at: str, sentence: str, remedy: str) -> None:
    with record(interval=60, soft=False) as recording, tf.Graph().as_default():
        function(tf.ones([2]))
        with tf.compat.v1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError):
            session.run("mine:0")
    check(only_failure(recording.placement, kind), function, at, sentence, remedy)


def test_an_eager_operation_whose_error_the_code_catches() -> None:
    x = tf.ones([2])
    with record(interval=60, soft=False) as recording:
        with pytest.raises(tf.errors.InvalidArgumentError):
            unknown_device(x)
        with pytest.raises(tf.errors.InvalidArgumentError):
            unknown_device(x)
    event = only_failure(recording.placement, "unknown_device")
    assert event.details["source"] == [__file__, line_of(unknown_device, "relu")]
    assert "An operation (Relu) asks for" in event.message


def test_other_errors_are_no_events() -> None:
    with record(interval=60) as recording, pytest.raises(tf.errors.InvalidArgumentError):
        tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))
    assert recording.placement is not None and recording.placement.events == []


def wrong_type(x: Any) -> Any:
    with tf.device("GPU:0"):
        return tf.raw_ops.MatMul(a=x, b=x, name="mine")


def test_what_a_dry_run_refuses() -> None:
    spec = tf.TensorSpec([2, 2], tf.int32)
    with pytest.raises(PlacementError) as raised:
        dry_run(tf.function(wrong_type), spec, on="1xT4", soft=False)
    event = failure_event(str(raised.value), graph_of(tf.function(wrong_type), (spec,)), parse_machine("1xT4"))
    assert event is not None and event.kind == "no_kernel"
    check(event, wrong_type, "MatMul", "mine (MatMul) asks for /device:GPU:0", "Put it on another device")
    assert failure_event("No such file", None, ()) is None
