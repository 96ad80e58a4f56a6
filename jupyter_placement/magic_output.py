"""What a recorded cell shows: the live panel, the output that stays, or text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jupyter_placement.placement import MemorySample, Placement, PlacementError

if TYPE_CHECKING:
    from jupyter_placement.memory import CardReading


class Output:
    """The output of one recorded cell.

    Parameters
    ----------
    shell : InteractiveShell
        A terminal has no display but text.
    live : bool
        Whether a panel is shown while the cell runs.
    text : bool
        Whether only text is shown.

    Attributes
    ----------
    cards : callable
        Returns what each card held at the last memory sample.
    """

    def __init__(self, shell: Any, *, live: bool, text: bool) -> None:
        self._text = text or not hasattr(shell, "kernel")
        self._live = live and not self._text
        self._panel: Any = None
        self.cards: Callable[[], Sequence[CardReading]] = lambda: ()

    def begin(self) -> None:
        """Show the panel, before the cell runs."""
        if self._live:
            from IPython.display import display

            from jupyter_placement.panel import PlacementPanel

            self._panel = PlacementPanel()
            display(self._panel)

    def memory(self, samples: list[MemorySample], elapsed: float, notes: list[str]) -> None:
        """Move the panel's bars; called on the sampler's thread."""
        if self._panel is not None:
            self._panel.update_memory(samples, elapsed, notes, self.cards())

    def close(self) -> None:
        """Free the panel."""
        if self._panel is not None:
            self._panel.close()
            self._panel = None

    def end(self, placement: Placement) -> None:
        """Show what was found."""
        if self._text:
            print(placement.summary())
            return
        from IPython.display import display

        from jupyter_placement.report import static_bundle

        if self._panel is not None:
            self._panel.show(placement)
        display(static_bundle(placement, below_panel=self._panel is not None), raw=True)

    def table(self, result: Any) -> None:
        """Show a table that knows its text and its HTML: machines side by side, or an estimate."""
        if self._text:
            print(result)
            return
        from IPython.display import display

        display(result)

    def save(self, placement: Placement, path: str) -> None:
        """Save the Placement, and say where it is or why not."""
        try:
            print(f"The placement is in {placement.save(path)}.")
        except PlacementError as error:
            print(error, file=sys.stderr)
