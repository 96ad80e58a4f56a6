"""Limit what TensorFlow takes of each GPU, before it starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from jupyter_placement.memory.cards import Card, CardReading
from jupyter_placement.memory.nvml_worker import read_cards
from jupyter_placement.memory.policy import MIB, MemoryPolicy
from jupyter_placement.memory.tensorflow_memory import eager_context
from jupyter_placement.memory.visible import visible_cards
from jupyter_placement.summary import readable_bytes

TOO_LATE = (
    "TensorFlow has started already, and its memory cannot be limited any more: restart the kernel and call "
    "limit_memory before anything else that uses TensorFlow"
)


class MemoryLimitError(RuntimeError):
    """TensorFlow's memory cannot be limited; the message says why and what to do."""


def limit_memory(fraction: float | None = None, *, memory_limit: int | None = None, allow_growth: bool = False) -> str:
    """Limit what this process's TensorFlow takes of each GPU.

    Parameters
    ----------
    fraction : float, optional
        Share of the whole memory of each card; set as a limit in MiB, because TensorFlow 2 has no fraction.
    memory_limit : int, optional
        MiB of each card.
    allow_growth : bool
        Whether to take memory only when it is needed.

    Returns
    -------
    str
        What was set, one line for each GPU; or that there is no GPU.

    Raises
    ------
    ValueError
        When the numbers make no sense together, or nothing is asked for.
    MemoryLimitError
        When TensorFlow has started already, or a card's size is needed and cannot be read.
    """
    policy = MemoryPolicy(fraction, memory_limit, allow_growth)
    if policy.unlimited:
        raise ValueError("say how to limit memory: a fraction, a memory_limit in MiB, or allow_growth=True")
    if eager_context() is not None:
        raise MemoryLimitError(TOO_LATE)
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return "TensorFlow sees no GPU: there is nothing to limit."
    limits = _limits(policy, len(gpus))
    try:
        return "\n".join(_apply(tf, gpu, k, limits[k]) for k, gpu in enumerate(gpus))
    except RuntimeError as error:  # started between the look and the change, by another thread
        raise MemoryLimitError(TOO_LATE) from error
    except ValueError as error:
        raise MemoryLimitError(f"TensorFlow does not take this limit: {error}") from error


def _limits(policy: MemoryPolicy, gpus: int) -> list[int | None]:
    """Return the limit of each GPU in MiB; ``None`` to let it grow."""
    if policy.allow_growth or policy.memory_limit is not None:
        return [policy.memory_limit] * gpus
    answer = read_cards()
    totals = totals_by_gpu(answer.readings, os.environ)
    limits = [policy.limit_of(total) for total in [*totals, *[None] * gpus][:gpus]]
    if None in limits:
        why = answer.notes[0] if answer.notes else "The driver does not tell it."
        raise MemoryLimitError(
            f"a fraction needs the size of each card, and that of GPU:{limits.index(None)} cannot be read: give "
            f"memory_limit in MiB instead. {why}"
        )
    return limits


def totals_by_gpu(readings: list[CardReading], environ: Mapping[str, str]) -> list[int | None]:
    """Return the bytes of the cards in TensorFlow's order, before TensorFlow has started.

    Examples
    --------
    >>> readings = [CardReading(Card(0, "T4"), total=16), CardReading(Card(1, "T4"), total=32)]
    >>> totals_by_gpu(readings, {"CUDA_VISIBLE_DEVICES": "1,0"})
    [32, 16]
    """
    totals = {reading.card.key: reading.total for reading in readings}
    cards: list[Card] = [reading.card for reading in readings]
    return [totals[card.key] for card in visible_cards(cards, environ).cards]


def _apply(tf: Any, gpu: Any, number: int, limit: int | None) -> str:
    if limit is None:
        tf.config.experimental.set_memory_growth(gpu, True)
        return f"GPU:{number}: memory is taken when it is needed."
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=limit)])
    return f"GPU:{number}: at most {readable_bytes(limit * MIB)}."
