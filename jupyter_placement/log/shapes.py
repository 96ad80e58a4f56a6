"""The shapes of a placement in a line that may be damaged: names, operation types, devices, and where each ends."""

from __future__ import annotations

import re
from typing import NamedTuple

from jupyter_placement.log.text import unwrap

DEVICE = (
    r"/job:(?P<job>[A-Za-z]\w{0,200})/replica:(?P<replica>\d{1,9})/task:(?P<task>\d{1,9})"
    r"/(?:(?P<word>device:)|(?!device:))(?P<type>[A-Za-z]\w{0,60}):(?P<index>\d+)"
)
_FULL = re.compile(DEVICE, re.ASCII)
_SHORT = re.compile(r"/(?:device:)?(?P<type>[A-Za-z]\w{0,60}):(?P<index>\d{1,9})", re.ASCII)
# `name: (Op): /job...`; on standard error up to 1.15 `name: (Op)/job...`; before 1.0 `name: /job...`.
_CORE = re.compile(
    r":[ \t]{1,8}(?:\([ \t]{0,4}(?P<op>[A-Za-z_][^\s()]{0,250})[ \t]{0,4}\)[ \t]{0,4}:?[ \t]{0,8})?" + DEVICE, re.ASCII
)
_EAGER = re.compile(r"Executing\s{1,4}op\s{1,4}(?P<op>\S{1,300})\s{1,4}in\s{1,4}device\s{1,4}" + DEVICE, re.ASCII)
PREFIX_END = re.compile(r"\.cc:[ \t]{0,4}\d+[ \t]{0,4}\][ \t]?", re.ASCII)
_PREFIX_HEAD = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:|[IWEF]\d{4} \d\d:\d\d:|[IWEF] (?:\S{0,200}[/\\])?(?:tensorflow|external)[/\\]",
    re.ASCII,
)
LEGAL = re.compile(r"[A-Za-z0-9_.^][A-Za-z0-9_.\\/>^-]*")
# TensorFlow itself lets no such name in; graphs from elsewhere have them.
_ODD = re.compile(r"[\w.^\\/>:()@;,+~$&# -]+")
_YEAR = re.compile(r"-\d\d-\d\d[ T]")
_RUN_ON = re.compile(r"\s*$|\s*[\"'`\\]|[A-Za-z0-9_.^]")
_BOUNDARY = frozenset(" \t\r\n\"'`\\,;)]}<")


class Sight(NamedTuple):
    """One placement as a line shows it.

    Attributes
    ----------
    name : str
        The node's name.
    op : str or None
        Operation type.
    device : str
        Full device name.
    where : str
        What stands before the name: ``"prefix"`` of the log, another ``"device"``, or the start of the ``"line"``.
    clean : bool
        Whether TensorFlow itself could have written that name.
    """

    name: str
    op: str | None
    device: str
    where: str
    clean: bool


def device_of(match: re.Match[str], index: str | None = None) -> str:
    """Write the device of a match of ``DEVICE`` in full, upgraded from the form before TensorFlow 1.4."""
    kind = match["type"]
    if match["word"] is None or kind in ("cpu", "gpu"):
        kind = kind.upper()
    number = match["index"] if index is None else index
    return f"/job:{match['job']}/replica:{match['replica']}/task:{match['task']}/device:{kind}:{number}"


def full_name(text: str) -> str | None:
    """Write a device that the log names, alone, in full; ``None`` when it is no device name.

    Examples
    --------
    >>> full_name("/job:ps/replica:0/task:1/cpu:0")
    '/job:ps/replica:0/task:1/device:CPU:0'
    >>> full_name("/gpu:1")
    '/job:localhost/replica:0/task:0/device:GPU:1'
    """
    match = _FULL.fullmatch(text)
    if match:
        return device_of(match) if device_index(match["index"], "") == match["index"] else None
    match = _SHORT.fullmatch(text)
    return f"/job:localhost/replica:0/task:0/device:{match['type'].upper()}:{match['index']}" if match else None


def find_devices(text: str) -> list[str]:
    """List the full device names in a text, upgraded, each once.

    Examples
    --------
    >>> find_devices("[ /job:localhost/replica:0/task:0/cpu:0, /job:localhost/replica:0/task:0/device:XLA_GPU:0 ]")
    ['/job:localhost/replica:0/task:0/device:CPU:0', '/job:localhost/replica:0/task:0/device:XLA_GPU:0']
    """
    return list(dict.fromkeys(device_of(match) for match in _FULL.finditer(text) if len(match["index"]) < 5))


def device_index(digits: str, after: str) -> str | None:
    """Tell a device's number from digits that ran into it; ``None`` where that cannot be told.

    Parameters
    ----------
    digits : str
        All digits after ``GPU:``.
    after : str
        What follows them.

    Examples
    --------
    >>> device_index("02017", "-10-18 12:00"), device_index("11", ""), device_index("10", ".5 loss")
    ('0', '11', None)
    """
    if len(digits) > 4 and _YEAR.match(after):
        digits, after = digits[:-4], ""
    if digits[0] == "0":
        return "0"
    if len(digits) == 1:
        return digits
    return digits if len(digits) < 10 and (not after or after[0] in _BOUNDARY) else None


def find_sights(text: str) -> tuple[list[Sight], str, bool]:
    """Find the placements of one line.

    Returns
    -------
    sights : list of Sight
        In order.
    fragment : str
        A name that the line begins after a log prefix and does not end, or ``""``.
    torn : bool
        Whether the line shows a placement whose name or device cannot be told.
    """
    sights: list[Sight] = []
    fragment, torn, bound = "", False, 0
    for match in _CORE.finditer(text):
        segment = text[bound : match.start()]
        after = text[match.end("index") : match.end("index") + 20]
        index = device_index(match["index"], after)
        name, where, lost = _name(segment, bound > 0)
        fragment = lost or fragment
        bound = match.end() if index is None else match.start("index") + len(index)
        if index is None or not name:
            torn = torn or match["op"] is not None
            continue
        clean = LEGAL.fullmatch(name) is not None
        if match["op"] is None:
            # "a device: /job:..." is somebody's print: the log without types is older than "device:".
            told = match["word"] is None or (where == "prefix" and "placer.cc" in segment)
            if not (clean and told and _RUN_ON.match(text, bound)):
                continue
        if clean or _ODD.fullmatch(name):
            sights.append(Sight(name, match["op"], device_of(match, index), where, clean))
        else:
            torn = True
    tail = text[bound:]
    position = tail.rfind("placer.cc:")
    if position >= 0 and (end := PREFIX_END.search(tail, position)):
        begun = tail[end.end() :].strip()
        if LEGAL.fullmatch(begun.split(":", 1)[0]):
            fragment = begun
    return sights, fragment, torn


def find_eager(text: str) -> list[tuple[str, str]]:
    """Find the eager operations of one line, each with its device.

    Examples
    --------
    >>> find_eager("Executing op Add in device /job:localhost/replica:0/task:0/device:DML:0 ")
    [('Add', '/job:localhost/replica:0/task:0/device:DML:0')]
    """
    found = []
    for match in _EAGER.finditer(text):
        index = device_index(match["index"], text[match.end() : match.end() + 20])
        if index is not None:
            found.append((match["op"], device_of(match, index)))
    return found


def _name(segment: str, after_device: bool) -> tuple[str, str, str]:
    """Tell name, what stands before it, and a fragment of another name that was cut off before the log prefix."""
    position = segment.rfind(".cc:")
    if position >= 0 and (end := PREFIX_END.match(segment, position)):
        lost = ""
        earlier = segment.rfind(".cc:", 0, position)
        if earlier >= 0 and (start := PREFIX_END.match(segment, earlier)):
            head = _PREFIX_HEAD.search(segment, start.end())
            lost = segment[start.end() : head.start()].strip() if head else ""
        name = segment[end.end() :]
        if segment.endswith("placer", 0, position):
            return name.strip(), "prefix", lost
        return unwrap(name).strip(), "line", lost  # the line end of another message got lost
    segment = segment[segment.rfind("\r") + 1 :]
    return unwrap(segment).strip(), "device" if after_device else "line", ""
