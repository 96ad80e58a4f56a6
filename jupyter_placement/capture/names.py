"""Names of the runtime's functions."""

from __future__ import annotations

import re

_FUNCTION_NAME = re.compile(r"__(inference|forward|backward)_(.*)_\d+")


def function_label(name: str) -> str:
    """Say which Python function a function of the runtime was made from.

    Examples
    --------
    >>> function_label("__inference_train_step_1234")
    'train_step'
    >>> function_label("__inference___backward_call_7_9")
    'call:backward'
    """
    match = _FUNCTION_NAME.fullmatch(name)
    if match is None:
        return name
    label = function_label(match[2])
    return label if match[1] == "inference" else f"{label}:{match[1]}"
