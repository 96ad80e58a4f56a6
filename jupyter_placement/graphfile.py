"""Read a graph file: what TensorFlow and Keras save, as nodes with inputs and requested devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_placement.placement import PlacementError

_DEEPEST = 20


@dataclass(frozen=True)
class GraphNode:
    """One node of a graph, or of a function's body where TensorFlow inlines it.

    Attributes
    ----------
    name, op : str
        Name and operation type.
    requested : str
        Requested device as the user wrote it, or ``""``.
    inputs : tuple of (int or str, str)
        Input index and ``name:output`` of each tensor; ``"^0"`` and the name of each control input.
    colocated : bool
        Whether it must be on the device of another node.
    dtype : str or None
        Of output 0, where the node tells.
    shape : list of (int or None) or None
        Of output 0, where the node tells.
    """

    name: str
    op: str
    requested: str = ""
    inputs: tuple[tuple[int | str, str], ...] = field(default=())
    colocated: bool = False
    dtype: str | None = None
    shape: list[int | None] | None = None


def read_graph(path: str | os.PathLike[str]) -> list[GraphNode]:
    """Read a graph file. Imports TensorFlow.

    Parameters
    ----------
    path : path-like
        A ``GraphDef``, ``MetaGraphDef`` or ``SavedModel``, binary (``.pb``, ``.meta``) or text (``.pbtxt``); a
        SavedModel's folder; or a Keras model (``.keras``, ``.h5``).

    Returns
    -------
    list of GraphNode
        Also the nodes of functions, under the names that they have when TensorFlow has inlined them, and under their
        own.

    Raises
    ------
    PlacementError
        When the file is not there, or is none of these.
    """
    file = Path(path)
    if file.is_dir():
        saved = [file / name for name in ("saved_model.pb", "saved_model.pbtxt")]
        there = [one for one in saved if one.is_file()]
        if not there:
            raise PlacementError(f"{path} is a folder without a saved_model.pb: give a graph file or a SavedModel")
        file = there[0]
    if not file.is_file():
        raise PlacementError(f"there is no graph file {path}")
    if file.suffix in (".keras", ".h5", ".hdf5"):
        return graph_nodes(_keras_graph(file))
    try:
        data = file.read_bytes()
    except OSError as error:
        raise PlacementError(f"the graph file {path} cannot be read: {error.strerror or error}") from error
    for parse in _parsers(data, text=file.suffix in (".pbtxt", ".txt", ".prototxt")):
        graphs = parse()
        if graphs:
            return list({node.name: node for graph in reversed(graphs) for node in graph_nodes(graph)}.values())
    raise PlacementError(
        f"{path} holds no TensorFlow graph: give a GraphDef or SavedModel (.pb or .pbtxt), a SavedModel's folder, or "
        "a .keras file"
    )


def _parsers(data: bytes, text: bool) -> Iterator[Callable[[], list[Any]]]:
    """Yield a way to read each kind of message; protobuf itself does not tell which one a file holds."""
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError
    from tensorflow.core.framework import graph_pb2
    from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

    kinds: tuple[tuple[Any, Callable[[Any], list[Any]]], ...] = (
        (saved_model_pb2.SavedModel, lambda found: [one.graph_def for one in found.meta_graphs]),
        (meta_graph_pb2.MetaGraphDef, lambda found: [found.graph_def]),
        (graph_pb2.GraphDef, lambda found: [found]),
    )
    for message, graphs in kinds:

        def parse(message: Any = message, graphs: Callable[[Any], list[Any]] = graphs) -> list[Any]:
            found = message()
            try:
                if text:
                    text_format.Parse(data.decode("utf-8"), found)
                else:
                    found.ParseFromString(data)
                named = [graph for graph in graphs(found) if any(node.name and node.op for node in graph.node)]
            except (DecodeError, text_format.ParseError, UnicodeDecodeError):
                return []
            return named

        yield parse


def _keras_graph(file: Path) -> Any:
    """Trace a saved Keras model's call for the shapes that it was built with."""
    import tensorflow as tf

    try:
        model = tf.keras.models.load_model(file, compile=False)
        inputs = [tf.TensorSpec(one.shape, one.dtype, one.name) for one in model.inputs]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise PlacementError(f"{file} holds no Keras model that can be read here: {error}") from error
    function = tf.function(lambda *tensors: model(list(tensors) if len(tensors) > 1 else tensors[0]))
    return function.get_concrete_function(*inputs).graph.as_graph_def()


def graph_nodes(graph: Any) -> list[GraphNode]:
    """List the nodes of a ``GraphDef``, its functions inlined as TensorFlow inlines them, and on their own.

    Parameters
    ----------
    graph : tensorflow.GraphDef
        The graph.
    """
    functions = {one.signature.name: one for one in graph.library.function}
    found: dict[str, GraphNode] = {}
    for node in _inlined(graph.node, functions, "", {}, 0):
        found.setdefault(node.name, node)
    for function in functions.values():
        arguments = {argument.name: argument.name for argument in function.signature.input_arg}
        for argument in function.signature.input_arg:
            found.setdefault(argument.name, GraphNode(argument.name, "_Arg"))
        for node in _inlined(function.node_def, {}, "", arguments, 0):
            found.setdefault(node.name, node)
    return list(found.values())


def _inlined(
    nodes: Iterable[Any], functions: dict[str, Any], scope: str, arguments: dict[str, str], depth: int
) -> Iterator[GraphNode]:
    """Yield the nodes of a body under a scope; its arguments are the tensors that the caller gives."""
    for node in nodes:
        inputs: list[tuple[int | str, str]] = []
        controls = 0
        for index, name in enumerate(node.input):
            if name.startswith("^"):
                inputs.append((f"^{controls}", scope + name[1:]))
                controls += 1
            else:
                inputs.append((index, _tensor(name, scope, arguments)))
        colocation = node.attr["_class"].list.s if "_class" in node.attr else ()
        yield GraphNode(
            scope + node.name,
            node.op,
            node.device,
            tuple(inputs),
            any(one.startswith(b"loc:@") and one[5:].decode() != node.name for one in colocation),
            _dtype(node),
            _shape(node),
        )
        given = [tensor for key, tensor in inputs if isinstance(key, int)]
        for inside, called, first in _callees(node):
            body = functions.get(called)
            if body is None or depth >= _DEEPEST:
                continue
            inner = {one.name: tensor for one, tensor in zip(body.signature.input_arg, given[first:], strict=False)}
            yield from _inlined(body.node_def, functions, f"{scope}{node.name}/{inside}", inner, depth + 1)


def _tensor(name: str, scope: str, arguments: dict[str, str]) -> str:
    """Write an input as ``name:output``; in a function's body it is ``name:output_name:index``."""
    parts = name.split(":")
    if parts[0] in arguments:
        return arguments[parts[0]]
    return f"{scope}{parts[0]}:{parts[-1] if len(parts) > 1 else 0}"


def _callees(node: Any) -> list[tuple[str, str, int]]:
    """List the functions that a node calls: scope of each, its name, and the input that is its first argument."""
    calls = {"f": ("", 0), "body": ("body/", 0), "cond": ("cond/", 0), "then_branch": ("then/", 1)}
    calls["else_branch"] = ("else/", 1)
    if node.op in ("PartitionedCall", "StatefulPartitionedCall", "TPUPartitionedCall"):
        calls = {"f": ("", 0)}
    elif node.op not in ("While", "StatelessWhile", "If", "StatelessIf"):
        return [("", str(node.op), 0)]
    return [(scope, str(node.attr[key].func.name), first) for key, (scope, first) in calls.items() if key in node.attr]


def _dtype(node: Any) -> str | None:
    import tensorflow as tf

    for key in ("dtype", "T", "output_type", "DstT"):
        if key in node.attr and node.attr[key].type:
            return str(tf.dtypes.as_dtype(node.attr[key].type).name)
    return None


def _shape(node: Any) -> list[int | None] | None:
    shapes = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else ()
    if not shapes or shapes[0].unknown_rank:
        return None
    return [one.size if one.size >= 0 else None for one in shapes[0].dim]
