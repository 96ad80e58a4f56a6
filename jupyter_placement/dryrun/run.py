"""A dry run: a graph, an imagined machine, TensorFlow's own placer."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

from jupyter_placement.capture.build import build_placement
from jupyter_placement.capture.events import placement_events
from jupyter_placement.capture.graphs import Captured
from jupyter_placement.capture.records import LineCollector
from jupyter_placement.devices import LOCAL_TASK, device_name, parse_device
from jupyter_placement.dryrun.errors import UnplaceableError
from jupyter_placement.dryrun.helper import Helper
from jupyter_placement.dryrun.helper_main import MASTER
from jupyter_placement.dryrun.machine import parse_machine
from jupyter_placement.dryrun.sources import graph_of
from jupyter_placement.explain import set_reasons
from jupyter_placement.placement import Device, Placement

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# Where the placer's messages tell a request: in quotes, behind "assigned to", and behind a member of a group.
_REQUEST = re.compile(
    rf"(?P<before>'|explicitly assigned to |^  \S+ \(\w+\) )(?P<task>{re.escape(LOCAL_TASK)})(?P<device>[^\s']*)", re.M
)
_HELPERS: dict[str | None, Helper] = {}
_HELPERS_LOCK = threading.Lock()


def dry_run(
    what: Any,
    *args: Any,
    on: str | Sequence[Device],
    soft: bool = True,
    timeout: float = 300.0,
    python: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Placement:
    """Place a graph on hardware that is not there, with TensorFlow's own placer. Nothing is executed.

    Parameters
    ----------
    what : object
        A ``tf.function`` or ``ConcreteFunction``, a Keras model, a ``tf.Graph`` or ``GraphDef``, a SavedModel's
        folder, a ``.pb`` or ``.keras`` file; or a list of these, in one Placement.
    *args
        The inputs of a function or model: tensors, arrays or ``tf.TensorSpec``.
    on : str or sequence of Device
        The machine: ``"2xT4"``, ``"1xH100-80GB + 2xL4"``, ``"4xCPU"``.
    soft : bool
        Soft placement. When false, what cannot be placed as asked is an error.
    timeout : float
        Seconds that the placer may take.
    python : str, optional
        The Python of another environment, one that has TensorFlow's build with CUDA.
    progress : callable, optional
        Called with a sentence when TensorFlow has to be started for it.

    Raises
    ------
    PlacementError
        With TensorFlow's own message when the graph cannot be placed on this machine; when ``what`` or ``on`` cannot
        be read; when TensorFlow cannot be started.
    """
    devices = parse_machine(on)
    graphs = [graph_of(one, args) for one in what] if isinstance(what, list) else [graph_of(what, args)]
    described: list[dict[str, Any]] = [
        {
            "name": device.name,
            "type": device.type or "CPU",
            "memory": device.memory_limit or 0,
            "description": device.physical_name or "",
        }
        for device in devices
    ]
    with _HELPERS_LOCK:
        helper = _HELPERS.setdefault(python, Helper(python, progress))
    lines, seconds = LineCollector(), 0.0
    lines.always = lambda: True  # every line is the helper's
    for graph in graphs:
        reply = helper.place(prepared(graph.graph_def, devices).SerializeToString(), described, soft, timeout)
        full = _full_devices(graph.graph_def)
        if reply.error:
            raise UnplaceableError(real_message(reply.error, full))
        for line in reply.log:
            lines.take(1, line)
        for line in real_message("\n".join(reply.stderr), full).splitlines():
            lines.take(2, line)
        graph.records = lines.pop()
        seconds += reply.seconds
    placement = build_placement(Captured(graphs), lines, devices)
    set_reasons(placement)
    placement.events = placement_events(placement, lines.other, None)
    placement.meta.update(
        {
            "dry_run": on if isinstance(on, str) else [device.name for device in devices],
            "placer_seconds": round(seconds, 6),
            "soft_placement": soft,
        }
    )
    return placement


def close_helpers() -> None:
    """End the helper processes; the next dry run starts one again."""
    with _HELPERS_LOCK:
        for helper in _HELPERS.values():
            helper.close()


def prepared(graph_def: Any, devices: Sequence[Device]) -> Any:
    """Return a copy of a graph as the helper's master needs it.

    Every device gets the worker's job, or the master would take itself into account; calls of functions are marked to
    be inlined, as the runtime of functions does it.
    """
    copy = type(graph_def)()
    copy.CopyFrom(graph_def)
    default = _argument_device(devices)
    for node in copy.node:
        if node.op == "_Arg" and not node.device:
            node.device = default(node.attr["T"].type)
    for nodes in (copy.node, *(function.node_def for function in copy.library.function)):
        for node in nodes:
            node.device = with_task(node.device)
            if node.op in _CALLS:
                node.attr["_lower_as_multi_device_function"].b = True
    return copy


def with_task(device: str) -> str:
    """Complete a requested device with the job that the helper's worker has.

    Examples
    --------
    >>> with_task(""), with_task("/gpu:1")
    ('/job:localhost/replica:0/task:0', '/job:localhost/replica:0/task:0/device:GPU:1')
    """
    spec = parse_device(device)
    if spec is None or spec.job is not None or (not device.startswith("/") and device):
        return device  # what is malformed is for TensorFlow to refuse, as on the real machine
    return device_name(spec._replace(job="localhost", replica=spec.replica or 0, task=spec.task or 0))


def _full_devices(graph_def: Any) -> set[str]:
    nodes = (graph_def.node, *(function.node_def for function in graph_def.library.function))
    return {node.device for part in nodes for node in part if node.device.startswith("/job:")}


def _argument_device(devices: Sequence[Device]) -> Callable[[int], str]:
    """Say where eager TensorFlow would have an argument: a GPU takes all but int32, strings and handles."""
    import tensorflow as tf

    host = (tf.int32, tf.string, tf.resource, tf.variant)
    has_gpu = any(device.type == "GPU" for device in devices)

    def default(kind: int) -> str:
        on_host = not has_gpu or tf.dtypes.as_dtype(kind) in host
        return f"{LOCAL_TASK}/device:{'CPU' if on_host else 'GPU'}:0"

    return default


def real_message(message: str, full: Collection[str] = ()) -> str:
    """Say of an error or warning what the real machine would say: without the helper's own names.

    Parameters
    ----------
    message : str
        What the placer said.
    full : collection of str
        Devices that the user wrote with their job; all other requests got it from :func:`with_task`.
    """
    message = message.split("\nAdditional GRPC error information")[0]
    message = re.sub(rf", {re.escape(MASTER)}|{re.escape(MASTER)}, |\n  {re.escape(MASTER)}(?=[,\]]|\n)", "", message)

    def shorter(match: re.Match[str]) -> str:
        device = match["task"] + match["device"]
        return match["before"] + (device if device in full else match["device"])

    return _REQUEST.sub(shorter, message)
