"""Keep what TensorFlow prints when it starts off the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@contextmanager
def quiet_start() -> Iterator[IO[str]]:
    """Keep the lines back that TensorFlow prints when it starts; 2.21 heeds no environment variable for most of them.

    The level of its log is raised meanwhile, unless the user has set one.

    Yields
    ------
    file
        What still reaches the real standard error.
    """
    sys.stderr.flush()
    with ExitStack() as stack:
        kept = os.dup(2)
        told = stack.enter_context(os.fdopen(kept, "w", encoding="utf-8", errors="replace", buffering=1))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        stack.callback(os.dup2, kept, 2)
        if _LEVEL not in os.environ:
            os.environ[_LEVEL] = "3"
            stack.callback(os.environ.pop, _LEVEL, None)
        yield told
