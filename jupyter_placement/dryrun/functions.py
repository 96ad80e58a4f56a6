"""The graph that TensorFlow's runtime makes of a function, with the variables that it uses."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_placement.capture.functions import function_shapes
from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.capture.names import function_label
from jupyter_placement.capture.private import private_tensorflow
from jupyter_placement.capture.replacement import function_graph_def
from jupyter_placement.capture.requests import requested_device
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.capture.sources import UserFrames, function_sources
from jupyter_placement.capture.variables import variables_of
from jupyter_placement.devices import LOCAL_TASK
from jupyter_placement.placement import PlacementError

_DEFAULT = f"{LOCAL_TASK}/device:CPU:0"


def traced(function: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> CapturedGraph:
    """Trace a ``tf.function`` for its inputs and return its graph.

    Parameters
    ----------
    function : tf.function
        Or whatever has ``get_concrete_function``.
    args, keywords
        The inputs: tensors, arrays, ``tf.TensorSpec`` or plain values.

    Raises
    ------
    PlacementError
        When the inputs are not those that the function takes. What its own code raises is raised as it is.
    """
    python = getattr(function, "python_function", None)
    name = getattr(python, "__name__", None) or type(function).__name__
    try:
        if python is not None and getattr(function, "input_signature", None) is None:
            inspect.signature(python).bind(*args, **keywords)
        concrete = function.get_concrete_function(*args, **keywords)
    except (TypeError, ValueError) as error:
        if _from_users_code(error):
            raise
        given = len(args) + len(keywords)
        told = " ".join(str(error).split())
        raise PlacementError(
            f"{name} does not take the {given} input{'s' * (given != 1)} given: {told}. Give the inputs of one call: "
            "dry_run(f, x, flag=True, on=...), each a tensor, an array, a tf.TensorSpec or a plain value."
        ) from error
    return graph_of_function(concrete, _tensor_devices(concrete, args, keywords))


def _from_users_code(error: BaseException) -> bool:
    """Tell whether an exception came out of code that is neither TensorFlow's nor this package's."""
    import tensorflow as tf

    own = (os.path.dirname(tf.__file__), os.path.dirname(os.path.dirname(__file__)), os.path.dirname(inspect.__file__))
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return any(not name.startswith(own) or "site-packages" in name.removeprefix(own[0]) for name in frames[1:])


def _tensor_devices(concrete: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[str]:
    """Return where each input tensor is to be, where that is known."""
    import tensorflow as tf

    given = [one for one in tf.nest.flatten((list(args), dict(keywords))) if _is_tensor(one)]
    count = len(concrete.inputs) - len(concrete.captured_inputs)
    return [known_device(one) for one in given] if len(given) == count else []


def _is_tensor(value: Any) -> bool:
    import numpy as np
    import tensorflow as tf

    return isinstance(value, tf.Tensor | tf.TensorSpec | np.ndarray | np.generic)


def known_device(tensor: Any) -> str:
    """Return the device that an eager tensor or a handle was made for; ``""`` where nobody asked for one.

    What is on this machine's first CPU may be there for want of a GPU: that alone tells nothing.
    """
    import tensorflow as tf

    if not isinstance(tensor, tf.Tensor) or not hasattr(tensor, "backing_device"):
        return ""  # an array, a specification, or a tensor that stands for one
    asked, there = requested_device(tensor), str(tensor.device)
    # The eager context completes "/gpu:1" with this machine's task.
    return (asked or ("" if there == _DEFAULT else there)).removeprefix(LOCAL_TASK)


def graph_of_function(concrete: Any, argument_devices: Sequence[str] = ()) -> CapturedGraph:
    """Return the graph that the runtime makes of a function, its variables in place of the arguments they are.

    Parameters
    ----------
    concrete : ConcreteFunction or AtomicFunction
        The function.
    argument_devices : sequence of str
        Where its input tensors are to be, where known.
    """
    graph = concrete.graph
    # A ConcreteFunction, or the runtime's own AtomicFunction, which a recording knows.
    definition = concrete.function_def if hasattr(concrete, "function_def") else concrete.cached_definition
    private = private_tensorflow()
    library = graph.as_graph_def().library
    signatures = Signatures(private.op_defs, {item.signature.name: item for item in library.function}, lambda kind: "")
    graph_def = function_graph_def(definition, library, signatures)
    nodes = {node.name: node for node in graph_def.node}
    captured = {id(internal): external for external, internal in graph.captures}
    for index, (argument, tensor) in enumerate(zip(definition.signature.input_arg, graph.inputs, strict=True)):
        node, external = nodes[argument.name], captured.get(id(tensor))
        if external is not None:
            node.device = known_device(external)
            _make_variable(node, external)
        elif index < len(argument_devices):
            node.device = argument_devices[index]
    name = definition.signature.name
    found = CapturedGraph(f"function:{function_label(name)}", graph_def)
    found.variables = variables_of(graph, definition.signature.input_arg)
    inference = getattr(concrete, "_inference_function", concrete)
    if hasattr(inference, "children"):
        found.shapes, found.sources = function_shapes(inference), function_sources(inference, UserFrames())
        for argument, tensor in zip(definition.signature.input_arg, graph.inputs, strict=True):
            # The runtime's name of an argument is not always that of the operation in Python's graph.
            found.shapes[""].setdefault(argument.name, [shape_of(tensor)])
    return found


def shape_of(tensor: Any) -> list[int | None] | None:
    """Return a tensor's dimensions; ``None`` for an unknown one, or where not even their number is known."""
    return None if tensor.shape.rank is None else list(tensor.shape.as_list())


def _make_variable(node: Any, handle: Any) -> None:
    """Make a ``VarHandleOp`` of an argument that is a variable: the placer itself then says where the variable is."""
    data = getattr(handle, "_handle_data", None)
    if data is None or not data.is_set or len(data.shape_and_type) != 1 or handle.dtype.name != "resource":
        return
    (content,) = data.shape_and_type
    node.op = "VarHandleOp"
    node.attr.clear()
    node.attr["dtype"].type = content.dtype
    node.attr["shape"].shape.CopyFrom(content.shape)
    node.attr["shared_name"].s = f"variable/{handle._id}".encode()  # TensorFlow's number of it: one in all functions
