"""TensorFlow's private names, imported in this one place.

TensorFlow has no public way to learn assigned devices while a program runs. What is used here was read in the sources
of TensorFlow 2.16 to 2.21.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SUPPORTED = "TensorFlow 2.16 to 2.21"


class UnsupportedTensorFlowError(RuntimeError):
    """TensorFlow lacks something that the recording needs; the message says which versions have it."""


@dataclass(frozen=True)
class PrivateTensorFlow:
    """The private parts of a running TensorFlow.

    Attributes
    ----------
    version : str
        TensorFlow's version.
    context : module
        ``tensorflow.python.eager.context``.
    pywrap_tfe, execute : module
        Through which every eager operation goes.
    AtomicFunction : type
        Through whose ``call_flat`` every function call goes.
    BaseSession : type
        Base of ``Session`` and ``InteractiveSession``.
    EagerTensor : type
        The exact type of eager tensors.
    op_defs : module
        ``tensorflow.python.framework.op_def_registry``.
    """

    version: str
    context: Any
    pywrap_tfe: Any
    execute: Any
    AtomicFunction: Any
    BaseSession: Any
    EagerTensor: Any
    op_defs: Any


def private_tensorflow() -> PrivateTensorFlow:
    """Import TensorFlow's private names.

    Raises
    ------
    UnsupportedTensorFlowError
        When one of them is gone.
    """
    import tensorflow as tf

    try:
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.client.session import BaseSession
        from tensorflow.python.eager import context, execute
        from tensorflow.python.eager.polymorphic_function.atomic_function import AtomicFunction
        from tensorflow.python.framework import op_def_registry
        from tensorflow.python.framework.ops import EagerTensor

        needed = (
            (pywrap_tfe, ("TFE_Py_FastPathExecute", "TFE_Py_UID")),
            (execute, ("execute", "execute_with_cancellation")),
            (BaseSession, ("__init__", "_extend_graph")),
            (context.Context, ("ensure_initialized", "enable_graph_collection", "export_run_metadata", "device_name")),
            (AtomicFunction, ("call_flat",)),
            (op_def_registry, ("get",)),
        )
        for owner, names in needed:
            for name in names:
                getattr(owner, name)
    except (ImportError, AttributeError) as error:
        raise UnsupportedTensorFlowError(
            f"jupyter-placement cannot record placements with TensorFlow {tf.__version__}: {error}. "
            f"It works with {SUPPORTED}."
        ) from error
    return PrivateTensorFlow(
        tf.__version__, context, pywrap_tfe, execute, AtomicFunction, BaseSession, EagerTensor, op_def_registry
    )


def current_context() -> Any | None:
    """Return TensorFlow's eager context if TensorFlow is imported and the context is initialised, else ``None``.

    Nothing is imported or initialised.
    """
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    return context if context is not None and getattr(context, "_initialized", False) else None


def log_switch(context: Any) -> Callable[[bool], None] | None:
    """Return a function that switches TensorFlow's placement log for functions on and off.

    ``tf.debugging.set_log_device_placement`` has no effect once the context is initialised (seen on 2.21). The C
    function behind it has, and TensorFlow's library exports it.

    Returns
    -------
    callable or None
        ``None`` where the library or the C function is not there.
    """
    import tensorflow as tf

    name = {"linux": "libtensorflow_cc.so.2", "darwin": "libtensorflow_cc.2.dylib"}.get(sys.platform, "")
    try:
        library = ctypes.CDLL(os.path.join(os.path.dirname(tf.__file__), name))
        set_log = library.TFE_ContextSetLogDevicePlacement
        new_status, delete_status = library.TF_NewStatus, library.TF_DeleteStatus
    except (OSError, AttributeError):
        return None
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    set_log.restype, set_log.argtypes = None, [ctypes.c_void_p, ctypes.c_ubyte, ctypes.c_void_p]
    new_status.restype, delete_status.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

    def switch(on: bool) -> None:
        status = new_status()
        set_log(get_pointer(context._handle, None), on, status)
        delete_status(status)

    return switch
