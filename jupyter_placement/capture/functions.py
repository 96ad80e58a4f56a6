"""Record the functions that run: new ones as TensorFlow places them, old ones by placing them again."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from jupyter_placement.capture.datasets import DATASET, dataset_functions, sources_of_functions
from jupyter_placement.capture.failed import unplaced_graph
from jupyter_placement.capture.failures import placement_failure
from jupyter_placement.capture.graphs import ARGUMENT_OPS, Captured, CapturedGraph, Failure, eager_operation
from jupyter_placement.capture.names import function_label
from jupyter_placement.capture.private import PrivateTensorFlow, current_context, log_switch
from jupyter_placement.capture.records import LineCollector, node_names, split_records
from jupyter_placement.capture.replacement import place_again
from jupyter_placement.capture.sources import Source, UserFrames, function_sources, runtime_sources
from jupyter_placement.capture.variables import variables_of
from jupyter_placement.log import PlacementRecord

# A function of the runtime, the devices of its inputs, and the device that was asked for around the call.
_Call = tuple[Any, tuple[str, ...], str]
KnownFunctions = MutableMapping[Any, CapturedGraph]


class FunctionRecorder:
    """Record function calls while installed.

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
    known : mapping of AtomicFunction to CapturedGraph
        Functions that an earlier recording saw: TensorFlow tells of each only once.
    intact : callable
        Tells whether what TensorFlow logs arrives here.
    """

    def __init__(
        self,
        private: PrivateTensorFlow,
        lines: LineCollector,
        drain: Callable[[], None],
        captured: Captured,
        known: KnownFunctions,
        intact: Callable[[], bool] = lambda: True,
    ) -> None:
        self._private = private
        self._lines = lines
        self._drain = drain
        self._captured = captured
        self._known = known
        self._intact = intact
        self._lock = threading.RLock()
        self._seen: set[str] = set()
        self._atomic: dict[str, weakref.ref[Any]] = {}
        self._stale: dict[str, _Call] = {}
        self._running = 0
        self._collected: list[Any] = []
        self._records: list[PlacementRecord] = []
        self._called: list[Any] = []
        self._without_shapes: list[tuple[Any, CapturedGraph]] = []
        self._dataset_sources: dict[str, dict[str, dict[str, Source]]] = {}
        self._switch: Callable[[bool], None] | None = None
        self._context: Any = None
        self._original: Any = None
        self._wrapper: Any = None
        self._ensure: Any = None
        self._ensure_wrapper: Any = None

    def install(self) -> None:
        """Begin to record; the eager context is left uninitialised if it is."""
        function_type, atomic = self._private.AtomicFunction, self._atomic
        original = self._original = function_type.__dict__["cached_definition"]

        def cached_definition(function: Any) -> Any:
            # Read at the beginning of each call. A wrapper around the call would stand in the user's tracebacks.
            atomic[function.name.decode()] = weakref.ref(function)
            return original.fget(function)

        self._wrapper = property(cached_definition)
        function_type.cached_definition = self._wrapper
        if current_context() is not None:
            self._begin(current_context())
        else:
            context_type, begin = self._private.context.Context, self._begin
            ensure = self._ensure = context_type.ensure_initialized

            def ensure_initialized(context: Any) -> None:
                ensure(context)
                begin(context)

            self._ensure_wrapper = ensure_initialized
            context_type.ensure_initialized = ensure_initialized

    def uninstall(self) -> None:
        """Put TensorFlow's own attributes back."""
        function_type, context_type = self._private.AtomicFunction, self._private.context.Context
        if function_type.__dict__["cached_definition"] is self._wrapper:
            function_type.cached_definition = self._original
        if self._ensure is not None and context_type.ensure_initialized is self._ensure_wrapper:
            context_type.ensure_initialized = self._ensure

    def finish(self) -> None:
        """Collect what is left, and place the functions again that TensorFlow told nothing about."""
        context = self._context
        if context is None:
            return
        try:
            self._collect()
            for function, devices, called_on in self._stale.values():
                graph = place_again(
                    function, context, self._switch, self._drain, self._lines, self._private.op_defs, devices, called_on
                )
                if isinstance(graph, str):
                    self._captured.notes.append(graph)
                else:
                    graph.called_on = called_on
                    self._keep(function, graph)
            frames = UserFrames()
            for function, graph in self._without_shapes:
                graph.shapes, graph.sources = function_shapes(function), function_sources(function, frames)
                graph.variables = variables_of(function.graph, function.cached_definition.signature.input_arg)
        finally:
            context.disable_graph_collection()

    def before(self, name: str, inputs: Sequence[Any]) -> _Call | None:
        """Prepare for a function of the runtime to run: the first time, switch the log on."""
        function = self._atomic.get(name, lambda: None)()
        if name in self._seen or function is None or self._context is None:
            return None
        compiled = function.cached_definition.attr.get("_XlaMustCompile")
        with self._lock:
            self._seen.add(name)
            if compiled is not None and compiled.b:
                self._captured.compiled[name] = len(function.cached_definition.node_def)
                return None
            self._collect()
            self._running += 1
            self._lines.expect(True)
            self._log(True)
        return function, tuple(tensor.device for tensor in inputs), self._context.device_name or ""

    def after(self, call: _Call | None, error: BaseException | None = None) -> None:
        """Find out where the operations of a function were placed that has run, or failed."""
        if call is not None:
            with self._lock:
                self._running -= 1
                self._log(self._running > 0)
                self._lines.expect(False)
                if error is not None and placement_failure(str(error)) is not None:
                    self._captured.failures.append(Failure(str(error), unplaced_graph(call[0], self._private.op_defs)))
                    self._collect()  # it was not placed, and would be placed again under other rules
                else:
                    self._collect(*call)

    def dataset(self, arguments: Sequence[Any]) -> None:
        """Note the lines of the functions that a dataset operation takes."""
        with self._lock:
            self._dataset_sources.update(sources_of_functions(arguments, UserFrames()))

    def _begin(self, context: Any) -> None:
        if self._context is None:
            self._context = context
            self._switch = log_switch(context)
            if self._switch is None:
                self._captured.notes.append(
                    "TensorFlow's library does not export the switch of the placement log: operations that TensorFlow "
                    "optimised away have no device here."
                )
            context.enable_graph_collection()
            # What an earlier recording left, of a function that failed say, is not this one's.
            context.export_run_metadata()

    def _log(self, on: bool) -> None:
        # Where the code has put a file of its own on a descriptor, the log would go there.
        if self._switch is not None and (not on or self._intact()):
            self._switch(on)

    def _collect(self, *call: Any) -> None:
        """Take over the graphs that TensorFlow placed since the last call, and their lines.

        While a function runs for the first time in some thread they are only gathered: lines of several graphs may
        stand between each other.
        """
        self._drain()
        self._records.extend(self._lines.pop())
        metadata = self._context.export_run_metadata()
        if metadata is not None:
            # A function that could not be placed is told of only when something else runs, and has no graph after.
            self._collected.extend(item for item in metadata.function_graphs if item.post_optimization_graph.node)
        if call:
            self._called.append(call)
        if self._running == 0:
            self._sort_out()

    def _sort_out(self) -> None:
        """Say which function each gathered graph is, and which lines are its."""
        collected, records, called = self._collected, self._records, self._called
        self._collected, self._records, self._called = [], [], []
        expected = [
            node_names(item.pre_optimization_graph) | node_names(item.post_optimization_graph) for item in collected
        ]
        if not collected:
            self._captured.loose.extend(records)
        bodies = {
            index: {node.name for node in call[0].cached_definition.node_def} for index, call in enumerate(called)
        }
        for item, share in zip(collected, split_records(records, expected), strict=True):
            before, after = item.pre_optimization_graph, item.post_optimization_graph
            graph = CapturedGraph("", before, share, after)
            names = {node.name for node in before.node if node.op not in ARGUMENT_OPS}
            index = next((index for index, body in bodies.items() if body == names), None)
            node = eager_operation(before)
            if index is not None:
                del bodies[index]
                graph.called_on = called[index][2]
                self._keep(called[index][0], graph)
            elif node is not None:
                device = next((one.device for one in after.node if one.name == node.name), node.device)
                self._captured.one_op_devices.setdefault(node.op, set()).add(device)
                if node.op.endswith(DATASET):
                    self._captured.graphs.extend(
                        dataset_functions(node, before.library, device, self._private.op_defs, self._dataset_sources)
                    )
            else:
                inner = self._inner(names)
                graph.label = f"function:{'inner' if inner is None else function_label(inner.signature.name)}"
                if inner is not None:
                    graph.sources = {"": runtime_sources(self._context, inner, UserFrames())}
                self._captured.graphs.append(graph)
        for index in bodies:
            function = called[index][0]
            if function in self._known:
                self._captured.graphs.append(self._known[function])
            else:
                self._stale[function.name.decode()] = called[index]

    def _keep(self, function: Any, graph: CapturedGraph) -> None:
        graph.label = f"function:{function_label(function.name.decode())}"
        self._without_shapes.append((function, graph))
        self._known[function] = graph
        self._captured.graphs.append(graph)

    def _inner(self, names: set[str]) -> Any | None:
        """Find the definition of a function that no call of the user names: one that runs inside another."""
        for graph in self._captured.graphs:
            for definition in graph.graph_def.library.function:
                if {node.name for node in definition.node_def} == names:
                    return definition
        for reference in self._atomic.values():
            function = reference()
            if function is not None and {node.name for node in function.cached_definition.node_def} == names:
                return function.cached_definition
        return None


def function_shapes(function: Any) -> dict[str, dict[str, list[Any]]]:
    """Return the shapes of all outputs in a function (under ``""``) and in those that it calls (by name)."""
    shapes: dict[str, dict[str, list[Any]]] = {}
    waiting = [("", function)]
    while waiting:
        name, current = waiting.pop()
        if name in shapes:
            continue
        shapes[name] = {
            operation.name: [_dimensions(tensor.shape) for tensor in operation.outputs]
            for operation in current.graph.get_operations()
        }
        waiting.extend((child.name.decode(), child) for child in current.children)
    return shapes


def _dimensions(shape: Any) -> list[int | None] | None:
    return None if shape.rank is None else list(shape.as_list())
