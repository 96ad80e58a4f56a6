"""Graph files and SavedModels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.dryrun.functions import graph_of_function
from jupyter_placement.dryrun.shape_inference import infer_shapes
from jupyter_placement.dryrun.signature_inputs import take_inputs
from jupyter_placement.placement import PlacementError

TEXT = (".pbtxt", ".txt", ".prototxt")


def saved_model(
    path: Path, signature: str | None, args: Sequence[Any], keywords: Mapping[str, Any], batch: int | None = None
) -> CapturedGraph:
    """Return the graph of a signature of a SavedModel: the one that is named, else ``serving_default``.

    Raises
    ------
    PlacementError
        When the folder holds no SavedModel, or not this signature, or it does not take this batch.
    """
    import tensorflow as tf

    try:
        loaded = tf.saved_model.load(str(path))
    except (OSError, ValueError, KeyError) as error:
        raise PlacementError(f"{path} holds no SavedModel that can be read here: {error}") from error
    signatures = dict(loaded.signatures)
    if not signatures:
        raise PlacementError(f"{path} has no signature: save the model with signatures=")
    if signature is None:
        signature = "serving_default" if "serving_default" in signatures else next(iter(signatures))
    if signature not in signatures:
        raise PlacementError(f"{path} has no signature {signature!r}; it has {', '.join(sorted(signatures))}")
    found = graph_of_function(signatures[signature])
    found.label = f"function:{signature}"
    if args or keywords:
        take_inputs(found, signature, signatures[signature], args, keywords)
    infer_shapes(found, batch)  # what a loaded function calls was traced for any batch
    return found


def graph_file(path: Path) -> CapturedGraph:
    """Read a ``GraphDef``, ``MetaGraphDef`` or ``SavedModel``, binary or text.

    Raises
    ------
    PlacementError
        When the file cannot be read, or holds none of these.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlacementError(f"{path} cannot be read: {error.strerror or error}") from error
    graph_def = _parsed(data, text=path.suffix in TEXT)
    if graph_def is None:
        raise PlacementError(
            f"{path} holds no TensorFlow graph: give a GraphDef, MetaGraphDef or SavedModel (.pb, as text .pbtxt), a "
            "SavedModel's folder, or a .keras file"
        )
    return CapturedGraph("session:0", graph_def)


def _parsed(data: bytes, text: bool) -> Any:
    """Parse a graph; protobuf itself does not tell which kind of message a file holds."""
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError
    from tensorflow.core.framework import graph_pb2
    from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

    kinds: tuple[tuple[Any, Any], ...] = (
        (saved_model_pb2.SavedModel, lambda found: found.meta_graphs[0].graph_def if found.meta_graphs else found),
        (meta_graph_pb2.MetaGraphDef, lambda found: found.graph_def),
        (graph_pb2.GraphDef, lambda found: found),
    )
    for kind, graph in kinds:
        found = kind()
        try:
            if text:
                text_format.Parse(data.decode("utf-8"), found)
            else:
                found.ParseFromString(data)
        except (DecodeError, text_format.ParseError, UnicodeDecodeError):
            continue
        nodes = getattr(graph(found), "node", ())
        if any(node.name and node.op for node in nodes):
            return graph(found)
    return None
