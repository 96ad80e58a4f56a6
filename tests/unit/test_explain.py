"""Rules and findings on made-up Placements with GPUs, which no real one here has."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_placement import Device, Event, MemorySample, Placement, PlacementError, without_kernel
from jupyter_placement.explain import explain, findings, set_reasons

TASK = "/job:localhost/replica:0/task:0/device:"
CPU, GPU0, GPU1 = f"{TASK}CPU:0", f"{TASK}GPU:0", f"{TASK}GPU:1"


def row(device: str, *types: str, host: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"device": device, "types": {"T": list(types)}, "host": list(host), "priority": 0, "label": ""}


KERNELS = {
    "MatMul": [row("CPU", "float32", "int32"), row("GPU", "float32")],
    "Const": [row("DEFAULT", "float32", "int32")],
    "Shape": [row("DEFAULT", "float32", "int32")],
    "VarHandleOp": [row("DEFAULT", "float32")],
    "ReadVariableOp": [row("DEFAULT", "float32")],
    "Print": [row("CPU", "float32", "string")],
}


def made(
    *nodes: tuple[str, str, str, str], edges: tuple[tuple[str, str, int, str], ...] = (), **facts: Any
) -> Placement:
    """Make a Placement of one session: name, operation, device, requested device; and edges with their type."""
    placement = Placement(devices=[Device(CPU), Device(GPU0), Device(GPU1)])
    for name, op, device, requested in nodes:
        dtype = "resource" if op == "VarHandleOp" else "float32"
        placement.add_node(name, op=op, device=device, requested=requested, dtype=dtype, graph="session:0")
    for producer, consumer, key, dtype in edges:
        placement.add_edge(producer, consumer, key, tensor=f"{producer}:0", dtype=dtype, bytes=8)
    graphs = {"session:0": {"kind": "session", "called_on": facts.pop("called_on", "")}}
    placement.meta = {"kernels": KERNELS, "explain": {"graphs": graphs, **facts}}
    set_reasons(placement)
    return placement


def test_no_kernel_for_the_types() -> None:
    placement = made(
        ("a", "Const", CPU, ""),
        ("m", "MatMul", CPU, "/gpu:0"),
        edges=(("a", "m", 0, "int32"),),
        types={"MatMul(int32)->float32": {"T": "int32"}},
    )
    found = explain(placement, "m")
    assert (found.rule, found.reason) == ("no_kernel", "fallback")
    assert "has no kernel for GPU; it has for CPU." in found.text
    assert found.facts["otherwise"] == CPU
    assert without_kernel(placement) == without_kernel(placement, "gpu") == {"MatMul (T: int32)": ["m"]}
    with pytest.raises(PlacementError, match="does not tell kernels: a log alone does not"):
        without_kernel(Placement.from_log(f"a: (Const): {GPU0}"))
    with pytest.raises(PlacementError, match="'FOO' is no device type that has kernels: CPU, GPU, TPU"):
        without_kernel(placement, "FOO")
    with pytest.raises(KeyError, match="no node 'M'; did you mean m"):
        explain(placement, "M")
    with pytest.raises(KeyError, match=r"no node 'elsewhere': its nodes are in placement\.graph"):
        placement.explain("elsewhere")


def test_the_default_is_the_first_device_of_the_best_type_that_has_a_kernel() -> None:
    placement = made(
        ("a", "Const", GPU0, ""),
        ("p", "Print", CPU, ""),
        ("m", "MatMul", GPU0, ""),
        edges=(("a", "m", 0, "float32"), ("m", "p", 0, "float32")),
    )
    assert [explain(placement, node).rule for node in ("m", "p")] == ["default", "default"]
    assert "(GPU has none for these types)" in explain(placement, "p").text
    assert explain(placement, "a").rule == "generator"


def test_a_device_that_no_rule_gives_is_unknown() -> None:
    placement = made(("a", "Const", CPU, ""), ("m", "MatMul", GPU1, ""), edges=(("a", "m", 0, "float32"),))
    assert explain(placement, "m").rule == "unknown"


def test_a_variable_decides_for_what_reads_it() -> None:
    placement = made(
        ("v", "VarHandleOp", GPU1, "/gpu:1"),
        ("r", "ReadVariableOp", GPU1, "/gpu:0"),
        edges=(("v", "r", 0, "resource"),),
    )
    found = explain(placement, "r")
    assert (found.rule, found.facts["decider"], found.facts["because"]) == ("overridden", "v", "request")
    assert found.remedy == "Put v on the device that you want, or drop the request."
    assert found.facts["otherwise"] == GPU0
    assert [one.kind for one in findings(placement)] == ["overridden"]


def test_a_partial_request_names_what_it_leaves_open() -> None:
    placement = made(
        ("a", "Const", CPU, "/cpu:0"), ("m", "MatMul", GPU0, "/device:GPU:*"), edges=(("a", "m", 0, "float32"),)
    )
    found = explain(placement, "m")
    assert found.rule == "pinned_partly"
    assert "leaves the device's number open" in found.text


def test_a_loaded_file_explains_the_same(tmp_path: Any) -> None:
    placement = made(
        ("v", "VarHandleOp", GPU1, "/gpu:1"), ("r", "ReadVariableOp", GPU1, ""), edges=(("v", "r", 0, "resource"),)
    )
    loaded = Placement.load(placement.save(tmp_path / "one"))
    for node in placement.graph:
        assert explain(loaded, node).text == explain(placement, node).text
        assert explain(loaded, node).rule == explain(placement, node).rule
    assert loaded.explain("r").rule == "colocated"
    assert loaded.findings() == placement.findings()


def test_there_and_back_and_twice() -> None:
    placement = made(
        ("v", "VarHandleOp", CPU, "/cpu:0"), ("r1", "ReadVariableOp", CPU, ""), ("r2", "ReadVariableOp", CPU, ""),
        ("m1", "MatMul", GPU0, "/gpu:0"), ("p", "Print", CPU, ""), ("m2", "MatMul", GPU0, "/gpu:0"),
        edges=(
            ("v", "r1", 0, "resource"), ("v", "r2", 0, "resource"), ("r1", "m1", 0, "float32"),
            ("m1", "p", 0, "float32"), ("p", "m2", 0, "float32"), ("r2", "m2", 1, "float32"),
        ),
    )  # fmt: skip
    found = {one.kind: one for one in findings(placement)}
    assert [one.nodes for one in findings(placement) if one.kind == "ping_pong"] == [("p",)]
    assert (set(found["sent_twice"].nodes), found["sent_twice"].count) == ({"r1", "r2"}, 2)
    sent = {one.bytes for one in findings(placement) if one.kind == "transfers"}
    assert sent == {24, 8}


def test_everything_on_the_cpu_although_a_gpu_is_there() -> None:
    placement = made(("a", "Const", CPU, "/cpu:0"))
    assert [one.kind for one in findings(placement)] == ["all_on_cpu"]
    assert "TensorFlow has GPU:0, GPU:1" in findings(placement)[0].message


def test_a_call_under_tf_device_that_does_nothing() -> None:
    placement = made(("a", "Const", CPU, "/cpu:0"), ("p", "Print", CPU, "/cpu:0"), called_on="/device:GPU:1")
    placement.devices.append(Device(CPU))
    found = {one.kind: one for one in findings(placement)}
    assert found["device_without_effect"].nodes == ("a", "p")


def test_cards_that_tensorflow_does_not_use() -> None:
    def said(**gpu: Any) -> str:
        placement = Placement(devices=[Device(CPU)], memory=[MemorySample(0.0, "nvml:0", 1, 2)])
        placement.meta = {"explain": {"gpu": {"built_with_gpu": True, "visible": None, "lines": [], **gpu}}}
        (found,) = findings(placement)
        assert found.kind == "gpu_not_used"
        return found.message

    assert "built for CPUs only" in said(built_with_gpu=False)
    assert "CUDA_VISIBLE_DEVICES is '-1'" in said(visible="-1")
    assert "CUDA_VISIBLE_DEVICES is ''" in said(visible="")
    assert "did not find a CUDA library" in said(lines=["W0000 Cannot dlopen some GPU libraries."])
    assert "driver is too old" in said(lines=["CUDA driver version is insufficient for CUDA runtime version"])
    assert "does not tell why" in said(visible="0")


def test_values_of_gpu_operations_in_host_memory() -> None:
    placement = made(("s", "Shape", GPU0, "/gpu:0"))
    placement.graph.nodes["s"]["memory"] = "host"
    assert [one.kind for one in findings(placement)] == ["host_memory"]


def test_errors_come_first_with_the_line() -> None:
    placement = made(("a", "Const", CPU, "/gpu:7"))
    placement.events.append(Event("no_kernel", "m cannot run.", ("m",), (), {"source": ["Cell In[4]", 2]}))
    first = findings(placement)[0]
    assert (first.kind, first.where()) == ("error", "Cell In[4], line 2")
