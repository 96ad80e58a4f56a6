"""How much of a card each of several programs gets, with TensorFlow's ways of limiting it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_placement.memory.cards import CardReading
from jupyter_placement.memory.nvml_worker import read_cards
from jupyter_placement.memory.policy import MemoryPolicy
from jupyter_placement.summary import readable_bytes

MIB = 1 << 20
# What a program takes beside TensorFlow's own memory: CUDA's context, cuBLAS and cuDNN. An estimate; it depends on the
# card and the driver.
CONTEXT = 450 * MIB
# gpu_device.cc, MinSystemMemory(): what TensorFlow leaves of a card when nothing limits it, for cards of compute
# capability 8 and more; older cards 500 or 1050 MiB, small ones 225 MiB.
SYSTEM, SMALL_SYSTEM, SMALL_CARD = 1536 * MIB, 225 * MIB, 2048 * MIB


@dataclass(frozen=True)
class PlannedCard:
    """A card to plan for, there or imagined.

    Attributes
    ----------
    title : str
        For example ``"card 0 (Tesla T4)"``.
    total, held : int
        Bytes of memory there are, and those that are held already.
    """

    title: str
    total: int
    held: int = 0


@dataclass(frozen=True)
class Share:
    """What one program sees of a card.

    Attributes
    ----------
    asked : int or None
        Bytes that its TensorFlow asks for at its start; ``None`` if it asks only when it needs memory.
    given : int
        Bytes that it can get, at most.
    fits : bool
        Whether it gets what it asks for.
    """

    asked: int | None
    given: int
    fits: bool


@dataclass(frozen=True)
class CardPlan:
    """What the programs see of a card, in the order of their start."""

    card: PlannedCard
    shares: tuple[Share, ...]

    @property
    def fits(self) -> bool:
        """Whether every program gets what it asks for."""
        return all(share.fits for share in self.shares)


@dataclass(frozen=True)
class MemoryPlan:
    """What a way of limiting memory means for several programs on the same cards.

    Attributes
    ----------
    policy : MemoryPolicy
        The way.
    programs : int
        How many programs there are; each uses every card.
    cards : tuple of CardPlan
        What each program sees of each card.
    notes : tuple of str
        Sentences on what is not known.
    """

    policy: MemoryPolicy
    programs: int
    cards: tuple[CardPlan, ...]
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool | None:
        """Whether every program gets what it asks for; ``None`` if that shows only when they run, or without a card."""
        if not self.cards or self.policy.allow_growth:
            return None
        return all(card.fits for card in self.cards)

    @property
    def tf1(self) -> str:
        """The lines of code that do it for a session."""
        return self.policy.tf1()

    @property
    def tf2(self) -> str:
        """The lines of code that do it for eager code, Keras and ``tf.function``; they stand before anything else."""
        return self.policy.tf2(self._smallest())

    def text(self) -> str:
        """Say it in plain text: the policy, each card, and the code."""
        lines = [f"{_programs(self.programs)}: {self.policy.sentence()}"]
        for plan in self.cards:
            held = f", {readable_bytes(plan.card.held)} held already" if plan.card.held else ""
            lines.append(f"{plan.card.title}, {readable_bytes(plan.card.total)}{held}: {_verdict(self, plan)}")
            lines += [f"  program {number}: {_share(share)}" for number, share in enumerate(plan.shares, 1)]
        lines += self.notes
        return "\n".join([*lines, "", "TF2:", _indent(self.tf2), "TF1:", _indent(self.tf1)])

    def __repr__(self) -> str:
        return self.text()

    def _smallest(self) -> int | None:
        return min((plan.card.total for plan in self.cards), default=None)


def plan_memory(
    fraction: float | None = None,
    *,
    memory_limit: int | None = None,
    allow_growth: bool = False,
    programs: int = 1,
    cards: Sequence[int | str | PlannedCard] | None = None,
) -> MemoryPlan:
    """Tell what TensorFlow's ways of limiting GPU memory mean for programs that share cards.

    Parameters
    ----------
    fraction : float, optional
        ``per_process_gpu_memory_fraction``: share of the whole card that each program takes at its start.
    memory_limit : int, optional
        MiB that each program takes of each card at its start, as in ``LogicalDeviceConfiguration(memory_limit=...)``.
    allow_growth : bool
        Whether each program takes memory when it needs it, and keeps it.
    programs : int
        How many programs run at a time.
    cards : sequence, optional
        The cards: bytes, text like ``"16 GiB"``, or :class:`PlannedCard`. Without it those of this machine, with what
        is held of them now.

    Raises
    ------
    ValueError
        When the numbers make no sense together; the message says which.

    Examples
    --------
    >>> plan_memory(fraction=0.4, programs=2, cards=["16 GiB"]).fits
    True
    >>> plan = plan_memory(fraction=0.4, programs=3, cards=["16 GiB"])
    >>> plan.fits
    False
    >>> print(plan.text().splitlines()[1])
    a described card, 16.0 GiB: does not fit: 3 x 0.4 = 1.2 of the card.
    >>> print(plan.tf1)
    config = tf.compat.v1.ConfigProto()
    config.gpu_options.per_process_gpu_memory_fraction = 0.4
    session = tf.compat.v1.Session(config=config)
    """
    policy = MemoryPolicy(fraction, memory_limit, allow_growth)
    if not isinstance(programs, int) or programs < 1:
        raise ValueError(f"programs is a whole number from 1 on, not {programs!r}")
    notes: tuple[str, ...] = ()
    if cards is None:
        planned, notes = _cards_here()
    elif isinstance(cards, str | int) or not cards:
        raise ValueError(f'cards is a list of at least one card, such as ["16 GiB"], not {cards!r}')
    else:
        planned = [card if isinstance(card, PlannedCard) else _described(card) for card in cards]
    return MemoryPlan(policy, programs, tuple(_plan(card, policy, programs) for card in planned), notes)


def _cards_here() -> tuple[list[PlannedCard], tuple[str, ...]]:
    answer = read_cards()
    planned = [card for reading in answer.readings if (card := _planned(reading)) is not None]
    notes = tuple(answer.notes)
    if not planned:
        notes += ('Give the cards to plan for, such as cards=["16 GiB"].',)
    return planned, notes


def _planned(reading: CardReading) -> PlannedCard | None:
    if reading.total is None or reading.card.mig_enabled:
        return None
    held = (reading.used or 0) + (reading.reserved or 0)
    return PlannedCard(reading.card.title, reading.total, held)


def _described(card: int | str) -> PlannedCard:
    refusal = f'a card is written as "16 GiB" or as a number of bytes above 0, not {card!r}'
    if isinstance(card, int) and card > 0:
        return PlannedCard("a described card", card)
    if not isinstance(card, str):
        raise ValueError(refusal)
    number, _, unit = card.strip().partition(" ")
    sizes = {"MB": 10**6, "GB": 10**9, "MiB": MIB, "GiB": 1 << 30}
    try:
        total = int(float(number) * sizes[unit.strip()])
    except (ValueError, KeyError, OverflowError) as error:
        raise ValueError(refusal) from error
    if total <= 0:
        raise ValueError(refusal)
    return PlannedCard("a described card", total)


def _plan(card: PlannedCard, policy: MemoryPolicy, programs: int) -> CardPlan:
    free, shares = card.total - card.held, []
    for number in range(programs):
        room = max(0, free - CONTEXT)
        asked = policy.asks(card.total, room - _left_alone(room))
        given = room if asked is None else _given(asked, room)
        # Without a limit the first takes it all, and the next is content with whatever is left.
        fits = number == 0 if policy.unlimited else asked is None or asked <= given
        shares.append(Share(asked, given, fits))
        if asked is not None:
            free = room - given
    return CardPlan(card, tuple(shares))


def _left_alone(room: int) -> int:
    return min(room, SYSTEM if room >= SMALL_CARD else SMALL_SYSTEM)


def _given(asked: int, room: int) -> int:
    """Ask for less and less, as TensorFlow's allocator does: nine tenths of the last time."""
    while asked > room:
        asked = asked * 9 // 10
    return asked


def _verdict(plan: MemoryPlan, card: CardPlan) -> str:
    if plan.policy.allow_growth:
        return "whoever asks first gets it; what each needs must fit together."
    sum_of = plan.policy.sum_of(plan.programs, card.card.total)
    if card.fits:
        return f"fits: {sum_of}." if sum_of else "fits."
    if sum_of and all(share.asked is not None for share in card.shares):
        asked = sum(share.asked or 0 for share in card.shares)
        if asked > card.card.total:
            return f"does not fit: {sum_of}."
        return (
            f"does not fit: {sum_of}, and beside it each program's CUDA context (about {readable_bytes(CONTEXT)}) "
            "and what is held already."
        )
    return "does not fit: the first program takes nearly all of it, and the next what is left."


def _share(share: Share) -> str:
    if share.asked is None:
        return f"up to {readable_bytes(share.given)}, less what the others hold by then"
    if share.fits:
        return f"gets {readable_bytes(share.asked)}"
    if share.asked <= share.given:
        return f"gets {readable_bytes(share.given)}, which is what the others leave"
    short = (
        "nothing: it ends with an out of memory" if share.given < 64 * MIB else f"about {readable_bytes(share.given)}"
    )
    return f"asks for {readable_bytes(share.asked)}, gets {short}"


def _programs(count: int) -> str:
    return "One program" if count == 1 else f"{count} programs"


def _indent(code: str) -> str:
    return "\n".join(f"    {line}" for line in code.splitlines())
