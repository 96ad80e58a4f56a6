"""Inputs that are given for a signature of a SavedModel: it cannot be traced again, but its shapes can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.dryrun.functions import shape_of
from jupyter_placement.placement import PlacementError


def take_inputs(
    graph: CapturedGraph, name: str, concrete: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> None:
    """Give the arguments of a signature's graph the shapes of its inputs.

    Parameters
    ----------
    graph : CapturedGraph
        That of the signature; changed in place.
    name : str
        The signature's name.
    concrete : ConcreteFunction
        The signature.
    args, keywords
        Tensors, arrays or ``tf.TensorSpec``, by name; without a name where there is only one.

    Raises
    ------
    PlacementError
        When they are not those that the signature takes.
    """
    import tensorflow as tf

    takes = concrete.structured_input_signature[1]
    names = sorted(takes)  # the order in which TensorFlow flattens a dict
    given = dict(zip(names, args, strict=False)) | dict(keywords)
    if len(args) > 1 or len(args) + len(keywords) != len(names) or given.keys() != takes.keys():
        inputs = ", ".join(f"{one}: {takes[one].dtype.name} {takes[one].shape}" for one in names)
        raise PlacementError(
            f"the signature {name!r} takes {inputs}; give each by its name: dry_run(folder, {names[0]}=..., on=...)"
            if names
            else f"the signature {name!r} takes no inputs"
        )
    arguments = sorted(
        (node for node in graph.graph_def.node if node.op == "_Arg"), key=lambda node: node.attr["index"].i
    )
    for one, argument in zip(names, arguments, strict=False):
        value = given[one]
        spec = value if hasattr(value, "shape") and hasattr(value, "dtype") else tf.convert_to_tensor(value)
        if tf.dtypes.as_dtype(spec.dtype) != takes[one].dtype or not takes[one].shape.is_compatible_with(spec.shape):
            raise PlacementError(
                f"the input {one!r} of the signature {name!r} is {takes[one].dtype.name} {takes[one].shape}; given is "
                f"{tf.dtypes.as_dtype(spec.dtype).name} {tf.TensorShape(spec.shape)}"
            )
        graph.shapes.setdefault("", {})[argument.name] = [shape_of(tf.TensorSpec(spec.shape))]
