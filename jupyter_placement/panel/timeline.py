"""The time lines of a run, below a panel, drawn when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

from jupyter_placement.panel.memory_timeline import memory_timeline
from jupyter_placement.panel.operation_timeline import has_times, operation_timeline, times_word
from jupyter_placement.placement import Placement


class TimelineBar(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Buttons that open and close the time line of memory, and that of the operations.

    Each plotly figure widget brings its own copy of plotly.js (5 MB), so there is none before a button is pressed.
    """

    def __init__(self) -> None:
        self._memory = _Drawer(
            "Memory over time", "Memory of each device during the run, with its steps", memory_timeline, self._arrange
        )
        self._operations = _Drawer(
            "Operations over time", "When each operation runs on its device", operation_timeline, self._arrange
        )
        super().__init__([])

    def show(self, placement: Placement) -> None:
        """Offer the time lines that a Placement has."""
        self._memory.show(placement if placement.memory else None)
        timed = has_times(placement)
        self._operations.name(f"Operations over time, {times_word(placement)}" if timed else "")
        self._operations.show(placement if timed else None)
        self._arrange()

    def close(self) -> None:
        """Close the buttons and the figures."""
        self._memory.close()
        self._operations.close()
        super().close()

    def _arrange(self) -> None:
        self.children = [*self._memory.widgets, *self._operations.widgets]


class _Drawer:
    """A button, and the figure that it opens."""

    def __init__(self, name: str, tooltip: str, draw: Callable[[Placement], Any], arrange: Callable[[], None]) -> None:
        self._button = ipywidgets.ToggleButton(
            description=name, tooltip=tooltip, layout={"width": "auto", "align_self": "flex-start"}
        )
        self._draw, self._arrange = draw, arrange
        self._placement: Placement | None = None
        self._figure: Any = None
        self._button.observe(self._pressed, "value")

    @property
    def widgets(self) -> list[Any]:
        """What is shown of it now."""
        if self._placement is None:
            return []
        return [self._button] if self._figure is None else [self._button, self._figure]

    def name(self, text: str) -> None:
        """Write something else on the button."""
        self._button.description = text

    def show(self, placement: Placement | None) -> None:
        """Offer the figure of a Placement; nothing for ``None``."""
        self._forget()
        self._placement = placement
        self._button.value = False

    def close(self) -> None:
        """Close the button and the figure."""
        self._forget()
        self._button.close()

    def _pressed(self, change: dict[str, Any]) -> None:
        if change["new"] and self._placement is not None:
            import plotly.graph_objects as go  # 0.6 s, and only this figure needs it here

            self._figure = go.FigureWidget(self._draw(self._placement))
            self._arrange()
        elif self._figure is not None:
            figure, self._figure = self._figure, None
            self._arrange()
            figure.close()

    def _forget(self) -> None:
        if self._figure is not None:
            self._figure.close()
            self._figure = None
