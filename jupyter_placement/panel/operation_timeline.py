"""A time line of the operations of a step, one row a device."""

from __future__ import annotations

from typing import Any

from jupyter_placement.colors import device_colors
from jupyter_placement.placement import Placement

# A figure of more bars is slow to draw; the shortest are left out, and that is said.
MOST = 1500
_UNITS = ((1.0, "seconds"), (1e-3, "milliseconds"), (1e-6, "microseconds"))


def has_times(placement: Placement) -> bool:
    """Tell whether it is known when an operation ran, or would run."""
    return any(data["start"] is not None for _, data in placement.graph.nodes(data=True))


def times_word(placement: Placement) -> str:
    """Say how the times were found: ``"estimated"`` or ``"measured"``."""
    return "estimated" if placement.meta.get("times") == "estimated" else "measured"


def operation_timeline(placement: Placement) -> Any:
    """Draw when each operation runs on its device.

    Parameters
    ----------
    placement : Placement
        Whose nodes have ``start`` and ``duration``, in seconds.

    Returns
    -------
    plotly.graph_objects.Figure
        One row a device, the first at the top; its title says whether the times are estimated or measured.
    """
    import plotly.graph_objects as go  # 0.5 s, and whoever draws no time line does not need it

    timed = [
        (data["duration"], node, data)
        for node, data in placement.graph.nodes(data=True)
        if data["start"] is not None and data["duration"] is not None and data["device"] is not None
    ]
    drawn = sorted(timed, key=lambda one: -one[0])[:MOST]
    end = max((data["start"] + duration for duration, _, data in timed), default=0.0)
    size, unit = next((one for one in _UNITS if end >= one[0]), _UNITS[-1])
    styles = device_colors(placement.device_names())
    devices = [name for name in styles if any(data["device"] == name for _, _, data in drawn)]
    figure = go.Figure()
    for name in devices:
        mine = [one for one in drawn if one[2]["device"] == name]
        figure.add_trace(
            go.Bar(
                orientation="h",
                base=[data["start"] / size for _, _, data in mine],
                x=[duration / size for duration, _, _ in mine],
                y=[styles[name].label] * len(mine),
                customdata=[[node, data["op"] or "", 1e6 * duration] for duration, node, data in mine],
                hovertemplate="%{customdata[0]}<br>%{customdata[1]}: %{customdata[2]:,.1f} µs<extra></extra>",
                marker={"color": styles[name].fill, "line": {"width": 0}},
                name=styles[name].label,
            )
        )
    left_out = f"; the {len(drawn):,} longest of {len(timed):,}" if len(drawn) < len(timed) else ""
    figure.update_layout(
        title={"text": f"Operations over time, {times_word(placement)}{left_out}", "font": {"size": 13}},
        height=110 + 34 * max(1, len(devices)),
        margin={"l": 70, "r": 10, "t": 34, "b": 44},
        font={"color": "#808080"},  # reads on a light and on a dark page
        xaxis={"title": {"text": f"{unit} since the start of the step"}, "range": [0, end / size or 1]},
        yaxis={"autorange": "reversed"},
        barmode="overlay",
        bargap=0.2,
        showlegend=False,
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    return figure
