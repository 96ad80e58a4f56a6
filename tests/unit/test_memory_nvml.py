"""NVML through the stand-in driver: what each refusal leaves, odd machines, processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from jupyter_placement.memory import Card, CardReading
from tests.nvml import actions
from tests.nvml.stub import GIB, StubDriver, build, card, error, instance, process

CODES = sorted({value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")} | {12345})
# What is None where the function refuses; the rest of the card and every other card must be as without the error.
LOST = {
    "nvmlDeviceGetName": ("name",),
    "nvmlDeviceGetUUID": ("uuid",),
    "nvmlDeviceGetPciInfo_v3": ("pci_bus_id",),
    "nvmlDeviceGetMemoryInfo_v2": ("reserved",),
    "nvmlDeviceGetUtilizationRates": ("utilisation",),
    "nvmlDeviceGetComputeRunningProcesses_v3": ("processes", "process"),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": (),
    "nvmlDeviceGetMigMode": (),
    "nvmlSystemGetDriverVersion": (),
    "nvmlShutdown": (),
}
MIG_LOST = {
    "nvmlDeviceGetName": ("name",),
    "nvmlDeviceGetUUID": ("uuid",),
    "nvmlDeviceGetGpuInstanceId": ("gpu_instance",),
    "nvmlDeviceGetComputeInstanceId": ("compute_instance",),
    "nvmlDeviceGetMemoryInfo_v2": ("reserved",),
    "nvmlDeviceGetComputeRunningProcesses_v3": ("processes", "process"),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": (),
}
# Without any one of these there is nothing to show, of the card or at all; tests of their own say what comes then.
GATES = {
    "nvmlInitWithFlags",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StubDriver]:
    with StubDriver(build(tmp_path_factory.mktemp("library")), tmp_path_factory.mktemp("script")) as driver:
        yield driver


@pytest.fixture(scope="module")
def two_cards(driver: StubDriver) -> list[str]:
    others = [process(0, 1, GIB // 2), process(1, 1, GIB)]
    return [card(0), card(1), process(0, driver.pid, GIB // 4), *others]


def lacking(reading: CardReading, lost: tuple[str, ...]) -> CardReading:
    """The reading without what a function gives."""
    facts = {name: None for name in lost if hasattr(reading.card, name)}
    values = {name: None for name in lost if name in CardReading.__dataclass_fields__}
    return replace(reading, card=replace(reading.card, **facts), **values)


def text_of(code: int) -> str:
    """What NVML says of a code: pynvml has words for some, the library for the rest."""
    known = pynvml.NVMLError._errcode_to_string
    return str(known[code]) if code in known else f"Stub error {code}"


def refused(reading: CardReading, name: str) -> str:
    return reading.reasons.get(name) or reading.card.reasons[name]


def test_everything_is_read(driver: StubDriver, two_cards: list[str]) -> None:
    driver.machine(*two_cards)
    seen = driver.call(actions.read_once)
    assert seen.driver == "550.54.15"
    assert seen.cards == [
        Card(0, "Tesla T4", "GPU-00000000-0000-0000-0000-000000000000", "0000:01:00.0"),
        Card(1, "Tesla T4", "GPU-00000001-0000-0000-0000-000000000000", "0000:02:00.0"),
    ]
    first, second = seen.readings
    assert (first.total, first.used, first.reserved) == (16 * GIB, GIB, GIB // 4)
    assert first.free == 16 * GIB - GIB - GIB // 4
    assert (first.utilisation, second.utilisation) == (5, 15)
    assert first.processes is not None
    assert [(one.pid, one.used, one.own) for one in first.processes] == [
        (driver.pid, GIB // 4, True),
        (1, GIB // 2, False),
    ]
    assert (first.process, second.process) == (GIB // 4, 0)
    assert driver.call(actions.started) == 0


@pytest.mark.parametrize("function", LOST)
@pytest.mark.parametrize("code", CODES)
def test_a_refusal_costs_only_what_was_refused(
    driver: StubDriver, two_cards: list[str], function: str, code: int
) -> None:
    driver.machine(*two_cards)
    whole = driver.call(actions.read_once)
    where = "0" if function.startswith("nvmlDevice") else ""
    driver.machine(*two_cards, error(function, code, where))
    seen = driver.call(actions.read_once)
    lost = LOST[function]
    if function == "nvmlDeviceGetComputeRunningProcesses_v3" and code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
        lost = ()  # a driver before 510 has the second version
    first, second = seen.readings
    expected = lacking(whole.readings[0], lost)
    if "reserved" in lost:  # the first version of the call counts what the driver keeps as used
        expected = replace(expected, used=GIB + GIB // 4)
    assert first == expected
    assert second == whole.readings[1]
    for name in lost:
        assert refused(first, name).startswith(f"not available ({function.replace('Info_v2', 'Info')}")
        assert text_of(code) in refused(first, name)
    assert driver.call(actions.started) == 0


@pytest.mark.parametrize("function", MIG_LOST)
@pytest.mark.parametrize("code", CODES)
def test_a_refusal_of_a_mig_instance(driver: StubDriver, function: str, code: int) -> None:
    machine = [card(0, mig=1), instance(0, 0), instance(0, 2), process("0.0", driver.pid, GIB // 8)]
    driver.machine(*machine)
    whole = driver.call(actions.read_once)
    driver.machine(*machine, error(function, code, "0.0"))
    seen = driver.call(actions.read_once)
    lost = MIG_LOST[function]
    if function == "nvmlDeviceGetComputeRunningProcesses_v3" and code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
        lost = ()
    assert [reading.card.key for reading in seen.readings] == ["nvml:0", "nvml:0/mig:0", "nvml:0/mig:2"]
    assert seen.readings[1] == lacking(whole.readings[1], lost)
    assert (seen.readings[0], seen.readings[2]) == (whole.readings[0], whole.readings[2])
    for name in lost:
        assert text_of(code) in refused(seen.readings[1], name)


@pytest.mark.parametrize("code", CODES)
def test_no_memory_at_all(driver: StubDriver, two_cards: list[str], code: int) -> None:
    driver.machine(*two_cards)
    whole = driver.call(actions.read_once)
    both = [error(f"nvmlDeviceGetMemoryInfo{version}", code, "0") for version in ("", "_v2")]
    driver.machine(*two_cards, *both)
    first, second = driver.call(actions.read_once).readings
    assert first == lacking(whole.readings[0], ("total", "used", "free", "reserved"))
    assert second == whole.readings[1]
    assert first.reasons["used"] == f"not available (nvmlDeviceGetMemoryInfo: {text_of(code)})"


@pytest.mark.parametrize("code", CODES)
def test_a_card_that_cannot_be_opened(driver: StubDriver, two_cards: list[str], code: int) -> None:
    driver.machine(*two_cards)
    whole = driver.call(actions.read_once)
    driver.machine(*two_cards, error("nvmlDeviceGetHandleByIndex_v2", code, "0"))
    first, second = driver.call(actions.read_once).readings
    assert first == CardReading(Card(0))
    assert first.reasons["used"] == f"not available (nvmlDeviceGetHandleByIndex: {text_of(code)})"
    assert second == whole.readings[1]


@pytest.mark.parametrize("function", ["nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"])
@pytest.mark.parametrize("code", CODES)
def test_mig_instances_that_cannot_be_listed(driver: StubDriver, function: str, code: int) -> None:
    driver.machine(card(0, mig=1), instance(0, 1), card(1), error(function, code))
    seen = driver.call(actions.read_once)
    whole = [reading for reading in seen.readings if reading.card.mig is None]
    assert [reading.used for reading in whole] == [GIB, 2 * GIB]
    if function == "nvmlDeviceGetMaxMigDeviceCount":
        assert text_of(code) in seen.cards[0].reasons["instances"]
    instances = [one for one in seen.readings if one.card.mig is not None]
    # NOT_FOUND is how the driver says that a slot is empty.
    lists = function == "nvmlDeviceGetMigDeviceHandleByIndex" and code != pynvml.NVML_ERROR_NOT_FOUND
    assert len(instances) == (7 if lists else 0)
    assert all(one.used is None and text_of(code) in one.reasons["used"] for one in instances)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2"])
def test_no_nvml(driver: StubDriver, two_cards: list[str], function: str, code: int) -> None:
    driver.machine(*two_cards, error(function, code))
    seen = driver.call(actions.read_once)
    assert seen.cards == []
    assert seen.sentence.startswith("No GPU is shown: ")
    assert seen.sentence.endswith(".")
    assert driver.call(actions.started) == 0


def test_every_function_that_is_called_is_refused_in_a_test(driver: StubDriver) -> None:
    machine = [card(0, mig=1), instance(0, 0)]
    driver.machine(*machine, error("nvmlDeviceGetMemoryInfo_v2", pynvml.NVML_ERROR_NOT_SUPPORTED))
    driver.call(actions.read_once)
    for kind in ("Compute", "Graphics"):
        function = f"nvmlDeviceGet{kind}RunningProcesses_v3"
        driver.machine(*machine, error(function, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))
        driver.call(actions.read_once)
    assert driver.call(actions.called) == {*LOST, *MIG_LOST, *GATES}


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "No GPU is shown: the NVIDIA driver runs but has no card."),
        ([error("nvmlInitWithFlags", 9)], "No GPU is shown: the NVIDIA driver is not loaded."),
        ([error("nvmlInitWithFlags", 4)], "No GPU is shown: this user may not use the NVIDIA driver."),
        (
            [error("nvmlInitWithFlags", 999)],
            "No GPU is shown: the NVIDIA driver did not answer (nvmlInit: Unknown Error).",
        ),
    ],
)
def test_the_sentence_without_gpus(driver: StubDriver, lines: list[str], sentence: str) -> None:
    driver.machine(*lines)
    seen = driver.call(actions.read_once)
    assert (seen.sentence, seen.final) == (sentence, False)


def test_mig_instances_are_devices_of_their_own(driver: StubDriver) -> None:
    machine = [card(0, name="A100", mig=1), instance(0, 0), instance(0, 3), process("0.3", driver.pid, 77)]
    driver.machine(*machine)
    seen = driver.call(actions.read_once)
    assert [one.key for one in seen.cards] == ["nvml:0", "nvml:0/mig:0", "nvml:0/mig:3"]
    assert seen.cards[2].uuid == "MIG-00000003-0000-0000-0000-000000000000"
    assert (seen.cards[2].gpu_instance, seen.cards[2].compute_instance, seen.cards[2].pci_bus_id) == (
        10,
        0,
        "0000:01:00.0",
    )
    assert [reading.process for reading in seen.readings] == [0, 0, 77]
    assert seen.readings[1].utilisation is None
    assert seen.readings[1].reasons["utilisation"] == "not available (nvmlDeviceGetUtilizationRates: Not Supported)"


def test_eight_cards_with_fifty_processes_each(driver: StubDriver) -> None:
    held = [process(k, 4_000_000 + p, (p + 1) * 1000) for k in range(8) for p in range(50)]
    driver.machine(*(card(k) for k in range(8)), *held)
    readings = driver.call(actions.read_once).readings
    assert [len(reading.processes or ()) for reading in readings] == [50] * 8
    sizes = [one.used for one in readings[7].processes or ()]
    assert sizes == [size * 1000 for size in range(50, 0, -1)]
    assert {one.title.split(", ")[1] for one in readings[7].processes or ()} == {"name not available: it has ended"}


def test_two_kernels_on_one_card(driver: StubDriver) -> None:
    other = os.getpid()
    driver.machine(card(0), process(0, other, 9 * GIB), process(0, driver.pid, GIB))
    (reading,) = driver.call(actions.read_once).readings
    assert reading.processes is not None
    assert [one.title.split(" (")[0] for one in reading.processes] == ["this kernel", reading.processes[1].name]
    assert [one.pid for one in reading.processes] == [driver.pid, other]
    assert reading.process == GIB


def test_a_process_that_computes_and_draws_is_counted_once(driver: StubDriver) -> None:
    driver.machine(card(0), process(0, driver.pid, 500), process(0, driver.pid, 500, kind="G"))
    (reading,) = driver.call(actions.read_once).readings
    assert [(one.pid, one.used) for one in reading.processes or ()] == [(driver.pid, 500)]
    assert reading.process == 500


def test_memory_of_a_process_that_is_not_told(driver: StubDriver) -> None:
    driver.machine(card(0), process(0, driver.pid, -1), process(0, 1, -1))
    (reading,) = driver.call(actions.read_once).readings
    assert [one.used for one in reading.processes or ()] == [None, None]
    assert reading.process is None
    assert reading.reasons["process"] == "not available: the driver does not tell the memory of a process"


def test_a_name_that_is_no_text(driver: StubDriver) -> None:
    driver.machine(card(0, name="GRID \xff"), encoding="latin-1")
    seen = driver.call(actions.read_once)
    assert seen.cards[0].name is None
    assert seen.cards[0].reasons["name"] == "not available (nvmlDeviceGetName: the answer is no text)"
    assert seen.readings[0].used == GIB


def proc_of_a_container(folder: Path, pid: int, opens: str) -> str:
    """A folder like /proc in a container with one process that has one file open."""
    (folder / "self" / "ns").mkdir(parents=True)
    (folder / "self" / "ns" / "pid").symlink_to("pid:[4026532999]")
    (folder / str(pid) / "fd").mkdir(parents=True)
    (folder / str(pid) / "fd" / "3").symlink_to(opens)
    return str(folder)


def test_pids_of_the_host_in_a_container(driver: StubDriver, tmp_path: Path) -> None:
    # Process 1 exists here as well, but it is not the one that the driver means.
    driver.machine(card(0), process(0, 1, 3 * GIB), process(0, 2_999_999, GIB), process(0, driver.pid, GIB))
    proc = proc_of_a_container(tmp_path, driver.pid, "/dev/null")
    (reading,) = driver.call(actions.read_once, proc).readings
    assert [(one.pid, one.used, one.title) for one in reading.processes or ()] == [
        (1, 3 * GIB, "pid 1, name not visible from this container"),
        (driver.pid, GIB, f"pid {driver.pid}, name not visible from this container"),
        (2_999_999, GIB, "pid 2999999, name not visible from this container"),
    ]
    assert reading.used == GIB
    assert reading.process is None
    assert reading.reasons["process"] == "not visible from this container"


def test_a_process_of_the_same_container_is_named(driver: StubDriver, tmp_path: Path) -> None:
    driver.machine(card(0), process(0, driver.pid, GIB))
    proc = proc_of_a_container(tmp_path, driver.pid, "/dev/nvidia0")
    (reading,) = driver.call(actions.read_once, proc).readings
    assert [one.title for one in reading.processes or ()] == [f"this kernel (pid {driver.pid})"]
    assert reading.process == GIB
