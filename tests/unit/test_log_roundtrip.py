"""What TensorFlow writes, in each of its shapes, comes back exactly."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_placement.log import PlacementRecord, read_log

# tensorflow/core/framework/node_def_util.cc, and TensorFlow's own names, which may begin with "_".
FIRST = "abcXYZ019."
NEXT = FIRST + "_\\/>-"
legal = st.builds(str.__add__, st.sampled_from(FIRST + "_"), st.text(st.sampled_from(NEXT), max_size=30))
ODD = [
    "^init_all",
    "grad: partial",
    "model (copy)/out",
    "étape/données_Σ",
    "my node/with space",
    "job:/device",
    "gradients/x/2018-03-31",
    "a/b>c.d-e",
]
odd = st.sampled_from(ODD)
ops = st.sampled_from(
    ["MatMul", "Const", "_Arg", "_Retval", "__inference_train_step_12", "VarHandleOp", "TPUReplicate"]
)
tasks = st.sampled_from(
    ["/job:localhost/replica:0/task:0", "/job:worker/replica:0/task:11", "/job:ps/replica:1/task:2"]
)
kinds = st.sampled_from(["CPU", "GPU", "XLA_GPU", "DML", "TPU_SYSTEM"])
numbers = st.integers(0, 12)
rows = st.tuples(legal | odd, ops, tasks, kinds, numbers)
legal_rows = st.tuples(legal, ops, tasks, kinds, numbers)

DATED = "2022-05-03 10:00:00.000001: I tensorflow/core/common_runtime/placer.cc:114] "
ABSL = "I0000 00:00:1790000002.195106   20417 placer.cc:162] "
OLD = "I tensorflow/core/common_runtime/simple_placer.cc:841] "
WINDOWS = "2017-06-30 17:09:38.78: I c:\\tf_jenkins\\home\\m\\windows\\py\\35\\placer.cc:847] "
PREFIXES = [DATED, ABSL, OLD, WINDOWS]
SHAPES = ["stdout", "stderr", "twins", "twins the other way", "blocks", "shuffled"]

Row = tuple[str, str, str, str, int]


def record(row: Row) -> PlacementRecord:
    name, op, task, kind, number = row
    return PlacementRecord(name, op, f"{task}/device:{kind}:{number}")


def lines(found: list[Row], prefix: str, shape: str, legacy: bool) -> list[str]:
    out, err = [], []
    for name, op, task, kind, number in found:
        short = f"{kind.lower()}:{number}" if legacy and kind in ("CPU", "GPU") else f"device:{kind}:{number}"
        out.append(f"{name}: ({op}): {task}/{short}")
        err.append(f"{prefix}{name}: ({op}){'' if legacy else ': '}{task}/{short}")
    pairs = list(zip(out, err, strict=True))
    mixed = out + err
    random.Random(7).shuffle(mixed)
    return {
        "stdout": out,
        "stderr": err,
        "twins": [line for pair in pairs for line in pair],
        "twins the other way": [line for pair in pairs for line in pair[::-1]],
        "blocks": out + err,
        "shuffled": mixed,
    }[shape]


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=80, deadline=None)
@given(st.lists(rows, max_size=12), st.sampled_from(PREFIXES), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_comes_back(shape: str, found: list[Row], prefix: str, legacy: bool, end: str) -> None:
    text = "".join(line + end for line in lines(found, prefix, shape, legacy))
    wanted = dict.fromkeys(record(row) for row in found)
    log = read_log(text.encode())
    assert sorted(log.placements) == sorted(wanted)
    # Odd names count from their first clean sight, which is behind a log prefix.
    if shape != "shuffled" and all(row[0] not in ODD for row in found):
        assert log.placements == list(wanted)
    assert log.counts.matched == len(wanted)
    assert log.counts.matched + log.counts.duplicate == log.counts.lines


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(legal, tasks, st.sampled_from(["cpu", "gpu"]), numbers), max_size=12), st.booleans())
def test_without_types(found: list[tuple[str, str, str, int]], twins: bool) -> None:
    """TensorFlow 0.x."""
    text = ""
    for name, task, kind, number in found:
        text += f"{name}: {task}/{kind}:{number}\n"
        text += f"{OLD}{name}: {task}/{kind}:{number}\n" if twins else ""
    wanted = [
        PlacementRecord(name, None, f"{task}/device:{kind.upper()}:{number}") for name, task, kind, number in found
    ]
    assert read_log(text.encode()).placements == list(dict.fromkeys(wanted))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(legal_rows, min_size=1, max_size=12),
    st.sampled_from([DATED, ABSL]),
    st.lists(
        st.sampled_from(["loss: 0.5", "Epoch 1/3", "", " 40%|####      | 4/10 [00:01<00:02]", "total: 5", "done"]),
        min_size=12,
        max_size=12,
    ),
)
def test_among_prints(found: list[Row], prefix: str, prints: list[str]) -> None:
    """Whole lines of a program between TensorFlow's, and prints that lack their line end before the log prefix."""
    text = ""
    for row, said in zip(found, prints, strict=False):
        out, err = lines([row], prefix, "twins", legacy=False)
        text += f"{said}\n{out}\n{said}{err}\n"
    assert read_log(text.encode()).placements == list(dict.fromkeys(record(row) for row in found))


WRAPPERS = [
    "[1,0]<stdout>:",
    "worker_1  | ",
    "> ",
    ">>> ",
    "# ",
    "// ",
    "    ",
    "\x1b[36m(pid=77)\x1b[0m ",
    "[pod/a-0/tf] ",
]


@pytest.mark.parametrize("wrapper", WRAPPERS)
@settings(max_examples=25, deadline=None)
@given(found=st.lists(legal_rows, max_size=6))
def test_wrapped(wrapper: str, found: list[Row]) -> None:
    text = "".join(f"{wrapper}{line}\n" for line in lines(found, DATED, "twins", legacy=False))
    assert read_log(text.encode()).placements == list(dict.fromkeys(record(row) for row in found))


@settings(max_examples=100, deadline=None)
@given(st.lists(legal_rows, min_size=1, max_size=8), st.data())
def test_cut_off_nothing_is_invented(found: list[Row], data: st.DataObject) -> None:
    text = "\n".join(lines(found, DATED, "twins", legacy=False)) + "\n"
    end = data.draw(st.integers(0, len(text)))
    assert set(read_log(text[:end].encode()).placements) <= {record(row) for row in found}
