"""TensorFlow device names: parse, upgrade, compare and shorten them.

The rules are those of ``tensorflow/core/util/device_name_utils.cc``. The functions for ``tf.compat.v1.device`` are
reached from here too: ``variables_on``, ``round_robin``, ``by_scope``, ``balance_bytes``.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

LOCAL_TASK = "/job:localhost/replica:0/task:0"

_PART = re.compile(
    r"/?(?:job:(?P<job>[A-Za-z][A-Za-z0-9_]*)"
    r"|replica:(?P<replica>\d+|\*)"
    r"|task:(?P<task>\d+|\*)"
    r"|device:(?P<type>[A-Za-z][A-Za-z0-9_]*)(?::(?P<id>\d+|\*))?"
    r"|(?P<legacy>[cg]pu)(?::(?P<legacy_id>\d+|\*))?)",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"/job:([A-Za-z][A-Za-z0-9_]*)/replica:([0-9]+)/task:([0-9]+)/device:([A-Za-z][A-Za-z0-9_]*):([0-9]+)"
)


class DeviceSpec(NamedTuple):
    """The parts of a full or partial device name; ``None`` where a part is open.

    Attributes
    ----------
    job : str or None
        Job name, for example ``"localhost"`` or ``"worker"``.
    replica, task, id : int or None
        Replica, task, and number of the device among those of its type.
    type : str or None
        Device type in capitals, for example ``"GPU"``.
    """

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    type: str | None = None
    id: int | None = None


def parse_device(name: str) -> DeviceSpec | None:
    """Parse a device name as TensorFlow does, legacy forms included.

    Parameters
    ----------
    name : str
        A full name, a partial one, or ``""``.

    Returns
    -------
    DeviceSpec or None
        ``None`` when ``name`` is no device name.

    Examples
    --------
    >>> parse_device("/job:localhost/replica:0/task:0/device:GPU:1")
    DeviceSpec(job='localhost', replica=0, task=0, type='GPU', id=1)
    >>> parse_device("/gpu:0")
    DeviceSpec(job=None, replica=None, task=None, type='GPU', id=0)
    >>> parse_device("CPU:0")
    DeviceSpec(job=None, replica=None, task=None, type='CPU', id=0)
    >>> parse_device("no device") is None
    True
    """
    # Assigned devices are whole names, and a large graph asks for each of its nodes several times.
    whole = _WHOLE.fullmatch(name)
    if whole is not None:
        return DeviceSpec(whole[1], int(whole[2]), int(whole[3]), whole[4].upper(), int(whole[5]))
    if not name:
        return DeviceSpec()
    text = name
    if not text.startswith("/"):
        # tf.device("GPU:0") is accepted without the "/device:" that it means.
        text = "/" + text if re.match(r"(job|replica|task|device):", text, re.IGNORECASE) else "/device:" + text
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None or text[position] != "/":
            return None
        position = match.end()
        found.update({key: value for key, value in match.groupdict().items() if value is not None})

    def number(key: str) -> int | None:
        value = found.get(key)
        return None if value in (None, "*") else int(value)

    kind = found.get("type") or found.get("legacy")
    ident = number("id") if found.get("id") is not None else number("legacy_id")
    return DeviceSpec(found.get("job"), number("replica"), number("task"), kind.upper() if kind else None, ident)


def device_name(spec: DeviceSpec) -> str:
    """Write the parts of a device name in TensorFlow's canonical form.

    Examples
    --------
    >>> device_name(DeviceSpec("worker", 0, 1, "GPU", 0))
    '/job:worker/replica:0/task:1/device:GPU:0'
    >>> device_name(DeviceSpec(type="CPU"))
    '/device:CPU:*'
    """
    parts = []
    if spec.job is not None:
        parts.append(f"/job:{spec.job}")
    if spec.replica is not None:
        parts.append(f"/replica:{spec.replica}")
    if spec.task is not None:
        parts.append(f"/task:{spec.task}")
    if spec.type is not None:
        parts.append(f"/device:{spec.type}:{'*' if spec.id is None else spec.id}")
    return "".join(parts)


def full_device(name: str, task: str = LOCAL_TASK) -> str | None:
    """Complete a partial or legacy device name to a full one.

    Parameters
    ----------
    name : str
        A device name that has at least a type.
    task : str
        The job, replica and task that open parts are taken from.

    Returns
    -------
    str or None
        The full name; ``None`` when ``name`` has no device type.

    Examples
    --------
    >>> full_device("/gpu:0")
    '/job:localhost/replica:0/task:0/device:GPU:0'
    >>> full_device("/job:ps/task:1/cpu:0")
    '/job:ps/replica:0/task:1/device:CPU:0'
    """
    spec, base = parse_device(name), parse_device(task)
    if spec is None or spec.type is None or base is None:
        return None
    return device_name(
        DeviceSpec(
            spec.job if spec.job is not None else base.job,
            spec.replica if spec.replica is not None else base.replica,
            spec.task if spec.task is not None else base.task,
            spec.type,
            spec.id if spec.id is not None else 0,
        )
    )


def device_type(name: str) -> str | None:
    """Return the device type of a name, in capitals.

    Examples
    --------
    >>> device_type("/job:localhost/replica:0/task:0/device:GPU:1")
    'GPU'
    >>> device_type("") is None
    True
    """
    spec = parse_device(name)
    return None if spec is None else spec.type


def satisfies(assigned: str, requested: str) -> bool:
    """Tell whether an assigned device is one that a request allows.

    Parts that the request leaves open allow anything.

    Examples
    --------
    >>> satisfies("/job:localhost/replica:0/task:0/device:CPU:0", "/gpu:0")
    False
    >>> satisfies("/job:localhost/replica:0/task:0/device:GPU:1", "/device:GPU:*")
    True
    """
    have, want = parse_device(assigned), parse_device(requested)
    if have is None or want is None:
        return False
    return all(wanted is None or wanted == given for wanted, given in zip(want, have, strict=True))


def short_device(name: str, tasks: bool = False) -> str:
    """Write a device name for people.

    Parameters
    ----------
    name : str
        Full device name.
    tasks : bool
        Whether job and task must be told, because there is more than one.

    Examples
    --------
    >>> short_device("/job:localhost/replica:0/task:0/device:GPU:0")
    'GPU:0'
    >>> short_device("/job:worker/replica:0/task:1/device:GPU:0", tasks=True)
    'worker:1/GPU:0'
    """
    spec = parse_device(name)
    if spec is None or spec.type is None:
        return name
    short = spec.type if spec.id is None else f"{spec.type}:{spec.id}"
    if tasks and spec.job is not None:
        return f"{spec.job}:{spec.task or 0}/{short}"
    return short


def sort_key(name: str) -> tuple[str, int, int, bool, str, int]:
    """Order devices by task, then CPUs first, then type and number.

    Examples
    --------
    >>> sorted(["/device:GPU:10", "/device:GPU:2", "/device:CPU:0"], key=sort_key)
    ['/device:CPU:0', '/device:GPU:2', '/device:GPU:10']
    """
    spec = parse_device(name) or DeviceSpec()
    kind = spec.type or ""
    return (spec.job or "", spec.replica or 0, spec.task or 0, kind != "CPU", kind, spec.id or 0)


_FUNCTIONS = ("variables_on", "round_robin", "by_scope", "balance_bytes")


def __dir__() -> list[str]:
    return sorted({*globals(), *_FUNCTIONS})


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        from jupyter_placement import device_functions  # it needs this module

        return getattr(device_functions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
