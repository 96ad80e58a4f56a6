"""``%%placement`` and ``%placement``: parse the line, record the cell, show what was found.

The cell is run by IPython itself, not by the magic: its own line ``%%placement`` becomes a call that begins a
recording, and the recording ends when IPython says that the cell has. So tracebacks, ``await``, ``Out``, history and
interrupts are those of a cell without the magic.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import sys
import weakref
from dataclasses import dataclass
from typing import Any

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import cell_magic as transform_cell_magic
from IPython.core.inputtransformer2 import leading_empty_lines
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, output_can_be_silenced
from IPython.core.magic_arguments import argument, magic_arguments

from jupyter_placement.capture.requests import Requests
from jupyter_placement.magic_options import parse_options, split_statement
from jupyter_placement.magic_output import Output
from jupyter_placement.placement import Placement, PlacementError

_CELL_LINE = re.compile(r"%%placement(?:[ \t]+(?P<arguments>.*?))?[ \t]*\r?\n?")
_NO_CODE = re.compile(r"\s*(?:#|$)")


@dataclass
class _Run:
    """A cell that is being recorded."""

    info: Any
    arguments: argparse.Namespace
    recording: Any
    output: Output


@magics_class
class PlacementMagics(Magics):
    """The magics, the input transformer and the events that belong to them."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._shell: Any = shell
        self._info: Any = None
        self._run: _Run | None = None
        self._outputs: dict[str, Output] = {}
        self._known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._called: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._requests = Requests()  # for --on: what the variables of earlier cells asked for

    def install(self) -> None:
        """Register everything with the shell."""
        shell = self._shell
        uninstall(shell)
        self._requests.install()
        shell.register_magics(self)
        shell.input_transformers_cleanup.append(self.transform)
        shell.events.register("pre_run_cell", self.cell_begins)
        shell.events.register("post_run_cell", self.cell_ended)
        shell.display_formatter.mimebundle_formatter.for_type(Placement, _mime_bundle)

    def remove(self) -> None:
        """Take everything out of the shell again; a cell that is being recorded is shown as far as it came."""
        run, self._run = self._run, None
        if run is not None:
            self._finish(run, None)
        self._requests.uninstall()
        shell = self._shell
        shell.input_transformers_cleanup.remove(self.transform)
        shell.events.unregister("pre_run_cell", self.cell_begins)
        shell.events.unregister("post_run_cell", self.cell_ended)
        shell.display_formatter.mimebundle_formatter.pop(Placement, None)
        for kind, name in (("cell", "placement"), ("line", "placement"), ("line", "_begin_placement")):
            shell.magics_manager.magics[kind].pop(name, None)
        shell.magics_manager.registry.pop(type(self).__name__, None)

    def transform(self, lines: list[str]) -> list[str]:
        """Turn the line ``%%placement`` on top of a cell into a call; all other lines stay as they are."""
        top = next((number for number, line in enumerate(lines) if not _NO_CODE.match(line)), None)
        match = _CELL_LINE.fullmatch(lines[top]) if top is not None else None
        if top is None or match is None:
            return lines
        call = f"get_ipython().run_line_magic('_begin_placement', {match['arguments'] or ''!r})\n"
        below = lines[top + 1 :]
        stripped = leading_empty_lines(below)
        if stripped and stripped[0].startswith("%%"):
            below = transform_cell_magic(stripped)
        return [*lines[:top], call, *below]

    def cell_begins(self, info: Any) -> None:
        """Note which cell runs."""
        self._info = info

    def cell_ended(self, result: Any) -> None:
        """End the recording of the cell that ended."""
        run = self._run
        # A cell that was interrupted while it awaited ends without a result (ipykernel 7.4).
        if run is None or (result is not None and result.info is not run.info):
            return
        self._run = None
        error = None if result is None else (result.error_in_exec or result.error_before_exec)
        self._finish(run, error)

    @line_magic
    def _begin_placement(self, line: str) -> None:
        """Begin to record the cell that runs. What ``%%placement`` on top of a cell becomes."""
        arguments = self._parse(line)
        if self._run is not None:
            raise UsageError("%%placement does not nest: this cell runs inside one that is being recorded already.")
        self._run = self._start(arguments)

    @magic_arguments()
    @argument(
        "-o", "--output", metavar="NAME", help="bind the Placement to this name; _placement always holds the last"
    )
    @argument("--cpus", type=int, metavar="N", help="run on N logical CPU devices; before TensorFlow has started")
    @argument("--hard", action="store_true", help="no soft placement: what cannot be placed as asked is an error")
    @argument("--static", action="store_true", help="no live panel, only the output that is saved with the notebook")
    @argument("--quiet", action="store_true", help="only text")
    @argument("--save", metavar="FILE", help="save the Placement; Placement.load(FILE) reads it")
    @argument(
        "--on",
        action="append",
        metavar="MACHINE",
        help="where the cell's graphs would go on it: 2xT4, '1xH100-80GB + 2xL4'; again for a table of several",
    )
    @argument("--batch", type=int, metavar="N", help="with --on: the unknown first dimension of what graphs are given")
    @argument("--interval", type=float, default=0.5, metavar="SECONDS", help="time between memory samples [0.5]")
    @output_can_be_silenced
    @line_cell_magic
    def placement(self, line: str, cell: str | None = None) -> Any:
        """Show where TensorFlow places each operation of a cell.

        The cell runs as always, with soft placement. Below it a panel shows the graph that TensorFlow ran, every node
        coloured by the device that TensorFlow assigned, and the memory of each GPU while the cell runs. The Placement
        is in ``_placement`` afterwards.

        Examples::

            %%placement
            with tf.device("/gpu:1"):
                c = tf.matmul(a, b)

            %%placement --cpus 2 -o mine
            train_step(images)

            %%placement --hard
            sess.run(c)

            %%placement --quiet --save step
            model.fit(x, y)

            %placement tf.matmul(a, b)

        ``--cpus`` must come before TensorFlow starts in this kernel. ``--save step`` writes ``step.placement.json``.
        ``mine.summary()`` is the text, ``mine.graph`` a networkx graph.
        """
        if cell is not None:  # a program's own run_cell_magic: what is typed takes the way through transform
            options, statement = line, cell
        else:
            options, statement = split_statement(line)
        arguments = self._parse(options)
        if self._run is not None:
            raise UsageError("%placement does not nest: this cell is being recorded already.")
        if not statement:
            raise UsageError("%placement needs a statement: %placement [options] STATEMENT. See %placement?")
        return self._record_statement(arguments, statement)

    def _record_statement(self, arguments: argparse.Namespace, statement: str) -> Any:
        source = self._shell.transform_cell(statement)
        name = self._shell.compile.cache(source)  # tracebacks show its lines
        try:
            tree = self._shell.compile.ast_parse(source, name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            code = self._shell.compile(tree, name, "exec")
            value = None if last is None else self._shell.compile(ast.Expression(last.value), name, "eval")
        except SyntaxError as error:
            if "await" in (error.msg or ""):
                raise UsageError(f"{error.msg}: to await, put %%placement on top of a cell.") from None
            raise
        run = self._start(arguments)
        failed: BaseException | None = None
        try:
            exec(code, self._shell.user_ns)
            return None if value is None else eval(value, self._shell.user_ns)
        except BaseException as raised:
            failed = raised
            raise
        finally:
            self._finish(run, failed)

    def _parse(self, line: str) -> argparse.Namespace:
        return parse_options(self.placement, line)

    def _start(self, arguments: argparse.Namespace) -> _Run:
        if not _tensorflow_is_installed():
            raise UsageError(
                "TensorFlow is not installed for this kernel: %pip install tensorflow, then run the cell again."
            )
        if sys.platform == "win32":
            raise UsageError("Recording needs Linux or macOS: on Windows a kernel cannot read TensorFlow's log.")
        from jupyter_placement.recording import Recording

        output = Output(self._shell, live=not (arguments.static or arguments.quiet), text=arguments.quiet)
        self._called.clear()
        recording = Recording(
            # With --on it is the imagined machine that --hard is about.
            soft=not arguments.hard or bool(arguments.on),
            cpus=arguments.cpus,
            interval=arguments.interval,
            on_memory=output.memory,
            # A dry run is of the functions of this cell, also of those that an earlier one has recorded.
            known=self._called if arguments.on else self._known,
        )
        output.cards = lambda: recording.card_readings
        try:
            recording.start()
        except PlacementError as error:
            raise UsageError(str(error)) from None
        try:
            output.begin()
        except BaseException:
            recording.stop()
            raise
        cell = getattr(self._info, "cell_id", None)
        if cell is not None:
            # The output of the cell's last run is gone from the notebook; its panel would stay in the kernel.
            if cell in self._outputs:
                self._outputs[cell].close()
            self._outputs[cell] = output
        return _Run(self._info, arguments, recording, output)

    def _finish(self, run: _Run, error: BaseException | None) -> None:
        try:
            self._show(run, run.recording.stop(error))
        except KeyboardInterrupt:
            # The cell itself has ended; a traceback here would be of this extension's own work.
            print("Interrupted while the placement was made: it is not shown.", file=sys.stderr)

    def _show(self, run: _Run, placement: Placement) -> None:
        names = self._shell.user_ns
        result: Any = placement
        if run.arguments.on:
            from jupyter_placement.magic_dryrun import imagined

            placement, result = imagined(list(self._called), run.recording, run.arguments)
            if result is not placement:
                run.output.table(result)
        names["_placement"] = placement
        if run.arguments.output is not None:
            names[run.arguments.output] = result
        run.output.end(placement)
        if "estimate" in placement.meta and result is placement:
            from jupyter_placement.dryrun import estimate_of

            run.output.table(estimate_of(placement))
        if run.arguments.save is not None:
            run.output.save(placement, run.arguments.save)


def uninstall(shell: Any) -> None:
    """Take the magics out of a shell, if they are there."""
    magics = shell.magics_manager.registry.get(PlacementMagics.__name__)
    if magics is not None:
        magics.remove()
    if "jupyter_placement.dryrun.run" in sys.modules:
        from jupyter_placement.dryrun import close_helpers

        close_helpers()


def _tensorflow_is_installed() -> bool:
    try:
        return importlib.util.find_spec("tensorflow") is not None
    except ValueError:  # a module that somebody put there by hand has no spec
        return True


def _mime_bundle(placement: Placement) -> dict[str, Any]:
    from jupyter_placement.report import static_bundle

    return static_bundle(placement)
