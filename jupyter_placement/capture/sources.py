"""Which line of the user's made an operation: the innermost frame that is neither TensorFlow's nor Keras'."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any

Source = tuple[str, int]

# And what these call: a frame of it is not the user's either.
_NOT_THE_USERS = (
    *("tensorflow", "keras", "tf_keras", "IPython", "ipykernel", "jupyter_placement"),
    *("optree", "wrapt", "absl", "tree", "tensorflow_probability"),
)
_STANDARD = ("contextlib", "functools", "threading", "asyncio", "importlib")


class UserFrames:
    """Tell the user's files from those of TensorFlow, Keras, IPython and this package.

    Attributes
    ----------
    cells : dict of str to int
        The execution count of each cell, by the file name that IPython gave it.
    """

    def __init__(self) -> None:
        self.cells = cell_numbers()
        self._folders = tuple(
            os.path.dirname(module.__file__) + os.sep
            for name in _NOT_THE_USERS
            if (module := sys.modules.get(name)) is not None and module.__file__
        )
        self._standard = frozenset(
            module.__file__ for name in _STANDARD if (module := sys.modules.get(name)) is not None and module.__file__
        )
        self._files: dict[str, bool] = {}
        self._codes: dict[CodeType, bool] = {}

    def is_users(self, file: str) -> bool:
        """Tell whether a file is none of TensorFlow's, Keras', IPython's or this package's."""
        known = self._files.get(file)
        if known is None:
            known = self._files[file] = not (
                file.startswith((*self._folders, "<frozen "))
                or file in self._standard
                or os.path.basename(file).startswith("__autograph_generated_file")  # a copy of the user's
            )
        return known

    def current(self, frame: FrameType | None) -> Source | None:
        """Return file and line of the innermost frame of the user's, from a frame outwards."""
        codes = self._codes
        while frame is not None:
            code = frame.f_code
            users = codes.get(code)
            if users is None:
                users = codes[code] = self.is_users(code.co_filename)
            if users:
                return code.co_filename, frame.f_lineno
            frame = frame.f_back
        return None

    def raised(self, error: BaseException) -> Source | None:
        """Return file and line of the innermost frame of the user's that an exception went through."""
        found, trace = None, error.__traceback__
        while trace is not None:
            if self.is_users(trace.tb_frame.f_code.co_filename):
                found = trace.tb_frame.f_code.co_filename, trace.tb_lineno
            trace = trace.tb_next
        return found

    def of(self, operation: Any) -> Source | None:
        """Return file and line that made an operation of a graph."""
        trace = operation.traceback
        if trace is None:
            return None
        for frame in reversed(list(trace.get_user_frames())):
            if self.is_users(frame.filename):
                return frame.filename, frame.lineno
        return None

    def named(self, source: Source | None) -> Source | None:
        """Write a cell's file as IPython names the cell; other files stay as they are."""
        if source is None or source[0] not in self.cells:
            return source
        return f"Cell In[{self.cells[source[0]]}]", source[1]


def cell_numbers() -> dict[str, int]:
    """Return the execution count of each cell of the running shell, by the name of the file that IPython gave it."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)  # IPython 8.0 to 9
    return dict(numbers) if isinstance(numbers, dict) else {}


def operation_sources(operations: Iterable[Any], frames: UserFrames) -> dict[str, Source]:
    """Return file and line of each operation of a graph, by name, where known."""
    found = {}
    for operation in operations:
        source = frames.of(operation)
        if source is not None:
            found[operation.name] = source
    return found


def function_sources(function: Any, frames: UserFrames) -> dict[str, dict[str, Source]]:
    """Return file and line of each operation in a function (under ``""``) and in those that it calls (by name).

    An argument has the line that hands it over, or that of the first operation that takes it from outside; a result
    that of the operation that makes it.

    Parameters
    ----------
    function : AtomicFunction
        The function of the runtime.
    frames : UserFrames
        What the user's files are.
    """
    found: dict[str, dict[str, Source]] = {}
    waiting = [("", function)]
    while waiting:
        name, current = waiting.pop()
        if name in found:
            continue
        made = found[name] = operation_sources(current.graph.get_operations(), frames)
        signature = current.cached_definition.signature
        for arguments, tensors, suffix in (
            (signature.input_arg, current.graph.inputs, ""),
            (signature.output_arg, current.graph.outputs, "_RetVal"),
        ):
            for argument, tensor in zip(arguments, tensors, strict=False):
                source = made.get(tensor.op.name)
                if source is not None:
                    made.setdefault(argument.name + suffix, source)
        waiting.extend((child.name.decode(), child) for child in current.children)
    return found


def runtime_sources(context: Any, definition: Any, frames: UserFrames) -> dict[str, Source]:
    """Return file and line of each operation in a function that only the runtime knows, such as tf.data's.

    Parameters
    ----------
    context : tensorflow.python.eager.context.Context
        The eager context.
    definition : FunctionDef
        The function.
    frames : UserFrames
        What the user's files are.
    """
    import tensorflow as tf

    try:
        told = context.get_graph_debug_info(definition.signature.name)
    except (AttributeError, tf.errors.OpError):  # TensorFlow before 2.14, or a function that is gone
        return {}
    found: dict[str, Source] = {}
    for name, number in told.name_to_trace_id.items():
        for frame_id in reversed(told.traces_by_id[number].frame_id):
            frame = told.frames_by_id[frame_id]
            file = told.files[frame.file_index]
            if frames.is_users(file):
                found[name] = file, frame.line
                break
    normalized = {re.sub("[^a-z0-9_]", "_", name.lower()): source for name, source in found.items()}
    for argument in definition.signature.input_arg:
        if argument.name in normalized:
            found.setdefault(argument.name, normalized[argument.name])
    for argument in definition.signature.output_arg:
        source = found.get(definition.ret[argument.name].partition(":")[0])
        if source is not None:
            found[f"{argument.name}_RetVal"] = source
    return found
