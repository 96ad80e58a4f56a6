"""Record each eager operation: its device, and which tensors it took and gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from jupyter_placement.capture.graphs import EagerCall, EagerTensorFact
from jupyter_placement.capture.private import PrivateTensorFlow

MAXIMUM_CALLS = 50_000

_PLAIN = frozenset({str, bytes, int, float, bool, complex, type(None)})


class EagerRecorder:
    """Record eager operations while installed.

    TensorFlow's generated Python code reaches the runtime through functions of one module; these are replaced by
    ones that call them and note the result. That costs a few microseconds an operation, a tenth of what
    ``op_callbacks`` costs, and needs no log.

    Parameters
    ----------
    private : PrivateTensorFlow
        TensorFlow's private names.
    function_called : callable
        Called as ``function_called(name, inputs, run)`` for an operation that is a function's name; must return
        ``run()``.
    """

    def __init__(self, private: PrivateTensorFlow, function_called: Callable[[str, Sequence[Any], Callable[[], Any]], Any]) -> None:
        self._private = private
        self._function_called = function_called
        self._originals: dict[str, Any] = {}
        self._wrappers: dict[str, Any] = {}
        self._numbers: set[int] = set()
        self.calls: list[EagerCall] = []
        self.sources: dict[int, EagerTensorFact] = {}
        self.skipped = 0

    def install(self) -> None:
        """Begin to record."""
        module = self._private.pywrap_tfe
        for name, make in (
            ("TFE_Py_FastPathExecute", self._fast_path),
            ("TFE_Py_Execute", self._execute),
            ("TFE_Py_ExecuteCancelable", self._execute),
        ):
            original = getattr(module, name)
            self._originals[name] = original
            self._wrappers[name] = self._hide(make(original))
            setattr(module, name, self._wrappers[name])

    def uninstall(self) -> None:
        """Put TensorFlow's own functions back, unless somebody else has replaced ours meanwhile."""
        module = self._private.pywrap_tfe
        for name, original in self._originals.items():
            if getattr(module, name) is self._wrappers[name]:
                setattr(module, name, original)
        self._originals.clear()

    def _hide(self, wrapper: FunctionType) -> FunctionType:
        # TensorFlow takes the frames of its own files out of a user's traceback; ours goes with them.
        wrapper.__code__ = wrapper.__code__.replace(co_filename=self._private.pywrap_tfe.__file__)
        return wrapper

    def _fast_path(self, original: Any) -> Any:
        def fast_path_execute(context: Any, op: str, name: str | None, *arguments: Any) -> Any:
            outputs = original(context, op, name, *arguments)
            self._note(op, name, context.device_name, arguments, outputs)
            return outputs

        return fast_path_execute

    def _execute(self, original: Any) -> Any:
        def execute(handle: Any, device: str, op: str, inputs: Any, *rest: Any) -> Any:
            if op.startswith("__"):
                outputs = self._function_called(op, inputs, lambda: original(handle, device, op, inputs, *rest))
            else:
                outputs = original(handle, device, op, inputs, *rest)
            self._note(op, None, device, (inputs,), outputs)
            return outputs

        return execute

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
        self.calls.append(EagerCall(op, name, device or "", tuple(inputs), facts))

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
