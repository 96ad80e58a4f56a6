"""The memory of one step: which tensors are alive at each of its operations, in a given order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from jupyter_placement.devices import device_type
from jupyter_placement.dryrun.aliases import is_read, may_pass_on, overwritten, passed_on
from jupyter_placement.dryrun.batch import GETTERS
from jupyter_placement.dryrun.buffers import Buffer, DeviceMemory, Ledger
from jupyter_placement.dryrun.step_graph import StepNode, Taken
from jupyter_placement.dryrun.values import Values

# TensorFlow's allocator of a GPU gives memory in such pieces (bfc_allocator.h, kMinAllocationSize).
_PIECE = 256
_INPUTS = frozenset(("_Arg", "Placeholder", "_DeviceArg"))
# Where what a step is given comes in: of unknown size, all that follows is.
_SOURCES = _INPUTS | GETTERS | {"QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2"}
_CONSTANTS = frozenset(("Const", "HostConst"))
# Unknown, but no more than a few numbers: axes, and what cuDNN reserves beside a normalisation.
_SMALL = frozenset(("BroadcastGradientArgs", "FusedBatchNormV3", "FusedBatchNormGradV3"))
_NEW_LISTS = frozenset(("EmptyTensorList", "TensorListReserve", "StackV2", "TensorArrayV3"))
_FULL_LISTS = frozenset(("TensorListFromTensor", "TensorListSplit", "TensorListScatterIntoExistingList"))
# Which input is put into the list.
_PUTS = {"TensorListPushBack": 1, "TensorListSetItem": 2, "StackPushV2": 1, "TensorArrayWriteV3": 2}
# What comes out of a list was counted when it was put there.
_TAKES = {"TensorListPopBack": 1, "TensorListGetItem": 0, "StackPopV2": 0, "TensorArrayReadV3": 0}


class MemoryWalk:
    """Go through a step in a given order and follow each device's memory.

    Parameters
    ----------
    nodes : sequence of StepNode
        The step.
    times : sequence of int
        How often each node runs.
    values : Values, optional
        What is known of its small tensors.
    carried : set of int
        Nodes that hand on what the last turn of a loop made.
    """

    def __init__(
        self,
        nodes: Sequence[StepNode],
        times: Sequence[int],
        values: Values | None = None,
        carried: Collection[int] = (),
    ) -> None:
        self._nodes = nodes
        self._values = values
        self._carried = carried
        self._times = times
        self._buffers: dict[tuple[int, int], Buffer] = {}
        self._copies: dict[tuple[int, int, str], Buffer] = {}
        self._until: dict[int, list[Buffer]] = {}
        self._ledger = Ledger()
        self.devices: dict[str, DeviceMemory] = {}

    def run(self, order: Iterable[int]) -> dict[str, DeviceMemory]:
        """Walk the step; return each device's memory."""
        for number in order:
            self._step(number, self._nodes[number])
        self._ledger.peaks(self._device)
        return self.devices

    def _device(self, place: str) -> DeviceMemory:
        return self.devices.setdefault(place, DeviceMemory())

    def _step(self, number: int, node: StepNode) -> None:
        needed = Counter(use.output for use in node.users)
        given: Sequence[Buffer | None] = [self._given(taken) for taken in node.inputs]
        for output in range(len(node.outputs)):
            buffer = self._output(number, node, output, given)
            if buffer is not None:
                self._buffers[number, output] = buffer
                buffer.uses += needed[output]
        self._send(number, node)
        # A value that is assigned becomes the variable's memory, and that of the variable's last one is given back.
        if node.op in ("NextIteration", "RefNextIteration") and node.controls:
            # What goes round a loop is needed until its last turn, which all of the loop's ends wait for.
            self._until.setdefault(node.controls[-1], []).extend(one for one in given if one is not None)
            given = []
        for taken in (*given, *self._until.pop(number, ())):
            if taken is not None:
                taken.uses -= 1
                self._ledger.release(number, taken)
        for output in range(len(node.outputs)):
            made = self._buffers.get((number, output))
            if made is not None:
                self._ledger.release(number, made)

    def _given(self, taken: Taken) -> Buffer | None:
        copy = self._copies.get((taken.node, taken.output, taken.to)) if taken.to else None
        return copy or self._buffers.get((taken.node, taken.output))

    def _output(self, number: int, node: StepNode, output: int, given: Sequence[Buffer | None]) -> Buffer | None:
        passed = passed_on(node, output)
        if passed is not None and passed < len(given):
            return given[passed]
        if is_read(node):
            return None
        place = node.place(output)
        if node.outputs[output].dtype in ("variant", "resource"):
            return self._list(number, node, output, place, given)
        if _TAKES.get(node.op) == output:
            return None
        size = node.outputs[output].size
        if size is None:
            if node.outputs[output].dtype != "string" and node.op not in _SMALL:
                self._device(place).unknown += 1
                self._device(place).open_inputs += node.op in _SOURCES
            return None
        if node.op in _INPUTS:
            self._device(place).inputs += size
            return None
        if node.op in _CONSTANTS:
            self._device(place).constants += size
            return None
        if not size:
            return None
        if place == node.device and not node.on_host:
            size = -(-size // _PIECE) * _PIECE
        reused = self._reused(node, output, place, size, given)
        if reused is not None:
            return reused
        if node.op == "TensorArrayWriteV3":
            return self._put(number, node, given)
        buffer = Buffer(number, place, size, "gradients" if "gradient" in node.name else "activations")
        memory = self._device(place)
        memory.biggest = max(memory.biggest, size)
        self._ledger.take(number, buffer)
        return buffer

    def _reused(
        self, node: StepNode, output: int, place: str, size: int, given: Sequence[Buffer | None]
    ) -> Buffer | None:
        """Return an input whose memory the output takes over."""
        first = given[0] if given else None
        if first is not None and may_pass_on(node) and first.size == size and self._unchanged(node, output):
            return first
        for position in overwritten(node, output):
            buffer = given[position] if position < len(given) else None
            # Needed by this operation alone: an input that stands there twice is needed twice.
            if buffer is not None and buffer.uses == 1 and buffer.size == size and buffer.place == place:
                return buffer
        return None

    def _unchanged(self, node: StepNode, output: int) -> bool:
        taken, mine = node.inputs[0], node.outputs[output]
        other = self._nodes[taken.node].outputs[taken.output]
        return other.dtype == mine.dtype and other.shape == mine.shape

    def _list(
        self, number: int, node: StepNode, output: int, place: str, given: Sequence[Buffer | None]
    ) -> Buffer | None:
        """Follow a list of tensors; it holds what is put into it until nobody needs the list any more."""
        if node.op in _PUTS:
            return self._put(number, node, given)
        if node.op in _NEW_LISTS or node.op in _FULL_LISTS:
            if output:
                return None
            size = self._size_of_input(node, 0) if node.op in _FULL_LISTS else 0
            buffer = Buffer(number, place, size, "activations")
            if node.op == "TensorListReserve" and self._values is not None and len(node.inputs) > 1:
                buffer.capacity = self._values.integer(node.inputs[1])
            if size:
                self._ledger.take(number, buffer)
            return buffer
        return given[0] if given and node.outputs[output].dtype == "variant" else None

    def _put(self, number: int, node: StepNode, given: Sequence[Buffer | None]) -> Buffer | None:
        into = given[0] if given else None
        position = _PUTS[node.op]
        element = given[position] if position < len(given) else None
        if into is None or element is None:
            return into
        element.uses += 1
        into.held.append(element)
        # In a loop each turn puts in another tensor, if it is made there.
        turns = self._times[number]
        if node.inputs[position].node not in self._carried:
            turns = min(turns, self._times[element.owner])
        if into.capacity is not None:
            turns = min(turns, into.capacity)
        if turns > 1:
            more = Buffer(number, element.place, (turns - 1) * element.size, element.kind, uses=1)
            self._ledger.take(number, more)
            into.held.append(more)
        return into

    def _size_of_input(self, node: StepNode, position: int) -> int:
        taken = node.inputs[position]
        return self._nodes[taken.node].outputs[taken.output].size or 0

    def _send(self, number: int, node: StepNode) -> None:
        """Copy each output to the other devices that need it; between CPUs a tensor is handed over as it is."""
        for use in node.users:
            buffer = self._buffers.get((number, use.output))
            if not use.to or buffer is None or not buffer.size:
                continue
            if device_type(buffer.place) == "CPU" == device_type(use.to):
                continue
            copy = self._copies.get((number, use.output, use.to))
            if copy is None:
                copy = self._copies[number, use.output, use.to] = Buffer(number, use.to, buffer.size, "copies")
                self._ledger.take(number, copy)
            copy.uses += 1
            buffer.uses -= 1
