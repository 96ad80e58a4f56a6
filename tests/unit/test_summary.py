"""The text of a Placement, and the sums in it."""

from __future__ import annotations

from jupyter_placement.placement import MemorySample, Placement
from jupyter_placement.summary import NOTHING, fallbacks, memory_peaks, transfers
from tests.unit.placements import CPU0, CPU1, GPU0, GPU1, chain_placement, small_placement


def test_summary_says_all_that_is_known() -> None:
    assert small_placement().summary().splitlines() == [
        "7 operations on 3 devices",
        "  CPU:0        2   28.6 %",
        "  GPU:0        2   28.6 %  Tesla T4",
        "  GPU:1        2   28.6 %",
        "  1 operation never placed",
        "Not on the device that they asked for: 1 operation",
        "  asked /device:GPU:0, got CPU:0: 1 PrintV2: tower/Print",
        "Transfers between devices: 3 tensors",
        "  GPU:0 -> GPU:1: 1 tensor, 32 B",
        "  CPU:0 -> GPU:0: 1 tensor, 24 B",
        "  GPU:0 -> CPU:0: 1 tensor, size unknown",
        "  CPU:0 -> GPU:1: 1 control edge",
        "In host memory, although on a GPU: the values of 1 operation",
        "TensorFlow said (2):",
        "  tower/Print asked for a GPU and was put on CPU:0: it has no GPU kernel.",
        "  TensorFlow was started before.",
        "Memory, highest seen:",
        "  host: 1.0 GiB of 16.0 GiB used, this process 256.0 MiB",
        "  card 1 (Tesla T4): 2.0 GiB of 16.0 GiB used, this process not available",
        "  TensorFlow's GPU:0: peak 4.0 KiB, in use 512 B of 8.0 GiB",
        "1 placement line of the log (of 6 lines read) could not be matched to an operation.",
    ]


def test_summary_of_an_empty_placement_says_why() -> None:
    assert Placement().summary() == NOTHING
    told = Placement(meta={"nothing": "Nothing was placed: the cell raised before TensorFlow ran."})
    assert told.summary() == "Nothing was placed: the cell raised before TensorFlow ran."


def test_a_request_that_the_device_meets_is_no_fallback() -> None:
    placement = Placement()
    placement.add_node("open", op="Add", device=GPU1, requested="/device:GPU:*")
    placement.add_node("free", op="Add", device=CPU0)
    placement.add_node("beside", op="Add", device=CPU0, requested="loc:@open")
    placement.add_node("other card", op="Add", device=GPU0, requested="/gpu:1", reason="colocated")
    assert [(group.requested, group.assigned, group.nodes) for group in fallbacks(placement)] == [
        ("/gpu:1", GPU0, ["other card"])
    ]


def test_a_tensor_is_sent_once_to_a_device_whatever_its_consumers() -> None:
    placement = Placement()
    for name, device in (("a", CPU0), ("b", GPU0), ("c", GPU0), ("d", GPU1)):
        placement.add_node(name, op="Add", device=device)
    for consumer in "bcd":
        placement.add_edge("a", consumer, 0, tensor="a:0", bytes=100)
    placement.add_edge("a", "b", 1, tensor="a:1")
    assert [(one.source, one.target, one.tensors, one.bytes, one.unknown) for one in transfers(placement)] == [
        (CPU0, GPU0, 2, 100, 1),
        (CPU0, GPU1, 1, 100, 0),
    ]


def test_a_run_on_several_devices_without_transfers_says_so() -> None:
    placement = chain_placement(["a"], [CPU0])
    placement.add_node("b", op="Const", device=CPU1)
    assert "No transfers between devices" in placement.summary().splitlines()
    assert "No transfers between devices" not in chain_placement(["a", "b"], [CPU0]).summary().splitlines()


def test_memory_peaks_never_turn_a_refused_reading_into_a_number() -> None:
    placement = Placement(memory=[MemorySample(0.0, "nvml:0", used=5), MemorySample(1.0, "nvml:0", used=3, total=9)])
    (peak,) = memory_peaks(placement)
    assert (peak.used, peak.total, peak.process, peak.peak) == (5, 9, None, None)
