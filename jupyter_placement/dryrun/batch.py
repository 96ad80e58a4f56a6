"""The batch of a model or graph whose inputs are not given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jupyter_placement.placement import PlacementError

_MOST = 2**31 - 1
# What hands out the elements of a data set, with their shapes in an attribute.
GETTERS = frozenset(
    {"IteratorGetNext", "IteratorGetNextSync", "OptionalGetValue", "MultiDeviceIteratorGetNextFromShard"}
)


class NoBatchError(PlacementError):
    """A graph that has no input for the ``batch_size`` that is given."""


def taken_batch(args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Take ``batch_size`` out of the keywords.

    Raises
    ------
    PlacementError
        When it is no number of examples, or inputs are given, which have a batch.

    Examples
    --------
    >>> taken_batch([], {"batch_size": 64}), taken_batch([], {"x": 1})
    (({}, 64), ({'x': 1}, None))
    """
    rest = {name: value for name, value in keywords.items() if name != "batch_size"}
    batch = keywords.get("batch_size")
    if batch is None:
        return rest, None
    if isinstance(batch, bool) or not isinstance(batch, int) or not 0 < batch <= _MOST:
        raise PlacementError(f"batch_size= is a whole number of examples, 1 or more, not {batch!r}")
    if args or rest:
        raise PlacementError("batch_size= stands for inputs that are not given: give the inputs, or batch_size=")
    return rest, batch


def with_batched_elements(graph_def: Any, batch: int) -> Any:
    """Return a graph whose data sets hand out batches of this size, where theirs is not known; the same if none does.

    Parameters
    ----------
    graph_def : GraphDef
        It stays as it is.
    batch : int
        What the unknown first dimension of each element becomes.
    """
    if not any(True for _ in _open_shapes(graph_def)):
        return graph_def
    changed = type(graph_def)()
    changed.CopyFrom(graph_def)
    for shape in _open_shapes(changed):
        shape.dim[0].size = batch
    return changed


def _open_shapes(graph_def: Any) -> Iterator[Any]:
    bodies = [graph_def.node, *(function.node_def for function in graph_def.library.function)]
    for node in (node for body in bodies for node in body if node.op in GETTERS):
        for shape in node.attr["output_shapes"].list.shape:
            if not shape.unknown_rank and shape.dim and shape.dim[0].size < 0:
                yield shape
