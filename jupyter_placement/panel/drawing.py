"""A view as plotly traces: always the same traces, so that a click moves points instead of making a new figure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from jupyter_placement.colors import DeviceStyle, unplaced_style
from jupyter_placement.layout import Box, Link, ScopeTree, View
from jupyter_placement.panel.detail import link_hover, node_hover, scope_hover
from jupyter_placement.panel.style import CARD, EDGE, FRAME, INK, QUIET, rgb
from jupyter_placement.report.picture import cut
from jupyter_placement.summary import plural

MARGIN = 14.0
TRANSFER = "#D81B60"
_TARGET_GAP = 40.0
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
Points = dict[str, list[Any]]


@dataclass
class Targets:
    """What can be pointed at: for each point its text, and the box or line that it stands for."""

    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    what: list[Box | Link] = field(default_factory=list)

    def find(self, index: int, x: float, y: float) -> Box | Link | None:
        """Return what was clicked; ``None`` when the click belongs to a view that is no longer shown."""
        if 0 <= index < len(self.what) and abs(self.x[index] - x) < 0.5 and abs(self.y[index] - y) < 0.5:
            return self.what[index]
        return None

    def add(self, x: float, y: float, text: str, what: Box | Link) -> None:
        """Add a point."""
        self.x.append(x)
        self.y.append(y)
        self.text.append(text)
        self.what.append(what)


def empty_figure(styles: dict[str, DeviceStyle]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Make the traces, without points, and the layout of a figure for these devices."""
    traces = [
        _area("frames", "rgba(128, 128, 128, 0.10)", rgb(FRAME)),
        _lines("chosen edges", "rgba(31, 111, 235, 0.55)", 6, "solid"),
        _lines("control", rgb(EDGE), 1, "dot"),
        _lines("host", rgb(EDGE), 1.2, "10px,4px"),
        _lines("edges", rgb(EDGE), 1.2, "solid"),
        _lines("transfers", TRANSFER, 2.4, "6px,3px"),
        _area("scopes", rgb(CARD), rgb(FRAME)),
    ]
    for name, style in _with_unplaced(styles):
        traces.append(_area(f"nodes {name}", style.fill, rgb(FRAME)))
        host = _area(f"host {name}", "rgba(0,0,0,0)", style.text)
        host["line"]["dash"] = "3px,2px"
        traces.append(host)
        stripes = _area(f"stripes {name}", style.fill, style.fill)
        stripes["line"]["width"] = 0
        if style.pattern:
            stripes["fillpattern"] = {
                "shape": style.pattern,
                "fgcolor": style.text,
                "bgcolor": style.fill,
                "fgopacity": 0.6,
                "size": 6,
                "solidity": 0.25,
            }
        traces.append(stripes)
    chosen = _area("chosen", "rgba(0,0,0,0)", "#1f6feb")
    chosen["line"]["width"] = 3
    traces.append(chosen)
    label = {"mode": "text", "hoverinfo": "skip", "x": [], "y": [], "text": [], "type": "scatter", "cliponaxis": False}
    small = {"size": 10, "family": _FONT}
    traces += [
        {**label, "name": "scope labels", "textfont": {"color": rgb(INK), "size": 12, "family": _FONT, "weight": 600}},
        {**label, "name": "scope sizes", "textfont": {"color": rgb(QUIET), **small}},
        {**label, "name": "node labels", "textfont": {"size": 12, "family": _FONT}},
        {**label, "name": "node devices", "textfont": {**small}},
        {**label, "name": "transfer labels", "textfont": {"color": TRANSFER, **small}, "textposition": "middle right"},
        {
            "name": "targets",
            "type": "scatter",
            "mode": "markers",
            "marker": {"size": 26, "opacity": 0, "symbol": "square", "color": "#888888"},
            "hovertemplate": "%{hovertext}<extra></extra>",
            "hoverlabel": {"align": "left", "bgcolor": "#24292f", "bordercolor": "#57606a"}
            | {"font": {"color": "#f6f8fa", "size": 12, "family": _FONT}},
            "x": [],
            "y": [],
            "hovertext": [],
        },
    ]
    axis = {"visible": False, "fixedrange": True, "showgrid": False, "zeroline": False}
    figure = {
        "showlegend": False,
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0, "pad": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "hoverdistance": 24,
        "dragmode": False,
        "xaxis": dict(axis),
        "yaxis": dict(axis),
        "modebar": {"remove": ["zoom", "pan", "select", "lasso", "zoomIn", "zoomOut", "autoScale", "resetScale"]},
    }
    return traces, figure


def drawn_view(
    tree: ScopeTree, view: View, styles: dict[str, DeviceStyle], chosen: str | None, marked: Collection[str] = ()
) -> tuple[dict[str, Points], dict[str, Any], Targets]:
    """Return the points of each trace by its name, the layout that changes, and what can be pointed at."""
    points: dict[str, Points] = {}
    targets = Targets()

    def to(name: str) -> Points:
        return points.setdefault(name, {"x": [], "y": [], "text": [], "color": [], "size": []})

    for box in view.boxes:
        if box.opened:
            _add_frame(to, box)
        elif box.kind == "node":
            _add_node(to, box, styles)
        else:
            _add_scope(to, box)
        _add_targets(targets, tree, box)
    chosen_box = next((at for at, box in enumerate(view.boxes) if box.key == chosen), None)
    for link in view.links:
        moved = link.totals.transfers
        _add_line(to(link.kind), link)
        if chosen_box is not None and chosen_box in (link.source, link.target):
            _add_line(to("chosen edges"), link)
        x, y = _label_point(link)
        if moved:
            _add_text(to("transfer labels"), x, y, f" {moved:,}")
        targets.add(x, y, link_hover(tree, view, link), link)
    width, height = view.width + 2 * MARGIN, view.height + 2 * MARGIN
    if chosen_box is not None:
        box = view.boxes[chosen_box]
        _add_area(to("chosen"), box.x - 3, box.y - 3, box.width + 6, box.height + 6)
    for box in view.boxes:
        if box.key in marked and not box.opened and box.key != chosen:
            _add_area(to("chosen"), box.x - 3, box.y - 3, box.width + 6, box.height + 6)
    layout = {
        "width": width,
        "height": height,
        "xaxis.range": [-MARGIN, view.width + MARGIN],
        "yaxis.range": [view.height + MARGIN, -MARGIN],
    }
    return points, layout, targets


def trace_values(trace: dict[str, Any], points: Points | None, targets: Targets) -> dict[str, Any]:
    """Return all that changes of a trace from view to view; ``None`` for what this one does not have."""
    values: dict[str, Any] = dict.fromkeys(("x", "y", "text", "hovertext", "textfont.color", "marker.size"))
    if trace["name"] == "targets":
        size = trace["marker"]["size"]
        return {**values, "x": targets.x, "y": targets.y, "hovertext": targets.text, "marker.size": size}
    points = points or {"x": [], "y": [], "text": [], "color": [], "size": []}
    values |= {"x": points["x"], "y": points["y"]}
    if trace["mode"] == "text":
        values |= {"text": points["text"], "textfont.color": trace["textfont"].get("color", points["color"])}
    elif trace["mode"] == "lines+markers":
        values["marker.size"] = points["size"]
    return values


def _label_point(link: Link) -> tuple[float, float]:
    """Where a line is pointed at and labelled: in its middle; near its start when it runs along a lane."""
    if len(link.points) <= 11:
        return link.points[len(link.points) // 2]
    (x0, y0), (x1, y1) = link.points[10], link.points[11]
    return (x0 + x1) / 2, (y0 + y1) / 2


def _with_unplaced(styles: dict[str, DeviceStyle]) -> list[tuple[str | None, DeviceStyle]]:
    return [*styles.items(), (None, unplaced_style())]


def _area(name: str, fill: str, line: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "scatter",
        "mode": "lines",
        "fill": "toself",
        "fillcolor": fill,
        "line": {"color": line, "width": 1},
        "hoverinfo": "skip",
        "x": [],
        "y": [],
    }


def _lines(name: str, color: str, width: float, dash: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "scatter",
        "mode": "lines+markers",
        "line": {"color": color, "width": width, "dash": dash},
        "marker": {
            "symbol": "arrow",
            "angleref": "previous",
            "color": color,
            "size": [],
            "opacity": 1,
            "line": {"width": 0},
        },
        "hoverinfo": "skip",
        "x": [],
        "y": [],
    }


def _add_area(points: Points, x: float, y: float, width: float, height: float) -> None:
    points["x"] += [x, x + width, x + width, x, x, None]
    points["y"] += [y, y, y + height, y + height, y, None]


def _add_line(points: Points, link: Link) -> None:
    points["x"] += [x for x, _ in link.points] + [None]
    points["y"] += [y for _, y in link.points] + [None]
    points["size"] += [0] * (len(link.points) - 1) + [9, 0]


def _add_text(points: Points, x: float, y: float, text: str, color: str = "") -> None:
    points["x"].append(x)
    points["y"].append(y)
    # plotly takes tags in texts; a name is no tag.
    points["text"].append(text.replace("&", "&amp;").replace("<", "&lt;"))
    points["color"].append(color)


def _add_frame(to: Any, box: Box) -> None:
    _add_area(to("frames"), box.x, box.y, box.width, box.height)
    label = cut(box.label, box.width - 90, 7.0)
    _add_text(to("scope labels"), box.x + box.width / 2, box.y + 13, f"▾ {label} · {plural(box.size, 'op')}")


def _add_node(to: Any, box: Box, styles: dict[str, DeviceStyle]) -> None:
    device = box.devices[0][0]
    style = unplaced_style() if device is None else styles[device]
    _add_area(to(f"nodes {device}"), box.x, box.y, box.width, box.height)
    if box.host:
        _add_area(to(f"host {device}"), box.x + 2.5, box.y + 2.5, box.width - 5, box.height - 5)
    middle, below = box.x + box.width / 2, cut(style.label + box.about_host, box.width - 12, 5.6)
    _add_text(to("node labels"), middle, box.y + 12, cut(box.label, box.width - 12), style.text)
    _add_text(to("node devices"), middle, box.y + 26, below, style.text)


def _add_scope(to: Any, box: Box) -> None:
    _add_area(to("scopes"), box.x, box.y, box.width, box.height)
    middle = box.x + box.width / 2
    _add_text(to("scope labels"), middle, box.y + 12, cut(box.label, box.width - 14, 7.2))
    size = cut(plural(box.size, "op") + box.about_host, box.width - 24, 5.6)
    _add_text(to("scope sizes"), middle, box.y + 26, f"▸ {size}")
    at = box.x
    for device, count in box.devices:
        share = box.width * count / box.size
        _add_area(to(f"stripes {device}"), at, box.y + box.height - 11, share, 11)
        at += share


def _add_targets(targets: Targets, tree: ScopeTree, box: Box) -> None:
    text = node_hover(tree, box.key) if box.kind == "node" else scope_hover(tree, box)
    number = max(1, round(box.width / _TARGET_GAP))
    heights: Iterable[float] = [box.y + 13] if box.opened else [box.y + box.height / 2]
    for y in heights:
        for at in range(number):
            targets.add(box.x + box.width * (at + 0.5) / number, y, text, box)
