"""Builders of sample Placements."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from jupyter_placement.devices import full_device
from jupyter_placement.placement import Counts, Device, Event, MemorySample, Placement

CPU0 = "/job:localhost/replica:0/task:0/device:CPU:0"
CPU1 = "/job:localhost/replica:0/task:0/device:CPU:1"
GPU0 = "/job:localhost/replica:0/task:0/device:GPU:0"
GPU1 = "/job:localhost/replica:0/task:0/device:GPU:1"


def small_placement() -> Placement:
    """Two GPUs and a CPU, one fallback, three transfers (one tensor sent twice, one of unknown size), two events."""
    placement = Placement(
        devices=[
            Device(CPU0),
            Device(GPU0, physical_name="Tesla T4", memory_limit=2**34, pci_bus_id="0000:00:05.0", nvml_index=1),
            Device(GPU1),
        ],
        events=[
            Event(
                "fallback",
                "tower/Print asked for a GPU and was put on CPU:0: it has no GPU kernel.",
                nodes=("tower/Print",),
                lines=("W placer.cc: <b>no kernel</b>",),
            ),
            Event("note", "TensorFlow was started before.", details={"cpus": 1}),
        ],
        log=["x: (Const): /job:localhost/replica:0/task:0/device:CPU:0"],
        counts=Counts(lines=6, matched=5, duplicate=0, unmatched=1),
        memory=[
            MemorySample(0.0, "host", used=2**30, total=2**34, process=2**28),
            MemorySample(0.5, "nvml:1", used=2**31, total=2**34, process=None),
            MemorySample(0.5, GPU0, used=512, total=2**33, peak=2048),
            MemorySample(1.0, GPU0, used=256, total=2**33, peak=4096),
        ],
        meta={"tensorflow": "2.21.0"},
    )
    node, edge = placement.add_node, placement.add_edge
    node("x", op="Const", device=CPU0, requested="/cpu:0", dtype="float32", shape=[2, 3], reason="pinned")
    node("tower/kernel", op="VarHandleOp", device=GPU0, requested="/gpu:0", dtype="resource", shape=[], reason="pinned")
    node(
        "tower/MatMul", op="MatMul", device=GPU0, dtype="float32", shape=[2, 4], source=("cell 3", 7), reason="default"
    )
    node("tower/Print", op="PrintV2", device=CPU0, requested="/device:GPU:0", reason="fallback")
    node("loss", op="Sum", device=GPU1, requested="/gpu:1", dtype="float32", shape=[], reason="pinned")
    node("loss/axis", op="Const", device=GPU1, dtype="int32", shape=[1], memory="host", reason="colocated")
    node("waiting", op="NoOp")
    edge("x", "tower/MatMul", 0, tensor="x:0", dtype="float32", shape=[2, 3], bytes=24)
    edge("x", "loss", "^0")
    edge("tower/kernel", "tower/MatMul", 1, tensor="tower/kernel:0", dtype="resource")
    edge("tower/MatMul", "loss", 0, tensor="tower/MatMul:0", dtype="float32", shape=[2, 4], bytes=32)
    edge("tower/MatMul", "loss", 1, tensor="tower/MatMul:0", dtype="float32", shape=[2, 4], bytes=32)
    edge("tower/MatMul", "tower/Print", 0, tensor="tower/MatMul:0", dtype="float32", shape=[2, 4])
    edge("loss/axis", "loss", 2, tensor="loss/axis:0", dtype="int32", shape=[1], bytes=4)
    return placement


def chain_placement(names: list[str], devices: list[str] | None = None, **attributes: Any) -> Placement:
    """Operations that each feed the next one, on the given devices in turn."""
    devices = devices or [CPU0]
    placement = Placement(devices=[Device(name) for name in devices])
    for at, name in enumerate(names):
        placement.add_node(name, op="Identity", device=devices[at % len(devices)], **attributes)
    for producer, consumer in pairwise(names):
        placement.add_edge(producer, consumer, 0, tensor=f"{producer}:0", dtype="float32", bytes=4)
    return placement


def layers_placement(count: int, devices: list[str] | None = None) -> Placement:
    """About ``count`` operations in nested scopes as in a deep network with its gradients: 25 a layer."""
    devices = devices or [CPU0, GPU0, GPU1]
    parts = [
        "kernel",
        "kernel/read",
        "bias",
        "bias/read",
        "MatMul",
        "BiasAdd",
        "Relu",
        "norm/mean",
        "norm/mul",
        "norm/add",
    ]
    placement = Placement(devices=[Device(name) for name in devices])
    layers = max(1, count // 25)
    last = "input"
    placement.add_node(last, op="Placeholder", device=devices[0], dtype="float32", shape=[None, 64])
    for layer in range(layers):
        device = devices[layer * len(devices) // layers]
        for at, part in enumerate(parts):
            name = f"model/block{layer // 10}/layer{layer}/{part}"
            placement.add_node(name, op=part.rpartition("/")[2], device=device, requested=device, reason="pinned")
            placement.add_edge(last, name, 0, tensor=f"{last}:0", dtype="float32", shape=[64, 64], bytes=16384)
            if at:
                last = name
        for at in range(15):
            name = f"gradients/block{layer // 10}/layer{layer}/AddN_{at}"
            placement.add_node(name, op="AddN", device=device, dtype="float32", shape=[64])
            source = f"model/block{layer // 10}/layer{layer}/{parts[at % len(parts)]}"
            placement.add_edge(source, name, 0, tensor=f"{source}:0", dtype="float32", bytes=256)
    return placement


def graph_def_placement(graph_def: Any, default: str = CPU0, graph: str = "") -> Placement:
    """Place a GraphDef as its requests say, without asking TensorFlow's placer; for sizes and speeds."""
    placement = Placement()
    for node in graph_def.node:
        device = full_device(node.device) or default
        dtype = node.attr["dtype"].type or node.attr["T"].type
        placement.add_node(
            node.name,
            op=node.op,
            device=device,
            requested=node.device,
            dtype={1: "float32", 3: "int32", 7: "string", 20: "resource"}.get(dtype),
            reason="pinned" if node.device else "default",
            graph=graph,
        )
        line = f"{node.name}: ({node.op}): {device}"
        placement.log.append(line)
    for node in graph_def.node:
        for at, value in enumerate(node.input):
            if value.startswith("^"):
                placement.add_edge(value[1:], node.name, f"^{at}")
            else:
                producer, _, output = value.partition(":")
                placement.add_edge(producer, node.name, at, tensor=f"{producer}:{output or 0}", dtype="float32")
    placement.devices = [Device(name) for name in placement.device_counts()]
    placement.counts = Counts(lines=len(placement.log), matched=len(placement.log))
    return placement
