"""Undo what terminals, containers, notebooks, mail and Markdown do to a line of a log."""

from __future__ import annotations

import html
import json
import re

# ESC codes, and the same spelled out by a tool that shows them.
_ANSI = re.compile(
    r"(?:\x1b|\\x1b|\\u001b|\\033|␛)"
    r"(?:\[[0-9;?]{0,20}[ -/]?[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])"
)
_MARKDOWN = re.compile(r"\\([_*<>\[\]#`])")
# TensorFlow lets backslashes into names, so they are Markdown's only where they stand in what is no name.
_IS_MARKDOWN = re.compile(r"\(\\_|\bop \\_|device:\w{0,20}\\_|common\\_runtime|\w\\_\w{1,40}\.cc:")
_BLANKS = re.compile(r"[ \t]{2,}")
_RANK = re.compile(r"\[\d{1,6},(\d{1,6})\]<std(?:out|err)>:")
# What may stand before a name at the start of a line; each of these is something that no TensorFlow name begins with.
_WRAPPER = re.compile(
    r"""(?:
      \[\d{1,6},\d{1,6}\]<std(?:out|err)>:[ ]?                                       # mpirun --tag-output
    | (?:In[ ]?|Out)\[\d{0,6}\]:[ ]?                                                 # IPython
    | \[[^\[\]\n]{1,80}\][ :]{1,2}                                                   # [rank0] [pod/worker-0/tf]
    | \((?:\w[\w.:-]{0,80}[ ])?(?:pid|ip|rank)=[^()\n]{1,80}\)[ ]?                   # Ray
    | [\w.-]{1,80}[ ]{0,20}\|[ ]                                                     # docker compose
    | \d{1,6}:[ ]                                                                    # srun --label
    | \d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?[ :,]{1,3}   # most collectors
    | std(?:out|err)[ ][FP][ ]                                                       # containerd
    | [A-Z][a-z]{2}[ ]{1,2}\d{1,2}[ ]\d\d:\d\d:\d\d[ ][\w.-]{1,80}[ ][\w./-]{1,80}(?:\[\d{1,9}\])?:[ ]   # syslog
    | (?:DEBUG|INFO|WARN(?:ING)?|ERROR)(?:[: ](?:[\w.]{1,60}:)?[ ]?)                 # Python's logging
    | (?:>>>|\.\.\.|>|\$|\#|//|\*|-|;|%|\|)[ ]                                       # prompts, quotes, comments, lists
    | Device[ ]mapping:(?:[ ]no[ ]known[ ]devices\.)?[ ]?                            # its line end got lost
    | [`"'][ ]?
    )""",
    re.VERBOSE | re.ASCII,
)
_CUT_PREFIX = re.compile(r"[\w./\\:-]{0,200}?\d+\][ \t]", re.ASCII)


def plain_text(line: str) -> str:
    r"""Take colour codes, Markdown's and HTML's escapes and odd blanks out of a line.

    Examples
    --------
    >>> plain_text("\x1b[36minput\x1b[0m: (\\_Arg): x -&gt; y")
    'input: (_Arg): x -> y'
    """
    if "\x1b" in line or "\\" in line or "␛" in line:
        line = _ANSI.sub("", line)
        if _IS_MARKDOWN.search(line):
            line = _MARKDOWN.sub(r"\1", line)
    if "&" in line and ";" in line:
        line = html.unescape(line)
    if not line.isascii():
        line = line.replace("\u00a0", " ").replace("\ufeff", "").replace("\u200b", "")
    return line


def json_lines(line: str) -> list[str] | None:
    r"""Return the lines inside a line that is JSON, as containers and notebook files hold them; else ``None``.

    Examples
    --------
    >>> json_lines('{"log":"a: (Const): /job:x\\n","stream":"stdout"}')
    ['a: (Const): /job:x']
    >>> json_lines('    "a: (Const): /job:x\\n",')
    ['a: (Const): /job:x']
    >>> json_lines("a: (Const): /job:x") is None
    True
    """
    text = line.strip().rstrip(",")
    if not ((text[:1] == "{" and text[-1:] == "}") or (len(text) > 1 and text[0] == text[-1] == '"')):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        values = [value.get(key) for key in ("log", "message", "msg", "textPayload", "text", "line")]
        value = next((one for one in values if isinstance(one, str)), None)
    if not isinstance(value, str):
        return None
    return (value[:-1] if value.endswith("\n") else value).split("\n")


def unwrap(text: str) -> str:
    """Take from the start of a line what tools put before it, and a log prefix whose head was cut off.

    Examples
    --------
    >>> unwrap("[1,3]<stderr>:enc/conv"), unwrap("worker_1  | > enc/conv"), unwrap("lacer.cc:874] enc/conv")
    ('enc/conv', 'enc/conv', 'enc/conv')
    >>> unwrap("grad: partial")
    'grad: partial'
    """
    text = text.lstrip(" \t")
    for _ in range(6):
        match = _WRAPPER.match(text)
        if match is None:
            break
        text = text[match.end() :].lstrip(" \t")
    match = _CUT_PREFIX.match(text)
    return text[match.end() :] if match else text


def rank_of(line: str) -> int | None:
    """Return the MPI rank that ``mpirun --tag-output`` put before a line.

    Examples
    --------
    >>> rank_of("[1,3]<stderr>:x")
    3
    """
    match = _RANK.search(line, 0, 200)
    return int(match[1]) if match else None


def unfold(line: str) -> str:
    """Take out the blanks that joining hard-wrapped, indented lines leaves: two of each run, or all of an even run.

    Examples
    --------
    >>> unfold("u: (  Const)/job:x/device:GPU  :0, name: GTX   1080")
    'u: (Const)/job:x/device:GPU:0, name: GTX 1080'
    """
    return _BLANKS.sub(lambda run: " " if len(run[0]) % 2 else "", line)
