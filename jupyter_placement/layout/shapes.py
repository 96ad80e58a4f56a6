"""What a view is made of: boxes and lines with their places."""

from __future__ import annotations

from dataclasses import dataclass, field

from jupyter_placement.layout.links import Totals


@dataclass(slots=True)
class Box:
    """A drawn operation or scope.

    Attributes
    ----------
    kind : str
        ``"node"``, or the kind of its :class:`Scope`.
    key : str
        The operation's id, or the scope's path.
    label : str
        What is written on it, cut to its width by whoever draws it.
    x, y, width, height : float
        Left and upper side and size, in pixels at natural size; y grows downward.
    opened : bool
        Whether it is the frame of an opened scope.
    depth : int
        How many opened scopes hold it.
    size : int
        Operations that it stands for.
    devices : list of (str or None, int)
        Operations by device, in the devices' order, never-placed ones last.
    host : int
        Operations on another device than a CPU whose values are in host memory.
    """

    kind: str
    key: str
    label: str
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0
    opened: bool = False
    depth: int = 0
    size: int = 1
    devices: list[tuple[str | None, int]] = field(default_factory=list)
    host: int = 0

    @property
    def about_host(self) -> str:
        """What is written behind the device or the size: that values are in host memory."""
        if not self.host:
            return ""
        return " · host" if self.kind == "node" else f" · {self.host:,} host"


@dataclass(slots=True)
class Link:
    """A drawn line between two boxes.

    Attributes
    ----------
    source, target : int
        Indices of the boxes in :attr:`View.boxes`.
    points : list of (float, float)
        Its course.
    totals : Totals
        The edges that it stands for.
    """

    @property
    def kind(self) -> str:
        """Return how it is drawn: ``transfers``, ``host`` (all of it stays in host memory), ``edges``, ``control``."""
        if self.totals.transfers:
            return "transfers"
        if self.totals.tensors:
            return "host" if self.totals.host == self.totals.tensors else "edges"
        return "control"

    source: int
    target: int
    points: list[tuple[float, float]]
    totals: Totals


@dataclass(slots=True)
class View:
    """Everything to draw.

    Attributes
    ----------
    boxes : list of Box
        Frames of opened scopes come before what is in them.
    links : list of Link
        The lines.
    width, height : float
        Of the whole, in pixels at natural size.
    opened : tuple of str
        Paths of the scopes that are open.
    closed : tuple of str
        Paths of those that were asked for and stay closed, because the picture would hold too much.
    hidden_links : int
        Lines left out, those of the fewest tensors, because there were too many.
    """

    boxes: list[Box]
    links: list[Link]
    width: float
    height: float
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    hidden_links: int = 0
