"""Memory and transfers of steps so small that the truth is worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from jupyter_placement.dryrun.estimate_data import DeviceEstimate, Estimate, estimate_of
from jupyter_placement.dryrun.graph_optimizer import split_identities
from jupyter_placement.dryrun.loops import Loop, carried
from jupyter_placement.dryrun.memory_walk import MemoryWalk
from jupyter_placement.dryrun.orders import breadth_first, depth_first
from jupyter_placement.dryrun.step_graph import StepNode, step_nodes
from jupyter_placement.dryrun.transfers import Transfer, find_transfers
from jupyter_placement.placement import Placement, PlacementError
from tests.unit.written_graphs import CPU, GPU0, GPU1, SIDE, UNIT, Graph, product_chain


def test_a_chain_of_products_holds_two_at_a_time() -> None:
    memory = product_chain(5).walk()[GPU0]
    assert memory.peak == 2 * UNIT
    assert memory.inputs == UNIT
    assert memory.parts == {"activations": 2 * UNIT}
    assert [size for _, size in memory.largest] == [UNIT, UNIT]


def test_a_diamond_holds_both_sides_and_the_top() -> None:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("top", "MatMul", "x", "x")
    graph.node("left", "MatMul", "top", "x")
    graph.node("right", "MatMul", "top", "x")
    graph.node("sum", "AddV2", "left", "right")  # written over the left side
    assert graph.peak() == 3 * UNIT


def test_a_reshape_takes_no_memory() -> None:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("m", "MatMul", "x", "x")
    last = graph.node("flat", "Reshape", "m", shape=[SIDE * SIDE])
    for number, op in enumerate(("Identity", "StopGradient", "ExpandDims", "Squeeze")):
        last = graph.node(f"same{number}", op, last)
    graph.node("again", "MatMul", last, "x")
    assert graph.peak() == 2 * UNIT


def test_relu_is_written_over_its_input() -> None:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("m", "MatMul", "x", "x")
    graph.node("relu", "Relu", "m")
    graph.node("end", "Sum", "relu", shape=[])
    assert graph.peak() == UNIT + 256


def test_relu_is_not_written_over_what_is_needed_later() -> None:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("m", "MatMul", "x", "x")
    graph.node("relu", "Relu", "m")
    graph.node("gradients/grad", "ReluGrad", "relu", "m")
    assert graph.peak() == 2 * UNIT


def test_relu_is_not_written_over_an_input_or_a_variable() -> None:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("v", "VarHandleOp", dtype="resource", shape=[])
    graph.node("read", "ReadVariableOp", "v")
    graph.node("a", "Relu", "x")
    graph.node("b", "Neg", "read")
    graph.node("sum", "AddV2", "a", "b")
    assert graph.peak() == 2 * UNIT


def test_a_square_needs_both_of_its_equal_inputs_until_it_is_done() -> None:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("m", "MatMul", "x", "x")
    graph.node("square", "Mul", "m", "m")
    assert graph.peak() == 2 * UNIT


def test_a_transposed_square_matrix_is_a_copy() -> None:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("m", "MatMul", "x", "x")
    graph.node("t", "Transpose", "m")
    assert graph.peak() == 2 * UNIT


def test_what_is_assigned_becomes_the_variables_memory() -> None:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("v", "VarHandleOp", dtype="resource", shape=[])
    for number in range(3):
        graph.node(f"m{number}", "MatMul", "x", "x")
        graph.node(f"assign{number}", "AssignVariableOp", "v", f"m{number}", dtype=None, shape=None)
    assert graph.walk(depth_first)[GPU0].peak == UNIT


def test_small_tensors_take_a_whole_piece_of_a_gpu_and_their_bytes_of_a_cpu() -> None:
    for device, bytes_of_four in ((GPU0, 256), (CPU, 4)):
        graph = Graph(device)
        graph.node("x", "_Arg", shape=[])
        graph.node("m", "MatMul", "x", "x", shape=[])
        assert graph.peak(device) == bytes_of_four


def test_host_tensors_of_a_gpu_count_on_the_cpu() -> None:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("shape", "Unknown", "x", dtype="int32", shape=[2], memory="host")
    graph.node("copy", "Unknown", "shape", dtype="int32", shape=[2], memory="host")
    memory = graph.walk()
    assert memory[CPU].peak == 16
    assert memory[GPU0].peak == 0


def test_a_copy_goes_to_another_gpu_once() -> None:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("m", "MatMul", "x", "x")
    graph.node("a", "MatMul", "m", "m", on=GPU1)
    graph.node("b", "MatMul", "m", "a", on=GPU1)
    memory = graph.walk()
    assert memory[GPU0].peak == UNIT
    assert memory[GPU1].peak == 3 * UNIT
    assert memory[GPU1].parts == {"copies": UNIT, "activations": 2 * UNIT}
    nodes = step_nodes(graph.placement)
    assert find_transfers(nodes, [1] * len(nodes)) == [Transfer(GPU0, GPU1, tensors=1, size=UNIT)]


def test_a_tensor_between_cpus_is_handed_over_but_sent() -> None:
    other = CPU.replace("CPU:0", "CPU:1")
    graph = Graph(CPU)
    graph.node("x", "_Arg")
    graph.node("m", "MatMul", "x", "x")
    graph.node("a", "MatMul", "m", "m", on=other)
    memory = graph.walk()
    assert (memory[CPU].peak, memory[other].peak) == (UNIT, UNIT)
    nodes = step_nodes(graph.placement)
    assert find_transfers(nodes, [1] * len(nodes)) == [Transfer(CPU, other, tensors=1, size=UNIT)]


def test_a_host_tensor_that_a_kernel_takes_from_the_card_is_copied_there() -> None:
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("shape", "Unknown", "x", dtype="int32", shape=[64], memory="host")
    graph.node("taken", "Unknown2", "shape")
    nodes = step_nodes(graph.placement)
    assert find_transfers(nodes, [1] * len(nodes)) == [Transfer(CPU, GPU0, tensors=1, size=256)]


def test_control_edges_are_signals_and_turns_count() -> None:
    graph = Graph()
    graph.node("a", "MatMul")
    graph.node("b", "MatMul", "a", on=GPU1)
    graph.placement.add_edge("a", "b", "^0", tensor="^a")
    assert find_transfers(step_nodes(graph.placement), [3, 3]) == [
        Transfer(GPU0, GPU1, tensors=3, size=3 * UNIT, signals=3)
    ]


def test_gradients_do_not_wait_for_each_other_at_an_identity_of_all() -> None:
    def peak(outputs: int) -> int:
        graph = Graph()
        graph.node("x", "_Arg")
        graph.node("v", "VarHandleOp", dtype="resource", shape=[])
        for number in range(4):
            graph.node(f"g{number}", "MatMul", "x", "x" if number == 0 else f"s{number - 1}")
            graph.node(f"s{number}", "Sum", f"g{number}")
        sources = [f"g{number}" for number in range(4)] + ["x"] * (outputs - 4)
        graph.node("all", "IdentityN", *sources, dtype=["float32"] * outputs, shape=[[SIDE, SIDE]] * outputs)
        for number in range(4):
            graph.node(f"update{number}", "AssignSubVariableOp", "v", f"all:{number}", dtype=None, shape=None)
        nodes = step_nodes(graph.placement)
        split_identities(nodes)
        assert sum(len(node.inputs) for node in nodes) == sum(len(node.users) for node in nodes)
        return MemoryWalk(nodes, [1] * len(nodes)).run(breadth_first(nodes))[GPU0].peak

    all_needed, some_needed = peak(4), peak(8)
    assert all_needed == 5 * UNIT  # each gradient, and the sum of the last
    assert some_needed == 2 * UNIT


def test_unknown_sizes_are_told_never_taken_for_nothing() -> None:
    graph = Graph()
    graph.node("x", "_Arg", shape=[None, SIDE])
    graph.node("m", "MatMul", "x", "x", shape=[None, SIDE])
    memory = graph.walk()[GPU0]
    assert (memory.unknown, memory.open_inputs) == (2, 1)
    estimate = DeviceEstimate(GPU0, unknown=2, open_inputs=1, available=1 << 40)
    assert estimate.verdict == "may not fit"
    assert "at least" in str(Estimate([estimate]))


def loop_graph() -> Graph:
    """A loop that puts a product into a list in each turn."""
    graph = Graph()
    graph.node("x", "_Arg")
    graph.node("list", "EmptyTensorList", dtype="variant", shape=[])
    for name, source, dtype, shape in (("s", "x", "float32", [SIDE, SIDE]), ("l", "list", "variant", [])):
        graph.node(f"{name}/enter", "Enter", source, dtype=dtype, shape=shape)
        graph.node(f"{name}/merge", "Merge", f"{name}/enter", dtype=[dtype, "int32"], shape=[shape, []])
        graph.node(f"{name}/switch", "Switch", f"{name}/merge", dtype=[dtype, dtype], shape=[shape, shape])
    graph.node("product", "MatMul", "s/switch:1", "s/switch:1")
    graph.node("push", "TensorListPushBack", "l/switch:1", "product", dtype="variant", shape=[])
    for name, source, dtype in (("s", "product", "float32"), ("l", "push", "variant")):
        graph.node(f"{name}/next", "NextIteration", source, dtype=dtype)
        graph.placement.add_edge(f"{name}/next", f"{name}/merge", 1, tensor=f"{name}/next:0", dtype=dtype)
        graph.node(f"{name}/exit", "Exit", f"{name}/switch", dtype=dtype, shape=[])
    return graph


def test_a_list_holds_what_each_turn_puts_in() -> None:
    graph = loop_graph()
    assert graph.walk(times=10)[GPU0].peak == 10 * UNIT
    assert graph.walk()[GPU0].peak == UNIT


def test_what_a_loop_carries_is_told_from_what_stays() -> None:
    nodes = step_nodes(loop_graph().placement)
    numbers = {node.id: number for number, node in enumerate(nodes)}
    found = carried(nodes, [Loop(0, set(range(len(nodes))))])
    assert {numbers["s/merge"], numbers["s/switch"]} <= found
    assert numbers["product"] not in found


@pytest.mark.parametrize("order", [breadth_first, depth_first])
def test_an_order_waits_for_every_input(order: Callable[[Sequence[StepNode]], list[int]]) -> None:
    nodes = step_nodes(product_chain(20).placement)
    place = {number: position for position, number in enumerate(order(nodes))}
    assert len(place) == len(nodes)
    assert all(place[taken.node] < place[number] for number, node in enumerate(nodes) for taken in node.inputs)


def test_long_chains_take_no_recursion() -> None:
    assert product_chain(20_000).peak() == 2 * UNIT


def test_an_estimate_comes_back_from_its_json_and_is_shown() -> None:
    device = DeviceEstimate(GPU0, "<T4>", 3, step_high=5, largest=[("a<b", 5)], available=100, seconds=0.5)
    estimate = Estimate([device], [Transfer(GPU0, GPU1, 2, 4096)], 1.0, ["<note>"])
    placement = Placement(meta={"estimate": estimate.to_json()})
    assert estimate_of(Placement.from_json(placement.to_json())) == estimate
    bundle = estimate._repr_mimebundle_()
    assert "an estimate" in bundle["text/plain"] and "4.0 KiB" in bundle["text/plain"]
    assert "&lt;T4&gt;" in bundle["text/html"] and "&lt;note&gt;" in bundle["text/html"]
    assert "a<b" not in bundle["text/html"]
    assert estimate.device("GPU:0") is estimate.devices[0]


def test_a_placement_without_estimate_says_so() -> None:
    with pytest.raises(PlacementError, match="takes the Placement of a dry run, not a int"):
        estimate_of(3)
    with pytest.raises(PlacementError, match="only that of a dry run has one"):
        estimate_of(Placement())
    with pytest.raises(PlacementError, match="cannot be read"):
        estimate_of(Placement(meta={"estimate": {"devices": 3}}))
    with pytest.raises(KeyError, match="no estimate of 'GPU:7'"):
        Estimate([DeviceEstimate(GPU0)]).device("GPU:7")
