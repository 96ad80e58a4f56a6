"""Keep what was asked for when a variable or an eager tensor was made.

A variable that is made under ``tf.device("/gpu:1")`` on a machine without GPUs is on the CPU, and TensorFlow keeps
nothing of the request. Here it is kept with the tensor itself, so it goes when the tensor goes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from jupyter_placement.capture.import_hook import TensorFlowImport

_ATTRIBUTE = "_placement_request"


def requested_device(tensor: Any) -> str:
    """Return the device that was asked for when an eager tensor or a variable was made; ``""`` where none is known.

    Parameters
    ----------
    tensor : object
        An eager tensor, or a variable's handle, or a variable.
    """
    handle = getattr(tensor, "_handle", tensor)
    asked: str = getattr(handle, _ATTRIBUTE, "")
    return asked


class Requests:
    """While installed, keep the request of each variable and of each eager tensor that is made under ``tf.device``.

    TensorFlow is not imported for it: when it is there already, or as soon as it is.
    """

    def __init__(self) -> None:
        self._importing = TensorFlowImport(self._tensorflow_is_there)
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._beside = threading.local()

    def install(self) -> None:
        """Begin to keep requests."""
        self._importing.install()

    def uninstall(self) -> None:
        """Keep no more; what was kept stays."""
        self._importing.uninstall()
        for module, name, original, wrapper in self._replaced:
            if getattr(module, name) is wrapper:  # else somebody has put his own in its place
                setattr(module, name, original)
        self._replaced.clear()

    def _tensorflow_is_there(self) -> None:
        # Read in TensorFlow 2.16 to 2.21. Where one is gone, requests are not kept, and nothing else changes.
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.eager import execute
        from tensorflow.python.framework import constant_op, ops

        for module, name, make in (
            (pywrap_tfe, "TFE_Py_FastPathExecute", self._fast_path),
            (execute, "execute", self._execute),
            (constant_op, "convert_to_eager_tensor", self._constant),
            (ops, "_colocate_with_for_gradient", self._colocate),
        ):
            original = getattr(module, name, None)
            if original is not None:
                wrapper = make(original)
                if isinstance(wrapper, FunctionType):
                    # TensorFlow takes the frames of its own files out of a user's traceback; ours goes with them.
                    wrapper.__code__ = wrapper.__code__.replace(co_filename=module.__file__)
                self._replaced.append((module, name, original, wrapper))
                setattr(module, name, wrapper)

    def _fast_path(self, original: Any) -> Any:
        def fast_path_execute(context: Any, *arguments: Any) -> Any:
            outputs = original(context, *arguments)
            if context.device_name:
                self._keep(context.device_name, outputs)
            return outputs

        return fast_path_execute

    def _execute(self, original: Any) -> Any:
        def execute(op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, *rest: Any, **named: Any) -> Any:
            outputs = original(op_name, num_outputs, inputs, attrs, ctx, *rest, **named)
            if ctx.device_name:
                self._keep(ctx.device_name, outputs)
            return outputs

        return execute

    def _constant(self, original: Any) -> Any:
        def convert_to_eager_tensor(value: Any, ctx: Any, dtype: Any = None) -> Any:
            tensor = original(value, ctx, dtype)
            if ctx.device_name:
                self._keep(ctx.device_name, tensor)
            return tensor

        return convert_to_eager_tensor

    def _colocate(self, original: Callable[..., Any]) -> Any:
        """Hand on the request of the variable that others are made beside: an optimizer's slots, say."""

        @contextmanager
        def colocate_with(op: Any, *arguments: Any, **named: Any) -> Iterator[None]:
            before = getattr(self._beside, "of", None)
            self._beside.of = requested_device(op) if op is not None else None
            try:
                with original(op, *arguments, **named):
                    yield
            finally:
                self._beside.of = before

        return colocate_with

    def _keep(self, device: str, outputs: Any) -> None:
        beside = getattr(self._beside, "of", None)
        device = device if beside is None else beside
        for tensor in outputs if isinstance(outputs, list | tuple) else (outputs,):
            try:
                setattr(tensor, _ATTRIBUTE, device)
            except AttributeError:  # None, or an operation without output
                continue


@contextmanager
def requests() -> Iterator[None]:
    """Keep what variables and eager tensors asked for that are made in the body of a ``with`` statement.

    Without it, :func:`~jupyter_placement.dryrun.dry_run` finds a variable that was made under ``tf.device("/gpu:1")``
    where this machine put it. In a notebook ``%load_ext jupyter_placement`` does the same for all later cells.

    Examples
    --------
    ::

        with jupyter_placement.dryrun.requests():
            with tf.device("/gpu:1"):
                table = tf.Variable(tf.zeros([1000, 64]))
        dry_run(lookup, on="2xT4")
    """
    kept = Requests()
    kept.install()
    try:
        yield
    finally:
        kept.uninstall()
