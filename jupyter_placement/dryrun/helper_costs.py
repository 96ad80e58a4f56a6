"""What operations cost by TensorFlow's own Grappler: floating point operations, and bytes to and from memory.

Loaded by the helper process, so it imports nothing of this package.

Grappler answers in time on a device that it is told of. Told of one that does 10^9 operations and moves 10^9 bytes a
second, its nanoseconds are the operations and bytes themselves, which hold for every device.
"""

from __future__ import annotations

from typing import Any

SUPPORTED = "TensorFlow 2.16 to 2.21"
_COST = "cost/"


def operation_costs(graph: bytes) -> dict[str, Any]:
    """Return for each node under ``cost/`` its floating point operations and its bytes.

    Parameters
    ----------
    graph : bytes
        A serialised GraphDef: each node with placeholders or constants as its inputs.
    """
    import tensorflow as tf

    try:
        from tensorflow.core.protobuf import device_properties_pb2
        from tensorflow.python.grappler import cluster

        unit = device_properties_pb2.DeviceProperties(type="CPU", frequency=1000, num_cores=1, bandwidth=10**6)
        device = device_properties_pb2.NamedDevice(properties=unit, name="/job:localhost/replica:0/task:0/device:CPU:0")
        measured = cluster.Cluster(devices=[device])
    except (ImportError, AttributeError, TypeError) as error:
        told = f"TensorFlow {tf.__version__} does not tell what operations cost: {error}. {SUPPORTED} do."
        return {"code": 0, "error": told, "costs": {}}
    nodes = {node.name: node for node in tf.compat.v1.GraphDef.FromString(graph).node}
    wanted = [name for name in nodes if name.startswith(_COST)]
    costs: dict[str, list[int]] = {}
    refused: list[str] = []
    parts = [wanted] if wanted else []
    while parts:
        part = parts.pop()
        try:
            costs.update(_measure(tf, measured, nodes, part))
        except (tf.errors.OpError, TypeError, ValueError, RuntimeError):
            # One operation that Grappler cannot take spoils all that are asked with it.
            half = len(part) // 2
            if half:
                parts += [part[:half], part[half:]]
            else:
                refused += part
    return {"code": 0, "error": "", "costs": costs, "refused": refused}


def _measure(tf: Any, measured: Any, nodes: dict[str, Any], wanted: list[str]) -> dict[str, list[int]]:
    from tensorflow.core.protobuf import meta_graph_pb2
    from tensorflow.python.grappler import item

    meta = meta_graph_pb2.MetaGraphDef()
    meta.graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
    inputs = dict.fromkeys(source.rpartition(":")[0] or source for name in wanted for source in nodes[name].input)
    for name in (*inputs, *wanted):
        node = meta.graph_def.node.add()
        node.CopyFrom(nodes[name])
        node.device = "/job:localhost/replica:0/task:0/device:CPU:0"
    meta.collection_def["train_op"].node_list.value.extend(wanted)
    found, _, _ = measured.MeasureCosts(item.Item(meta))
    return {one.node: [one.compute_time, one.memory_time] for one in found if one.node.startswith(_COST)}
