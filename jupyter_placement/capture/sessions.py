"""Record the sessions that run: new ones log their placement, old ones are placed again in a session that does."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_placement.capture.eager import MAXIMUM_STEPS
from jupyter_placement.capture.failures import placement_failure
from jupyter_placement.capture.graphs import Captured, CapturedGraph, Failure
from jupyter_placement.capture.private import PrivateTensorFlow
from jupyter_placement.capture.records import LineCollector
from jupyter_placement.capture.sources import UserFrames, operation_sources
from jupyter_placement.capture.streams import StreamFilter
from jupyter_placement.log import PlacementRecord

_HISTORY = "_jupyter_placement_history"


class SessionRecorder:
    """Record sessions while installed.

    Every way to run a session (``run``, ``make_callable``, ``partial_run``, a ``MonitoredSession``) first hands the
    graph's new nodes to the runtime, which places them then. That one method is replaced.

    Parameters
    ----------
    private : PrivateTensorFlow
        TensorFlow's private names.
    lines : LineCollector
        Where the placement lines arrive.
    drain : callable
        Waits until the lines that were written have arrived.
    captured : Captured
        Where the graphs go.
    soft : bool
        Whether new sessions place softly.

    Attributes
    ----------
    devices : list of (str, int or None)
        Name and memory limit in bytes of the sessions' devices.
    steps : list of (float, float or None)
        When each run began, in seconds of ``time.monotonic``; its end is not seen. The first 1,000.
    """

    def __init__(
        self,
        private: PrivateTensorFlow,
        lines: LineCollector,
        drain: Callable[[], None],
        captured: Captured,
        soft: bool,
    ) -> None:
        self._private = private
        self._lines = lines
        self._drain = drain
        self._captured = captured
        self._soft = soft
        self._originals: tuple[Any, Any] | None = None
        self._wrappers: tuple[Any, Any] | None = None
        self._logging: weakref.WeakSet[Any] = weakref.WeakSet()
        self._versions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._found: list[_Found] = []
        self.devices: list[tuple[str, int | None]] = []
        self.steps: list[tuple[float, float | None]] = []

    def install(self) -> None:
        """Begin to record."""
        session_type = self._private.BaseSession
        initialise, extend = session_type.__init__, session_type._extend_graph
        self._originals = (initialise, extend)
        recorder = self

        def __init__(session: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
            recorder._lines.expect(True)
            try:
                initialise(session, target, graph, recorder._with_log(config))
            finally:
                recorder._lines.expect(False)
            recorder._logging.add(session)

        def _extend_graph(session: Any) -> None:
            if len(recorder.steps) < MAXIMUM_STEPS:
                recorder.steps.append((time.monotonic(), None))
            recorder._lines.expect(True)
            try:
                extend(session)
            except Exception as error:
                recorder._failed(session, error)
                raise
            finally:
                recorder._lines.expect(False)
                recorder._extended(session)

        self._wrappers = (__init__, _extend_graph)
        session_type.__init__, session_type._extend_graph = self._wrappers

    def uninstall(self) -> None:
        """Put TensorFlow's own methods back; sessions that go on to live place the rest of their graph quietly."""
        session_type = self._private.BaseSession
        if self._originals is None or self._wrappers is None:
            return
        for name, original, wrapper in zip(("__init__", "_extend_graph"), self._originals, self._wrappers, strict=True):
            if getattr(session_type, name) is wrapper:
                setattr(session_type, name, original)
        for session in self._logging:
            if not session._closed and "_extend_graph" not in vars(session):
                _keep_quiet(session)

    def finish(self) -> None:
        """Place the sessions of earlier cells again, and hand all graphs over."""
        for number, found in enumerate(self._found):
            if found.old and not found.records:
                found.records = self._place_again(found)
            try:
                graph_def = found.graph.as_graph_def(add_shapes=True)
            except ValueError as error:
                self._captured.notes.append(f"The graph of session {number} is too large to be shown: {error}")
                continue
            graph = CapturedGraph(f"session:{number}", graph_def, found.records)
            graph.sources = {"": operation_sources(found.graph.get_operations(), UserFrames())}
            graph.placed_before = found.before
            self._captured.graphs.append(graph)

    def _with_log(self, config: Any) -> Any:
        import tensorflow as tf

        if config is not None and not isinstance(config, tf.compat.v1.ConfigProto):
            return config  # TensorFlow says what is wrong with it
        changed = tf.compat.v1.ConfigProto()
        # Without a configuration a session takes the eager context's, logical devices and all (session.py, 2.21).
        changed.CopyFrom(self._private.context.context().config if config is None else config)
        changed.log_device_placement = True
        changed.allow_soft_placement = self._soft
        return changed

    def _extended(self, session: Any) -> None:
        version = session.graph.version
        if self._versions.get(session) == version:
            return
        self._versions[session] = version
        self._drain()
        records = self._lines.pop()
        found = next((item for item in self._found if item.session() is session), None)
        if found is None:
            found = _Found(weakref.ref(session), session.graph, session._config, session not in self._logging)
            self._found.append(found)
            self._note_devices(session)
            earlier = _remembered(session)
            if earlier is not None and earlier.version == version and not records:
                found.records, found.before = earlier.records, earlier.before
                return
            if earlier is not None:
                found.before = _places(earlier.records) | earlier.before
        if records:
            # An extended graph is placed, and logged, as a whole again; what has a state stays where it was.
            found.before = _places(found.records) | found.before
            found.records = records
            _remember(session, version, records)

    def _failed(self, session: Any, error: BaseException) -> None:
        text = str(error)
        if placement_failure(text) is not None:
            graph = CapturedGraph("", session.graph.as_graph_def())
            graph.sources = {"": operation_sources(session.graph.get_operations(), UserFrames())}
            self._captured.failures.append(Failure(text, graph))

    def _note_devices(self, session: Any) -> None:
        if session.sess_str:
            self._captured.notes.append("A session on a remote server logs its placement there, not in this process.")
            return
        for device in session.list_devices():
            limit = device.memory_limit_bytes if device.device_type != "CPU" else None
            self.devices.append((device.name, limit))

    def _place_again(self, found: _Found) -> list[PlacementRecord]:
        """Place a graph in a new session of the same configuration that logs; nothing is run."""
        import tensorflow as tf

        self._drain()
        self._lines.pop()
        self._lines.own_log = True
        self._lines.expect(True)
        session = tf.compat.v1.Session(graph=found.graph, config=self._with_log(found.config))
        try:
            session._extend_graph()
        except tf.errors.OpError as error:
            self._captured.notes.append(f"A session of an earlier cell could not be placed again: {error.message}")
        finally:
            session.close()
            self._drain()
            self._lines.own_log = False
            self._lines.expect(False)
        return self._lines.pop()


@dataclass(frozen=True)
class _History:
    """What a session that lives on has placed: it stays where it is, and a later recording is not told of it again.

    It is kept with the session, under the name ``_HISTORY``.
    """

    version: int
    records: list[PlacementRecord]
    before: dict[str, str]


@dataclass
class _Found:
    """A session that ran."""

    session: weakref.ref[Any]
    graph: Any
    config: Any
    old: bool
    records: list[PlacementRecord] = field(default_factory=list)
    before: dict[str, str] = field(default_factory=dict)


def _remembered(session: Any) -> _History | None:
    history: _History | None = vars(session).get(_HISTORY)
    return history


def _remember(session: Any, version: int, records: list[PlacementRecord]) -> None:
    earlier = _remembered(session)
    before = {} if earlier is None else _places(earlier.records) | earlier.before
    setattr(session, _HISTORY, _History(version, records, before))


def _places(records: Sequence[PlacementRecord]) -> dict[str, str]:
    return {record.name: record.device for record in records}


def _keep_quiet(session: Any) -> None:
    """Take the placement lines out of what a session writes that was opened in a recording and lives on.

    Its runtime logs whenever the graph has grown, and that cannot be switched off.
    """
    session_type = type(session)
    plain = session_type._extend_graph
    reference = weakref.ref(session)
    placed = session.graph.version

    def quiet_extend_graph() -> None:
        nonlocal placed
        current: Any = reference()
        if session_type._extend_graph is not plain or current.graph.version == placed:
            session_type._extend_graph(current)  # a recording is under way and takes the lines, or there are none
            return
        placed = current.graph.version
        lines = LineCollector()
        lines.expect(True)
        streams = StreamFilter(lines.take)
        streams.start()
        try:
            plain(current)
        finally:
            streams.stop()
            _remember(current, placed, lines.pop())

    session._extend_graph = quiet_extend_graph
