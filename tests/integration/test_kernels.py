"""TensorFlow's kernel registry as plain data."""

from __future__ import annotations

import json

import pytest

from jupyter_placement import kernels, record
from jupyter_placement.capture.kernels import kernel_rows
from jupyter_placement.kernel_table import kernel_for

pytestmark = pytest.mark.tensorflow


def test_every_registered_kernel_is_in_the_table() -> None:
    import tensorflow as tf
    from tensorflow.python.framework import kernels as registry

    for op in ("AddV2", "Shape", "Cast", "VarHandleOp", "SparseSoftmaxCrossEntropyWithLogits"):
        rows = kernel_rows(op)
        assert rows is not None
        for kernel in registry.get_registered_kernels_for_op(op).kernel:
            types = {one.name: tf.dtypes.as_dtype(one.allowed_values.list.type[0]).name for one in kernel.constraint}
            found = kernel_for(rows, types, kernel.device_type)
            assert found is not None and found["device"] == kernel.device_type
            assert set(found["host"]) == set(kernel.host_memory_arg)


def test_int32_addition_of_another_device_is_in_host_memory() -> None:
    rows = kernel_rows("AddV2")
    assert rows is not None
    kernel = kernel_for(rows, {"T": "int32"}, "GPU")
    assert kernel is not None and kernel["host"] == ["x", "y", "z"]
    assert kernel_for(rows, {"T": "float32"}, "CPU") is not None
    assert kernel_for(rows, {"T": "string"}, "CPU") is None


def test_a_table_to_look_at() -> None:
    table = kernels("AddV2")
    assert repr(table).splitlines()[1].split() == ["device", "types", "in", "host", "memory", "priority", "label"]
    assert "<td>x, y, z</td>" in table._repr_html_()
    with pytest.raises(ValueError, match="has no operation type 'addv2'"):
        kernels("addv2")


def test_a_placement_keeps_the_kernels_of_its_operations() -> None:
    import tensorflow as tf

    with record(interval=60) as recording:
        tf.ones([2]) + 1.0
    assert recording.placement is not None
    kept = recording.placement.meta["kernels"]
    assert kept["AddV2"] == kernel_rows("AddV2")
    assert kept.keys() <= {data["op"] for _, data in recording.placement.graph.nodes(data=True)}
    assert json.loads(json.dumps(kept)) == kept
