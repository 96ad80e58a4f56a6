"""A dry run: a graph, an imagined machine, TensorFlow's own placer."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

from jupyter_placement.capture.build import build_placement
from jupyter_placement.capture.events import placement_events
from jupyter_placement.capture.failed import failure_event
from jupyter_placement.capture.graphs import Captured, CapturedGraph
from jupyter_placement.capture.records import LineCollector
from jupyter_placement.devices import LOCAL_TASK, full_device
from jupyter_placement.dryrun.batch import NoBatchError
from jupyter_placement.dryrun.card import Card
from jupyter_placement.dryrun.comparison import Comparison, dry_run_each
from jupyter_placement.dryrun.errors import UnplaceableError
from jupyter_placement.dryrun.estimate import add_estimate
from jupyter_placement.dryrun.helpers import HELPERS
from jupyter_placement.dryrun.machine import parse_machine
from jupyter_placement.dryrun.preparation import PIN, Preparation
from jupyter_placement.dryrun.sources import graph_of
from jupyter_placement.explain import set_reasons
from jupyter_placement.placement import Device, Event, Placement, PlacementError


@overload
def dry_run(what: Any, *args: Any, on: str | Sequence[Device | Card], **options: Any) -> Placement: ...


@overload
def dry_run(what: Any, *args: Any, on: list[str], **options: Any) -> Comparison: ...


def dry_run(
    what: Any,
    *args: Any,
    on: str | Sequence[Device | Card] | list[str],
    soft: bool = True,
    train: bool | None = None,
    signature: str | None = None,
    timeout: float = 300.0,
    python: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
    **keywords: Any,
) -> Placement | Comparison:
    """Place a graph on hardware that is not there, with TensorFlow's own placer. Nothing is executed.

    Parameters
    ----------
    what : object
        A ``tf.function`` or ``ConcreteFunction``, a Keras model, a ``tf.Graph`` or ``GraphDef``, a SavedModel's
        folder, a ``.pb``, ``.pbtxt``, ``.keras`` or ``.h5`` file; or a list of these, in one Placement, each alone
        or as a tuple with its inputs: ``[(f, x), model]``.
    *args
        The inputs of a function: tensors, arrays, ``tf.TensorSpec`` or plain values. Of a Keras model one batch: ``x``
        for its ``predict``; ``x, y`` (and ``sample_weight``) for its train step, with its optimizer, if it is compiled.
        Several inputs of a model go into one list or dict.
    on : str, or sequence of Card or Device
        The machine: ``"2xT4"``, ``"1xH100-80GB + 2xL4"``, ``"4xA100-80GB/PCIe4"``, ``"4xCPU"``. A list of these
        strings: several machines, side by side.
    soft : bool
        Soft placement. When false, what cannot be placed as asked is an error.
    train : bool, optional
        A model's train step (true) or ``predict`` (false); if not given, as there is a ``y`` or not. The step that
        ``fit`` repeats is traced as one graph; on a GPU ``fit`` itself has XLA compile it, unless the model was
        compiled with ``jit_compile=False``. The model stays as it is: weights, optimizer, metrics, train function.
    signature : str, optional
        Which signature of a SavedModel; ``serving_default`` if not given.
    timeout : float
        Seconds that the placer may take for one graph.
    python : str or path-like, optional
        The Python of another environment, one that has TensorFlow's build with CUDA and ``grpcio``.
    progress : callable, optional
        Called with a sentence when TensorFlow has to be started for it.
    **keywords
        Inputs of a function, or of a model, by their names. And ``batch_size`` (int) of a model, file or graph whose
        inputs are not given: their unknown first dimension. A function takes it as an input of that name. Without it
        a Keras model's batch is taken for 1, which a note says, and sizes in graphs stay unknown. With ``train=True``
        the labels of a Keras model need not be given: of a sparse loss they are integers without the last dimension of
        the output, of any other loss what the output is.

    Returns
    -------
    Placement or Comparison
        Like that of a recording; for a list of machines the comparison of them.

    Raises
    ------
    UnplaceableError
        When the graph cannot be placed on this machine: a sentence with the operation, its line and a remedy, and
        TensorFlow's own message; it is a ``PlacementError``.
    PlacementError
        When ``what`` or ``on`` cannot be read; when TensorFlow cannot be started.

    Notes
    -----
    Variables and eager tensors that were made under ``tf.device("/gpu:1")`` on a machine without that GPU have lost
    this request, unless they were made under :func:`~jupyter_placement.dryrun.requests`.

    Tracing a function runs its Python code, as a first call does: what it makes outside of the graph is made, such as
    the slots of an optimizer that has none yet.

    A function with ``jit_compile=True`` is placed as without it when it is given itself; on the real machine XLA makes
    one operation of it, on one device. Called by another function it is one operation here too.

    A ``tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])`` cannot be built on a machine without GPUs; on logical CPU
    devices it can, and its step can be placed on a machine of as many CPUs.
    """
    if isinstance(on, list) and on and all(isinstance(one, str) for one in on):
        options = {"soft": soft, "train": train, "signature": signature, "timeout": timeout, "python": python}
        return dry_run_each(what, *args, on=[str(one) for one in on], progress=progress, **options, **keywords)
    devices = _machine(on)
    _check(soft, train, signature, timeout, python, progress)
    graphs = _graphs(_sources(what, args), keywords, train, signature)
    if not any(graph.graph_def.node for graph in graphs):
        raise PlacementError("there is nothing to place: the graph has no operations")
    helper = HELPERS.of(python)
    lines, seconds = LineCollector(), 0.0
    lines.always = lambda: True  # every line is the helper's
    described = [_described(device) for device in devices]
    for graph in graphs:
        try:
            ready = Preparation(graph.graph_def, devices, soft, function=graph.label.startswith("function:"))
            reply = helper.place(ready.graph, described, soft, timeout, ready.first, progress)
            if reply.error:
                raise UnplaceableError(ready.real_message(reply.error))
        except UnplaceableError as error:
            raise UnplaceableError(error.text, failure_event(error.text, graph, devices)) from None
        _take(reply.log, ready.real_message("\n".join(reply.stderr)), lines, graph)
        seconds += reply.seconds
    placement = build_placement(Captured(graphs), lines, devices)
    placement.meta.update(
        {
            "dry_run": on.strip() if isinstance(on, str) else [device.name for device in devices],
            "placer_seconds": round(seconds, 6),
            "tensorflow": helper.tensorflow,
            "soft_placement": soft,
        }
    )
    set_reasons(placement)  # needs soft_placement
    placement.events = placement_events(placement, lines.other, None)
    placement.events += [Event("note", note) for graph in graphs for note in graph.notes]
    add_estimate(placement, graphs, devices, helper, timeout)
    return placement


def close_helpers() -> None:
    """End the helper processes; the next dry run starts one again."""
    HELPERS.close()


def _sources(what: Any, args: tuple[Any, ...]) -> list[tuple[Any, tuple[Any, ...]]]:
    """Return each thing that is to be placed with its inputs."""
    if not isinstance(what, list | tuple):
        return [(what, args)]
    if not what:
        raise PlacementError("there is nothing to place: the list is empty")
    return [(one[0], one[1:]) if isinstance(one, tuple) and one else (one, args) for one in what]


def _graphs(
    sources: Sequence[tuple[Any, tuple[Any, ...]]], keywords: dict[str, Any], train: bool | None, signature: str | None
) -> list[CapturedGraph]:
    """Return the graph of each; of several, one at least has to have an input for a given batch."""
    graphs = []
    refused: list[NoBatchError] = []
    for one, given in sources:
        try:
            graphs.append(graph_of(one, given, keywords, train, signature))
        except NoBatchError as error:
            refused.append(error)
            if len(refused) == len(sources):
                raise
            rest = {name: value for name, value in keywords.items() if name != "batch_size"}
            graphs.append(graph_of(one, given, rest, train, signature))
    return graphs


def _take(log: list[str], warnings: str, lines: LineCollector, graph: CapturedGraph) -> None:
    for line in log:
        if not line.startswith(PIN):
            lines.take(1, line)
    for line in warnings.splitlines():
        lines.take(2, line)
    graph.records = lines.pop()


def _machine(on: Any) -> list[Device]:
    """Return the devices of a machine, by their full names, the first CPU among them."""
    if not isinstance(on, str):
        if not isinstance(on, list | tuple) or not on or not all(isinstance(one, Device | Card) for one in on):
            raise PlacementError(
                f'on= is a machine: "2xT4", "1xH100-80GB + 2xL4", "4xCPU", or a list of Card or Device; it is {on!r}'
            )
        on = [
            replace(device, name=full_device(device.name) or device.name) if isinstance(device, Device) else device
            for device in on
        ]
        for device in on:
            if isinstance(device, Device) and not device.name.startswith(f"{LOCAL_TASK}/device:"):
                raise PlacementError(
                    f"{device.name!r} is no device of one machine: name it like GPU:0 or {LOCAL_TASK}/device:GPU:0"
                )
    devices = parse_machine(on)
    first = f"{LOCAL_TASK}/device:CPU:0"
    if not any(device.name == first for device in devices):
        devices.insert(0, Device(first))
    return devices


def _check(soft: Any, train: Any, signature: Any, timeout: Any, python: Any, progress: Any) -> None:
    """Refuse values of the wrong kind, and a call where nothing can be traced.

    Raises
    ------
    PlacementError
        With a sentence.
    """
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and tensorflow.inside_function():
        raise PlacementError("dry_run is called while a tf.function is traced: call it outside of the function")
    for name, value in (("soft", soft), ("train", train)):
        if not isinstance(value, bool) and not (name == "train" and value is None):
            raise PlacementError(f"{name}= is True or False, not {value!r}")
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not number or not math.isfinite(timeout) or timeout <= 0:
        raise PlacementError(f"timeout= is a number of seconds above 0, not {timeout!r}")
    if signature is not None and not isinstance(signature, str):
        raise PlacementError(f"signature= is the name of a SavedModel's signature, not {signature!r}")
    if python is not None and (not isinstance(python, str | os.PathLike) or not str(python).strip()):
        raise PlacementError(f"python= is the path of another environment's Python, not {python!r}")
    if progress is not None and not callable(progress):
        raise PlacementError(f"progress= is a function that takes a sentence, not {progress!r}")


def _described(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "type": device.type or "CPU",
        "memory": device.memory_limit or 0,
        "description": device.physical_name or "",
    }
