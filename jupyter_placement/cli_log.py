"""``jupyter-placement log``: read logs, print and write what was asked for."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_placement.cli_quiet import quiet_start
from jupyter_placement.cli_watch import Progress, follow, read_stream
from jupyter_placement.log.build import HOW_TO_LOG, placement_from_log
from jupyter_placement.log.reader import LogReader, blocks, open_log
from jupyter_placement.log.records import LogRecords
from jupyter_placement.placement import PlacementError

if TYPE_CHECKING:
    from jupyter_placement.placement import Placement

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class CommandError(Exception):
    """What went wrong, in one sentence, and the exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def run_log(options: argparse.Namespace) -> None:
    """Do what the arguments of ``jupyter-placement log`` say.

    Raises
    ------
    CommandError
        When that cannot be done.
    """
    if options.follow and (len(options.files) > 1 or options.files == ["-"]):
        raise CommandError("--follow takes one file; standard input (-) is read as it comes without it", 2)
    if options.files.count("-") > 1:
        raise CommandError("standard input (-) can be given once", 2)
    logs = [_read(name, options.follow) for name in options.files]
    where = "the log" if len(logs) > 1 or options.files == ["-"] else options.files[0]
    if not any(log.placements or log.events for log in logs):
        if not any(log.counts.lines for log in logs):
            raise CommandError(f"{where} is empty; keep both outputs of the program: python program.py > file.log 2>&1")
        raise CommandError(f"no placement line is in {where}; switch the log on and run again. {HOW_TO_LOG}")
    if options.records:
        json.dump(_together(logs), sys.stdout)
        sys.stdout.write("\n")
        if not (options.json or options.html or options.graphml):
            return
    placement = _placement(logs, options.graph)
    _write(placement, options)
    if not options.records and options.json != "-":
        print(_colored(placement) if _wants_color(options.color) else placement.summary())


def _read(name: str, following: bool) -> LogRecords:
    if name == "-":
        return read_stream(sys.stdin.buffer)
    path = Path(name)
    if path.is_dir():
        raise CommandError(f"{name} is a directory: give the log file itself, or several of them")
    try:
        with ExitStack() as stack:
            file = stack.enter_context(open_log(path))
            if following:
                return follow(file, path)
            reader = LogReader()
            progress = stack.enter_context(Progress(path.stat().st_size))
            for number, block in enumerate(blocks(file)):
                if number == 0 and isinstance(block, bytes) and _is_binary(block):
                    raise CommandError(f"{name} is a binary file: give the text that TensorFlow printed")
                reader.feed(block)
                progress.advance(len(block))
            return reader.finish()
    except FileNotFoundError as error:
        raise CommandError(f"there is no file {name}") from error
    except (OSError, EOFError) as error:
        raise CommandError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _is_binary(start: bytes) -> bool:
    """Tell text from other data: text has no zero bytes, but in UTF-16, where every second byte is one."""
    head = start[:4096]
    if b"\0" not in head or head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return False
    return bool(any(head[1:200:2]) or not all(head[:200:2]))


def _together(logs: list[LogRecords]) -> dict[str, Any]:
    """Put the records of several logs into one JSON object."""
    forms = [log.to_json() for log in logs]
    if len(forms) == 1:
        return forms[0]
    counts: dict[str, int] = {}
    for form in forms:
        for key, value in form["counts"].items():
            counts[key] = counts.get(key, 0) + value
    joined = {key: [row for form in forms for row in form[key]] for key in ("placements", "devices", "events")}
    joined["placements"] = list({tuple(row.values()): row for row in joined["placements"]}.values())
    return {**joined, "counts": counts}


def _placement(logs: list[LogRecords], graph: str | None) -> Placement:
    try:
        if graph is None:
            return placement_from_log(list(logs))
        from jupyter_placement.graphfile import read_graph

        with quiet_start():
            nodes = read_graph(graph)
        return placement_from_log(list(logs), nodes)
    except PlacementError as error:
        raise CommandError(str(error)) from error
    except ModuleNotFoundError as error:
        raise CommandError(f"--graph needs TensorFlow, which is not installed here: {error}") from error


def _write(placement: Placement, options: argparse.Namespace) -> None:
    try:
        if options.json == "-":
            json.dump(placement.to_json(), sys.stdout)
            sys.stdout.write("\n")
        elif options.json:
            _say(placement.save(options.json))
        if options.html:
            from jupyter_placement.report import html_document

            Path(options.html).write_text(html_document(placement), encoding="utf-8")
            _say(options.html)
        if options.graphml:
            write_graphml(placement, options.graphml)
            _say(options.graphml)
    except PlacementError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename} cannot be written: {error.strerror}") from error


def _say(path: str | os.PathLike[str]) -> None:
    print(f"wrote {path}", file=sys.stderr)


def write_graphml(placement: Placement, path: str | os.PathLike[str]) -> None:
    """Write the graph as GraphML, which knows no lists and no missing values: JSON texts, and left out.

    Parameters
    ----------
    placement : Placement
        What to write.
    path : path-like
        The file.

    Raises
    ------
    OSError
        When it cannot be written.
    """
    import networkx as nx

    # GraphML is XML, where control characters cannot even be escaped.
    def clean(value: Any) -> Any:
        if isinstance(value, list | tuple | dict):
            value = json.dumps(value)
        return _NOT_XML.sub("\ufffd", value) if isinstance(value, str) else value

    def told(data: dict[str, Any]) -> dict[str, Any]:
        return {key: clean(value) for key, value in data.items() if value is not None}

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for node, data in placement.graph.nodes(data=True):
        graph.add_node(clean(node), **told(data))
    for producer, consumer, key, data in placement.graph.edges(keys=True, data=True):
        graph.add_edge(clean(producer), clean(consumer), str(key), **told(data))
    nx.write_graphml_xml(graph, Path(path))


def _wants_color(choice: str) -> bool:
    if choice == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return choice == "always"


def _colored(placement: Placement) -> str:
    """Return the summary with each device's name in its colour, and headings in bold."""
    from jupyter_placement.colors import device_colors

    styles = {style.label: style.fill for style in device_colors(placement.device_names()).values()}
    labels = sorted(styles, key=len, reverse=True)
    pattern = (
        re.compile("|".join(rf"(?<![\w/:.-]){re.escape(label)}(?!\w|:\d)" for label in labels)) if labels else None
    )

    def paint(match: re.Match[str]) -> str:
        fill = styles[match[0]]
        red, green, blue = (int(fill[at : at + 2], 16) for at in (1, 3, 5))
        return f"\x1b[38;2;{red};{green};{blue}m{match[0]}\x1b[0m"

    lines = []
    for line in placement.summary().splitlines():
        if not line.startswith(" "):
            lines.append(f"\x1b[1m{line}\x1b[0m")
        else:
            lines.append(pattern.sub(paint, line) if pattern else line)
    return "\n".join(lines)
