"""What can be placed: functions, Keras models, graphs and graph files, each as the graph that TensorFlow places."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jupyter_placement.capture.functions import function_shapes
from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.capture.names import function_label
from jupyter_placement.capture.private import private_tensorflow
from jupyter_placement.capture.replacement import function_graph_def
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.placement import PlacementError


def graph_of(what: Any, args: Sequence[Any]) -> CapturedGraph:
    """Return the graph of a function, model, graph or graph file.

    Parameters
    ----------
    what : object
        A ``tf.function``, ``ConcreteFunction``, Keras model, ``tf.Graph``, ``GraphDef``, or the path of a ``.pb`` or
        ``.keras`` file.
    args : sequence
        The inputs of a function, or of a model's call: tensors, arrays or ``tf.TensorSpec``.

    Raises
    ------
    PlacementError
        For anything else, and for a file that cannot be read.
    """
    import tensorflow as tf

    if isinstance(what, str | os.PathLike):
        return _file(Path(what), args)
    if isinstance(what, tf.compat.v1.GraphDef):
        return CapturedGraph("session:0", what)
    if isinstance(what, tf.Graph):
        return CapturedGraph("session:0", what.as_graph_def(add_shapes=True))
    if isinstance(what, tf.keras.Model):
        return _model(what, args)
    if hasattr(what, "get_concrete_function"):
        return _function(what.get_concrete_function(*args))
    if hasattr(what, "graph") and (hasattr(what, "function_def") or hasattr(what, "cached_definition")):
        return _function(what)
    raise PlacementError(
        f"a {type(what).__name__} cannot be placed: give a tf.function and its inputs, a Keras model, a graph, a file"
    )


def _model(model: Any, args: Sequence[Any]) -> CapturedGraph:
    import tensorflow as tf

    if not args:
        if not model.built or not model.inputs:
            raise PlacementError("this model has no known inputs yet: give one, dry_run(model, x, on=...)")
        args = [tf.TensorSpec([size or 1 for size in one.shape], one.dtype) for one in model.inputs]
    function = tf.function(lambda *inputs: model(list(inputs) if len(inputs) > 1 else inputs[0], training=False))
    graph = _function(function.get_concrete_function(*args))
    graph.label = f"function:{model.name}"
    return graph


def _file(path: Path, args: Sequence[Any]) -> CapturedGraph:
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    if path.suffix in (".keras", ".h5"):
        try:
            return _model(tf.keras.models.load_model(path, compile=False), args)
        except (OSError, ValueError, TypeError) as error:
            raise PlacementError(f"{path} holds no Keras model that can be read here: {error}") from error
    if path.is_dir():
        try:
            loaded = tf.saved_model.load(str(path))
        except (OSError, ValueError) as error:
            raise PlacementError(f"{path} holds no SavedModel that can be read here: {error}") from error
        signatures = dict(loaded.signatures)
        if not signatures:
            raise PlacementError(f"{path} has no signature: save the model with one")
        return _function(signatures.get("serving_default") or next(iter(signatures.values())))
    graph_def = tf.compat.v1.GraphDef()
    try:
        graph_def.ParseFromString(path.read_bytes())
    except OSError as error:
        raise PlacementError(f"{path} cannot be read: {error.strerror or error}") from error
    except DecodeError as error:
        raise PlacementError(f"{path} is no binary GraphDef") from error
    return CapturedGraph("session:0", graph_def)


def _function(concrete: Any) -> CapturedGraph:
    """Return the graph that the runtime makes of a function, its variables in place of the arguments they are."""
    graph = concrete.graph
    # A ConcreteFunction, or the runtime's own AtomicFunction, which a recording knows.
    definition = concrete.function_def if hasattr(concrete, "function_def") else concrete.cached_definition
    private = private_tensorflow()
    library = graph.as_graph_def().library
    signatures = Signatures(private.op_defs, {item.signature.name: item for item in library.function}, lambda kind: "")
    graph_def = function_graph_def(definition, library, signatures)
    variables = {id(variable.handle): variable for variable in graph.variables}
    inner = {id(internal): external for external, internal in graph.captures}
    nodes = {node.name: node for node in graph_def.node}
    for argument, tensor in zip(definition.signature.input_arg, graph.inputs, strict=True):
        variable = variables.get(id(inner.get(id(tensor))))
        if variable is None:
            continue
        node = nodes[argument.name]
        node.op = "VarHandleOp"
        node.attr.clear()
        node.attr["dtype"].type = variable.dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(variable.shape.as_proto())
        node.attr["shared_name"].s = argument.name.encode()
    name = definition.signature.name
    found = CapturedGraph(f"function:{function_label(name)}", graph_def)
    inference = getattr(concrete, "_inference_function", concrete)
    if hasattr(inference, "children"):
        found.shapes = function_shapes(inference)
    return found
