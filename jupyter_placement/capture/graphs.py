"""What the capture hands over: the graphs that TensorFlow placed, each with its log lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jupyter_placement.log import PlacementRecord

ARGUMENT_OPS = frozenset({"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval"})


@dataclass
class CapturedGraph:
    """A session's graph or a function's.

    Attributes
    ----------
    label : str
        For example ``"session:0"`` or ``"function:train_step"``.
    graph_def : GraphDef
        The graph before placement, with requested devices and its function library.
    records : list of PlacementRecord
        What the placer logged of it, in the log's order.
    placed : GraphDef or None
        The graph after placement and TensorFlow's optimisation, with assigned devices.
    shapes : dict of str to dict
        For each function of the library (``""``: the graph itself) the shapes of each node's outputs.
    follows : str
        What decides about the whole graph's device in place of the placer (``"tf.data"``), or ``""``.
    sources : dict of str to dict
        For each function of the library (``""``: the graph itself) file and line that made each node.
    called_on : str
        The device that ``tf.device`` asked for where the function was called, or ``""``.
    placed_before : dict of str to str
        The device of each node that an earlier run of the session placed.
    notes : list of str
        Sentences on what was assumed of it.
    variables : dict of str to str
        The name of the variable that an argument of a function is, where it is one.
    """

    label: str
    graph_def: Any
    records: list[PlacementRecord] = field(default_factory=list)
    placed: Any | None = None
    shapes: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    follows: str = ""
    sources: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    called_on: str = ""
    placed_before: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """What TensorFlow raised because it could not place something as asked.

    Attributes
    ----------
    text : str
        The message of the exception.
    graph : CapturedGraph or None
        What could not be placed; ``None`` for an eager operation.
    source : (str, int) or None
        File and line where it was raised.
    """

    text: str
    graph: CapturedGraph | None = None
    source: tuple[str, int] | None = None


@dataclass(frozen=True)
class EagerTensorFact:
    """One output of an eager operation.

    Attributes
    ----------
    id : int
        TensorFlow's number of the tensor, unique in the process.
    device, backing_device : str
        Where the operation ran, and where the tensor's memory is.
    dtype : int
        Number of the ``DType``.
    shape : tuple of int or None
        Dimensions.
    """

    id: int
    device: str
    backing_device: str
    dtype: int
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class EagerCall:
    """One eager operation that ran.

    Attributes
    ----------
    op : str
        Operation type, or a function's name.
    name : str or None
        The name that the user gave.
    requested : str
        The device that ``tf.device`` asked for, or ``""``.
    inputs : tuple of int
        Number of each input tensor.
    outputs : tuple of EagerTensorFact
        Its outputs.
    source : (str, int) or None
        File and line that ran it.
    """

    op: str
    name: str | None
    requested: str
    inputs: tuple[int, ...]
    outputs: tuple[EagerTensorFact, ...]
    source: tuple[str, int] | None = None


@dataclass
class Captured:
    """All that a recording found.

    Attributes
    ----------
    graphs : list of CapturedGraph
        In the order in which they first ran.
    eager : list of EagerCall
        In the order in which they ran.
    sources : dict of int to EagerTensorFact
        Tensors that eager operations took and that none of them made, by number.
    first_number : int
        Tensors with a lower number were there before the recording.
    loose : list of PlacementRecord
        Lines that belong to none of the graphs.
    one_op_devices : dict of str to set of str
        Devices that TensorFlow assigned to eager operations, by operation type, of the small graph that it makes for
        each new one.
    compiled : dict of str to int
        Functions that XLA compiles as a whole, by TensorFlow's name of them, with their number of operations.
    notes : list of str
        Sentences on what could not be recorded.
    failures : list of Failure
        What could not be placed as asked, whether or not the code went on.
    """

    graphs: list[CapturedGraph] = field(default_factory=list)
    eager: list[EagerCall] = field(default_factory=list)
    sources: dict[int, EagerTensorFact] = field(default_factory=dict)
    first_number: int = 0
    loose: list[PlacementRecord] = field(default_factory=list)
    one_op_devices: dict[str, set[str]] = field(default_factory=dict)
    compiled: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def eager_operation(graph_def: Any) -> Any | None:
    """Return the operation of the small graph that TensorFlow makes for an eager one; ``None`` for other graphs.

    It has its full device before the placer sees it. With oneDNN the graph is told twice, the second time with the
    operation that oneDNN puts in its place (``_MklMatMul``; seen on 2.21).
    """
    nodes = [node for node in graph_def.node if node.op not in ARGUMENT_OPS]
    arguments = {node.name for node in graph_def.node if node.op in ARGUMENT_OPS}
    alone = all(
        node.device.startswith("/job:") and {source.split(":")[0] for source in node.input} <= arguments
        for node in nodes
    )
    return nodes[0] if nodes and alone and (len(nodes) == 1 or nodes[1].op.startswith("_Mkl")) else None
