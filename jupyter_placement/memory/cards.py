"""What NVML tells of a card: facts that stay, and one reading of what it holds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Card:
    """A physical GPU, or a MIG instance of one, as NVML knows it.

    Attributes
    ----------
    index : int
        NVML's index of the card, which is not TensorFlow's number.
    name, uuid, pci_bus_id : str or None
        For example ``"Tesla T4"``, ``"GPU-5f4b..."`` (``"MIG-..."`` for an instance) and ``"0000:00:05.0"``.
    mig : int or None
        Number of the MIG instance on its card; ``None`` for the card itself.
    gpu_instance, compute_instance : int or None
        What the driver calls the MIG instance.
    mig_enabled : bool
        Whether the card is divided into MIG instances.
    reasons : dict of str to str
        Why a fact is ``None``, by the name of the fact.
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    mig: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    mig_enabled: bool = False
    reasons: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> str:
        """Name of the card in memory samples.

        Examples
        --------
        >>> Card(3).key, Card(3, mig=0).key
        ('nvml:3', 'nvml:3/mig:0')
        """
        return f"nvml:{self.index}" if self.mig is None else f"nvml:{self.index}/mig:{self.mig}"

    @property
    def title(self) -> str:
        """Name of the card for people.

        Examples
        --------
        >>> Card(3, name="Tesla T4").title
        'card 3 (Tesla T4)'
        >>> Card(0, name="A100 1g.5gb", mig=1).title
        'card 0, MIG 1 (A100 1g.5gb)'
        """
        where = f"card {self.index}" if self.mig is None else f"card {self.index}, MIG {self.mig}"
        return f"{where} ({self.name})" if self.name else where


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory of a card.

    Attributes
    ----------
    pid : int
        Process number as the driver knows it.
    used : int or None
        Bytes of the card that it holds.
    name, user, command : str or None
        What it is called, whose it is and how it was started, where that can be read.
    own : bool
        Whether it is this process.
    reason : str or None
        Why the name is ``None``.
    """

    pid: int
    used: int | None = None
    name: str | None = None
    user: str | None = None
    command: str | None = None
    own: bool = False
    reason: str | None = None

    @property
    def title(self) -> str:
        """The process for people.

        Examples
        --------
        >>> GpuProcess(12, name="python", user="ada").title
        'python (pid 12, ada)'
        >>> GpuProcess(12, name="python", own=True).title
        'this kernel (pid 12)'
        >>> GpuProcess(12, reason="not visible from this container").title
        'pid 12, name not visible from this container'
        """
        if self.own:
            return f"this kernel (pid {self.pid})"
        if self.name is None:
            return f"pid {self.pid}, name {self.reason or 'not available'}"
        return f"{self.name} (pid {self.pid}{', ' + self.user if self.user else ''})"


@dataclass(frozen=True)
class CardReading:
    """What a card holds at one time; a reading that was refused is ``None``, never 0.

    Attributes
    ----------
    card : Card
        The card that was read.
    total, used, free, reserved : int or None
        Bytes of memory: there at all, held by anybody, not held, and kept by the driver for itself.
    utilisation : int or None
        Share of the time in which a kernel ran, in percent.
    processes : tuple of GpuProcess or None
        Who holds the memory: this process first, then by size.
    process : int or None
        Bytes that this process holds.
    reasons : dict of str to str
        Why a reading is ``None``, by the name of the reading.
    """

    card: Card
    total: int | None = None
    used: int | None = None
    free: int | None = None
    reserved: int | None = None
    utilisation: int | None = None
    processes: tuple[GpuProcess, ...] | None = None
    process: int | None = None
    reasons: dict[str, str] = field(default_factory=dict, compare=False)
