"""Out of memory explained: the card, what was asked for, the holders, the setup, what to do; and "
"back-off lines apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_placement.log import EventRecord, LogReader
from jupyter_placement.memory.cards import Card, CardReading, GpuProcess
from jupyter_placement.memory.mapping import CardMatch
from jupyter_placement.memory.oom import explain_oom
from jupyter_placement.memory.oom_facts import read_oom
from jupyter_placement.memory.setup import TensorFlowSetup, tensorflow_setup
from jupyter_placement.placement import Event, MemorySample

GIB, MIB = 1 << 30, 1 << 20
GPU0 = "/job:localhost/replica:0/task:0/device:GPU:0"
CARD = Card(3, "Tesla T4")
MATCH = CardMatch(GPU0, CARD, "pci", "")
OTHER = GpuProcess(99, 12 * GIB, "python", "ada")
OWN = GpuProcess(12, 3 * GIB, "python", "me", own=True)
READING = CardReading(CARD, 16 * GIB, 15 * GIB + GIB // 2, GIB // 2, 0, 90, (OWN, OTHER), 3 * GIB)
ALLOCATOR = Event(
    "oom",
    "",
    ("net/Conv2D",),
    details={
        "stage": "allocator",
        "fatal": True,
        "allocator": "GPU_0_bfc",
        "bytes": 18874368,
        "shape": [3, 3, 512, 1024],
    },
)
CASES = Path(__file__).parents[1] / "cases" / "logs"


def test_everything_that_is_known_is_said() -> None:
    used = MemorySample(2.0, GPU0, used=2 * GIB, total=2 * GIB + MIB, process=2 * GIB, peak=2 * GIB)
    older = replace(used, time=1.0, used=0)
    explanation = explain_oom(
        ALLOCATOR,
        matches=[MATCH],
        readings=[replace(READING, card=Card(0), processes=()), READING],
        samples=[older, used],
        setup=TensorFlowSetup(allow_growth=False),
    )
    assert explanation.fatal
    assert explanation.text().splitlines() == [
        "Out of memory on GPU:0, which is card 3 (Tesla T4): net/Conv2D asked for 18.0 MiB (shape 3 x 3 x 512 x 1024).",
        "The card has 16.0 GiB: 15.5 GiB held now, 512.0 MiB free.",
        "Held by:",
        "  python (pid 99, ada): 12.0 GiB",
        "  this kernel (pid 12): 3.0 GiB",
        "TensorFlow takes nearly all that is free of the card at its start. Its allocator holds 2.0 GiB for "
        "tensors (peak "
        "2.0 GiB) of a limit of 2.0 GiB.",
        "What to do:",
        "  - Other processes hold 12.0 GiB of the card, python (pid 99, ada) the most: end what is not needed (an old "
        "notebook's kernel keeps its memory until it is shut down), or use another card (CUDA_VISIBLE_DEVICES).",
        "  - Let the program need less: a smaller batch, smaller input, mixed precision, or part of the "
        "model on another "
        "device.",
    ]


def test_nothing_but_the_event() -> None:
    explanation = explain_oom(ALLOCATOR)
    assert explanation.what == "Out of memory on GPU:0: net/Conv2D asked for 18.0 MiB (shape 3 x 3 x 512 x 1024)."
    assert (explanation.card, explanation.holders, explanation.setup) == ("", (), "")
    assert len(explanation.advice) == 1


def test_the_only_card_is_the_one() -> None:
    assert explain_oom(ALLOCATOR, readings=[READING]).holders[0] == "python (pid 99, ada): 12.0 GiB"
    two = [READING, replace(READING, card=Card(0))]
    assert explain_oom(ALLOCATOR, readings=two).holders == ()


def test_many_holders_are_summed_up() -> None:
    crowd = tuple(GpuProcess(k, k * MIB, "python") for k in range(1, 9))
    explanation = explain_oom(ALLOCATOR, readings=[replace(READING, processes=crowd)])
    assert explanation.holders[0] == "python (pid 8): 8.0 MiB"
    assert explanation.holders[-1] == "3 more: 6.0 MiB"
    assert len(explanation.holders) == 6


def test_holders_that_are_not_told() -> None:
    refused = replace(READING, processes=None, reasons={"processes": "not available (no permission)"})
    explanation = explain_oom(ALLOCATOR, readings=[refused])
    assert explanation.holders == ("Who holds it is not available (no permission).",)
    assert "Other processes" not in explanation.text()


@pytest.mark.parametrize(
    ("used", "total", "advice"),
    [
        (GIB, 4 * GIB, "TF_GPU_ALLOCATOR=cuda_malloc_async"),
        (0, 10 * MIB, "This one request is larger than all that TensorFlow may take (10.0 MiB)"),
    ],
)
def test_what_tensorflow_has_left(used: int, total: int, advice: str) -> None:
    sample = MemorySample(1.0, GPU0, used=used, total=total)
    assert advice in "\n".join(explain_oom(ALLOCATOR, samples=[sample]).advice)


def test_a_limit_is_named() -> None:
    explanation = explain_oom(ALLOCATOR, setup=TensorFlowSetup(memory_limit=2 * GIB))
    assert explanation.setup == "TensorFlow takes 2.0 GiB of the card, its limit, at its start."
    assert "TensorFlow is limited to 2.0 GiB of the card: raise the limit." in explanation.advice


def explained(text: str) -> list[str]:
    return [explain_oom(event, matches=[MATCH], readings=[READING]).what for event in read_oom(text)]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "CUDA runtime implicit initialization on GPU:0 failed. Status: out of memory",
            "Out of memory on GPU:0, which is card 3 (Tesla T4): TensorFlow's start asked for memory.",
        ),
        (
            "E cuda_driver.cc:328] failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY: out of "
            "memory; total "
            "memory reported: 11715084288",
            "Out of memory on a GPU: TensorFlow's start asked for memory.",
        ),
        (
            "OOM when allocating tensor with shape[1000,2000] and type float on "
            "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:MatMul]",
            "Out of memory on GPU:0, which is card 3 (Tesla T4): an operation asked for 7.6 MiB (shape 1000 x 2000).",
        ),
        (
            "Out of memory while trying to allocate 12345678 bytes.",
            "Out of memory on a GPU: an operation asked for 11.8 MiB.",
        ),
    ],
)
def test_failures(text: str, what: str) -> None:
    assert explained(text) == [what]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "cuda_driver.cc:806] failed to allocate 10.91G (11715084288 bytes) from device: "
            "CUDA_ERROR_OUT_OF_MEMORY: out "
            "of memory",
            "No failure, a back-off on a GPU: TensorFlow asked for 10.9 GiB, did not get it and goes on with less.",
        ),
        (
            "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.13GiB with freed_by_count=0. The "
            "caller indicates "
            "that this is not a failure, but this may mean that there could be performance gains if more memory were "
            "available.",
            "No failure, a back-off on GPU:0, which is card 3 (Tesla T4): an operation asked for about 2.13GiB, "
            "did not get "
            "it and goes on with less.",
        ),
    ],
)
def test_back_off_lines_are_no_failures(text: str, what: str) -> None:
    (event,) = read_oom(text)
    explanation = explain_oom(event, matches=[MATCH], readings=[READING])
    assert explanation.what == what
    assert not explanation.fatal
    assert explanation.holders == ()
    assert "Nothing has to be done" in explanation.advice[0]


def test_a_start_that_fails_says_how_to_share_the_card() -> None:
    (event,) = read_oom("CUDA runtime implicit initialization on GPU:0 failed. Status: out of memory")
    advice = explain_oom(event, matches=[MATCH], readings=[READING]).advice
    assert advice[0].startswith("Other processes hold 12.0 GiB of the card")
    assert "limit_memory() sets it" in advice[1]


def test_a_real_log() -> None:
    reader = LogReader()
    reader.feed((CASES / "32-oom-tf2-requested-by-op.log").read_bytes())
    (event,) = [one for one in reader.finish().events if isinstance(one, EventRecord)]
    assert explain_oom(event).what == (
        "Out of memory on GPU:0: StatefulPartitionedCall/net_1/norm_36/SquaredDifference asked for 18.0 MiB "
        "(shape 3 x 3 x 512 x 1024)."
    )


def test_the_cpu_takes_the_machines_memory() -> None:
    text = (
        "OOM when allocating tensor with shape[300000,300000] and type float on "
        "/job:localhost/replica:0/task:0/device:CPU:0 by allocator mklcpu [Op:MatMul]"
    )
    (event,) = read_oom(text)
    host = MemorySample(1.0, "host", used=9 * GIB, total=24 * GIB, process=GIB)
    explanation = explain_oom(event, readings=[READING], samples=[host])
    assert explanation.text().splitlines() == [
        "Out of memory on the CPU: an operation asked for 335.3 GiB (shape 300000 x 300000).",
        "The machine has 24.0 GiB, of which 9.0 GiB are in use; this process has 1.0 GiB.",
        "What to do:",
        "  - This one tensor is larger than the machine's memory: make it smaller, or work through it in parts.",
    ]


def test_text_without_an_out_of_memory() -> None:
    assert read_oom("") == []
    assert read_oom("all is well, with much memory\n") == []


@pytest.mark.parametrize(("value", "growth"), [("true", True), ("0", False), ("", None), ("perhaps", None)])
def test_growth_that_the_environment_forces(value: str, growth: bool | None) -> None:
    setup = tensorflow_setup(environ={"TF_FORCE_GPU_ALLOW_GROWTH": value, "TF_GPU_ALLOCATOR": "cuda_malloc_async"})
    assert setup.allow_growth is growth
    assert setup.sentence().endswith(" (allocator cuda_malloc_async).")
