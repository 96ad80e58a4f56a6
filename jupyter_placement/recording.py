"""One recording: install the hooks, wait, take them out again, make a Placement of what was found."""

from __future__ import annotations

import os
import platform
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from jupyter_placement import __version__
from jupyter_placement.capture.build import build_placement
from jupyter_placement.capture.devices import tensorflow_devices
from jupyter_placement.capture.eager import EagerRecorder
from jupyter_placement.capture.events import placement_events
from jupyter_placement.capture.functions import FunctionRecorder, KnownFunctions
from jupyter_placement.capture.graphs import Captured, CapturedGraph
from jupyter_placement.capture.import_hook import TensorFlowImport
from jupyter_placement.capture.interrupts import interrupts_wait
from jupyter_placement.capture.private import (
    PrivateTensorFlow,
    UnsupportedTensorFlowError,
    current_context,
    logs_itself,
    private_tensorflow,
)
from jupyter_placement.capture.records import LineCollector
from jupyter_placement.capture.sessions import SessionRecorder
from jupyter_placement.capture.streams import StreamFilter
from jupyter_placement.explain import set_reasons
from jupyter_placement.memory import CardReading, MemorySampler, explain_oom, match_cards, with_cards
from jupyter_placement.memory.setup import tensorflow_setup
from jupyter_placement.placement import Device, Event, MemorySample, Placement, PlacementError

_ONE_AT_A_TIME = threading.Lock()


class Recording:
    """Record what TensorFlow places between :meth:`start` and :meth:`stop`.

    Parameters
    ----------
    soft : bool
        Soft placement: an operation whose requested device is not there, or has no kernel for it, goes to another.
        When false, TensorFlow raises an error instead.
    cpus : int or None
        Number of logical CPU devices; ``None`` leaves it as it is.
    interval : float
        Seconds between two memory samples.
    on_memory : callable or None
        Called for each memory sample, on the sampler's thread, with the samples, the seconds since the start, and
        sentences on what cannot be read.
    known : mapping or None
        Functions that earlier recordings saw, shared among the recordings of a process.

    Attributes
    ----------
    placement : Placement or None
        What was found, once the recording has stopped.
    """

    def __init__(
        self,
        *,
        soft: bool = True,
        cpus: int | None = None,
        interval: float = 0.5,
        on_memory: Callable[[list[MemorySample], float, list[str]], None] | None = None,
        known: KnownFunctions | None = None,
    ) -> None:
        if isinstance(interval, bool) or not isinstance(interval, int | float):
            raise PlacementError(
                f"the interval of memory samples is a number of seconds, such as 0.5, not {interval!r}"
            )
        self.placement: Placement | None = None
        self._soft = soft
        self._cpus = cpus
        self._known: KnownFunctions = weakref.WeakKeyDictionary() if known is None else known
        self._lines = LineCollector()
        self._captured = Captured()
        self._streams = StreamFilter(self._lines.take, self._lines.take_text)
        self._lines.drain, self._lines.follow = self._streams.drain, self._streams.follow
        self._lines.always = logs_itself
        self._sampler = MemorySampler(interval=interval, on_sample=on_memory)
        self._private: PrivateTensorFlow | None = None
        self._eager: EagerRecorder | None = None
        self._functions: FunctionRecorder | None = None
        self._sessions: SessionRecorder | None = None
        self._hooks = ExitStack()
        self._began = 0.0
        self._when = ""
        self._running = False

    def start(self) -> None:
        """Begin to record.

        Raises
        ------
        PlacementError
            When another recording is under way, or TensorFlow runs with another number of logical CPU devices.
        """
        if self._when:
            raise PlacementError("A recording records once: make another one.")
        if not _ONE_AT_A_TIME.acquire(blocking=False):
            raise PlacementError("A placement recording is under way already: they cannot be nested.")
        with ExitStack() as undo:
            undo.callback(_ONE_AT_A_TIME.release)
            undo.callback(self._hooks.close)
            self._began = time.monotonic()
            self._when = datetime.now(timezone.utc).isoformat(timespec="seconds")
            self._streams.start()
            undo.callback(self._streams.stop)
            importing = TensorFlowImport(self._tensorflow_is_there)
            importing.install()
            self._hooks.callback(importing.uninstall)
            self._sampler.start()
            self._running = True
            undo.pop_all()

    def stop(self, error: BaseException | None = None) -> Placement:
        """End the recording, put everything back, and make the Placement.

        Parameters
        ----------
        error : BaseException or None
            What the recorded code raised; a placement error becomes an event.

        Raises
        ------
        PlacementError
            When the recording is not under way.
        """
        if not self._running:
            raise PlacementError("This recording is not under way: it has not been started, or has ended already.")
        self._running = False
        duration = time.monotonic() - self._began
        with interrupts_wait(), ExitStack() as last:
            last.callback(_ONE_AT_A_TIME.release)
            last.callback(self._streams.stop)
            last.callback(self._sampler.stop)
            with ExitStack() as finish:
                if self._functions is not None and self._sessions is not None:
                    finish.callback(self._sessions.finish)
                    finish.callback(self._functions.finish)
                self._hooks.close()
        self.placement = self._build(duration, error)
        return self.placement

    @property
    def session_graphs(self) -> list[CapturedGraph]:
        """The graphs of the sessions that ran."""
        return [graph for graph in self._captured.graphs if graph.label.startswith("session:")]

    @property
    def card_readings(self) -> list[CardReading]:
        """What each card held at the last memory sample, by process."""
        return list(self._sampler.readings)

    def _tensorflow_is_there(self) -> None:
        try:
            private = private_tensorflow()
        except UnsupportedTensorFlowError as error:
            self._captured.notes.append(str(error))
            return
        self._set_cpus()
        self._private = private
        self._set_soft_placement(private)
        drain = self._streams.drain
        self._functions = FunctionRecorder(
            private, self._lines, drain, self._captured, self._known, self._streams.intact
        )
        self._sessions = SessionRecorder(private, self._lines, drain, self._captured, self._soft)
        self._eager = EagerRecorder(private, self._functions.before, self._functions.after, self._functions.dataset)
        for recorder in (self._functions, self._sessions, self._eager):
            recorder.install()
            self._hooks.callback(recorder.uninstall)

    def _set_cpus(self) -> None:
        import tensorflow as tf

        if self._cpus is None:
            return
        if current_context() is not None:
            there = len(tf.config.list_logical_devices("CPU"))
            if there != self._cpus:
                devices = "device" if there == 1 else "devices"
                raise PlacementError(
                    f"TensorFlow has already started with {there} logical CPU {devices}: restart the kernel to run "
                    f"with {self._cpus}."
                )
            return
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * self._cpus)

    def _set_soft_placement(self, private: PrivateTensorFlow) -> None:
        import tensorflow as tf

        context = private.context.context()
        before = context._soft_device_placement
        effective = tf.config.get_soft_device_placement()
        tf.config.set_soft_device_placement(self._soft)

        def restore() -> None:
            if context._soft_device_placement is self._soft:  # else the recorded code has set it itself
                tf.config.set_soft_device_placement(effective)
                context._soft_device_placement = before

        self._hooks.callback(restore)

    def _build(self, duration: float, error: BaseException | None) -> Placement:
        if self._eager is not None:
            self._captured.eager, self._captured.sources = self._eager.calls, self._eager.sources
            self._captured.first_number = self._eager.first_number
            self._captured.failures += self._eager.failures
            if self._eager.skipped:
                self._captured.notes.append(
                    f"{self._eager.skipped} eager operations after the first {len(self._eager.calls)} are not shown."
                )
        found = tensorflow_devices(self._sessions.devices if self._sessions else [])
        devices = with_cards(found, self._sampler.cards, os.environ)
        placement = build_placement(self._captured, self._lines, devices)
        placement.memory = list(self._sampler.samples)
        placement.meta = {
            "time": self._when,
            "duration": round(duration, 6),
            "jupyter_placement": __version__,
            "python": platform.python_version(),
            "tensorflow": None if self._private is None else self._private.version,
            "soft_placement": self._soft,
            "steps": self._steps(),
            "notes": [*self._captured.notes, *self._sampler.notes],
            **placement.meta,
        }
        set_reasons(placement)
        events = placement_events(placement, self._lines.other, error, self._captured.failures)
        placement.events = [self._with_holders(event, devices) for event in events]
        if not placement.graph:
            placement.meta["nothing"] = self._why_nothing()
        return placement

    def _steps(self) -> list[list[float | None]]:
        """Return start and end of each function call and session run, in seconds since the recording began."""
        steps = [*(self._eager.steps if self._eager else []), *(self._sessions.steps if self._sessions else [])]
        return [
            [None if moment is None else round(moment - self._began, 6) for moment in step] for step in sorted(steps)
        ]

    def _with_holders(self, event: Event, devices: list[Device]) -> Event:
        """Say with an out of memory who holds the card, and how TensorFlow is set up."""
        if event.kind != "oom" or not event.details.get("fatal"):
            return event
        explanation = explain_oom(
            event,
            matches=match_cards(devices, self._sampler.cards, os.environ),
            readings=self._sampler.readings,
            samples=self._sampler.samples,
            setup=tensorflow_setup(),
        )
        return replace(event, message=explanation.text())

    def _why_nothing(self) -> str:
        if self._captured.notes:
            return "Nothing was placed. " + " ".join(self._captured.notes)
        if self._private is None:
            unused = "" if self._cpus is None else f" The {self._cpus} logical CPU devices were not made."
            return f"Nothing was placed: the code did not import TensorFlow.{unused}"
        return (
            "Nothing was placed: TensorFlow ran no operation. A graph that is only built is not placed; run it in a "
            "session, or call the function."
        )


@contextmanager
def record(**options: Any) -> Iterator[Recording]:
    """Record the body of a ``with`` statement; its ``placement`` is there afterwards.

    Parameters
    ----------
    **options
        Those of :class:`Recording`.

    Raises
    ------
    PlacementError
        As :meth:`Recording.start`.
    """
    recording = Recording(**options)
    recording.start()
    raised: BaseException | None = None
    try:
        yield recording
    except BaseException as error:
        raised = error
        raise
    finally:
        recording.stop(raised)
