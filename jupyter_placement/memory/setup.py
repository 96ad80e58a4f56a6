"""How this process's TensorFlow is set up to take memory of a GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_placement.memory.policy import MIB
from jupyter_placement.memory.tensorflow_memory import eager_context
from jupyter_placement.summary import readable_bytes

GROWTH, ALLOCATOR = "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR"


@dataclass(frozen=True)
class TensorFlowSetup:
    """How TensorFlow takes memory of a GPU.

    Attributes
    ----------
    allow_growth : bool or None
        Whether it takes memory when it needs it; ``None`` where that is not known.
    memory_limit : int or None
        Bytes that it was limited to.
    allocator : str
        What ``TF_GPU_ALLOCATOR`` says, or ``""``.
    """

    allow_growth: bool | None = None
    memory_limit: int | None = None
    allocator: str = ""

    def sentence(self) -> str:
        """Say it in a sentence.

        Examples
        --------
        >>> TensorFlowSetup(allow_growth=False).sentence()
        'TensorFlow takes nearly all that is free of the card at its start.'
        >>> TensorFlowSetup(memory_limit=4 << 30).sentence()
        'TensorFlow takes 4.0 GiB of the card, its limit, at its start.'
        """
        if self.memory_limit is not None:
            when = "as it needs it, up to its limit" if self.allow_growth else "its limit, at its start"
            text = f"TensorFlow takes {readable_bytes(self.memory_limit)} of the card, {when}"
        elif self.allow_growth:
            text = "TensorFlow takes memory of the card when it needs it, and keeps it"
        elif self.allow_growth is None:
            text = "How TensorFlow takes memory of the card is not known"
        else:
            text = "TensorFlow takes nearly all that is free of the card at its start"
        return f"{text}{f' (allocator {self.allocator})' if self.allocator else ''}."


def tensorflow_setup(gpu: int = 0, environ: Mapping[str, str] | None = None) -> TensorFlowSetup:
    """Read how TensorFlow is set up for one of the GPUs that it sees, without starting it.

    Parameters
    ----------
    gpu : int
        TensorFlow's number of the card.
    environ : mapping, optional
        The environment variables; those of this process by default.

    Examples
    --------
    >>> tensorflow_setup(environ={"TF_FORCE_GPU_ALLOW_GROWTH": "true"}).allow_growth
    True
    """
    variables = os.environ if environ is None else environ
    forced = variables.get(GROWTH, "").strip().lower()
    growth = {"true": True, "1": True, "false": False, "0": False}.get(forced)
    limit: int | None = None
    if eager_context() is not None:
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        if gpu < len(gpus):
            configured = tf.config.get_logical_device_configuration(gpus[gpu])
            limits = [one.memory_limit for one in configured or () if one.memory_limit is not None]
            limit = int(sum(limits)) * MIB if limits else None
            if growth is None:
                growth = bool(tf.config.experimental.get_memory_growth(gpus[gpu]))
    return TensorFlowSetup(growth, limit, variables.get(ALLOCATOR, ""))
