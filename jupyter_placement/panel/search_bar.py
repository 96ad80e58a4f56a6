"""The row in which operations are looked for by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

from jupyter_placement.panel.search import find_nodes
from jupyter_placement.summary import plural

_LONGEST = 60


class SearchBar(ipywidgets.HBox):  # type: ignore[misc]  # ipywidgets has no types
    """A field for a part of a name, the list of operations that have it, and a button that closes all scopes.

    Parameters
    ----------
    names : list of (str, str)
        Id and name of each operation.
    select : callable
        Called with the id of the operation that was found or picked.
    collapse : callable
        Called when all scopes are to be closed.
    """

    def __init__(
        self, names: list[tuple[str, str]], select: Callable[[str], None], collapse: Callable[[], None]
    ) -> None:
        self._names = names
        self._select = select
        self.field = ipywidgets.Text(
            placeholder="Find an operation by name…", continuous_update=False, layout={"width": "280px"}
        )
        self.matches = ipywidgets.Dropdown(options=[], layout={"width": "300px", "display": "none"})
        self.told = ipywidgets.HTML()
        self.button = ipywidgets.Button(description="Collapse all", layout={"width": "110px"})
        self.field.observe(self._searched, "value")
        self.matches.observe(self._picked, "value")
        self.button.on_click(lambda _button: collapse())
        super().__init__([self.field, self.matches, self.told, self.button], layout={"flex_flow": "row wrap"})

    def _searched(self, change: dict[str, Any]) -> None:
        found, total = find_nodes(self._names, change["new"])
        self.matches.index = None  # so that the first match counts as picked even when it is the one from before
        self.matches.options = [(node if len(node) <= _LONGEST else f"…{node[-_LONGEST:]}", node) for node in found]
        self.matches.layout.display = "" if len(found) > 1 else "none"
        if not change["new"].strip():
            self.told.value = ""
        elif found:
            more = f", the first {len(found)} listed" if total > len(found) else ""
            self.told.value = plural(total, "operation") + more
            self.matches.index = 0
        else:
            self.told.value = "no operation has this in its name"

    def _picked(self, change: dict[str, Any]) -> None:
        if change["new"]:
            self._select(change["new"])
