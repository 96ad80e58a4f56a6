"""No input crashes the reader, or makes it name a device that is not there."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jupyter_placement.log import EagerRecord, LogReader, LogRecords, parse_placement_error, read_log

TASK = "/job:localhost/replica:0/task:0"
# Pieces of real logs; what hypothesis puts together of them gets deeper than random text does.
PIECES = [
    "\n",
    "\r",
    "\r\n",
    " ",
    "  ",
    "\t",
    ": ",
    ": (",
    "(",
    ")",
    "[",
    "] ",
    "[[",
    "{",
    "{{node ",
    "}}",
    "'",
    '"',
    "\\",
    ",",
    "0",
    "1",
    "2017",
    "-10-18 12:00:00.1: ",
    "a/b",
    "x",
    "_Arg",
    "MatMul",
    "(MatMul): ",
    "(  Const)",
    "name",
    "/job:localhost",
    "/replica:0",
    "/task:0",
    "/device:GPU:",
    "/device:GPU:1",
    "/cpu:0",
    "/gpu:",
    f"{TASK}/device:GPU:0",
    f"a: (Const): {TASK}/device:CPU:0",
    f"a: (Const){TASK}/cpu:0",
    f"a: {TASK}/gpu:1",
    "2022-05-03 10:00:00.000001: I tensorflow/core/common_runtime/placer.cc:114] ",
    "I0000 00:00:1790000002.195106   20417 placer.cc:162] ",
    "lacer.cc:874] ",
    "simple_placer.cc:304]",
    "Executing op Add in device ",
    f"Executing op Add in device {TASK}/device:GPU:0",
    "[1,3]<stderr>:",
    "\x1b[36m",
    "> ",
    "Device mapping:\n",
    " -> device: 0, name: Tesla T4, pci bus id: 0000:00:05.0, compute capability: 7.5",
    "Created TensorFlow device (",
    " with 8264 MB memory) -> physical GPU (device: 0, name: GTX",
    "Cannot assign a device for operation ",
    "Could not satisfy explicit device specification '",
    "' because no supported kernel for GPU devices is available.",
    "was explicitly assigned to ",
    " but available devices are [ ",
    "Colocation Debug Info:\n",
    "Colocation group had the following types and devices: \n",
    "MatMul: GPU CPU \n",
    "Registered kernels:\n",
    "  device='CPU'; T in [DT_FLOAT]\n",
    "Colocation members:\n",
    "  x (VariableV2) /device:GPU:1\n",
    "Failed to place the graph without changing the devices of some resources",
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.0GiB (rounded to 10)requested by op x\n",
    "OOM when allocating tensor with shape[1,2] and type float on ",
    " by allocator GPU_0_bfc\n",
    "bfc_allocator.cc:1] ",
    "failed to allocate 1.0G (100 bytes) from device",
    "Streaming output truncated to the last 5 lines.\n",
    "&gt;",
    "é",
    '{"log":"',
    '\\n","stream":"stdout"}\n',
    "Ignoring device specification /device:GPU:0 for node 'q'",
]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join)


def devices(log: LogRecords) -> set[str]:
    found = {record.device for record in log.placements} | {row.device for row in log.devices}
    for event in log.events:
        if isinstance(event, EagerRecord):
            found.add(event.device)
        else:
            found |= set(event.details.get("available", [])) | set(event.details.get("candidates", []))
            found |= {event.details["device"]} if "device" in event.details else set()
    return found


def squeezed(text: str) -> str:
    """Drop what wrapping and escaping can put into a device's name, and write the old form as the new one."""
    text = re.sub(r"\\u[0-9a-fA-F]{4}|\\[a-z]|[\s\\]|\x1b\[36m", "", text).lower()
    return re.sub(r"/device:", "/", text)


def assert_sound(text: str, log: LogRecords) -> None:
    there = squeezed(text)
    for name in devices(log):
        kind, number = name.rsplit("/device:", 1)[1].rsplit(":", 1)
        short = f"/{kind}:{number}".lower()
        assert short in there, name
        assert f"{name.split('/device:')[0]}{short}".lower() in there or name.startswith(TASK), name
    counts = log.counts
    kinds = (counts.matched, counts.duplicate, counts.devices, counts.events, counts.context)
    assert sum(kinds) + counts.noise_lines + counts.blank == counts.lines
    assert min(*kinds, counts.noise_lines, counts.blank) >= 0
    log.to_json()


@settings(max_examples=1500, deadline=None)
@given(texts)
@example(f"a: (Const): {TASK}/device:GPU:10.5")
@example(f"Executing op Add in device {TASK}/device:GPU:00")
@example(f"a: (Const): {TASK}/device:0pu:0")
@example(f"Executing op Add in device {TASK}/device:GPU:0] Executing op Add in device {TASK}/device:GPU:0")
@example(f"(x): b: (Const): {TASK}/device:CPU:0b: (Const): {TASK}/device:CPU:0")
def test_text(text: str) -> None:
    log = read_log(text + "\n")
    assert_sound(text, log)
    again = read_log(text + "\n", keep_kinds=True)
    assert (log.placements, log.devices, log.events, log.counts) == (
        again.placements,
        again.devices,
        again.events,
        again.counts,
    )
    parse_placement_error(text)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.integers(1, 50))
def test_bytes_in_pieces(data: bytes, size: int) -> None:
    reader = LogReader()
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    assert reader.finish() == read_log(data)


@settings(max_examples=300, deadline=None)
@given(texts, st.integers(0, 2000), st.integers(0, 255))
def test_one_wrong_byte(text: str, at: int, byte: int) -> None:
    data = bytearray(f"a/b: (Const): {TASK}/device:CPU:0\n{text}\n".encode())
    data[at % len(data)] = byte
    log = read_log(bytes(data))
    assert_sound(data.decode("utf-8-sig", errors="replace"), log)


def test_ten_megabytes_on_one_line() -> None:
    log = read_log("x" * 10_000_000 + f": (Const): {TASK}/device:CPU:0\n")
    assert [len(record.name) for record in log.placements] == [10_000_000]


def test_random_bytes() -> None:
    with open("/dev/urandom", "rb") as source:
        data = source.read(3_000_000)
    log = read_log(data)
    assert (log.placements, log.devices, log.events) == ([], [], [])
    assert log.counts.lines == data.count(b"\n") + (not data.endswith(b"\n"))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 5, 10]), min_size=3, max_size=8), st.booleans())
def test_any_share_of_other_text(shares: list[int], blanks: bool) -> None:
    """Text is read in one of three ways, by how much of the text before it was placements."""
    blocks = []
    for number, share in enumerate(shares):
        rows = [f"n{number}/{i}: (Const): {TASK}/device:CPU:0\n" for i in range(5 * share)]
        rows += ["\n" if blanks and i % 3 else f"loss: {i}\n" for i in range(50 - 5 * share)]
        blocks.append("".join(rows[i * 7 % len(rows)] if len(rows) % 7 else rows[i] for i in range(len(rows))))
    reader = LogReader()
    for block in blocks:
        reader.feed(block)
    log = reader.finish()
    exact = read_log("".join(blocks), keep_kinds=True)
    assert (log.placements, log.counts) == (exact.placements, exact.counts)
    assert len(log.placements) == 5 * sum(shares)
