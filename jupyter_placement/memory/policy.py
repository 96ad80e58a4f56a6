"""TensorFlow's ways of limiting what a program takes of a GPU, and the lines of code that set them."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_placement.summary import readable_bytes

MIB = 1 << 20


@dataclass(frozen=True)
class MemoryPolicy:
    """One way of limiting GPU memory; without any, TensorFlow takes nearly all that is free at its start.

    Attributes
    ----------
    fraction : float or None
        Share of the whole card, above 0 and at most 1.
    memory_limit : int or None
        MiB of each card.
    allow_growth : bool
        Whether memory is taken when it is needed.

    Raises
    ------
    ValueError
        When a number is out of range, or two ways exclude each other.
    """

    fraction: float | None = None
    memory_limit: int | None = None
    allow_growth: bool = False

    @property
    def unlimited(self) -> bool:
        """Whether nothing is limited."""
        return self.fraction is None and self.memory_limit is None and not self.allow_growth

    def __post_init__(self) -> None:
        if self.fraction is not None and not (_is_number(self.fraction) and 0 < self.fraction <= 1):
            raise ValueError(f"a fraction of the card is above 0 and at most 1; it is {self.fraction!r}")
        if self.memory_limit is not None and not (_is_whole(self.memory_limit) and self.memory_limit > 0):
            raise ValueError(f"a memory limit is a whole number of MiB above 0; it is {self.memory_limit!r}")
        if self.fraction is not None and self.memory_limit is not None:
            raise ValueError("give a fraction of the card or a memory limit, not both")
        if self.allow_growth and (self.fraction is not None or self.memory_limit is not None):
            raise ValueError(
                "TensorFlow does not let memory grow on a card that has a limit: give allow_growth or the limit alone"
            )

    def asks(self, total: int, nearly_all: int) -> int | None:
        """Return the bytes that TensorFlow asks for at its start; ``None`` if it asks when it needs memory.

        Parameters
        ----------
        total, nearly_all : int
            Bytes of the card, and those that an unlimited TensorFlow would take of what is free.
        """
        if self.allow_growth:
            return None
        if self.fraction is not None:
            return int(self.fraction * total)
        return nearly_all if self.memory_limit is None else self.memory_limit * MIB

    def sum_of(self, programs: int, total: int) -> str:
        """Write what the programs ask for together, as a share of the card; empty without a limit.

        Examples
        --------
        >>> MemoryPolicy(fraction=0.4).sum_of(3, 16 << 30)
        '3 x 0.4 = 1.2 of the card'
        >>> MemoryPolicy(memory_limit=4096).sum_of(3, 16 << 30)
        '3 x 4.0 GiB = 12.0 GiB of 16.0 GiB'
        """
        if self.fraction is not None:
            return f"{programs} x {self.fraction:g} = {programs * self.fraction:g} of the card"
        if self.memory_limit is not None:
            each = self.memory_limit * MIB
            return f"{programs} x {readable_bytes(each)} = {readable_bytes(programs * each)} of {readable_bytes(total)}"
        return ""

    def sentence(self) -> str:
        """Say what the policy means.

        Examples
        --------
        >>> MemoryPolicy(fraction=0.4).sentence()
        'each takes 0.4 of the whole memory of each card at its start, whatever the others hold.'
        """
        if self.fraction is not None:
            return (
                f"each takes {self.fraction:g} of the whole memory of each card at its start, whatever the others hold."
            )
        if self.memory_limit is not None:
            return f"each takes {readable_bytes(self.memory_limit * MIB)} of each card at its start."
        if self.allow_growth:
            return "each takes memory when it needs it, and does not give it back before it ends."
        return "each takes nearly all that is free of each card at its start; the next one finds nothing."

    def tf1(self) -> str:
        """Return the lines for TensorFlow 1 and for sessions in TensorFlow 2."""
        lines = ["config = tf.compat.v1.ConfigProto()"]
        if self.fraction is not None:
            lines.append(f"config.gpu_options.per_process_gpu_memory_fraction = {self.fraction:g}")
        elif self.memory_limit is not None:
            lines.append(
                f"config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[{self.memory_limit}])  # GPU:0"
            )
        elif self.allow_growth:
            lines.append("config.gpu_options.allow_growth = True")
        return "\n".join([*lines, "session = tf.compat.v1.Session(config=config)"])

    def tf2(self, total: int | None = None) -> str:
        """Return the lines for TensorFlow 2.

        Parameters
        ----------
        total : int, optional
            Bytes of the card: TensorFlow 2 has no fraction, so it is written as a limit.
        """
        limit = self.limit_of(total)
        loop = 'for gpu in tf.config.list_physical_devices("GPU"):'
        if limit is not None:
            setting = f"[tf.config.LogicalDeviceConfiguration(memory_limit={limit})]"
            return f"{loop}\n    tf.config.set_logical_device_configuration(gpu, {setting})"
        if self.fraction is not None:
            return (
                f"limit = int({self.fraction:g} * 16384)  # of the card's memory, here 16384 MiB\n{loop}\n"
                "    tf.config.set_logical_device_configuration(\n"
                "        gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=limit)]\n    )"
            )
        if self.allow_growth:
            return f"{loop}\n    tf.config.experimental.set_memory_growth(gpu, True)"
        return "# nothing to set: this is what TensorFlow does by itself"

    def limit_of(self, total: int | None) -> int | None:
        """Return the limit in MiB, of a card with this many bytes; ``None`` without a limit, or if it is not known.

        Examples
        --------
        >>> MemoryPolicy(fraction=0.5).limit_of(16 << 30), MemoryPolicy(fraction=0.5).limit_of(None)
        (8192, None)
        """
        if self.memory_limit is not None:
            return self.memory_limit
        if self.fraction is not None and total is not None:
            return int(self.fraction * total) // MIB
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
