"""Record each eager operation: its device, and which tensors it took and gave."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from jupyter_placement.capture.datasets import DATASET
from jupyter_placement.capture.failures import placement_failure
from jupyter_placement.capture.graphs import EagerCall, EagerTensorFact, Failure
from jupyter_placement.capture.private import PrivateTensorFlow
from jupyter_placement.capture.sources import UserFrames

MAXIMUM_CALLS = 50_000
MAXIMUM_STEPS = 1_000
MAXIMUM_FAILURES = 100

_PLAIN = frozenset({str, bytes, int, float, bool, complex, type(None)})


class EagerRecorder:
    """Record eager operations while installed.

    TensorFlow's Python code reaches the runtime through three functions; these are replaced by ones that call them and
    note the result. That costs a few microseconds an operation and needs no log.

    Parameters
    ----------
    private : PrivateTensorFlow
        TensorFlow's private names.
    before, after : callable
        Called as ``call = before(name, inputs)`` and ``after(call, error)`` around an operation that is a function's
        name.
    dataset : callable
        Called with the arguments of each operation that makes a dataset, before it runs.

    Attributes
    ----------
    calls : list of EagerCall
        The operations that ran, the first 50,000.
    sources : dict of int to EagerTensorFact
        The tensors that they took and that none of them made, by number.
    failures : list of Failure
        Operations that could not run where they were asked to, the first 100.
    skipped : int
        Operations that were not noted because there were too many.
    steps : list of (float, float or None)
        When each function call began and ended, in seconds of ``time.monotonic``; the first 1,000.
    """

    def __init__(
        self,
        private: PrivateTensorFlow,
        before: Callable[[str, Sequence[Any]], Any],
        after: Callable[[Any, BaseException | None], None],
        dataset: Callable[[Sequence[Any]], None],
    ) -> None:
        self._private = private
        self._before = before
        self._after = after
        self._dataset = dataset
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._numbers: set[int] = set()
        self._frames = UserFrames()
        self.first_number = 0
        self.calls: list[EagerCall] = []
        self.sources: dict[int, EagerTensorFact] = {}
        self.failures: list[Failure] = []
        self.skipped = 0
        self.steps: list[tuple[float, float | None]] = []

    def install(self) -> None:
        """Begin to record."""
        # Numbers of tensors rise: one below this was there before.
        self.first_number = self._private.pywrap_tfe.TFE_Py_UID()
        for module, name, make in (
            (self._private.pywrap_tfe, "TFE_Py_FastPathExecute", self._fast_path),
            (self._private.execute, "execute", self._execute),
            (self._private.execute, "execute_with_cancellation", self._execute),
        ):
            original = getattr(module, name)
            wrapper = self._hide(make(original), module)
            self._replaced.append((module, name, original, wrapper))
            setattr(module, name, wrapper)

    def uninstall(self) -> None:
        """Put TensorFlow's own functions back, unless somebody else has replaced ours meanwhile."""
        for module, name, original, wrapper in self._replaced:
            if getattr(module, name) is wrapper:
                setattr(module, name, original)
        self._replaced.clear()

    def _hide(self, wrapper: FunctionType, module: Any) -> FunctionType:
        # TensorFlow takes the frames of its own files out of a user's traceback; ours goes with them.
        wrapper.__code__ = wrapper.__code__.replace(co_filename=module.__file__)
        return wrapper

    def _fast_path(self, original: Any) -> Any:
        def fast_path_execute(context: Any, op: str, name: str | None, *arguments: Any) -> Any:
            if op.endswith(DATASET):
                self._dataset(arguments)
            try:
                outputs = original(context, op, name, *arguments)
            except Exception as error:
                self._failed(op, error)
                raise
            self._note(op, name, context.device_name, arguments, outputs)
            return outputs

        return fast_path_execute

    def _execute(self, original: Any) -> Any:
        def execute(op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, *rest: Any, **named: Any) -> Any:
            op = op_name.decode() if isinstance(op_name, bytes) else op_name
            if not op.startswith("__"):
                try:
                    outputs = original(op_name, num_outputs, inputs, attrs, ctx, *rest, **named)
                except Exception as error:
                    self._failed(op, error)
                    raise
            else:
                call = self._before(op, inputs)
                began = time.monotonic()
                failure: BaseException | None = None
                try:
                    outputs = original(op_name, num_outputs, inputs, attrs, ctx, *rest, **named)
                except BaseException as error:
                    failure = error
                    raise
                finally:
                    if len(self.steps) < MAXIMUM_STEPS:
                        self.steps.append((began, time.monotonic()))
                    self._after(call, failure)
                    failure = None  # else the error and this frame would hold each other
            self._note(op, named.get("name"), ctx.device_name, (inputs,), outputs)
            return outputs

        return execute

    def _failed(self, op: str, error: Exception) -> None:
        text = str(getattr(error, "message", None) or error)
        if "device" in text and len(self.failures) < MAXIMUM_FAILURES and placement_failure(text) is not None:
            source = self._frames.current(sys._getframe(2))
            self.failures.append(Failure(text if "[Op:" in text else f"{text} [Op:{op}]", None, source))

    def _note(self, op: str, name: str | None, device: str | None, arguments: tuple[Any, ...], outputs: Any) -> None:
        if len(self.calls) >= MAXIMUM_CALLS:
            self.skipped += 1
            return
        tensor_type = self._private.EagerTensor
        inputs: list[int] = []
        for argument in arguments:
            kind = type(argument)
            if kind is tensor_type:
                inputs.append(self._input(argument))
            elif kind in _PLAIN:
                continue
            elif kind is list or kind is tuple:
                for item in argument:
                    if type(item) is tensor_type:
                        inputs.append(self._input(item))
                    elif type(item) not in _PLAIN:
                        self._note_variable(item, inputs)
            else:
                self._note_variable(argument, inputs)
        if type(outputs) is tensor_type:
            facts: tuple[EagerTensorFact, ...] = (_fact(outputs),)
        elif isinstance(outputs, list | tuple):
            facts = tuple(_fact(tensor) for tensor in _flat(outputs) if type(tensor) is tensor_type)
        else:
            facts = ()
        self._numbers.update(fact.id for fact in facts)
        source = self._frames.current(sys._getframe(2))
        self.calls.append(EagerCall(op, name, device or "", tuple(inputs), facts, source))

    def _input(self, tensor: Any) -> int:
        number: int = tensor._id
        if number not in self._numbers:
            self._numbers.add(number)
            self.sources[number] = _fact(tensor)
        return number

    def _note_variable(self, argument: Any, inputs: list[int]) -> None:
        # A variable is handed to the runtime as it is; what it stands for is its resource handle.
        handle = getattr(argument, "_handle", None)
        if type(handle) is self._private.EagerTensor:
            inputs.append(self._input(handle))


def _fact(tensor: Any) -> EagerTensorFact:
    try:
        shape = tensor._shape_tuple()
    except ValueError:
        shape = None  # a variant or a resource has no shape that can be told
    return EagerTensorFact(tensor._id, tensor.device, tensor.backing_device, tensor._datatype_enum(), shape)


def _flat(outputs: Any) -> list[Any]:
    flat: list[Any] = []
    for item in outputs:
        if isinstance(item, list | tuple):
            flat.extend(item)
        else:
            flat.append(item)
    return flat
