"""The panel below a cell."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import ipywidgets

from jupyter_placement.explain import Rules
from jupyter_placement.layout import Box, Link
from jupyter_placement.memory import CardReading
from jupyter_placement.panel.bars import elapsed_text, memory_html
from jupyter_placement.panel.browser_side import BrowserSide
from jupyter_placement.panel.detail import link_html, node_html, scope_html, swatch
from jupyter_placement.panel.events import Entry, event_entries
from jupyter_placement.panel.findings import explanation_html, finding_entries
from jupyter_placement.panel.graph import PlacementGraph
from jupyter_placement.panel.memory_cards import holders_html
from jupyter_placement.panel.search_bar import SearchBar
from jupyter_placement.panel.style import style_sheet
from jupyter_placement.panel.timeline import TimelineBar
from jupyter_placement.placement import MemorySample, Placement
from jupyter_placement.report import static_bundle
from jupyter_placement.summary import fallbacks, imagined_machine, nothing_placed, plural, transfers
from jupyter_placement.sums import handed_over

_MARKED = 2000
_HINT = (
    '<div class="jpp-quiet">Click a scope to open or close it, an operation or a line to see what is known of it.</div>'
)


class PlacementPanel(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """An interactive view of one Placement; of memory alone, until :meth:`show` gives it one.

    Parameters
    ----------
    placement : Placement or None
        What to show; ``None`` while its cell still runs.

    Examples
    --------
    >>> panel = PlacementPanel()
    >>> panel.show(Placement())
    >>> panel.close()
    """

    def __init__(self, placement: Placement | None = None) -> None:
        self._lock = threading.RLock()
        self._closed = False
        self._graph: PlacementGraph | None = None
        self._placement: Placement | None = None
        self._rules: Rules | None = None
        self._samples: dict[str, MemorySample] = {}
        self._notes: list[str] = []
        self._cards: list[CardReading] = []
        self._elapsed: float | None = None
        self._head = ipywidgets.HTML("<b>Recording</b> where TensorFlow places each operation…")
        self._head.add_class("jpp-head")
        self._memory = ipywidgets.HTML()
        self._body = ipywidgets.VBox([])
        self._detail = ipywidgets.HTML(_HINT)
        self._browser = BrowserSide()
        self._timeline = TimelineBar()
        super().__init__(
            [ipywidgets.HTML(style_sheet()), self._browser, self._head, self._body, self._memory, self._timeline]
        )
        self.add_class("jupyter-placement-panel")
        if placement is not None:
            self.show(placement)

    @property
    def placement(self) -> Placement | None:
        """The Placement that is shown; ``None`` while its cell runs."""
        return self._placement

    def __repr__(self) -> str:
        # JupyterLab shows this where there is no kernel: widgets' own text would be their style sheet.
        return "<PlacementPanel: interactive while the kernel runs>"

    def _ipython_display_(self, **options: Any) -> None:
        """Show the panel, and with it what stays when the kernel is gone, if it has a Placement already."""
        from IPython.display import display

        display(self._repr_mimebundle_(**options), raw=True)
        if self._placement is not None:
            display(static_bundle(self._placement, below_panel=True), raw=True)

    def update_memory(
        self,
        readings: Iterable[MemorySample],
        elapsed: float | None = None,
        notes: Iterable[str] = (),
        cards: Sequence[CardReading] = (),
    ) -> None:
        """Move the memory bars; may be called on any thread.

        Parameters
        ----------
        readings : iterable of MemorySample
            New readings; a device that has none keeps its last one.
        elapsed : float or None
            Seconds since the cell began.
        notes : iterable of str
            Sentences to show below the bars, for example why no GPU is shown.
        cards : sequence of CardReading
            What each card holds by process, where it is known.
        """
        with self._lock:
            if self._closed:
                return
            self._samples.update((sample.device, sample) for sample in readings)
            self._notes = list(notes)
            if elapsed is not None:
                self._elapsed = elapsed
                if self._placement is None:
                    self._head.value = (
                        f"<b>Recording</b> where TensorFlow places each operation… {elapsed_text(elapsed)}"
                    )
            self._cards = list(cards) or self._cards
            self._memory.value = self._memory_now()

    def show(self, placement: Placement) -> None:
        """Show a Placement, in the place of the one before."""
        with self._lock:
            if self._closed:
                return
            self._placement = placement
            if self._graph is not None:
                self._graph.close()
                self._graph = None
            if not self._samples:
                self._samples = {sample.device: sample for sample in placement.memory}
            self._memory.value = self._memory_now()
            self._timeline.show(placement)
            self._rules = Rules(placement)
            events = [
                *self._entry_list("Events", event_entries(placement)),
                *self._entry_list("Findings", finding_entries(placement, self._rules)),
            ]
            if not placement.graph:
                self._head.value = escape(nothing_placed(placement))
                self._body.children = [*events, self._detail] if events else []
                self._detail.value = ""
                return
            self._graph = PlacementGraph(placement, self._chosen)
            self._note = ipywidgets.HTML()
            self._detail.value = _HINT
            self._head.value = self._headline(placement)
            aside = ipywidgets.VBox(
                [self._detail], layout={"flex": "1 1 230px", "min_width": "0", "max_height": "600px"}
            )
            aside.layout.overflow = "auto"
            aside.add_class("jpp-detail")
            self._graph.widget.layout.flex = "1 1 590px"
            self._graph.widget.layout.min_width = "0"
            both = ipywidgets.HBox([self._graph.widget, aside], layout={"flex_flow": "row wrap", "grid_gap": "12px"})
            self._body.children = [ipywidgets.HTML(self._legend()), self._search(placement), both, self._note, *events]
            self._tell_limits()

    def _memory_now(self) -> str:
        if self._cards:
            return holders_html(list(self._samples.values()), self._cards, notes=self._notes)
        return memory_html(self._samples.values(), self._notes, self._placement)

    def select(self, node: str) -> None:
        """Choose an operation: open the scopes that hold it, mark it, show what is known of it.

        Parameters
        ----------
        node : str
            Its id in ``placement.graph``.

        Raises
        ------
        KeyError
            When the Placement has no such operation, or none is shown yet.
        """
        with self._lock:
            if self._graph is None:
                raise KeyError(node)
            self._reveal(self._graph, node)

    def close(self) -> None:
        """Close the panel and all that belongs to it."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._graph is not None:
                self._graph.close()
            for widget in (*self._body.children, *self.children):
                widget.close()
        super().close()

    def _reveal(self, graph: PlacementGraph, node: str, others: Iterable[str] = ()) -> None:
        box = graph.reveal(node, others)
        self._chosen(box)
        self._browser.sight = [box.x + box.width / 2, box.y + box.height / 2]

    def _chosen(self, what: Box | Link) -> None:
        graph = self._graph
        if graph is None:
            return
        if isinstance(what, Link):
            self._detail.value = link_html(graph.tree, graph.view, what)
        elif what.kind == "node":
            assert self._rules is not None
            self._detail.value = explanation_html(self._rules, what.key) + node_html(graph.tree, what.key, graph.styles)
        else:
            self._detail.value = scope_html(graph.tree, what.key, graph.styles)
        self._tell_limits()

    def _tell_limits(self) -> None:
        assert self._graph is not None
        view, said = self._graph.view, []
        if view.closed:
            said.append(f"Closed to make room: {', '.join(view.closed[:4])}.")
        if view.hidden_links:
            said.append(f"{plural(view.hidden_links, 'line')} of the fewest tensors left out.")
        self._note.value = f'<div class="jpp-quiet">{escape(" ".join(said))}</div>' if said else ""

    def _headline(self, placement: Placement) -> str:
        facts = [
            f"<b>{plural(placement.graph.number_of_nodes(), 'operation')}</b> on "
            f"<b>{plural(len(placement.device_counts()), 'device')}</b>"
        ]
        moved = sum(pair.tensors for pair in transfers(placement))
        wrong = sum(len(group.nodes) for group in fallbacks(placement))
        where = imagined_machine(placement)
        facts += [escape(where)] if where else []
        facts.append(f"{plural(moved, 'tensor')} moved between devices" if moved else "no transfers")
        if wrong:
            facts.append(f"{wrong:,} not on the device that they asked for")
        if placement.counts.unmatched:
            facts.append(f"{plural(placement.counts.unmatched, 'placement line')} without an operation")
        if self._elapsed is not None:
            facts.append(f"ran {elapsed_text(self._elapsed)}")
        return " · ".join(facts)

    def _legend(self) -> str:
        assert self._graph is not None and self._placement is not None
        counts = self._placement.device_counts()
        entries = [
            f'<span>{swatch(style)}<b>{escape(style.label)}</b> <span class="jpp-quiet">'
            f"{plural(counts[name], 'operation') if name in counts else 'unused'}</span></span>"
            for name, style in self._graph.styles.items()
        ]
        unplaced = self._placement.graph.number_of_nodes() - sum(counts.values())
        if unplaced:
            entries.append(
                f'<span><span class="jpp-swatch" style="background:#fff"></span>never placed {unplaced:,}</span>'
            )
        entries.append('<span><span class="jpp-transfer"></span>transfer</span>')
        if self._graph.tree.host:
            host = plural(len(self._graph.tree.host), "operation")
            entries.append(f'<span><span class="jpp-host"></span>values in host memory, {host}</span>')
        if handed_over(self._placement):
            entries.append('<span><span class="jpp-handed"></span>stays in host memory, nothing is copied</span>')
        return f'<div class="jpp-legend">{"".join(entries)}</div>'

    def _search(self, placement: Placement) -> SearchBar:
        names = [(node, str(data["name"])) for node, data in placement.graph.nodes(data=True)]

        def collapse() -> None:
            with self._lock:
                if self._graph is not None:
                    self._graph.collapse()
                    self._detail.value = _HINT
                    self._tell_limits()

        return SearchBar(names, self.select, collapse)

    def _entry_list(self, title: str, entries: list[Entry]) -> list[Any]:
        if not entries:
            return []
        chooser = ipywidgets.Select(
            options=[(entry.title, number) for number, entry in enumerate(entries)],
            value=None,
            rows=min(max(len(entries), 2), 6),
            layout={"width": "calc(100% - 4px)"},
        )

        def picked(change: dict[str, Any]) -> None:
            if change["new"] is None:
                return
            entry = entries[change["new"]]
            if self._graph is not None and entry.nodes:
                self._reveal(self._graph, entry.nodes[0], entry.nodes[:_MARKED])
            self._detail.value = entry.html

        chooser.observe(picked, "value")
        return [ipywidgets.HTML(f"<b>{title}</b> ({len(entries):,})"), chooser]
