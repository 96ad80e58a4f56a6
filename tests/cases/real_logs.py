"""Run TensorFlow with its placement log on: ``real_logs.py session|eager FOLDER``; what is true goes to truth.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


def session(folder: Path) -> dict[str, Any]:
    tf1.disable_eager_execution()
    tf1.disable_control_flow_v2()  # loops as nodes, so that the log shows the graph's own nodes
    devices = {"CPU": 2}
    config = tf1.ConfigProto(log_device_placement=True, allow_soft_placement=True, device_count=devices)
    with tf.Graph().as_default() as graph, tf1.Session(config=config) as sess:
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        with tf.device("/cpu:1"):
            w1 = tf1.get_variable("w1", [4, 8], use_resource=False)
        with tf1.variable_scope("layer"):
            h = tf.nn.relu(tf.matmul(x, w1), name="h")
        with tf.device("/gpu:0"):
            soft = tf.square(h, name="soft")
        loss = tf.reduce_mean(soft, name="loss") + tf.while_loop(lambda i: i < 3.0, lambda i: i + 1.0, [0.0])
        train = tf1.train.AdamOptimizer().minimize(loss)
        init = tf1.global_variables_initializer()
        sess.run(init)
        sess.run(train, {x: [[1.0, 2.0, 3.0, 4.0]]})
    definition = graph.as_graph_def()
    tf.io.write_graph(definition, str(folder), "graph.pb", as_text=False)
    tf.io.write_graph(definition, str(folder), "graph.pbtxt")
    tf1.train.export_meta_graph(str(folder / "graph.meta"), graph_def=definition, graph=graph)
    nodes = [(op.name, op.type) for op in graph.get_operations()]
    edges = sum(len(node.input) for node in definition.node)

    errors = []

    def failing(make: Any) -> None:
        with tf.Graph().as_default(), tf1.Session(config=tf1.ConfigProto(device_count=devices)) as sess:
            try:
                sess.run(make())
            except tf.errors.InvalidArgumentError as error:
                errors.append(str(error))

    def on_gpu() -> Any:
        with tf.device("/gpu:0"):
            return tf.add(1.0, 2.0, name="on_gpu")

    def apart() -> Any:
        with tf.device("/cpu:0"):
            a = tf.constant(1.0, name="a")
        with tf1.colocate_with(a):
            b = tf.identity(2.0, name="b")
        b.op._set_device("/cpu:1")
        return b

    def rnn() -> Any:
        zero = tf.zeros([1, 1, 1])
        return tf.raw_ops.CudnnRNN(input=zero, input_h=zero, input_c=zero, params=tf.zeros([1]), name="rnn").output

    for make in (on_gpu, apart, rnn):
        failing(make)
    with tf.Graph().as_default() as ignoring, tf1.Session(config=config) as sess:
        with tf.device("/cpu:0"):
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="v", name="handle")
        with tf.device("/cpu:1"):
            sess.run(tf.raw_ops.AssignVariableOp(resource=handle, value=1.0, name="assign"))
    nodes += [(op.name, op.type) for op in ignoring.get_operations()]
    return {"nodes": nodes, "edges": edges, "errors": errors}


def eager(folder: Path) -> dict[str, Any]:
    tf.debugging.set_log_device_placement(True)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    x = tf.constant([[1.0, 2.0]])
    y = x + x
    with tf.device("CPU:1"):
        tf.sqrt(y)
    model = tf.keras.Sequential([tf.keras.Input([2], name="features"), tf.keras.layers.Dense(3, name="hidden")])

    @tf.function
    def step(x: Any) -> Any:
        with tf.device("CPU:1"):
            return tf.reduce_sum(model(x), name="total")

    @tf.function
    def loop(x: Any) -> Any:
        return tf.while_loop(lambda i: tf.reduce_sum(i) < 9.0, lambda i: tf.add(i, x, name="grow"), [x])[0]

    loop(x)
    tf.io.write_graph(loop.get_concrete_function(x).graph.as_graph_def(), str(folder), "loop.pb", as_text=False)

    step(x)
    step(x)
    module = tf.Module()
    module.step = step
    module.model = model
    call = tf.function(lambda features: model(features))
    served = call.get_concrete_function(tf.TensorSpec([None, 2], tf.float32))
    served(x)
    tf.saved_model.save(module, str(folder / "saved"), signatures=served)
    model.save(folder / "model.keras")
    body = step.get_concrete_function(x).graph.get_operations()
    renamed = {"Placeholder": "_Arg"}
    return {"function": [(op.name, renamed.get(op.type, op.type)) for op in body if op.type not in renamed]}


if __name__ == "__main__":
    target = Path(sys.argv[2])
    truth = {"session": session, "eager": eager}[sys.argv[1]](target)
    (target / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
