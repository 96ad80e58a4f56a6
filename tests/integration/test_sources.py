"""Which line made an operation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from jupyter_placement import Placement, record
from tests.kernel import Kernel

HERE = __file__


def sources(placement: Placement) -> dict[str, tuple[str, int]]:
    return {data["name"]: data["source"] for _, data in placement.graph.nodes(data=True)}


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def model(x: Any) -> Any:
    import tensorflow as tf

    y = tf.nn.relu(x, name="first")
    return tf.cond(tf.reduce_sum(y) > 0.0, lambda: y * 2.0, lambda: y - 1.0, name="choice")


@pytest.mark.tensorflow
def test_a_function_a_branch_and_a_session() -> None:
    import tensorflow as tf

    with record(interval=60) as recording:
        tf.function(model)(tf.ones([2]))
    assert recording.placement is not None
    found = sources(recording.placement)
    assert found["first"] == (HERE, line_of(model, "relu"))
    pivot = next(name for name in found if name.startswith("choice/pivot_t/"))
    assert found[pivot] == (HERE, line_of(model, "tf.cond"))
    assert found["choice/then/_0/choice/mul"] == (HERE, line_of(model, "tf.cond"))
    with record(interval=60) as recording, tf.Graph().as_default():
        model(tf.ones([2]))
        with tf.compat.v1.Session() as session:
            session._extend_graph()
    assert recording.placement is not None
    assert sources(recording.placement)["first"] == (HERE, line_of(model, "relu"))


@pytest.mark.tensorflow
def test_a_keras_layer_is_the_line_that_calls_the_model() -> None:
    import keras
    import tensorflow as tf

    layer = keras.layers.Dense(2)
    layer.build([None, 3])

    @tf.function
    def call(x: Any) -> Any:
        return layer(x)

    with record(interval=60) as recording:
        call(tf.ones([1, 3]))
    assert recording.placement is not None
    made = [
        data for _, data in recording.placement.graph.nodes(data=True) if data["op"] in ("MatMul", "BiasAdd", "AddV2")
    ]
    assert made and {data["source"] for data in made} == {(HERE, line_of(call.python_function, "layer(x)"))}


@pytest.mark.tensorflow
def test_arguments_captured_variables_and_results_have_a_line() -> None:
    import tensorflow as tf

    weight = tf.Variable(2.0)

    def scaled(x: Any) -> Any:
        y = x + 1.0
        return y * weight

    def call() -> Any:
        return tf.function(scaled)(tf.ones([2]))

    with record(interval=60) as recording:
        call()
    assert recording.placement is not None
    nodes = [data for _, data in recording.placement.graph.nodes(data=True) if data["graph"] == "function:scaled"]
    found = {data["name"]: data["source"] for data in nodes}
    assert found["x"] == (HERE, line_of(call, "scaled"))
    (captured,) = [data for data in nodes if data["op"] == "_Arg" and data["dtype"] == "resource"]
    assert captured["source"] == (HERE, line_of(scaled, "weight"))
    (result,) = [data for data in nodes if data["op"] == "_Retval"]
    assert result["source"] == (HERE, line_of(call, "scaled"))
    assert None not in found.values()


@pytest.mark.tensorflow
def test_functions_of_tf_data_have_a_line() -> None:
    import tensorflow as tf

    def double(value: Any) -> Any:
        return tf.multiply(value, 2, name="doubled")

    with record(interval=60) as recording:
        for _ in tf.data.Dataset.range(4).map(double).filter(lambda value: value > 2):
            pass
    assert recording.placement is not None
    graph = recording.placement.graph
    found = {data["name"]: data["source"] for _, data in graph.nodes(data=True) if "Dataset_map" in data["graph"]}
    assert found["doubled"] == (HERE, line_of(double, "multiply"))
    assert len(found) >= 4 and None not in found.values()
    assert all(data["source"] for _, data in graph.nodes(data=True) if "Dataset_filter" in data["graph"])


@pytest.mark.tensorflow
def test_a_dry_run_has_the_lines_of_functions_models_and_graphs() -> None:
    import tensorflow as tf

    from jupyter_placement.dryrun import close_helpers, dry_run

    with tf.Graph().as_default() as graph:
        model(tf.ones([2]))
    try:
        placement = dry_run(tf.function(model), tf.TensorSpec([2]), on="1xT4")
        assert sources(placement)["first"] == (HERE, line_of(model, "relu"))
        assert [data["name"] for _, data in placement.graph.nodes(data=True) if data["source"] is None] == []
        placement = dry_run(graph, on="1xT4")
        assert sources(placement)["first"] == (HERE, line_of(model, "relu"))
    finally:
        close_helpers()


@pytest.mark.kernel
def test_a_cell_and_its_line(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement\nimport tensorflow as tf")
    kernel.run(
        "%%placement --quiet\nx = tf.ones([2])\n\nwith tf.device('CPU:0'):\n    y = tf.nn.relu(x, name='mine')\n"
        "@tf.function\ndef f(a):\n    return tf.nn.softmax(a, name='inner')\nz = f(y)"
    )
    text = kernel.run(
        "print({d['op']: d['source'] for _, d in _placement.graph.nodes(data=True) if d['op'] in ('Relu', 'Softmax')})"
    ).stdout
    assert "'Relu': ('Cell In[2]', 5)" in text
    assert "'Softmax': ('Cell In[2]', 8)" in text


@pytest.mark.kernel
def test_an_error_of_hard_placement_names_its_line_above_tensorflows_text(kernel: Kernel) -> None:
    kernel.run("%load_ext jupyter_placement\nimport tensorflow as tf")
    kernel.run("%%placement --hard --quiet\nwith tf.device('GPU:3'):\n    x = tf.ones([2]) + 1.0")
    text = kernel.run("f = _placement.findings()[0]\nprint(f.kind, f.where(), f.message)").stdout
    assert "error Cell In[2], line 3" in text
    assert "TensorFlow does not have" in text
    cell = (
        "%%placement --hard\n@tf.function\ndef f(x):\n    with tf.device('GPU:3'):\n"
        "        return tf.nn.relu(x, name='mine')\nf(tf.ones([2]))"
    )
    reply = kernel.run(cell)
    (shown,) = [one["text/plain"] for one in reply.data if "text/html" in one]
    assert "Cell In[4], line 5: mine (Relu) asks for /device:GPU:3, which TensorFlow does not have" in shown
    assert reply.error is not None and "Unable to find any devices" in reply.error.value
    kinds = [output.type for output in reply.outputs]
    assert kinds.index("display_data") < kinds.index("error")  # the panel, whose list begins with the sentence
    listed = kernel.evaluate(
        "[w.options[0][0] for w in __import__('ipywidgets').Widget.widgets.values() if type(w).__name__ == 'Select']"
    )
    assert any("Cell In[4], line 5: mine (Relu) asks for" in text for text in listed)
