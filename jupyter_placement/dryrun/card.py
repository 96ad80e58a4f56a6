"""A kind of device that a machine is imagined of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jupyter_placement.placement import PlacementError

MIB = 1 << 20
GIB = 1 << 30
# Bytes per second and lane, one way, after 128b/130b encoding, by PCI Express generation.
_PCIE_LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
_SMALL_CARD = 2 * GIB


@dataclass(frozen=True)
class Card:
    """A kind of GPU; or of CPU, where ``type`` says so.

    Two cards of your own are ``dry_run(f, x, on=[Card("mine", memory=16 << 30)] * 2)``. With
    ``KNOWN_CARDS["mine"] = Card("mine", ...)`` it can be named: ``on="2xmine"``. What is ``None`` is not known; of a
    card without ``bandwidth`` and ``flops`` no time is estimated.

    Attributes
    ----------
    name : str
        Its name in an ``on``.
    memory : int
        Bytes that are on it.
    bandwidth : float or None
        Bytes per second between its processor and its memory.
    flops : mapping of str to float
        Peak operations per second by type (``float64``, ``float32``, ``tf32``, ``float16``, ``bfloat16``, ``int8``),
        without sparsity; of tensor cores where it has them for the type, ``float32`` and ``float64`` without.
    units : int or None
        Streaming multiprocessors; of a CPU the operations that it runs at a time.
    clock : float or None
        Boost clock in hertz.
    capability : str
        Compute capability, for example ``"8.0"``.
    pcie : int
        Generation of its PCI Express link.
    lanes : int
        Lanes of that link.
    nvlink : float or None
        Bytes per second to other cards, one way, all its NVLinks together.
    ecc : bool
        Whether 1/16 of the memory is taken for error correction (GDDR memory of data centre cards).
    source : str
        Where these numbers are from.
    type : str
        ``"GPU"`` or ``"CPU"``.
    """

    name: str
    memory: int
    bandwidth: float | None = None
    flops: Mapping[str, float] = field(default_factory=dict)
    units: int | None = None
    clock: float | None = None
    capability: str = ""
    pcie: int = 3
    lanes: int = 16
    nvlink: float | None = None
    ecc: bool = False
    source: str = ""
    type: str = "GPU"

    def __post_init__(self) -> None:
        """Refuse what cannot be a card.

        Raises
        ------
        PlacementError
            With a sentence.
        """
        if not isinstance(self.name, str) or not self.name:
            raise PlacementError(f"a card's name is a text, not {self.name!r}")
        if isinstance(self.memory, bool) or not isinstance(self.memory, int) or self.memory <= 0:
            raise PlacementError(f"a card's memory is a number of bytes, like 16 << 30, not {self.memory!r}")
        if self.type not in ("GPU", "CPU"):
            raise PlacementError(f'a card\'s type is "GPU" or "CPU", not {self.type!r}')
        if self.pcie not in _PCIE_LANE:
            raise PlacementError(
                f"PCI Express has generations {min(_PCIE_LANE)} to {max(_PCIE_LANE)}, not {self.pcie!r}"
            )

    @property
    def available(self) -> int:
        """Bytes that TensorFlow takes when it has the card alone.

        Without what error correction takes, and what TensorFlow leaves for the system (``MinSystemMemory`` in
        ``gpu_device.cc``). The CUDA context takes some 300 to 500 MB more, which depends on the driver.
        """
        if self.type == "CPU":
            return self.memory
        total = self.memory * 15 // 16 if self.ecc else self.memory
        major = int(self.capability.partition(".")[0] or 9)
        left = 500 if major <= 6 else 1050 if major == 7 else 1536 if major == 8 else 1800
        return max(0, total - (225 if total < _SMALL_CARD else left) * MIB)

    @property
    def host_link(self) -> float:
        """Bytes per second to the host's memory, one way.

        Examples
        --------
        >>> f"{Card('mine', 16 << 30, pcie=3).host_link / 1e9:.1f} GB/s"
        '15.8 GB/s'
        """
        return _PCIE_LANE[self.pcie] * self.lanes

    def rate(self, dtype: str | None, matrices: bool = False) -> float | None:
        """Return its peak operations per second.

        Parameters
        ----------
        dtype : str or None
            Type of the numbers.
        matrices : bool
            Whether it is a product of matrices or a convolution, for which tensor cores are there. TensorFlow takes
            TF32 for these in ``float32`` (``tf.config.experimental.enable_tensor_float_32_execution``).

        Examples
        --------
        >>> card = Card("mine", 16 << 30, flops={"float32": 19.5e12, "tf32": 156e12})
        >>> card.rate("float32") / 1e12, card.rate("float32", matrices=True) / 1e12
        (19.5, 156.0)
        """
        plain = self.flops.get("float32")
        if not matrices:
            return self.flops.get("float64", plain) if dtype in ("float64", "complex128") else plain
        kind = "tf32" if dtype == "float32" and "tf32" in self.flops else (dtype or "float32")
        return self.flops.get(kind, plain)
