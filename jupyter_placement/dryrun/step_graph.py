"""A placed graph in arrays: what the walks over a step need, quickly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jupyter_placement.devices import device_type
from jupyter_placement.placement import Placement

# Bytes of an element; handles, and lists behind a handle, hold no bytes of their own.
_SIZES = {
    **dict.fromkeys(("bool", "int8", "uint8", "qint8", "quint8", "int4", "uint4", "float8_e5m2", "float8_e4m3fn"), 1),
    **dict.fromkeys(("int16", "uint16", "half", "float16", "bfloat16", "qint16", "quint16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32", "qint32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
    "complex128": 16,
    "resource": 0,
    "variant": 0,
}


def tensor_size(dtype: str | None, shape: Any) -> int | None:
    """Return a tensor's bytes; ``None`` for a string, an unknown type or an unknown dimension.

    Examples
    --------
    >>> tensor_size("float32", [2, 3]), tensor_size("float32", [None, 3]), tensor_size("resource", None)
    (24, None, 0)
    """
    size = _SIZES.get((dtype or "").removesuffix("_ref"))
    if size is None or size == 0:
        return size
    if shape is None:
        return None
    for one in shape:
        if one is None:
            return None
        size *= one
    return size


@dataclass(frozen=True)
class Output:
    """One output of a node.

    Attributes
    ----------
    dtype : str or None
        Type of an element.
    shape : list of int or None, or None
        Dimensions.
    size : int or None
        Bytes; ``None`` where they are not known.
    """

    dtype: str | None
    shape: Any
    size: int | None


class Taken(NamedTuple):
    """An input of an operation.

    Attributes
    ----------
    node, output : int
        Number of the operation that makes it, and which of its outputs it is.
    to : str
        The device whose memory the tensor is copied to; ``""`` where it stays where it is.
    """

    node: int
    output: int
    to: str


class Use(NamedTuple):
    """An operation that takes an output of another one.

    Attributes
    ----------
    output : int
        Which output.
    node : int
        Number of the operation that takes it.
    to : str
        The device whose memory the tensor is copied to for it; ``""`` where it stays where it is.
    """

    output: int
    node: int
    to: str


@dataclass
class StepNode:
    """One operation of a step.

    Attributes
    ----------
    id, name, op, graph : str
        As in the Placement.
    device : str
        Its device's full name; ``""`` if never placed.
    outputs : list of Output
        What it makes.
    inputs : list of Taken
        What it takes, in order; control edges are not among them.
    users : list of Use
        Who takes its outputs.
    controls : list of int
        Nodes that wait for this one without a tensor.
    waits : int
        Number of edges that it waits for.
    back : list of int
        Nodes that give it a loop's next value: it does not wait for these.
    host : bool
        Whether all its outputs are in host memory although it is on no CPU.
    host_outputs : set of int
        Those of its outputs that are.
    on_host : bool
        Whether its device is a CPU.
    """

    id: str
    name: str
    op: str
    graph: str
    device: str
    outputs: list[Output]
    host: bool
    inputs: list[Taken] = field(default_factory=list)
    users: list[Use] = field(default_factory=list)
    controls: list[int] = field(default_factory=list)
    waits: int = 0
    back: list[int] = field(default_factory=list)
    host_outputs: set[int] = field(default_factory=set)
    on_host: bool = False

    def place(self, output: int) -> str:
        """Return the device whose memory an output is in."""
        return host_of(self.device) if output in self.host_outputs and not self.on_host else self.device


def step_nodes(placement: Placement, graphs: Iterable[str] | None = None) -> list[StepNode]:
    """Return the nodes of a Placement with their edges; what closes a loop is kept apart.

    Parameters
    ----------
    placement : Placement
        A placed graph.
    graphs : iterable of str, optional
        Only nodes of these captured graphs.
    """
    graph = placement.graph
    only = None if graphs is None else set(graphs)
    numbers: dict[str, int] = {}
    nodes: list[StepNode] = []
    on_host = {name: device_type(name) in ("CPU", None) for name in placement.device_counts()}
    for ident, data in graph.nodes(data=True):
        if only is not None and data["graph"] not in only:
            continue
        numbers[ident] = len(nodes)
        nodes.append(
            StepNode(
                ident,
                data["name"],
                data["op"] or "",
                data["graph"],
                data["device"] or "",
                _outputs(data),
                data["memory"] == "host",
                on_host=on_host.get(data["device"] or "", True),
            )
        )
    given: list[list[tuple[int, int, int, str]]] = [[] for _ in nodes]
    for producer, consumer, key, edge in graph.edges(keys=True, data=True):
        source, target = numbers.get(producer), numbers.get(consumer)
        if source is None or target is None:
            continue
        if nodes[source].op in ("NextIteration", "RefNextIteration"):
            nodes[target].back.append(source)
            continue
        nodes[target].waits += 1
        if edge["control"]:
            nodes[source].controls.append(target)
            continue
        output = int((edge["tensor"] or ":0").rpartition(":")[2])
        to = ""
        if edge["transfer"]:
            to = host_of(nodes[target].device) if edge["memory"] in ("host", "to_host") else nodes[target].device
        given[target].append((int(key), source, output, to))
        if edge["memory"] in ("host", "to_device") and not nodes[source].on_host:
            nodes[source].host_outputs.add(output)
    for target, edges in enumerate(given):
        edges.sort()
        for _, source, output, to in edges:
            nodes[target].inputs.append(Taken(source, output, to))
            nodes[source].users.append(Use(output, target, to))
            missing = output + 1 - len(nodes[source].outputs)
            if missing > 0:
                nodes[source].outputs.extend([Output(None, None, None)] * missing)
    for node in nodes:
        if node.host:
            node.host_outputs.update(range(len(node.outputs)))
    return nodes


def host_of(device: str) -> str:
    """Return the device that stands for the host's memory in a device's task.

    Examples
    --------
    >>> host_of("/job:worker/replica:0/task:1/device:GPU:3")
    '/job:worker/replica:0/task:1/device:CPU:0'
    """
    return device.partition("/device:")[0] + "/device:CPU:0"


def _outputs(data: Any) -> list[Output]:
    dtypes, shapes = data["dtype"], data["shape"]
    if not isinstance(dtypes, list):
        return [] if dtypes is None else [Output(dtypes, shapes, tensor_size(dtypes, shapes))]
    # Two outputs or more: one shape each, or none is known.
    each = shapes if isinstance(shapes, list) and len(shapes) == len(dtypes) else [None] * len(dtypes)
    return [Output(dtype, shape, tensor_size(dtype, shape)) for dtype, shape in zip(dtypes, each, strict=True)]
