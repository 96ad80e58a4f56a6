"""Check what claims to be the JSON form of a placement, and fill in what an older or shorter form leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXT, _MAYBE_TEXT, _MAYBE_SIZE = (str,), (str, type(None)), (int, type(None))
_NODE: dict[str, tuple[type, ...]] = {
    "name": _TEXT,
    "op": _MAYBE_TEXT,
    "device": _MAYBE_TEXT,
    "requested": _TEXT,
    "reason": _TEXT,
    "memory": _TEXT,
    "graph": _TEXT,
    "dtype": (str, list, type(None)),
    "shape": (list, type(None)),
    "source": (list, tuple, type(None)),
}
_EDGE: dict[str, tuple[type, ...]] = {
    "tensor": _MAYBE_TEXT,
    "bytes": _MAYBE_SIZE,
    "transfer": (bool,),
    "control": (bool,),
    "dtype": _MAYBE_TEXT,
    "shape": (list, type(None)),
}
_LISTS: dict[str, dict[str, tuple[type, ...]]] = {
    "devices": {
        "name": _TEXT,
        "physical_name": _MAYBE_TEXT,
        "pci_bus_id": _MAYBE_TEXT,
        "memory_limit": _MAYBE_SIZE,
        "nvml_index": _MAYBE_SIZE,
    },
    "events": {"kind": _TEXT, "message": _TEXT, "nodes": (list, tuple), "lines": (list, tuple), "details": (dict,)},
    "memory": {
        "time": (int, float),
        "device": _TEXT,
        "used": _MAYBE_SIZE,
        "total": _MAYBE_SIZE,
        "process": _MAYBE_SIZE,
        "peak": _MAYBE_SIZE,
    },
}


class MalformedError(ValueError):
    """Part of the JSON form is not what it must be; the message says which."""


def checked_json(data: Mapping[str, Any], node_defaults: Mapping[str, Any], edge_defaults: Mapping[str, Any]) -> Any:
    """Check the JSON form of a placement and complete its graph.

    Parameters
    ----------
    data : mapping
        The JSON form.
    node_defaults, edge_defaults : mapping
        What attributes are that are not there.

    Returns
    -------
    dict
        The graph, in networkx' node-link form.

    Raises
    ------
    MalformedError
        When something is missing or of the wrong type.
    KeyError, TypeError, AttributeError
        When the form is wrong altogether.

    Examples
    --------
    >>> from jupyter_placement.placement import EDGE_DEFAULTS, NODE_DEFAULTS
    >>> checked_json({"graph": {"nodes": [{"id": "a", "device": 5}], "edges": []}}, NODE_DEFAULTS, EDGE_DEFAULTS)
    Traceback (most recent call last):
    jupyter_placement.checking.MalformedError: device of node 'a' is 5
    """
    graph = data["graph"]
    nodes = [
        _checked({"name": node["id"], **node_defaults, **node}, _NODE, f"node {node['id']!r}")
        for node in graph["nodes"]
    ]
    ids = {node["id"] for node in nodes}
    edges = []
    for edge in graph["edges"]:
        where = f"edge {edge['source']!r} to {edge['target']!r}"
        if edge["source"] not in ids or edge["target"] not in ids:
            raise MalformedError(f"{where} joins a node that is not there")
        if not isinstance(edge["key"], int | str):
            raise MalformedError(f"key of {where} is {edge['key']!r}")
        edges.append(_checked({**edge_defaults, **edge}, _EDGE, where))
    for name, types in _LISTS.items():
        for number, item in enumerate(data.get(name, ())):
            _checked(item, types, f"number {number} of {name}", all_known=False)
            for field in ("nodes", "lines"):
                if not all(isinstance(text, str) for text in item.get(field, ())):
                    raise MalformedError(f"{field} of number {number} of {name} are not all text")
    if not isinstance(data.get("meta", {}), dict) or not all(isinstance(line, str) for line in data.get("log", ())):
        raise MalformedError("its meta or log is no such thing")
    return {"directed": True, "multigraph": True, "graph": graph.get("graph", {}), "nodes": nodes, "edges": edges}


def _checked(
    item: dict[str, Any], types: Mapping[str, tuple[type, ...]], where: str, all_known: bool = True
) -> dict[str, Any]:
    for name, allowed in types.items():
        if name not in item and not all_known:
            continue
        value = item[name]
        # bool is an int in Python, but no size.
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise MalformedError(f"{name} of {where} is {value!r}")
        if isinstance(value, str) and not _is_unicode(value):
            raise MalformedError(f"{name} of {where} holds what is no character")
    return item


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True
