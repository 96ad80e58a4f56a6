"""The options on a magic's line: split from the statement, parsed, and refused with a sentence."""

from __future__ import annotations

import argparse
import keyword
import os
import re
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import parse_argstring

from jupyter_placement.placement import PlacementError

_OPTION = re.compile(r"-\S+")
_WITH_VALUE = ("-o", "--output", "--cpus", "--save", "--interval", "--on", "--batch")


def parse_options(magic: Callable[..., Any], line: str) -> argparse.Namespace:
    """Parse the options of a line.

    Parameters
    ----------
    magic : callable
        The magic, with IPython's argument decorators.
    line : str
        What stands behind its name.

    Raises
    ------
    UsageError
        With one sentence on what is wrong, and the usage.
    """
    try:
        arguments: argparse.Namespace = parse_argstring(magic, line)
    except (UsageError, ValueError) as error:  # ValueError: a quotation that does not end
        usage = magic.parser.format_usage().replace("::", "").strip()  # type: ignore[attr-defined]
        raise UsageError(f"{error}\n{usage}\nSee %%placement? for what they mean.") from None
    name = arguments.output
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        raise UsageError(f"-o needs a name for a variable, not {name!r}.")
    if arguments.save is not None:
        arguments.save = os.path.expandvars(os.path.expanduser(_unquoted(arguments.save)))
        if not arguments.save:
            raise UsageError("--save needs the name of a file.")
    if arguments.cpus is not None and arguments.cpus < 1:
        raise UsageError(f"--cpus needs a number from 1 on, not {arguments.cpus}.")
    arguments.on = [_machine(on) for on in arguments.on or ()]
    if arguments.batch is not None and not arguments.on:
        raise UsageError("--batch is for the estimate of --on, which is not given.")
    if arguments.batch is not None and not 0 < arguments.batch < 2**31:
        raise UsageError(f"--batch is a number of examples, 1 or more, not {arguments.batch}.")
    if not 0.05 <= arguments.interval <= 3600:
        raise UsageError(f"--interval needs seconds between 0.05 and 3600, not {arguments.interval:g}.")
    return arguments


def _machine(on: str) -> str:
    from jupyter_placement.dryrun import parse_machine

    on = _unquoted(on)
    try:
        parse_machine(on)
    except PlacementError as refused:
        raise UsageError(f"--on: {refused}") from None
    return on


def split_statement(line: str) -> tuple[str, str]:
    """Split the line of ``%placement`` into its options and the statement.

    Examples
    --------
    >>> split_statement("-o mine --hard f(x) - 1")
    ('-o mine --hard', 'f(x) - 1')
    >>> split_statement("-1 + f(x)")
    ('', '-1 + f(x)')
    """
    position = 0
    while True:
        rest = line[position:].lstrip()
        start = len(line) - len(rest)
        match = _OPTION.match(rest)
        if match is None or not re.match(r"--?[a-z]", rest):
            return line[:position].strip(), rest
        position = start + match.end()
        if match[0] in _WITH_VALUE:
            value = re.compile(r"\s+(?:\"[^\"]*\"|'[^']*'|\S+)").match(line, position)
            position = value.end() if value is not None else len(line)


def _unquoted(text: str) -> str:
    """Take the quotation marks off an option's value: IPython leaves them on.

    Examples
    --------
    >>> _unquoted('"my run"'), _unquoted("run")
    ('my run', 'run')
    """
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
