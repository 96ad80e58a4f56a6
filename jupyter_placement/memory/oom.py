"""An out of memory explained: which card, how much was asked for, who holds it, TensorFlow's setup, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jupyter_placement.devices import device_type, short_device
from jupyter_placement.memory.cards import CardReading, GpuProcess
from jupyter_placement.memory.mapping import CardMatch
from jupyter_placement.memory.oom_facts import OomFacts, facts_of
from jupyter_placement.memory.setup import TensorFlowSetup
from jupyter_placement.placement import MemorySample
from jupyter_placement.summary import readable_bytes

_HOLDERS = 5


class OomEvent(Protocol):
    """An out-of-memory event: an ``Event`` of a placement or an ``EventRecord`` of a log."""

    @property
    def nodes(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def details(self) -> dict[str, Any]: ...  # noqa: D102
    @property
    def lines(self) -> tuple[str, ...]: ...  # noqa: D102


@dataclass(frozen=True)
class OomExplanation:
    """What is known of an out of memory.

    Attributes
    ----------
    fatal : bool
        Whether something failed; ``False`` for what TensorFlow survives by asking for less.
    what : str
        A sentence: what ran out of memory where, and how much was asked for.
    card : str
        A sentence on the card or the machine: total, held, free. Empty when it could not be read.
    holders : tuple of str
        Who holds it, the largest first.
    setup : str
        A sentence on how TensorFlow is set up, with its own in-use, peak and limit.
    advice : tuple of str
        What to do, the most promising first.
    """

    fatal: bool
    what: str
    card: str = ""
    holders: tuple[str, ...] = ()
    setup: str = ""
    advice: tuple[str, ...] = ()

    def text(self) -> str:
        """Say it in plain text."""
        lines = [self.what, self.card]
        lines += ["Held by:", *(f"  {holder}" for holder in self.holders)] if self.holders else []
        lines.append(self.setup)
        lines += ["What to do:", *(f"  - {one}" for one in self.advice)] if self.advice else []
        return "\n".join(line for line in lines if line)

    def __repr__(self) -> str:
        return self.text()


def explain_oom(
    event: OomEvent,
    *,
    matches: Sequence[CardMatch] = (),
    readings: Sequence[CardReading] = (),
    samples: Sequence[MemorySample] = (),
    setup: TensorFlowSetup | None = None,
) -> OomExplanation:
    """Explain an out-of-memory event with what else is known.

    Parameters
    ----------
    event : Event or EventRecord
        Of the kind ``"oom"``.
    matches : sequence of CardMatch
        Which card each of TensorFlow's GPUs is on.
    readings : sequence of CardReading
        What each card holds, and who holds it.
    samples : sequence of MemorySample
        Of which the latest of the host and of TensorFlow's allocators are used.
    setup : TensorFlowSetup, optional
        How TensorFlow is set up.

    Examples
    --------
    >>> from jupyter_placement.placement import Event
    >>> facts = {"stage": "allocator", "fatal": True, "allocator": "GPU_0_bfc", "bytes": 18874368}
    >>> explain_oom(Event("oom", "", ("net/SquaredDifference",), details=facts)).what
    'Out of memory on GPU:0: net/SquaredDifference asked for 18.0 MiB.'
    """
    facts = facts_of(event.nodes, event.details, event.lines)
    match = next((one for one in matches if one.device == facts.device), None)
    reading = _reading(facts, match, readings)
    own = _latest(samples, facts.device) if facts.device else None
    if facts.device is not None and device_type(facts.device) == "CPU":
        return _of_host(facts, _latest(samples, "host"))
    if not facts.fatal:
        return OomExplanation(False, _what(facts, match), advice=(_SURVIVED,))
    return OomExplanation(
        True,
        _what(facts, match),
        "" if reading is None else _card(reading),
        _holders(reading),
        _setup(setup, own),
        tuple(_advice(facts, reading, own, setup)),
    )


_SURVIVED = (
    "Nothing has to be done: TensorFlow asks again for less, and nothing has failed. If it is slow, give "
    "it more of the "
    "card."
)


def _what(facts: OomFacts, match: CardMatch | None) -> str:
    where = short_device(facts.device) if facts.device else "a GPU"
    if match is not None and match.card is not None:
        where += f", which is {match.card.title}"
    who = facts.node or {"start": "TensorFlow's start", "driver": "TensorFlow"}.get(facts.stage, "an operation")
    asked = f"asked for {facts.asked}" if facts.asked else "asked for memory"
    if not facts.fatal:
        return f"No failure, a back-off on {where}: {who} {asked}, did not get it and goes on with less."
    return f"Out of memory on {where}: {who} {asked}."


def _reading(facts: OomFacts, match: CardMatch | None, readings: Sequence[CardReading]) -> CardReading | None:
    if match is not None and match.card is not None:
        return next((one for one in readings if one.card.key == match.card.key), None)
    return readings[0] if len(readings) == 1 else None


def _latest(samples: Sequence[MemorySample], device: str) -> MemorySample | None:
    return max((one for one in samples if one.device == device), key=lambda one: one.time, default=None)


def _card(reading: CardReading) -> str:
    return (
        f"The card has {readable_bytes(reading.total)}: {readable_bytes(reading.used)} held now, "
        f"{readable_bytes(reading.free)} free."
    )


def _holders(reading: CardReading | None) -> tuple[str, ...]:
    if reading is None:
        return ()
    if reading.processes is None:
        return (f"Who holds it is {reading.reasons.get('processes', 'not available')}.",)
    by_size = sorted(reading.processes, key=lambda one: -(one.used or 0))
    shown = [f"{one.title}: {readable_bytes(one.used)}" for one in by_size[:_HOLDERS]]
    if len(by_size) > _HOLDERS:
        rest = [one.used for one in by_size[_HOLDERS:]]
        shown.append(f"{len(rest)} more: {readable_bytes(sum(used or 0 for used in rest))}")
    return tuple(shown)


def _setup(setup: TensorFlowSetup | None, own: MemorySample | None) -> str:
    parts = [] if setup is None else [setup.sentence()]
    if own is not None:
        parts.append(
            f"Its allocator holds {readable_bytes(own.used)} for tensors (peak {readable_bytes(own.peak)}) of a limit "
            f"of {readable_bytes(own.total)}."
        )
    return " ".join(parts)


def _advice(
    facts: OomFacts, reading: CardReading | None, own: MemorySample | None, setup: TensorFlowSetup | None
) -> list[str]:
    advice = []
    others = _others(reading)
    if others:
        held = sum(one.used or 0 for one in others)
        first = others[0]
        advice.append(
            f"Other processes hold {readable_bytes(held)} of the card, {first.title} the most: end what is not needed "
            "(an old notebook's kernel keeps its memory until it is shut down), or use another card "
            "(CUDA_VISIBLE_DEVICES)."
        )
    if facts.stage == "start":
        advice.append(
            "If the programs shall share the card, limit each one before TensorFlow starts: plan_memory() says what "
            "fits, limit_memory() sets it. Then restart this kernel."
        )
        return advice
    if facts.size is not None and own is not None and own.total is not None and own.used is not None:
        left = own.total - own.used
        if facts.size > own.total:
            advice.append(
                f"This one request is larger than all that TensorFlow may take ({readable_bytes(own.total)}): make it "
                "smaller."
            )
        elif left > facts.size:
            advice.append(
                f"TensorFlow has {readable_bytes(left)} left but not in one piece, or the card has not: set "
                "TF_GPU_ALLOCATOR=cuda_malloc_async before TensorFlow starts, which fragments less."
            )
    if setup is not None and setup.memory_limit is not None:
        advice.append(f"TensorFlow is limited to {readable_bytes(setup.memory_limit)} of the card: raise the limit.")
    advice.append(
        "Let the program need less: a smaller batch, smaller input, mixed precision, or part of the model on another "
        "device."
    )
    return advice


def _others(reading: CardReading | None) -> list[GpuProcess]:
    if reading is None or reading.processes is None:
        return []
    others = [one for one in reading.processes if not one.own and one.used]
    return sorted(others, key=lambda one: -(one.used or 0))


def _of_host(facts: OomFacts, host: MemorySample | None) -> OomExplanation:
    """Explain it for the CPU, whose allocator takes the machine's own memory."""
    node = facts.node or "an operation"
    asked = f"asked for {facts.asked}" if facts.asked else "asked for memory"
    what = f"Out of memory on the CPU: {node} {asked}."
    if not facts.fatal:
        return OomExplanation(False, what, advice=(_SURVIVED,))
    if host is None:
        return OomExplanation(True, what, advice=("Make the tensor smaller, or work through it in parts.",))
    machine = (
        f"The machine has {readable_bytes(host.total)}, of which {readable_bytes(host.used)} are in use; this process "
        f"has {readable_bytes(host.process)}."
    )
    larger = facts.size is not None and host.total is not None and facts.size > host.total
    advice = (
        "This one tensor is larger than the machine's memory: make it smaller, or work through it in parts."
        if larger
        else "End what else uses the machine's memory, or make the tensor smaller."
    )
    return OomExplanation(True, what, machine, advice=(advice,))
