"""TensorFlow's kernel registry as plain data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_placement import PlacementError, kernels, record, without_kernel
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
    with pytest.raises(ValueError, match="has no operation type 'addv2': did you mean AddV2"):
        kernels("addv2")


def test_a_build_without_gpu_kernels_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    assert kernels("AddV2").note == ""
    for name in ("is_built_with_cuda", "is_built_with_rocm"):
        monkeypatch.setattr(tf.test, name, lambda: False)
    table = kernels("AddV2")
    for text in (table.note, repr(table), table._repr_html_()):
        assert "GPU kernels are not in this package" in text
    with record(interval=60) as recording:
        tf.ones([2]) + 1.0
    assert recording.placement is not None
    with pytest.raises(PlacementError, match="GPU kernels are not in this package"):
        without_kernel(recording.placement)
    assert without_kernel(recording.placement, "CPU") == {}


def test_which_operations_have_no_gpu_kernel() -> None:
    import tensorflow as tf

    from jupyter_placement.dryrun import close_helpers, dry_run

    def step(x: Any) -> Any:
        return tf.strings.as_string(tf.matmul(tf.cast(x, tf.int32), tf.cast(x, tf.int32)))

    try:
        placement = dry_run(tf.function(step), tf.TensorSpec([2, 2]), on="1xT4")
    finally:
        close_helpers()
    found = without_kernel(placement)
    assert {key: len(nodes) for key, nodes in found.items()} == {"AsString": 1, "MatMul (T: int32)": 1}


def test_a_placement_keeps_the_kernels_of_its_operations() -> None:
    import tensorflow as tf

    with record(interval=60) as recording:
        tf.ones([2]) + 1.0
    assert recording.placement is not None
    kept = recording.placement.meta["kernels"]
    assert kept["AddV2"] == kernel_rows("AddV2")
    assert kept.keys() <= {data["op"] for _, data in recording.placement.graph.nodes(data=True)}
    assert json.loads(json.dumps(kept)) == kept
