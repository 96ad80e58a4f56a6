"""Place a function again that TensorFlow placed before the recording began, without running it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.capture.records import LineCollector
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.log import PlacementRecord

_OWN = re.compile(r"(?:input|output|input_control_node|output_control_node)/_\d+")
_CALL = re.compile(r"cond/then/_\d+/cond/(?:Stateful)?PartitionedCall")


def place_again(
    function: Any,
    context: Any,
    switch: Callable[[bool], None] | None,
    drain: Callable[[], None],
    lines: LineCollector,
    op_defs: Any,
    argument_devices: tuple[str, ...] = (),
    called_on: str = "",
) -> CapturedGraph | str:
    """Have TensorFlow place a function in a branch that is not taken.

    TensorFlow inlines a conditional's branches before it places a function, so the operations of the branch that is
    not taken are placed as well. No variable is read or written and no random number is drawn.

    Parameters
    ----------
    function : AtomicFunction
        The function of the runtime.
    context : tensorflow.python.eager.context.Context
        The eager context, collecting graphs.
    switch, drain, lines
        The placement log: its switch, the wait for its lines, and where they arrive.
    op_defs : module
        TensorFlow's registry of operations.
    argument_devices : tuple of str
        Where the arguments were in the call that is being explained.
    called_on : str
        The device that was asked for around that call, or ``""``.

    Returns
    -------
    CapturedGraph or str
        A sentence where it cannot be placed again.
    """
    import tensorflow as tf

    name = function.name.decode()
    graph = function.graph
    captures = list(graph.external_captures)
    inputs = graph.inputs[: len(graph.inputs) - len(captures)]
    if graph.deferred_external_captures:
        return f"{name} ran before the recording and takes values that are only known in a call: it is not shown."
    devices = [*argument_devices, *[""] * len(inputs)]

    def run() -> Any:
        arguments = []
        for tensor, device in zip(inputs, devices, strict=False):
            with tf.device(device or None):
                arguments.append(tf.compat.v1.placeholder(tensor.dtype, tensor.shape))
        with tf.device(called_on or None):
            function.call_flat(*arguments, *captures)
        return tf.constant(0)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def placement(wanted: Any) -> Any:
        return tf.cond(wanted, run, lambda: tf.constant(0))

    options = context.function_call_options
    lines.own_log = lines.listening = True
    try:
        concrete = placement.get_concrete_function(tf.TensorSpec([], tf.bool))
        never = tf.constant(False)
        drain()
        lines.pop()
        context.export_run_metadata()
        context.function_call_options = _without_optimizer(options)
        if switch is not None:
            switch(True)
        concrete(never)
    except (tf.errors.OpError, ValueError, TypeError) as error:
        return f"{name} ran before the recording and could not be placed again: {error}"
    finally:
        if switch is not None:
            switch(False)
        context.function_call_options = options
        drain()
        lines.own_log = lines.listening = False
        records = lines.pop()
        metadata = context.export_run_metadata()
    collected = [
        item
        for item in metadata.function_graphs
        if any(node.name == "cond" for node in item.pre_optimization_graph.node)
    ]
    if not collected:
        return f"{name} ran before the recording, and TensorFlow did not place it again: it is not shown."
    prefixes = {match[0] for record in records if (match := _CALL.match(record.name))}
    prefixes |= {match[0] for node in collected[0].post_optimization_graph.node if (match := _CALL.match(node.name))}
    if not prefixes:
        return f"{name} ran before the recording, and TensorFlow did not inline it: it is not shown."
    prefix = min(prefixes, key=len)
    definition = function.cached_definition
    library = graph.as_graph_def().library
    signatures = Signatures(op_defs, {item.signature.name: item for item in library.function}, lambda kind: "")
    result = CapturedGraph("", function_graph_def(definition, library, signatures))
    result.records = _renamed(records, prefix, definition)
    result.placed = _renamed_graph(collected[0].post_optimization_graph, prefix, definition)
    return result


def _without_optimizer(options: Any) -> Any:
    """Copy the options of function calls, with TensorFlow's graph optimiser off: it would drop the dead branch."""
    import copy

    import tensorflow as tf

    changed = copy.copy(options)
    config = tf.compat.v1.ConfigProto()
    config.ParseFromString(options.config_proto_serialized or b"")
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    changed.config_proto_serialized = config
    return changed


def function_graph_def(definition: Any, library: Any, signatures: Signatures) -> Any:
    """Make the GraphDef of a function that TensorFlow collects before placement, from the function's definition."""
    graph_def = _new_graph_def()
    graph_def.library.CopyFrom(library)
    for index, argument in enumerate(definition.signature.input_arg):
        node = graph_def.node.add(name=argument.name, op="_Arg")
        node.attr["T"].type = argument.type
        node.attr["index"].i = index
    for inner, inputs in signatures.body(definition):
        node = graph_def.node.add()
        node.CopyFrom(inner)
        node.input[:] = inputs
    for argument, result in zip(definition.signature.output_arg, signatures.results(definition), strict=True):
        node = graph_def.node.add(name=f"{argument.name}_RetVal", op="_Retval")
        node.attr["T"].type = argument.type
        node.input.append(result)
    return graph_def


def _new_graph_def() -> Any:
    import tensorflow as tf

    return tf.compat.v1.GraphDef()


def _new_name(name: str, prefix: str, arguments: dict[str, str]) -> str | None:
    """Translate a node's name from the conditional back to the function; ``None`` if it is none of the function's."""
    if name in arguments:
        return arguments[name]
    inner = prefix + "/"
    begin = "Func/" if name.startswith("Func/" + inner) else ""
    if not name.startswith(begin + inner):
        return None
    rest = name[len(begin + inner) :]
    if begin and _OWN.fullmatch(rest):
        return None
    # Nodes that control flow puts in carry the names of their inputs within their own.
    for old, new in arguments.items():
        rest = rest.replace(old, new) if prefix in rest else rest
    return begin + rest.replace(inner, "")


def _arguments(names: list[str], prefix: str, definition: Any) -> dict[str, str]:
    """Map the nodes that stand for the function's arguments and results to the names that a called function has."""
    mapping: dict[str, str] = {}
    for kind, new in (
        ("input", [argument.name for argument in definition.signature.input_arg]),
        ("output", [f"{argument.name}_RetVal" for argument in definition.signature.output_arg]),
    ):
        start = f"Func/{prefix}/{kind}/_"
        numbers = {name: name[len(start) :] for name in names if name.startswith(start)}
        found = sorted((int(number), name) for name, number in numbers.items() if number.isdigit())
        mapping.update({old: name for (_, old), name in zip(found, new, strict=False)})
    return mapping


def _renamed(records: list[PlacementRecord], prefix: str, definition: Any) -> list[PlacementRecord]:
    arguments = _arguments([record.name for record in records], prefix, definition)
    results = {f"{argument.name}_RetVal" for argument in definition.signature.output_arg}
    renamed = []
    for record in records:
        name = _new_name(record.name, prefix, arguments)
        if name is not None:
            op = record.op if record.name not in arguments else ("_Retval" if name in results else "_Arg")
            renamed.append(PlacementRecord(name, op, record.device))
    return renamed


def _renamed_graph(placed: Any, prefix: str, definition: Any) -> Any:
    arguments = _arguments([node.name for node in placed.node], prefix, definition)
    renamed = _new_graph_def()
    for node in placed.node:
        name = _new_name(node.name, prefix, arguments)
        if name is None or node.name in arguments:
            continue
        copy = renamed.node.add()
        copy.CopyFrom(node)
        copy.name = name
        del copy.input[:]
        for source in node.input:
            control, _, rest = ("^", "", source[1:]) if source.startswith("^") else ("", "", source)
            producer, colon, index = rest.partition(":")
            new = _new_name(producer, prefix, arguments)
            copy.input.append(f"{control}{new if new is not None else producer}{colon}{index}")
    return renamed
