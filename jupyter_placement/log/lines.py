"""One clean line of TensorFlow 2.16 or newer, for the live capture: strict and fast.

A whole file, of any release and through any wrapper, is the business of :mod:`jupyter_placement.log.reader`.
"""

from __future__ import annotations

import re

from jupyter_placement.log.records import EagerRecord, PlacementRecord

# absl's prefix (`I0000 00:00:1796107846.110377    4418 placer.cc:162] `), and the one of a process that never called
# absl::InitializeLog or is older than 2.16 (`2025-07-10 23:27:08.913537: I tensorflow/core/.../placer.cc:162] `).
_PREFIX = (
    r"(?:[IWEF]\d{4} \d\d:\d\d:\d\d+\.\d+ +\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] )"
    r"(?:[^\s\]]*[/\\])?[a-z_]+\.cc:\d+\] "
)
_DEVICE = r"/job:[A-Za-z]\w*/replica:\d+/task:\d+/device:[A-Za-z]\w*:\d+"
_LINE = re.compile(
    rf"(?P<prefix>{_PREFIX})?"
    # TensorFlow itself lets no other character into a node's name.
    rf"(?:(?P<name>[A-Za-z0-9_.][A-Za-z0-9_.\\/>-]*): \((?P<op>[^\s():]+)\): (?P<device>{_DEVICE})"
    rf"|Executing op (?P<eager>\S+) in device (?P<eager_device>{_DEVICE}))\r?\n?",
    re.ASCII,
)
_TWIN = re.compile(_PREFIX, re.ASCII)
_HEADER = re.compile(rf"(?:{_PREFIX})?(?:Device mapping:(?: no known devices\.)?\s*|{_DEVICE} -> \S.*)", re.ASCII)


def parse_line(line: str) -> PlacementRecord | EagerRecord | None:
    """Read one clean line that TensorFlow 2.16 or newer wrote, on standard output or behind its log prefix.

    Parameters
    ----------
    line : str
        One line, with or without its line end.

    Returns
    -------
    PlacementRecord, EagerRecord or None
        ``None`` for any other line, also one that only looks similar.

    Examples
    --------
    >>> parse_line("soft: (Softmax): /job:localhost/replica:0/task:0/device:CPU:0")
    PlacementRecord(name='soft', op='Softmax', device='/job:localhost/replica:0/task:0/device:CPU:0')
    >>> parse_line("I0000 00:00:1796107846.110377    4418 execute.cc:1775] Executing op MatMul in device "
    ...            "/job:localhost/replica:0/task:0/device:GPU:0")
    EagerRecord(op='MatMul', device='/job:localhost/replica:0/task:0/device:GPU:0')
    >>> parse_line("accuracy: (mean) 0.9") is None
    True
    """
    if "/device:" not in line:
        return None
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    if match["name"] is not None:
        return PlacementRecord(match["name"], match["op"], match["device"])
    return EagerRecord(match["eager"], match["eager_device"])


def is_twin(line: str) -> bool:
    """Tell whether a line is behind TensorFlow's log prefix, as the copy on standard error is.

    Examples
    --------
    >>> is_twin("I0000 00:00:1796107846.110377    4418 placer.cc:162] a: (Const): /job:x/replica:0/task:0/device:CPU:0")
    True
    >>> is_twin("a: (Const): /job:x/replica:0/task:0/device:CPU:0")
    False
    """
    return _TWIN.match(line) is not None


def is_log_header(line: str) -> bool:
    """Tell whether a line belongs to the placement log but tells of no operation: the table of devices.

    Examples
    --------
    >>> is_log_header("Device mapping: no known devices.")
    True
    >>> is_log_header("/job:localhost/replica:0/task:0/device:GPU:0 -> device: 0, name: Tesla T4, "
    ...               "pci bus id: 0000:00:05.0, compute capability: 7.5")
    True
    >>> is_log_header("Device mapping is done")
    False
    """
    if "Device mapping:" not in line and " -> " not in line:
        return False
    return _HEADER.fullmatch(line.rstrip("\r\n")) is not None
