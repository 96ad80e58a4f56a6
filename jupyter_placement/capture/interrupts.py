"""Interrupts that wait until everything is put back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Hold an interrupt (SIGINT) back until the body of the ``with`` statement has run.

    Only the main thread gets interrupts, and only there a handler can be set; elsewhere this does nothing.

    Raises
    ------
    KeyboardInterrupt
        Behind the body, when an interrupt came while it ran.

    Examples
    --------
    >>> try:
    ...     with interrupts_wait():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("put back")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    put back
    interrupted
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    came = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal came
        came = True

    if before is None:  # set by C code, and could not be put back
        yield
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            raise KeyboardInterrupt
