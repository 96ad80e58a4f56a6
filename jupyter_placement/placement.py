"""The data model: a :class:`Placement` over a networkx graph, and its JSON form."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import networkx as nx

from jupyter_placement.checking import MalformedError, checked_json
from jupyter_placement.devices import device_type, short_device, sort_key

if TYPE_CHECKING:
    from jupyter_placement.explain import Explanation, Finding

MIME_TYPE = "application/vnd.jupyter-placement.v1+json"
SUFFIX = ".placement.json"
REASONS = ("pinned", "colocated", "fallback", "default", "followed", "unknown")
NODE_DEFAULTS: dict[str, Any] = {
    "op": None,
    "device": None,
    "requested": "",
    "dtype": None,
    "shape": None,
    "reason": "unknown",
    "memory": "device",
    "graph": "",
    "source": None,
    "start": None,
    "duration": None,
    "compiled": None,
}
EDGE_DEFAULTS: dict[str, Any] = {
    "tensor": None,
    "dtype": None,
    "shape": None,
    "bytes": None,
    "memory": "device",
    "transfer": False,
    "control": False,
}


class PlacementError(ValueError):
    """A placement that cannot be read, written or made; the message says what to do."""


@dataclass(frozen=True)
class Device:
    """A device that TensorFlow knows.

    Attributes
    ----------
    name : str
        Full device name.
    physical_name : str or None
        The card's name, for example ``"Tesla T4"``.
    memory_limit : int or None
        What TensorFlow may take of it, in bytes.
    pci_bus_id : str or None
        For example ``"0000:00:05.0"``.
    nvml_index : int or None
        Index of the card that NVML gives it, which is not TensorFlow's number.
    """

    name: str
    physical_name: str | None = None
    memory_limit: int | None = None
    pci_bus_id: str | None = None
    nvml_index: int | None = None

    @property
    def type(self) -> str | None:
        """Device type in capitals, for example ``"GPU"``."""
        return device_type(self.name)


@dataclass(frozen=True)
class Event:
    """Something that TensorFlow said about the placement.

    Attributes
    ----------
    kind : str
        One of ``fallback``, ``colocation_changed``, ``no_kernel``, ``unknown_device``, ``cannot_colocate``,
        ``device_ignored``, ``oom``, ``truncated``, ``error``, ``note``.
    message : str
        A plain sentence: what happened, and what to do.
    nodes : tuple of str
        Ids of the nodes that it names.
    lines : tuple of str
        The log lines that it came from.
    details : dict
        Facts by name, JSON values only.
    """

    kind: str
    message: str
    nodes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MemorySample:
    """Memory of one device at one time; a reading that was refused is ``None``, never 0.

    Attributes
    ----------
    time : float
        Seconds since the recording began.
    device : str
        ``"host"``; ``"nvml:K"`` for the card that NVML numbers K; or a full TensorFlow device name.
    used, total : int or None
        Bytes in use by everybody, and there at all (for a TensorFlow device: in use, and limit).
    process : int or None
        Bytes held by this process.
    peak : int or None
        Highest number of bytes in use, where TensorFlow's allocator tells.
    """

    time: float
    device: str
    used: int | None = None
    total: int | None = None
    process: int | None = None
    peak: int | None = None


@dataclass
class Counts:
    """What became of the lines of the log.

    Attributes
    ----------
    lines : int
        Lines read.
    matched : int
        Lines that gave a placement.
    duplicate : int
        Lines that repeat one that was matched.
    unmatched : int
        Placement lines that belong to no node of a captured graph.
    """

    lines: int = 0
    matched: int = 0
    duplicate: int = 0
    unmatched: int = 0


class PlacementJSON(TypedDict):
    """The JSON form of a :class:`Placement`; its schema is ``schema/placement.v1.schema.json``."""

    version: int
    graph: dict[str, Any]
    devices: list[dict[str, Any]]
    events: list[dict[str, Any]]
    log: list[str]
    counts: dict[str, int]
    memory: list[dict[str, Any]]
    meta: dict[str, Any]


@dataclass
class Placement:
    """Where TensorFlow put each operation.

    Attributes
    ----------
    graph : networkx.MultiDiGraph
        One node an operation, one edge a tensor or control dependency, from producer to consumer, keyed by the
        consumer's input index (``"^0"``, ``"^1"``... for control edges).
    devices : list of Device
        The devices that TensorFlow had, used or not.
    events : list of Event
        Fallbacks, colocation warnings, errors.
    log : list of str
        The placement lines of TensorFlow's log.
    counts : Counts
        What became of the lines.
    memory : list of MemorySample
        Memory over time.
    meta : dict
        Versions, when and how it was captured; JSON values only.

    Examples
    --------
    >>> placement = Placement()
    >>> placement.add_node("a", op="Const", device="/job:localhost/replica:0/task:0/device:CPU:0")
    >>> placement.add_node("b", op="Neg", device="/job:localhost/replica:0/task:0/device:GPU:0")
    >>> placement.add_edge("a", "b", 0, tensor="a:0", dtype="float32", bytes=4)
    >>> [data["transfer"] for _, _, data in placement.graph.edges(data=True)]
    [True]
    >>> placement.device_counts()
    {'/job:localhost/replica:0/task:0/device:CPU:0': 1, '/job:localhost/replica:0/task:0/device:GPU:0': 1}
    """

    graph: nx.MultiDiGraph[str] = field(default_factory=nx.MultiDiGraph)
    devices: list[Device] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    memory: list[MemorySample] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)

    def add_node(self, node: str, /, **attributes: Any) -> None:
        """Add an operation; attributes that are not given take the defaults of the data model.

        Raises
        ------
        TypeError
            For an attribute that the data model does not have.
        """
        unknown = attributes.keys() - NODE_DEFAULTS.keys() - {"name"}
        if unknown:
            raise TypeError(f"a node has no attribute {', '.join(sorted(unknown))}")
        self.graph.add_node(node, **{"name": node, **NODE_DEFAULTS, **attributes})

    def add_edge(self, producer: str, consumer: str, key: int | str, /, **attributes: Any) -> None:
        """Add a tensor or control edge; ``transfer`` is derived from the devices of the two nodes.

        A resource handle is no transfer: it only names a variable, or other state, that stays where it is.

        Raises
        ------
        TypeError
            For an attribute that the data model does not have.
        KeyError
            When one of the nodes is not there.
        """
        unknown = attributes.keys() - EDGE_DEFAULTS.keys()
        if unknown:
            raise TypeError(f"an edge has no attribute {', '.join(sorted(unknown))}")
        nodes = self.graph.nodes
        source, target = nodes[producer]["device"], nodes[consumer]["device"]
        derived = {
            "transfer": None not in (source, target) and source != target and attributes.get("dtype") != "resource",
            "control": isinstance(key, str),
        }
        self.graph.add_edge(producer, consumer, key, **{**EDGE_DEFAULTS, **derived, **attributes})

    def device_counts(self) -> dict[str, int]:
        """Count the operations of each device, in the devices' order; never-placed ones are left out."""
        counts: dict[str, int] = {}
        for _, data in self.graph.nodes(data=True):
            device = data["device"]
            if device is not None:
                counts[device] = counts.get(device, 0) + 1
        return {name: counts[name] for name in sorted(counts, key=sort_key)}

    def device_names(self) -> list[str]:
        """List every device that TensorFlow had or that a node is on, in order."""
        return sorted({device.name for device in self.devices} | self.device_counts().keys(), key=sort_key)

    def short(self, device: str | None) -> str:
        """Write a device name for people, with job and task where there is more than one."""
        if device is None:
            return "not placed"
        tasks = {name.split("/device:")[0] for name in self.device_names()}
        return short_device(device, tasks=len(tasks) > 1)

    def summary(self) -> str:
        """Say in plain text what ran where: devices, operations, fallbacks, transfers, memory."""
        from jupyter_placement.summary import summary_text  # the same layer; it needs this module's types

        return summary_text(self)

    def explain(self, node: str) -> Explanation:
        """Say which rule of TensorFlow's put a node where it is, and what would change it.

        Parameters
        ----------
        node : str
            Its id in ``graph``.

        Raises
        ------
        KeyError
            When there is no such node.
        """
        from jupyter_placement.explain import explain  # the layer above

        return explain(self, node)

    def findings(self) -> list[Finding]:
        """Return what is worth knowing of the whole run, most important first: fallbacks, transfers, errors."""
        from jupyter_placement.explain import findings  # the layer above

        return findings(self)

    def __repr__(self) -> str:
        return (
            f"<Placement: {self.graph.number_of_nodes()} operations on {len(self.device_counts())} devices, "
            f"{self.graph.number_of_edges()} edges, {len(self.events)} events>"
        )

    def to_json(self) -> PlacementJSON:
        """Return the JSON form: ``networkx.node_link_data`` of the graph and the other fields."""
        return {
            "version": 1,
            "graph": nx.node_link_data(self.graph, edges="edges"),
            "devices": [asdict(device) for device in self.devices],
            "events": [asdict(event) for event in self.events],
            "log": list(self.log),
            "counts": asdict(self.counts),
            "memory": [asdict(sample) for sample in self.memory],
            "meta": dict(self.meta),
        }

    @classmethod
    def from_json(cls, data: PlacementJSON) -> Placement:
        """Make a Placement from its JSON form.

        Raises
        ------
        PlacementError
            When ``data`` is not that form.
        """
        try:
            if data["version"] != 1:
                raise PlacementError(
                    f"this is version {data['version']!r} of the placement format; this jupyter-placement reads "
                    "version 1: install a newer one"
                )
            checked = checked_json(data, NODE_DEFAULTS, EDGE_DEFAULTS)
            graph: Any = nx.node_link_graph(checked, directed=True, multigraph=True, edges="edges")
            for _, attributes in graph.nodes(data=True):
                if attributes.get("source") is not None:
                    attributes["source"] = tuple(attributes["source"])
            return cls(
                graph=graph,
                devices=[_known(Device, item) for item in data["devices"]],
                events=[
                    _known(Event, {**item, "nodes": tuple(item["nodes"]), "lines": tuple(item["lines"])})
                    for item in data["events"]
                ],
                log=list(data["log"]),
                counts=_known(Counts, data["counts"]),
                memory=[_known(MemorySample, item) for item in data["memory"]],
                meta=dict(data["meta"]),
            )
        except MalformedError as error:
            raise PlacementError(f"this is not a placement that jupyter-placement saved: {error}") from error
        except (KeyError, TypeError, AttributeError, nx.NetworkXError) as error:
            raise PlacementError(f"this is not a placement that jupyter-placement saved ({error!r})") from error

    @classmethod
    def from_log(
        cls,
        path_or_text: str | os.PathLike[str] | bytes | list[str | os.PathLike[str]],
        graph: str | os.PathLike[str] | None = None,
    ) -> Placement:
        """Make a Placement of TensorFlow's placement log, of any release from 0.5 to 2.21.

        Parameters
        ----------
        path_or_text : str, path-like, bytes, or list of paths
            A file, the log itself, or the logs of several tasks.
        graph : path-like, optional
            A graph file (``.pb``, ``.pbtxt``, ``.keras``) or a SavedModel's folder, for the edges; imports TensorFlow.

        Raises
        ------
        PlacementError
            When a file cannot be read.

        Examples
        --------
        >>> Placement.from_log("soft: (Softmax): /job:localhost/replica:0/task:0/device:GPU:0").device_counts()
        {'/job:localhost/replica:0/task:0/device:GPU:0': 1}
        """
        from jupyter_placement.log.build import placement_from_log  # the layer above

        given: list[Any] = path_or_text if isinstance(path_or_text, list) else [path_or_text]
        if not given or not all(isinstance(one, str | bytes | os.PathLike) or hasattr(one, "read") for one in given):
            raise PlacementError("from_log needs a file, the log's text, or several of them in a list")
        return placement_from_log(path_or_text, graph)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the JSON form to a file, whole or not at all.

        Parameters
        ----------
        path : path-like
            The file; ``.placement.json`` is added when it does not end in ``.json``.

        Returns
        -------
        pathlib.Path
            The file that was written.

        Raises
        ------
        PlacementError
            When the file cannot be written.
        """
        target = Path(path)
        if not target.name or target.is_dir():
            raise PlacementError(f"the placement could not be saved to {str(path)!r}: that is a folder, not a file")
        if target.suffix != ".json":
            target = target.with_name(target.name + SUFFIX)
        partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
        try:
            try:
                partial.write_text(json.dumps(self.to_json(), allow_nan=False), encoding="utf-8")
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)
        except OSError as error:
            raise PlacementError(f"the placement could not be saved to {target}: {error.strerror or error}") from error
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Placement:
        """Read a file that :meth:`save` wrote.

        Raises
        ------
        PlacementError
            When the file is not there, or is no saved placement.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise PlacementError(f"{path} cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise PlacementError(f"{path} is not a saved placement: it is not JSON ({error})") from error
        if not isinstance(data, dict):
            raise PlacementError(f"{path} is not a saved placement: it holds no JSON object")
        return cls.from_json(data)  # type: ignore[arg-type]  # from_json checks what it reads


def _known(cls: type[Any], item: Any) -> Any:
    """Make a dataclass from the keys that it knows; later versions may add others."""
    names = {one.name for one in fields(cls)}
    return cls(**{key: value for key, value in item.items() if key in names})
