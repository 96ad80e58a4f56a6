"""A graph as the helper's master needs it, and what the master says of it as the real machine would say it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from jupyter_placement.devices import LOCAL_TASK, device_name, parse_device, satisfies, sort_key
from jupyter_placement.dryrun.errors import UnplaceableError
from jupyter_placement.placement import Device

PIN = "placement_pin/"
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_ARGUMENTS = ("_Arg", "VarHandleOp")
# types.proto: DT_INT32 and DT_STRING are always in the host's memory, and as arguments on the first CPU whatever was
# asked for (GetDeviceForInput of execute.cc, read in 2.21); DT_RESOURCE, DT_VARIANT.
_HOST = (3, 7)
_HANDLES, _VARIANT = (20, 21), 21
_SHORT_TASK = LOCAL_TASK.removesuffix("/task:0")
_DEVICE = re.compile(r"/(?:job|replica|task|device|[cg]pu):[\w:*/]*[\w*]", re.IGNORECASE)
_MEMBER = re.compile(rf"^  {PIN}\d+ \(NoOp\).*\n", re.MULTILINE)
_ALL_DEVICES = re.compile(r"(?<=All available devices \[)[^\]]+")


def without_task(device: str) -> str:
    """Take the number of its task out of a request for this machine: the helper's has two tasks for one machine.

    Examples
    --------
    >>> without_task("/job:localhost/replica:0/task:0/device:GPU:1"), without_task("/gpu:1"), without_task("/task:3")
    ('/job:localhost/replica:0/device:GPU:1', '/gpu:1', '/task:3')
    """
    spec = parse_device(device)
    if spec is None or spec.task != 0 or spec.job not in (None, "localhost") or spec.replica not in (None, 0):
        return device
    return device_name(spec._replace(task=None, replica=0))


class Preparation:
    """What the helper is to place for one captured graph.

    Parameters
    ----------
    graph_def : GraphDef
        A session's graph, or that of a function with ``_Arg`` and ``_Retval``.
    devices : sequence of Device
        The machine.
    soft : bool
        Soft placement.
    function : bool
        Whether it is a function's graph.

    Raises
    ------
    UnplaceableError
        What the runtime of functions refuses before the placer begins: a function's result on a device that is not
        there, without soft placement, or whose name is none.

    Attributes
    ----------
    first : bytes
        What is there before a function is called: its arguments and variables. They are placed by themselves.
    graph : bytes
        The rest.

    Notes
    -----
    Eager TensorFlow has assigned a device to a function's arguments, and to most results, before its placer begins.
    A GraphDef cannot tell an assigned device. A ``NoOp`` that asks for that device stands for it, and the argument is
    to be beside it: the argument's own request stays empty, on which one of the placer's rules depends.
    """

    def __init__(self, graph_def: Any, devices: Sequence[Device], soft: bool = True, function: bool = False) -> None:
        self._devices = [device.name for device in devices]
        self._soft = soft
        self._function = function
        self._default = _argument_device(devices)
        self._told: dict[str, str] = {}
        self._original: dict[str, str] = {}
        self._pins = 0
        self._rest, self._first = type(graph_def)(), type(graph_def)()
        self._rest.CopyFrom(graph_def)
        self._first.versions.CopyFrom(graph_def.versions)
        if function:
            self._fix_ends()
        for nodes in (self._first.node, self._rest.node, *(body.node_def for body in self._rest.library.function)):
            for node in nodes:
                self._translate(node)
        self.first, self.graph = self._first.SerializeToString(), self._rest.SerializeToString()

    def _translate(self, node: Any) -> None:
        if node.device:
            told = self._told.get(node.device)
            if told is None:
                told = self._told[node.device] = without_task(node.device)
                self._original.setdefault(told, node.device)
            node.device = told
        if self._function and node.op in _CALLS:
            # The runtime of functions places what is called with the caller; a session leaves calls alone.
            node.attr["_lower_as_multi_device_function"].b = True

    def _fix_ends(self) -> None:
        """Put arguments and variables first, each on its device; and each result where the runtime puts it."""
        nodes = {node.name: node for node in self._rest.node}
        places: dict[str, str] = {}
        for node in [*self._rest.node]:
            if node.op == "_Arg":
                places[node.name] = self._device_of(node)
                node.device = ""
                self._pin(node, places[node.name])
        for node in self._rest.node:
            if node.op == "_Retval":
                self._fix_result(node, nodes, places)
        kept = [node for node in self._rest.node if node.op not in _ARGUMENTS]
        self._first.node.extend(node for node in self._rest.node if node.op in _ARGUMENTS)
        library, versions = self._rest.library, self._rest.versions
        rest = type(self._rest)()
        rest.library.CopyFrom(library)
        rest.versions.CopyFrom(versions)
        rest.node.extend(kept)
        self._rest = rest

    def _device_of(self, argument: Any) -> str:
        """Return where an argument is: as it was asked for, where that is possible."""
        kind = argument.attr["T"].type
        asked = [name for name in self._devices if argument.device and satisfies(name, argument.device)]
        return asked[0] if asked and kind not in _HOST else self._default(kind)

    def _fix_result(self, node: Any, nodes: dict[str, Any], places: dict[str, str]) -> None:
        """Do as ``PinArgsAndRets`` of ``process_function_library_runtime.cc`` does (read in 2.21)."""
        source = nodes.get(node.input[0].partition(":")[0])
        while source is not None and source.op == "Identity" and not _place(source, places) and not _group(source):
            source = nodes.get(source.input[0].partition(":")[0])
        if source is None:
            return
        group, device = _group(source), _place(source, places)
        if group and source.op != "_Arg":
            node.attr["_class"].list.s[:] = [group]
        elif device and (node.attr["T"].type != _VARIANT or source.op == "_Arg"):
            if not device.startswith("/") or parse_device(device) is None:
                raise UnplaceableError(f"Failed to parse explicit device specification {device}")
            there = [name for name in self._devices if satisfies(name, device)]
            if not there and not self._soft:
                raise UnplaceableError(f"Unable to find any devices for spec {device}")
            if len(there) == 1:
                self._pin(node, there[0])

    def _pin(self, node: Any, device: str) -> None:
        name = f"{PIN}{self._pins}"
        self._pins += 1
        self._first.node.add(name=name, op="NoOp", device=device)
        node.attr["_class"].list.s[:] = [f"loc:@{name}".encode()]

    def real_message(self, message: str) -> str:
        """Say of an error or warning what the real machine would say."""
        message = message.split("\nAdditional GRPC error information")[0]
        return _ALL_DEVICES.sub(_in_order, _DEVICE.sub(self._real_device, _MEMBER.sub("", message)))

    def _real_device(self, match: re.Match[str]) -> str:
        device = match[0]
        if device in self._original:
            return self._original[device]
        rest = device.removeprefix(_SHORT_TASK)
        return LOCAL_TASK + rest if rest.startswith("/device:") and rest != device else device


def _in_order(match: re.Match[str]) -> str:
    """List the devices as the real machine does; the helper's master is the last that it knows."""
    return ", ".join(sorted(match[0].split(", "), key=sort_key))


def _group(node: Any) -> bytes:
    found = node.attr["_class"].list.s if "_class" in node.attr else ()
    return found[0] if found else b""


def _place(node: Any, places: dict[str, str]) -> str:
    return places.get(node.name, "") or str(node.device)


def _argument_device(devices: Sequence[Device]) -> Callable[[int], str]:
    """Say where eager TensorFlow has an argument that nobody asked a device for: on a GPU where it can be there."""
    has_gpu = any(device.type == "GPU" for device in devices)

    def default(kind: int) -> str:
        on_host = not has_gpu or kind in _HOST or kind in _HANDLES
        return f"{LOCAL_TASK}/device:{'CPU' if on_host else 'GPU'}:0"

    return default
