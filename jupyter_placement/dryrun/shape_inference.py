"""Shapes of a graph whose batch is known, also inside the functions that it calls: TensorFlow's own shape functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.capture.structure import dimensions
from jupyter_placement.dryrun.batch import NoBatchError, with_batched_elements
from jupyter_placement.dryrun.flat_graph import FlatGraph, Shape
from jupyter_placement.dryrun.functions import shape_of
from jupyter_placement.placement import PlacementError

Shapes = dict[str, dict[str, list[Shape]]]
_INPUTS = frozenset({"_Arg", "Placeholder", "PlaceholderV2"})
_TURNS = 12
_HANDLES = (20, 21)


def infer_shapes(graph: CapturedGraph, batch: int | None = None) -> None:
    """Find out the shapes of a captured graph and of its functions, and add them to those it has.

    Parameters
    ----------
    graph : CapturedGraph
        Changed in place.
    batch : int, optional
        What the unknown first dimension of each argument, placeholder and element of a data set becomes.

    Raises
    ------
    NoBatchError
        When none of these has an unknown first dimension.
    PlacementError
        When the graph does not take this batch.
    """
    inputs = _inputs(graph)
    found: Shapes | None
    if batch is not None:
        batched = {name: [batch, *shape[1:]] if shape and shape[0] is None else shape for name, shape in inputs.items()}
        graph_def = with_batched_elements(graph.graph_def, batch)
        if batched == inputs and graph_def is graph.graph_def:
            raise NoBatchError(
                f"batch_size={batch} has nothing to stand for: no input of this graph has an unknown first dimension"
            )
        graph.graph_def, inputs = graph_def, batched
    try:
        found = _inferred(graph.graph_def, inputs)
    except ValueError as error:
        if batch is not None and _importable(graph.graph_def):
            raise PlacementError(f"the graph does not take batch_size={batch}: {_first_line(error)}") from error
        return  # without shapes; what is wrong with the graph, the placer tells
    except (KeyError, TypeError):
        return
    for function, nodes in (found or {}).items():
        into = graph.shapes.setdefault(function, {})
        for name, shapes in nodes.items():
            into[name] = [more(old, new) for old, new in zip(into.get(name, shapes), shapes, strict=False)]


def _inputs(graph: CapturedGraph) -> dict[str, Shape]:
    known = graph.shapes.get("", {})
    found: dict[str, Shape] = {}
    for node in graph.graph_def.node:
        if node.op not in _INPUTS or node.attr["T" if node.op == "_Arg" else "dtype"].type in _HANDLES:
            continue
        if known.get(node.name):
            found[node.name] = known[node.name][0]
        elif "_output_shapes" in node.attr and node.attr["_output_shapes"].list.shape:
            found[node.name] = dimensions(node.attr["_output_shapes"].list.shape[0])
        else:
            found[node.name] = dimensions(node.attr["shape"].shape) if "shape" in node.attr else None
    return found


def _importable(graph_def: Any) -> bool:
    try:
        _imported(graph_def)
    except (ValueError, KeyError, TypeError):
        return False
    return True


def _imported(graph_def: Any) -> Any:
    import tensorflow as tf

    graph = tf.Graph()
    try:
        with graph.as_default():
            tf.graph_util.import_graph_def(graph_def, name="")
    except tf.errors.OpError as error:
        raise ValueError(error.message) from error
    return graph


def _inferred(graph_def: Any, inputs: Mapping[str, Shape]) -> Shapes | None:
    """Infer until each loop's body leaves the shapes that it was given; ``None`` if that does not end."""
    general: dict[str, Shape] = {}
    for _ in range(_TURNS):
        flat = FlatGraph(graph_def, inputs, general)
        graph = _imported(flat.graph_def)
        stable = True
        for one in flat.loops:
            before, after = (shape_of(graph.get_tensor_by_name(_tensor(name))) for name in (one.enters, one.after))
            both = common(before, after)
            if both != before:
                general[one.enters], stable = both, False
        if stable:
            return _by_function(graph, flat)
    return None


def _tensor(reference: str) -> str:
    return reference if reference.rpartition(":")[2].isdigit() else f"{reference}:0"


def _by_function(graph: Any, flat: FlatGraph) -> Shapes:
    found: Shapes = {}
    for operation in graph.get_operations():
        number, _, name = operation.name.partition("/")
        into = found.setdefault(flat.functions[int(number)], {})
        shapes = [shape_of(tensor) for tensor in operation.outputs]
        # A function that is called twice has the shapes that both calls give it.
        into[name] = [common(*pair) for pair in zip(into[name], shapes, strict=True)] if name in into else shapes
    return found


def common(first: Shape, second: Shape) -> Shape:
    """Return what two shapes have in common.

    Examples
    --------
    >>> common([2, 3], [4, 3]), common([2], [2, 3])
    ([None, 3], None)
    """
    if first is None or second is None or len(first) != len(second):
        return None
    return [one if one == other else None for one, other in zip(first, second, strict=True)]


def more(first: Shape, second: Shape) -> Shape:
    """Return what two shapes of one tensor tell together; the second counts where they differ.

    Examples
    --------
    >>> more([None, 3], [4, None]), more(None, [2])
    ([4, 3], [2])
    """
    if first is None or second is None or len(first) != len(second):
        return first if second is None else second
    return [one if other is None else other for one, other in zip(first, second, strict=True)]


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
