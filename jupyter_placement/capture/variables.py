"""Names of the variables that a function takes: its graph calls them by their place among the arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def variables_of(graph: Any, arguments: Iterable[Any]) -> dict[str, str]:
    """Return the name of the variable that each argument is, by the argument's name.

    Parameters
    ----------
    graph : FuncGraph
        The function's graph.
    arguments : iterable of OpDef.ArgDef
        The arguments of its signature, in the order of ``graph.inputs``.
    """
    try:
        variables = graph.variables
    except (AssertionError, ReferenceError):  # a variable is gone that the function had: seen on 2.21
        return {}
    names = {}
    for variable in variables:
        try:
            names[id(variable.handle)] = str(variable.name).partition(":")[0]
        except (AttributeError, ValueError):  # one of a strategy, which has a handle for each replica
            continue
    given = {id(internal): external for external, internal in graph.captures}
    found = {}
    for argument, tensor in zip(arguments, graph.inputs, strict=False):
        name = names.get(id(given.get(id(tensor))))
        if name:
            found[argument.name] = name
    return found
