"""The functions that tf.data runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.capture.names import function_label
from jupyter_placement.capture.replacement import function_graph_def
from jupyter_placement.capture.signatures import Signatures
from jupyter_placement.capture.sources import Source, UserFrames, function_sources
from jupyter_placement.log import PlacementRecord

DATASET = ("Dataset", "DatasetV2", "DatasetV3", "DatasetV4")


def sources_of_functions(arguments: Sequence[Any], frames: UserFrames) -> dict[str, dict[str, dict[str, Source]]]:
    """Return the lines of the functions among the arguments of a dataset operation, by name.

    They are gone when the dataset is.
    """
    functions = [getattr(one, "_inference_function", one) for one in arguments if hasattr(one, "captured_inputs")]
    return {one.name.decode(): function_sources(one, frames) for one in functions if hasattr(one, "cached_definition")}


def dataset_functions(
    node: Any, library: Any, device: str, op_defs: Any, sources: Mapping[str, dict[str, dict[str, Source]]]
) -> list[CapturedGraph]:
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
    sources : mapping of str to dict
        The lines of these functions, as :func:`sources_of_functions` finds them.
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
        graph = CapturedGraph(label, graph_def, records, follows="tf.data")
        graph.sources = sources.get(definition.signature.name, {})
        graphs.append(graph)
    return graphs
