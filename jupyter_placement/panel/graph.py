"""The graph of one Placement: a plotly figure in which scopes open and close."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets

from jupyter_placement.colors import device_colors
from jupyter_placement.layout import Box, Link, View, default_opened, layout, scope_tree
from jupyter_placement.panel.drawing import Targets, drawn_view, empty_figure, trace_values
from jupyter_placement.placement import Placement

WIDTH = 560.0


class PlacementGraph:
    """A figure of the scopes of a Placement, and what is open and chosen in it.

    Clicks may come on another thread than the one that runs cells: all changes are made under one lock.

    Parameters
    ----------
    placement : Placement
        What to draw; not empty.
    chosen : callable
        Called with what was chosen (a box or a line) after the figure has changed.
    """

    def __init__(self, placement: Placement, chosen: Callable[[Box | Link], None]) -> None:
        import plotly.graph_objects as go  # 0.6 s, and not needed for the panel of a cell that is still running

        self.tree = scope_tree(placement)
        self.styles = device_colors(placement.device_names())
        self._lock = threading.RLock()
        self._on_chosen = chosen
        self._opened = list(default_opened(self.tree))
        self._chosen: str | None = None
        self._marked: frozenset[str] = frozenset()
        self.view: View = layout(self.tree, self._opened, WIDTH)
        self._targets = Targets()
        self._traces, figure = empty_figure(self.styles)
        self.figure: Any = go.FigureWidget(data=self._traces, layout=figure)
        self._draw()
        self.figure.data[-1].on_click(self._clicked)
        self.widget = ipywidgets.Box([self.figure], layout={"overflow": "auto", "max_height": "600px"})
        self.widget.add_class("jpp-graph")

    def toggle(self, path: str) -> None:
        """Open a closed scope, close an open one with all that is open in it."""
        with self._lock:
            if path in self.view.opened:
                scope = self.tree.scopes[path]
                self._opened = [one for one in self._opened if scope not in self.tree.scopes[one].ancestors()]
            else:
                self._opened = [one for one in self._opened if one != path] + [path]
            self._chosen = path
            self._draw()

    def reveal(self, node: str, others: Iterable[str] = ()) -> Box:
        """Open the scopes that hold an operation, choose it, mark others or their closed scopes, and return its box.

        Raises
        ------
        KeyError
            When there is no such operation.
        """
        with self._lock:
            needed = self.tree.opened_for(node)
            self._opened = [one for one in self._opened if one not in needed] + needed
            self._chosen = node
            marked = [one for one in others if one in self.tree.placement.graph]
            self._marked = frozenset([*marked, *(path for one in marked for path in self.tree.opened_for(one))])
            self._draw()
            return next(box for box in self.view.boxes if box.kind == "node" and box.key == node)

    def collapse(self) -> None:
        """Close every scope."""
        with self._lock:
            self._opened = list(default_opened(self.tree))
            self._chosen = None
            self._marked = frozenset()
            self._draw()

    def close(self) -> None:
        """Free the figure, in the browser too."""
        self.figure.close()
        self.widget.close()

    def _clicked(self, _trace: Any, points: Any, _state: Any) -> None:
        with self._lock:
            if not points.point_inds:
                return
            what = self._targets.find(points.point_inds[0], points.xs[0], points.ys[0])
            if what is None:
                return
            if isinstance(what, Box):
                if what.kind == "node":
                    self._chosen = what.key
                    self._draw()
                else:
                    self.toggle(what.key)
            self._on_chosen(what)

    def _draw(self) -> None:
        self.view = layout(self.tree, self._opened, WIDTH)
        self._opened = [path for path in self._opened if path not in self.view.closed]
        points, changes, self._targets = drawn_view(self.tree, self.view, self.styles, self._chosen, self._marked)
        values = [trace_values(trace, points.get(trace["name"]), self._targets) for trace in self._traces]
        # Every trace is given every value. Seen on plotly 7.1: what batch_update leaves out reaches a figure that is
        # not on the page yet as a text, "_undefined_", in the place of the value that should stay.
        self.figure.plotly_update(
            restyle_data={key: [one[key] for one in values] for key in values[0]},
            relayout_data=changes,
            trace_indexes=list(range(len(values))),
        )
