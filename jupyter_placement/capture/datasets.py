"""The functions that tf.data runs."""

from __future__ import annotations

from typing import Any

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.capture.names import function_label
from jupyter_placement.capture.replacement import function_graph_def
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.log import PlacementRecord


def dataset_functions(node: Any, library: Any, device: str, op_defs: Any) -> list[CapturedGraph]:
    """Return the functions of a dataset operation, each as a graph on the dataset's device.

    The placer does not see them: ``captured_function.cc`` (TensorFlow 2.21) runs a dataset's function on the device of
    its iterator.

    Parameters
    ----------
    node : NodeDef
        The dataset operation.
    library : FunctionDefLibrary
        The functions that it may name.
    device : str
        Where the dataset is.
    op_defs : module
        TensorFlow's registry of operations.
    """
    definitions = {item.signature.name: item for item in library.function}
    signatures = Signatures(op_defs, definitions, lambda kind: "")
    graphs = []
    for value in node.attr.values():
        definition = definitions.get(value.func.name) if value.HasField("func") else None
        if definition is None:
            continue
        graph_def = function_graph_def(definition, library, signatures)
        records = [PlacementRecord(one.name, one.op, device) for one in graph_def.node]
        label = f"function:{function_label(definition.signature.name)}"
        graphs.append(CapturedGraph(label, graph_def, records, follows="tf.data"))
    return graphs
