"""What can be placed: functions, Keras models, graphs and graph files, each as the graph that TensorFlow places."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.capture.sources import UserFrames, operation_sources
from jupyter_placement.dryrun.batch import taken_batch
from jupyter_placement.dryrun.files import graph_file, saved_model
from jupyter_placement.dryrun.functions import graph_of_function, traced
from jupyter_placement.dryrun.shape_inference import infer_shapes
from jupyter_placement.placement import PlacementError

KERAS = (".keras", ".h5", ".hdf5")


def graph_of(
    what: Any,
    args: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
    train: bool | None = None,
    signature: str | None = None,
) -> CapturedGraph:
    """Return the graph of a function, model, graph or graph file.

    Parameters
    ----------
    what : object
        As for :func:`~jupyter_placement.dryrun.dry_run`.
    args, keywords
        The inputs of a function, or of a model; and ``batch_size`` of all but a function.
    train : bool, optional
        Whether a model's train step is wanted; as the inputs tell if not given.
    signature : str, optional
        Which one of a SavedModel.

    Raises
    ------
    PlacementError
        For anything else, and for a file that cannot be read.
    """
    import tensorflow as tf

    keywords = keywords or {}
    path = Path(what) if isinstance(what, str | os.PathLike) else None
    is_model = isinstance(what, tf.keras.Model) or (path is not None and path.suffix in KERAS)
    if train is not None and not is_model:
        raise PlacementError("train= is for a Keras model or its .keras file: a function is placed as it is")
    if signature is not None and (path is None or not path.is_dir()):
        raise PlacementError("signature= names a signature of a SavedModel: give its folder")
    function = _function(what)
    if function is not None and not is_model:
        return traced(function, args, keywords)
    keywords, batch = taken_batch(args, keywords)
    if is_model:
        from jupyter_placement.dryrun.models import graph_of_model, loaded_model

        model = what if path is None else loaded_model(path, train, args)
        return graph_of_model(model, args, keywords, train, batch)
    if path is not None and path.is_dir():
        return saved_model(path, signature, args, keywords, batch)
    graph = None
    if path is not None:
        graph = graph_file(path)
    elif isinstance(what, tf.compat.v1.GraphDef):
        graph = CapturedGraph("session:0", what)
    elif isinstance(what, tf.Graph) and not hasattr(what, "captures"):
        graph = CapturedGraph("session:0", what.as_graph_def(add_shapes=True))
        graph.sources = {"": operation_sources(what.get_operations(), UserFrames())}
    elif hasattr(what, "graph") and (hasattr(what, "function_def") or hasattr(what, "cached_definition")):
        graph = graph_of_function(what)
    if graph is not None and (args or keywords):
        raise PlacementError("inputs are for a function or a model: a graph, or a function that is traced, has its own")
    if graph is not None:
        if batch is not None or graph.label.startswith("session"):
            infer_shapes(graph, batch)
        return graph
    hint = ": put @tf.function above it" if callable(what) and hasattr(what, "__code__") else ""
    if isinstance(what, tf.Graph):
        hint = ": give the function that it is the graph of"
    raise PlacementError(
        f"{type(what).__name__} objects cannot be placed{hint}; what can be: a tf.function and its inputs, a Keras "
        "model, a tf.Graph or GraphDef, a SavedModel's folder, a .pb, .pbtxt or .keras file, or a list of these"
    )


def _function(what: Any) -> Any:
    """Return the ``tf.function`` that something is, or that a call of it is, as of a ``tf.Module``; None if neither."""
    if hasattr(what, "get_concrete_function"):
        return what
    call = None if isinstance(what, type) else getattr(what, "__call__", None)  # noqa: B004 - not whether, but what
    return call if hasattr(call, "get_concrete_function") else None
