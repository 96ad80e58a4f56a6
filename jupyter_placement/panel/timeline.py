"""The time line of a run's memory, below a panel, drawn when it is asked for."""

from __future__ import annotations

from typing import Any

import ipywidgets

from jupyter_placement.panel.memory_timeline import memory_timeline
from jupyter_placement.placement import Placement


class TimelineBar(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A button that opens and closes the time line.

    Each plotly figure widget brings its own copy of plotly.js (5 MB), so there is none before the button is pressed.
    """

    def __init__(self) -> None:
        self._button = ipywidgets.ToggleButton(
            description="Memory over time", tooltip="Memory of each device during the run, with its steps"
        )
        self._placement: Placement | None = None
        self._figure: Any = None
        self._button.observe(self._pressed, "value")
        super().__init__([])

    def show(self, placement: Placement) -> None:
        """Offer the time line of a Placement, if it has one."""
        self._forget()
        self._placement = placement
        self._button.value = False
        self.children = [self._button] if placement.memory else []

    def close(self) -> None:
        """Close the button and the figure."""
        self._forget()
        self._button.close()
        super().close()

    def _pressed(self, change: dict[str, Any]) -> None:
        if change["new"] and self._placement is not None:
            import plotly.graph_objects as go  # 0.6 s, and only this figure needs it here

            self._figure = go.FigureWidget(memory_timeline(self._placement))
            self.children = [self._button, self._figure]
        elif self._figure is not None:
            self.children = [self._button]
            self._forget()

    def _forget(self) -> None:
        if self._figure is not None:
            self._figure.close()
            self._figure = None
