"""What is refused before TensorFlow's placer is asked: another Python that will not do, values of the wrong kind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_placement.dryrun import dry_run
from jupyter_placement.dryrun.helper import Helper
from jupyter_placement.placement import Device, PlacementError

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def stand_in(folder: Path, body: str) -> str:
    """Make a program that is started in place of a Python."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)
    return str(path)


def saying(told: dict[str, Any]) -> str:
    return (
        "import struct, sys\n"
        f"data = {json.dumps(told).encode()!r}\n"
        "sys.stdout.buffer.write(struct.pack('<Q', len(data)) + data + struct.pack('<Q', 0))\n"
        "sys.stdout.flush()\n"
        "sys.stdin.read()\n"
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            saying({"tensorflow": "2.21.0", "cuda": False}),
            r"has TensorFlow 2\.21\.0 without GPU kernels.*not tensorflow-cpu",
        ),
        (saying({"failed": "ImportError", "missing": "grpc._channel"}), r"-m pip install grpcio$"),
        (saying({"failed": "ImportError", "missing": "tensorflow"}), r"has no TensorFlow\..*pip install tensorflow"),
        (saying({"failed": "OSError: no port"}), r"could not start TensorFlow for dry runs: OSError: no port"),
        ("raise SystemExit('no such option')", r"\(exit status 1: no such option\)"),
        ("print('hello, this is no answer at all')", r"\(exit status 0\)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", r"\(killed by signal 11\)"),
    ],
)
def test_another_python_that_will_not_do_is_told_why(tmp_path: Path, body: str, said: str) -> None:
    python = stand_in(tmp_path, body)
    with pytest.raises(PlacementError, match=said) as raised:
        Helper(python).place(b"", [])
    assert str(raised.value).startswith(python)


def test_a_python_without_grpc_or_tensorflow_says_so_itself(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(PlacementError, match=r"bare has no TensorFlow\. "):
        Helper(str(bare)).place(b"", [])
    (tmp_path / "grpc.py").write_text("raise ModuleNotFoundError(\"No module named 'grpc'\", name='grpc')")
    poor = tmp_path / "poor"
    poor.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    poor.chmod(0o755)
    with pytest.raises(PlacementError, match=r"poor lacks the module grpc.*poor -m pip install grpcio$"):
        Helper(str(poor)).place(b"", [])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeout": "a"}, "timeout= is a number of seconds above 0, not 'a'"),
        ({"timeout": 0}, "timeout= is a number of seconds above 0, not 0"),
        ({"timeout": float("nan")}, "timeout= is a number of seconds above 0, not nan"),
        ({"soft": "x"}, "soft= is True or False, not 'x'"),
        ({"train": 1}, "train= is True or False, not 1"),
        ({"signature": 1}, "signature= is the name of a SavedModel's signature, not 1"),
        ({"python": 5}, "python= is the path of another environment's Python, not 5"),
        ({"progress": 3}, "progress= is a function that takes a sentence, not 3"),
        ({"on": None}, "on= is a machine: .* it is None"),
        ({"on": 5}, "on= is a machine: .* it is 5"),
        ({"on": []}, r"on= is a machine: .* it is \[\]"),
        ({"on": [Device("/job:ps/task:3/device:GPU:0")]}, r"is no device of one machine: name it like GPU:0"),
    ],
)
def test_a_value_of_the_wrong_kind_is_one_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(PlacementError, match=said):
        dry_run(tf.Graph(), **{"on": "2xT4", **options})
