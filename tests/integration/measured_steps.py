"""What TensorFlow measures of a step: the truth for estimates."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Measured:
    """What a step really took, and moved.

    Attributes
    ----------
    peak : int
        The most bytes that the step's own tensors and temporaries held at a time; variables, constants and what was
        fed are not among them.
    variables : int
        Bytes of the variables.
    transfers : list of int
        Bytes of each tensor that went from one device to another.
    times : dict of str to float
        Seconds by node.
    seconds : float
        The step, when nothing was traced.
    """

    peak: int
    variables: int
    transfers: list[int]
    times: dict[str, float]
    seconds: float


def measure(captured: Any, placement: Any, cpus: int = 1, optimize: bool = True, steps: int = 3) -> Measured:
    """Run the graph of a function in a session, with variables that begin at 0, and read its last step's records.

    All kernels run in the session's own thread, one after the other, as the executor runs those of a GPU
    (``inter_op_thread_pool = -1``): with a pool of threads, what is ready waits for a free one, and the peak differs
    from step to step.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    runnable, feeds, fetches, waits = as_session_graph(captured, placement)
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(runnable, name="")
        handles = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
        start = [
            tf.raw_ops.AssignVariableOp(
                resource=op.outputs[0], value=tf.zeros(op.get_attr("shape"), op.get_attr("dtype"))
            )
            for op in handles
        ]
    sizes = {op.name: size_of(op.get_attr("dtype"), op.get_attr("shape").dim) for op in handles}
    config = v1.ConfigProto(device_count={"CPU": cpus}, intra_op_parallelism_threads=1)
    if not optimize:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True, inter_op_thread_pool=-1)
    metadata = v1.RunMetadata()
    values = {f"{name}:0": ones(dtype, shape) for name, (dtype, shape) in feeds.items()}
    with v1.Session(graph=graph, config=config) as session:
        session.run(start)
        wanted = [*fetches, *(graph.get_operation_by_name(name) for name in waits)]
        for _ in range(steps):
            session.run(wanted, values, options, metadata)
        callable_step = session.make_callable(wanted, list(values))
        untraced = []
        for _ in range(steps + 2):
            began = time.perf_counter()
            callable_step(*values.values())
            untraced.append(time.perf_counter() - began)
        there = {op.name for op in graph.get_operations()}
        # What is fetched is sent once more, to the session.
        moved = [name for name in sent(metadata) if name.partition(":")[0] in there and name not in fetches]
        transfers = [int(value.nbytes) for value in session.run(moved, values)] if moved else []
    peak, times = read(metadata, {node.name: node for node in runnable.node}, sizes)
    return Measured(peak, sum(sizes.values()), transfers, times, min(untraced))


def as_session_graph(
    captured: Any, placement: Any
) -> tuple[Any, dict[str, tuple[int, list[int]]], list[str], list[str]]:
    """Turn a function's arguments into placeholders, its results into what is fetched, all where a dry run put them."""
    import tensorflow as tf

    runnable = tf.compat.v1.GraphDef()
    runnable.CopyFrom(captured.graph_def)
    feeds: dict[str, tuple[int, list[int]]] = {}
    fetches, waits = [], []
    for node in runnable.node:
        node.device = placement.graph.nodes[node.name]["device"] or ""
        if node.op == "_Arg":
            kind = node.attr["T"].type
            node.op = "Placeholder"
            node.attr.clear()
            node.attr["dtype"].type = kind
            feeds[node.name] = (kind, captured.shapes[""][node.name][0])
        elif node.op == "_Retval":
            node.op = "Identity"
            node.attr.pop("index", None)
            fetches.append(f"{node.name}:0")
        elif node.op.startswith("Assign") or "Apply" in node.op or ("Scatter" in node.op and "Resource" in node.op):
            waits.append(node.name)
    for node in runnable.node:
        if node.op in ("PartitionedCall", "StatefulPartitionedCall"):
            node.attr["_lower_as_multi_device_function"].b = True
    return runnable, feeds, fetches, waits


def ones(dtype: int, shape: list[int]) -> Any:
    import numpy as np
    import tensorflow as tf

    return np.ones(shape, tf.dtypes.as_dtype(dtype).as_numpy_dtype)


def size_of(dtype: Any, dimensions: Any) -> int:
    import tensorflow as tf

    size = int(tf.dtypes.as_dtype(dtype).size)
    for dimension in dimensions:
        size *= int(dimension.size)
    return size


def sent(metadata: Any) -> list[str]:
    """Return the tensors that the parts of a step send each other, control edges left out."""
    found = []
    for part in metadata.partition_graphs:
        for node in part.node:
            if node.op != "_Send" or node.attr["client_terminated"].b or "/ctrl/_" in node.input[0]:
                continue
            # What is fed is sent under the placeholder's name: _arg_y_0_1 is y.
            source = re.sub(r"^_arg_(.*)_\d+_\d+$", r"\1", node.input[0])
            found.append(source if ":" in source else f"{source}:0")
    return found


def read(metadata: Any, nodes: dict[str, Any], sizes: dict[str, int]) -> tuple[int, dict[str, float]]:
    """Return the peak of a step and the seconds of each node."""
    times = {
        stats.node_name: (stats.op_end_rel_micros - stats.op_start_rel_micros) / 1e6
        for device in metadata.step_stats.dev_stats
        for stats in device.node_stats
    }
    peak, live = 0, 0
    for _, size in sorted(records(metadata, nodes, sizes), key=lambda record: record[0]):
        live += size
        peak = max(peak, live)
    return peak, times


def records(metadata: Any, nodes: dict[str, Any], sizes: dict[str, int]) -> Iterator[tuple[int, int]]:
    """Give each allocation of a step with its time, and each release with less than 0."""
    for device in metadata.step_stats.dev_stats:
        for stats in device.node_stats:
            for memory in stats.memory:
                for record in memory.allocation_records:
                    yield record.alloc_micros, record.alloc_bytes
            node = nodes.get(stats.node_name)
            if node is not None and node.op == "AssignVariableOp":
                # The value's memory becomes the variable's; that of its last value, from another step, is released.
                yield stats.all_start_micros + stats.all_end_rel_micros, -sizes.get(node.input[0], 0)
