"""What an estimate counts, what it does not, and what it assumes: sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jupyter_placement.dryrun.card import Card
from jupyter_placement.dryrun.estimate_data import LESS, MORE, Estimate
from jupyter_placement.dryrun.machine import HOST
from jupyter_placement.dryrun.schedule import COMPUTE_SHARE, LATENCY, LAUNCH, LINK_SHARE, MEMORY_SHARE
from jupyter_placement.summary import plural

if TYPE_CHECKING:
    from jupyter_placement.dryrun.estimate import Step


def notes_on(steps: Sequence[Step], estimate: Estimate, cards: Mapping[str, Card], problem: str) -> list[str]:
    """Return what has to be known of an estimate.

    Parameters
    ----------
    steps : sequence of Step
        What it was made of.
    estimate : Estimate
        Complete but for its notes.
    cards : mapping of str to Card
        The kind of each device.
    problem : str
        Why there is no estimate of time, or ``""``.
    """
    return [*_memory(steps, estimate), *_loops(steps), *_times(steps, estimate, cards, problem)]


def _memory(steps: Sequence[Step], estimate: Estimate) -> list[str]:
    notes = [
        f"Variables and slots are exact. The peak goes from {LESS:.0%} less than in the better of two orders of the "
        f"operations to {MORE:.0%} more than in the worse one. "
        "Measured on a CPU for training steps of eleven models (TensorFlow 2.21, its graph optimizer as it is by "
        "default), the walk was off by 11% at most, in one run of several by 23%.",
        "Not counted: workspace of kernels (cuDNN, cuBLAS), fragmentation, the CUDA context (some 300 to 500 MB), what "
        "XLA compiles, and most of what TensorFlow's graph optimizer changes before it runs.",
    ]
    unknown = sum(one.unknown for one in estimate.devices)
    inputs = max((one.open_inputs for one in estimate.devices), default=0)
    if inputs:
        notes.append(
            f"{inputs:,} {_are('input', inputs)} of unknown size, so {unknown:,} {_are('tensor', unknown)} not "
            "counted: give inputs whose shapes are known, the batch too, or batch_size= (--batch)."
        )
    elif unknown:
        notes.append(
            f"{unknown:,} {_are('tensor', unknown)} of a size that depends on values, and not counted; the upper end "
            "of the peak takes each for as large as the device's largest tensor."
        )
    resources = sum(
        node.op in ("_Arg", "_DeviceArg") and output.dtype in ("resource", "variant")
        for step in steps
        for node in step.nodes
        for output in node.outputs
    )
    if resources:
        notes.append(f"{resources:,} {_are('resource', resources)} an argument (a table, a data set) and not counted.")
    strings = sum(output.dtype == "string" for step in steps for node in step.nodes for output in node.outputs)
    if strings:
        notes.append(f"The content of {plural(strings, 'string tensor')} is not counted.")
    calls = sum(sum(step.calls.values()) for step in steps)
    if calls:
        notes.append(
            f"{calls:,} {_are('call', calls)} not inlined (XLA compiles it, or TensorFlow runs it as a whole): what is "
            "inside is not counted, neither memory nor time, so no device that it may run on is said to fit."
        )
    collective = sum(node.op.startswith(("Collective", "Nccl")) for step in steps for node in step.nodes)
    if collective:
        notes.append(
            f"{plural(collective, 'operation')} that exchange tensors between devices themselves (the all-reduce of "
            "tf.distribute): what they move is in no transfer, and takes no time here."
        )
    if any(node.graph.startswith("session") for step in steps for node in step.nodes[:1]):
        notes.append("The whole graph is taken for one step, what gives variables their first values included.")
    if any(node.op == "Merge" and not node.back for step in steps for node in step.nodes):
        notes.append("Both branches of a condition are counted.")
    return notes


def _loops(steps: Sequence[Step]) -> list[str]:
    loops = [loop for step in steps for loop in step.loops]
    once = sum(loop.turns is None for loop in loops)
    notes = []
    if once:
        loops_here = plural(len(loops), "loop")
        notes.append(f"How often {once:,} of {loops_here} turns is not known: what is inside is counted once.")
    if len(loops) > once:
        turns = ", ".join(f"{loop.turns:,}" for loop in loops if loop.turns is not None)
        notes.append(f"Loops whose turns the graph tells are counted with these ({turns}).")
    return notes


def _times(steps: Sequence[Step], estimate: Estimate, cards: Mapping[str, Card], problem: str) -> list[str]:
    if estimate.seconds is None:
        return [f"There is no estimate of time: {problem.rstrip('.')}."]
    spent = [
        (number in by_bytes, step.timeline.duration[number])
        for step in steps
        if step.timeline is not None
        for by_bytes in (set(step.costs.by_bytes),)
        for number in range(len(step.nodes))
    ]
    total = sum(seconds for _, seconds in spent)
    by_bytes = sum(seconds for only_bytes, seconds in spent if only_bytes)
    unknown = sum(len(step.costs.unknown) for step in steps)
    counted = sum(step.costs.counted for step in steps)
    notes = [
        f"Times: Grappler's counts of operations and bytes, at {COMPUTE_SHARE:.0%} of the card's peak rate and "
        f"{MEMORY_SHARE:.0%} of its memory bandwidth, at least {LAUNCH * 1e6:g} µs a kernel; transfers at "
        f"{LINK_SHARE:.0%} of the link and {LATENCY * 1e6:g} µs each. No GPU was there to measure "
        "them on: take them for orders of magnitude and for comparisons. On one core of a CPU with measured rates the "
        "steps of eleven models were off by a factor of 1.5 on average, 4 at most.",
        f"Grappler counted {plural(counted, 'operation')}; of others only the bytes are "
        f"known ({by_bytes / total if total else 0:.0%} of the operations' time).",
    ]
    if unknown:
        notes.append(f"{plural(unknown, 'operation')} with tensors of unknown size, of which too little is counted.")
    if any(card is HOST for card in cards.values()):
        notes.append(f"The CPU is {HOST.source}.")
    return notes


def _are(thing: str, count: int) -> str:
    return f"{thing} is" if count == 1 else f"{thing}s are"
