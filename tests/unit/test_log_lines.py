"""One clean line of TensorFlow 2.16 or newer; and what placement errors say."""

from __future__ import annotations

import pytest

from jupyter_placement.log import (
    EagerRecord,
    EventRecord,
    PlacementRecord,
    is_log_header,
    is_twin,
    parse_line,
    parse_placement_error,
)

TASK = "/job:localhost/replica:0/task:0"
ABSL = "I0000 00:00:1796107846.110377    4418 placer.cc:162] "
DATED = "2025-07-10 23:27:08.913537: I tensorflow/core/common_runtime/placer.cc:162] "


@pytest.mark.parametrize("prefix", ["", ABSL, DATED])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_placement(prefix: str, end: str) -> None:
    line = f"{prefix}a/b_1: (MatMul): {TASK}/device:XLA_GPU:11{end}"
    assert parse_line(line) == PlacementRecord("a/b_1", "MatMul", f"{TASK}/device:XLA_GPU:11")
    assert is_twin(line) == bool(prefix)


@pytest.mark.parametrize("op", ["AddV2", "__inference_<lambda>_12", "_EagerConst"])
def test_an_eager_operation(op: str) -> None:
    prefix = ABSL.replace("placer", "execute")
    assert parse_line(f"{prefix}Executing op {op} in device {TASK}/device:GPU:0") == EagerRecord(
        op, f"{TASK}/device:GPU:0"
    )


@pytest.mark.parametrize(
    "line",
    [
        "",
        "accuracy: (mean) 0.9",
        f"a device: {TASK}/device:GPU:0",
        f"my print: (MatMul): {TASK}/device:GPU:0",
        f"a: (MatMul): {TASK}/device:GPU:0 is where it went",
        f"a: (MatMul): {TASK}/device:GPU",
        f"x{ABSL}a: (MatMul): {TASK}/device:GPU:0",
        f"I think a: (MatMul): {TASK}/device:GPU:0",
        f"  x (VariableV2) {TASK}/device:GPU:1",
        f"Executing op A B in device {TASK}/device:GPU:0",
        f"étape: (MatMul): {TASK}/device:GPU:0",
    ],
)
def test_what_is_none(line: str) -> None:
    assert parse_line(line) is None


def test_headers() -> None:
    row = f"{TASK}/device:GPU:0 -> device: 0, name: Tesla T4, pci bus id: 0000:00:05.0, compute capability: 7.5"
    told = ["Device mapping:", "Device mapping: no known devices.", f"{DATED}Device mapping:", row, row + "\n"]
    assert [is_log_header(line) for line in told] == [True] * 5
    other = [
        "Device mapping is done",
        "a -> b",
        f"{TASK}/device:GPU:0",
        f"my {row}",
        f"a: (Const): {TASK}/device:GPU:0",
    ]
    assert [is_log_header(line) for line in other] == [False] * 5


NO_KERNEL = """\
Cannot assign a device for operation detect/Query: Could not satisfy explicit device specification '/device:CPU:0' \
because no supported kernel for CPU devices is available.
Colocation Debug Info:
Colocation group had the following types and supported devices: 
Root Member(assigned_device_name_index_=-1 requested_device_name_='/device:CPU:0' assigned_device_name_='' \
resource_device_name_='' supported_device_types_=[GPU] possible_devices_=[]
Query: GPU 

Colocation members, user-requested devices, and framework assigned devices, if any:
  detect/Query (Query) /device:CPU:0

Op: Query
Node attrs: radius=2, nsample=64
Registered kernels:
  device='GPU'

[[node detect/Query (defined at loader.py:368) ]]"""
REQUIRED = f"""\
Cannot assign a device for operation net/dense/Read: Could not satisfy explicit device specification '' because the \
node {{{{colocation_node net/dense/Read}}}} was colocated with a group of nodes that required incompatible device \
'{TASK}/device:GPU:0'. All available devices [{TASK}/device:CPU:0, {TASK}/device:XLA_CPU:0]. 
Colocation Debug Info:
Colocation group had the following types and supported devices: 
ReadVariableOp: GPU CPU XLA_CPU 
"""


@pytest.mark.parametrize(
    ("text", "event"),
    [
        (
            NO_KERNEL,
            EventRecord(
                "no_kernel",
                "detect/Query",
                {
                    "op": "Query",
                    "requested": "/device:CPU:0",
                    "kernels": [{"device": "GPU", "constraint": ""}],
                    "supported": {"Query": ["GPU"]},
                    "members": [{"name": "detect/Query", "op": "Query", "requested": "/device:CPU:0"}],
                },
            ),
        ),
        (
            REQUIRED,
            EventRecord(
                "cannot_colocate",
                "net/dense/Read",
                {
                    "requested": "",
                    "required": f"{TASK}/device:GPU:0",
                    "available": [f"{TASK}/device:CPU:0", f"{TASK}/device:XLA_CPU:0"],
                    "supported": {"ReadVariableOp": ["GPU", "CPU", "XLA_CPU"]},
                },
            ),
        ),
        (
            "Cannot assign a device for operation 'w': Could not satisfy explicit device specification '/device:GPU:7' "
            "because no devices matching that specification are registered in this process; available devices: "
            f"{TASK}/cpu:0, {TASK}/gpu:0",
            EventRecord(
                "unknown_device",
                "w",
                {"requested": "/device:GPU:7", "available": [f"{TASK}/device:CPU:0", f"{TASK}/device:GPU:0"]},
            ),
        ),
        (
            "Cannot colocate nodes 'a' and 'b' because no device type supports both of those nodes and the other nodes",
            EventRecord("cannot_colocate", "a", {"with": "b"}),
        ),
        ("InvalidArgumentError: Incompatible shapes: [2] vs. [3]", None),
        ("", None),
    ],
)
def test_errors(text: str, event: EventRecord | None) -> None:
    assert parse_placement_error(text) == event


def test_nodes_of_an_event() -> None:
    event = parse_placement_error(NO_KERNEL)
    assert event is not None
    assert event.nodes == ("detect/Query",)
    assert len(event.lines) == 12
