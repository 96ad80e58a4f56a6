"""What TensorFlow says when it cannot place a graph as asked: errors and the colocation warning.

The texts are those of ``placer.cc``, ``colocation_graph.cc`` and ``op_kernel.cc``, TensorFlow 0.5 to 2.21.
"""

from __future__ import annotations

import re
from typing import Any

from jupyter_placement.log.records import EventRecord
from jupyter_placement.log.shapes import find_devices

CHANGED = "Failed to place the graph without changing the devices of some resources"
TRIGGERS = (
    "Cannot assign a device ",
    "Could not satisfy explicit device specification",
    "was explicitly assigned to",
    "No OpKernel was registered to support Op",
    "Cannot colocate nodes",
    "Ignoring device specification",
    CHANGED,
)

# `{{node x}}`, `{{colocation_node x}}`, `node x (defined at f.py:1)`, `'x'`, `x`: all name a node.
_NAMED = r"(?:\{\{(?:colocation_|function_)?node ([^{}\n]+?)\}\}|'([^'\n]+)'|(?:node )?([^\s:'{}]+))"
_ASSIGN = re.compile(rf"Cannot assign a device (?:for operation|to node) {_NAMED}(?=[:\s]|$)")
_EXPLICIT = re.compile(r"Could not satisfy explicit device specification '([^'\n]*)'")
_UNKNOWN = re.compile(r"was explicitly assigned to (\S*) but available devices are \[([^\]\n]*)")
_UNMATCHED = re.compile(r"because no devices matching that specification are registered in this process; ")
_AVAILABLE = re.compile(r"[Aa]vailable devices:? ?\[?([^\]\n]*)")
_COLOCATED = re.compile(
    rf"because the node (?:{_NAMED}.{{0,600}}? )?was colocated with a group of nodes "
    r"that required incompatible device '",
    re.DOTALL,
)
_COLOCATE = re.compile(rf"Cannot colocate nodes {_NAMED}.{{0,600}}? and {_NAMED}", re.DOTALL)
_NO_OPKERNEL = re.compile(r"No OpKernel was registered to support Op '([^'\n]+)'")
_USED_BY = re.compile(r"used by (?:\{\{node ([^{}\n]+)\}\}|([^\s,;:{}]+))")
_ATTRS = re.compile(r"\[\[(?:\{\{)?(?:[Nn]ode:? ?)?([^\s\[\]{}=]+)(?: = ([A-Za-z_]\w*)\[)?")
_OP = re.compile(r"^\s*Op: ([A-Za-z_]\w*)\s*$", re.MULTILINE)
_DEVICE_ATTR = re.compile(r'_device="([^"\n]*)"')
_KERNEL = re.compile(r"^[ \t]*device='([^'\n]+)'(?:; ([^\n\r]*?))?\s*$", re.MULTILINE)
_SUPPORTED = re.compile(r"^\s*([A-Za-z_]\w*): ((?:[A-Z][A-Z_0-9]*[ \t\r]*)+)$", re.MULTILINE)
_GROUP = re.compile(r"Colocation group had the following types and (?:supported )?devices:")
_MEMBERS = re.compile(r"Colocation members[^\n]*:[ \t\r]*\n")
_MEMBER = re.compile(r"[ \t]*(\S+) \(([A-Za-z_]\w*)\)[ \t]*(\S*)")
_CANDIDATES = re.compile(r"Current candidate devices are \[([^\]]*)\]")
_ROOT = re.compile(r"requested_device_name_='([^'\n]*)'")
_IGNORED = re.compile(
    r"Ignoring device specification (\S+) for node '([^'\n]+)' because the input edge from '([^'\n]+)' is a reference "
    r"connection and already has a device field set to ([^\s'\"]+)"
)
_MERGE = re.compile(r"with incompatible [^:\n]*: '([^'\n]*)' and '([^'\n]*)'")


def parse_placement_error(text: str) -> EventRecord | None:
    """Read an error or warning about placement, one telling of it.

    Parameters
    ----------
    text : str
        The whole text, all its lines; what stands before the first word of the telling does not matter.

    Returns
    -------
    EventRecord or None
        Of kind ``no_kernel``, ``unknown_device``, ``cannot_colocate``, ``colocation_changed`` or ``device_ignored``;
        ``None`` when the text tells of none of these.

    Examples
    --------
    >>> event = parse_placement_error(
    ...     "Cannot assign a device for operation gg: {{node gg}} was explicitly assigned to /device:GPU:0 but "
    ...     "available devices are [ /job:localhost/replica:0/task:0/device:CPU:0 ]. Make sure the device "
    ...     "specification refers to a valid device.")
    >>> event.kind, event.node, event.details["requested"]
    ('unknown_device', 'gg', '/device:GPU:0')
    >>> event.details["available"]
    ['/job:localhost/replica:0/task:0/device:CPU:0']
    """
    if not any(trigger in text for trigger in TRIGGERS):
        return None
    if ignored := _IGNORED.search(text):
        facts = {"requested": ignored[1], "kept": ignored[4], "because": ignored[3]}
        return EventRecord("device_ignored", ignored[2], facts, (ignored.string.strip(),))
    assign = _ASSIGN.search(text)
    node = _first(assign)
    kind, details = _kind_and_details(text)
    if kind is None:
        return None
    if kind in ("no_kernel", "cannot_colocate", "unknown_device"):
        attrs = _ATTRS.search(text, assign.end() if assign else 0)
        if node is None:
            node = details.pop("node", None) or (attrs[1] if attrs else None)
        details.pop("node", None)
        op = _OP.search(text)
        if "op" not in details and (op or (attrs and attrs[2] and attrs[1] == node)):
            details = {"op": op[1] if op else attrs[2] if attrs else None, **details}
    else:
        details.pop("node", None)
    details.update(_debug_info(text))
    if kind == "colocation_changed":
        members = details.get("members", [])
        asked = {member["requested"] for member in members if member["requested"]}
        root = _ROOT.search(text)
        requested = root[1] if root and root[1] else next(iter(asked)) if len(asked) == 1 else None
        if requested is not None:
            details = {"requested": requested, **details}
        node = next((one["name"] for one in members if one["requested"]), members[0]["name"] if members else None)
    return EventRecord(kind, node, details, tuple(line for line in text.splitlines() if line.strip()))


def _first(match: re.Match[str] | None, start: int = 1) -> str | None:
    """Take the group that took part among the three of ``_NAMED``."""
    if match is None:
        return None
    return next((one for one in match.groups()[start - 1 : start + 2] if one is not None), None)


def _kind_and_details(text: str) -> tuple[str | None, dict[str, Any]]:
    if CHANGED in text:
        match = _CANDIDATES.search(text)
        return "colocation_changed", {"candidates": find_devices(match[1]) if match else []}
    if match := _UNKNOWN.search(text):
        return "unknown_device", {"requested": match[1], "available": find_devices(match[2])}
    if match := _COLOCATE.search(text):
        details: dict[str, Any] = {"node": _first(match), "with": _first(match, 4)}
        if merge := _MERGE.search(text):
            details["requested"] = [merge[1], merge[2]]
        return "cannot_colocate", details
    if match := _EXPLICIT.search(text):
        requested = match[1]
        if _UNMATCHED.search(text):
            available = _AVAILABLE.search(text, match.end())
            return "unknown_device", {
                "requested": requested,
                "available": find_devices(available[1]) if available else [],
            }
        if colocated := _COLOCATED.search(text):
            wanted = text[colocated.end() :].split("'", 1)[0]
            details = {"node": _first(colocated), "requested": requested, "required": wanted}
            available = _AVAILABLE.search(text, colocated.end())
            return "cannot_colocate", {**details, **({"available": find_devices(available[1])} if available else {})}
        return "no_kernel", {"requested": requested, **_kernels(text)}
    if match := _NO_OPKERNEL.search(text):
        used = _USED_BY.search(text, match.end())
        node = next((one for one in used.groups() if one), None) if used else None
        asked = _DEVICE_ATTR.search(text)
        requested_ = {"requested": asked[1]} if asked and asked[1] else {}
        return "no_kernel", {"node": node, "op": match[1], **requested_, **_kernels(text)}
    return None, {}


def _kernels(text: str) -> dict[str, Any]:
    found = [{"device": match[1], "constraint": match[2] or ""} for match in _KERNEL.finditer(text)]
    return {"kernels": found} if found else {}


def _debug_info(text: str) -> dict[str, Any]:
    """Read "Colocation Debug Info": the device types of each operation type, and the members of the group."""
    details: dict[str, Any] = {}
    members = _MEMBERS.search(text)
    if group := _GROUP.search(text):
        end = members.start() if members else len(text)
        supported = {match[1]: match[2].split() for match in _SUPPORTED.finditer(text, group.end(), end)}
        if supported:
            details["supported"] = supported
    if members:
        found = []
        for line in text[members.end() :].splitlines():
            match = _MEMBER.match(line)
            if match is None:
                break
            found.append({"name": match[1], "op": match[2], "requested": match[3] if match[3].startswith("/") else ""})
        details["members"] = found
    return details
