"""Placed graphs, written down one line an operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jupyter_placement.devices import LOCAL_TASK
from jupyter_placement.dryrun.buffers import DeviceMemory
from jupyter_placement.dryrun.memory_walk import MemoryWalk
from jupyter_placement.dryrun.orders import breadth_first
from jupyter_placement.dryrun.step_graph import StepNode, step_nodes
from jupyter_placement.placement import Placement

CPU, GPU0, GPU1 = (f"{LOCAL_TASK}/device:{name}" for name in ("CPU:0", "GPU:0", "GPU:1"))
SIDE = 64
UNIT = SIDE * SIDE * 4  # bytes of one matrix; a multiple of the 256 bytes that a GPU's allocator gives


class Graph:
    """Write a placed graph down, one line an operation."""

    def __init__(self, device: str = GPU0) -> None:
        self.placement = Placement()
        self.device = device

    def node(self, name: str, op: str, *sources: str, on: str = "", **more: Any) -> str:
        shape, dtype = more.pop("shape", [SIDE, SIDE]), more.pop("dtype", "float32")
        self.placement.add_node(name, op=op, device=on or self.device, dtype=dtype, shape=shape, **more)
        for key, source in enumerate(sources):
            producer, _, output = source.partition(":")
            data = self.placement.graph.nodes[producer]
            kind = data["dtype"][int(output or 0)] if isinstance(data["dtype"], list) else data["dtype"]
            memory = "device"
            if data["memory"] == "host":
                memory = "host" if (on or self.device) == CPU or more.get("memory") == "host" else "to_device"
            edge = {"memory": memory} if memory == "device" else {"memory": memory, "transfer": memory == "to_device"}
            self.placement.add_edge(producer, name, key, tensor=f"{producer}:{output or 0}", dtype=kind, **edge)
        return name

    def walk(
        self, order: Callable[[Sequence[StepNode]], list[int]] = breadth_first, times: int = 1
    ) -> dict[str, DeviceMemory]:
        nodes = step_nodes(self.placement)
        return MemoryWalk(nodes, [times] * len(nodes)).run(order(nodes))

    def peak(self, device: str = GPU0) -> int:
        return self.walk()[device].peak


def product_chain(length: int) -> Graph:
    graph = Graph()
    last = graph.node("x", "_Arg")
    for number in range(length):
        last = graph.node(f"m{number}", "MatMul", last, last)
    return graph
