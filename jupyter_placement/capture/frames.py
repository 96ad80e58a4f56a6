"""The bodies that stand in the place of lowered nodes, and what is known of the nodes that lowering adds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jupyter_placement.devices import DeviceSpec, device_name, parse_device


@dataclass
class Frame:
    """One body: the graph itself, or a function inlined somewhere.

    Attributes
    ----------
    prefix : str
        What its nodes' names begin with in the lowered graph.
    function : str
        The function, ``""`` for the graph itself.
    nodes : list of (NodeDef, list of str)
        Each node with its inputs as ``node:k``, ``argument`` or ``^node``.
    arguments : dict of str to Reference
        What the function's arguments are.
    outputs : dict of (str, int) to Reference
        Where an output of a lowered node comes from now.
    lowered : dict of str to str
        Lowered nodes, each with the node that waits for its control inputs (``""``: none).
    requested : str
        Device that was requested for the call: it completes what the nodes of the body request themselves.
    call : str
        Name of the call that stood in its place.
    """

    prefix: str
    function: str
    nodes: list[tuple[Any, list[str]]]
    arguments: dict[str, Reference] = field(default_factory=dict)
    outputs: dict[tuple[str, int], Reference] = field(default_factory=dict)
    lowered: dict[str, str] = field(default_factory=dict)
    requested: str = ""
    call: str = ""

    def reference(self, source: str) -> Reference:
        """Return the reference of ``node:k`` or ``argument``."""
        name, _, index = source.rpartition(":")
        return Reference(self, name, int(index)) if name and index.isdigit() else Reference(self, source, 0)


@dataclass(frozen=True)
class Reference:
    """An output of a node of a frame; without a frame, one of the lowered graph."""

    frame: Frame | None
    name: str
    index: int

    def resolve(self) -> tuple[str, int]:
        """Return the name in the lowered graph, and the output. Only right once every frame is there."""
        current = self
        while current.frame is not None:
            frame = current.frame
            following = frame.arguments.get(current.name) or frame.outputs.get((current.name, current.index))
            if following is None:
                return frame.prefix + current.name, current.index
            current = following
        return current.name, current.index


@dataclass(frozen=True)
class Added:
    """What lowering asks for a node that it adds.

    Attributes
    ----------
    call : str
        The node that it stands for.
    requested : str
        Requested device.
    like : Reference or None
        The node whose request, and whose device if it has one already, it takes over in place of its own.
    beside : Reference or None
        What it is to be beside (``loc:@``).
    as_call : bool
        Whether it is to be beside what the call asked to be beside, as is seen of a conditional's nodes in 2.21.
    """

    call: str
    requested: str
    like: Reference | None = None
    beside: Reference | None = None
    as_call: bool = False


def completed_request(own: str, caller: str) -> str:
    """Complete the requested device of a node in an inlined body by that of the call (``MergeUnsetDevNames``).

    Examples
    --------
    >>> completed_request("", "/device:GPU:1"), completed_request("/job:worker", "/job:ps/device:CPU:0")
    ('/device:GPU:1', '/job:worker/device:CPU:0')
    """
    if not own or not caller:
        return own or caller
    mine, outer = parse_device(own), parse_device(caller)
    if mine is None or outer is None:
        return own
    merged = DeviceSpec(
        outer.job if mine.job is None else mine.job,
        outer.replica if mine.replica is None else mine.replica,
        outer.task if mine.task is None else mine.task,
        outer.type if mine.type is None else mine.type,
        outer.id if mine.id is None else mine.id,
    )
    return own if merged == mine else device_name(merged)
