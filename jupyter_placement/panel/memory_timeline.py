"""A time line of the memory of a run, with its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jupyter_placement.devices import sort_key
from jupyter_placement.panel.memory_cards import OWN
from jupyter_placement.placement import MemorySample, Placement

GIB = 1 << 30
COLOURS = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#882255")


def memory_timeline(placement: Placement) -> Any:
    """Draw memory over time: what everybody and what this process holds of each card, TensorFlow's in-use, the host.

    Parameters
    ----------
    placement : Placement
        With its ``memory``; ``meta["steps"]``, a list of ``[start, end]`` in seconds, is marked where it is there.

    Returns
    -------
    plotly.graph_objects.Figure
        Its times are seconds since the recording began, its sizes GiB.
    """
    import plotly.graph_objects as go  # 0.5 s, and whoever draws no time line does not need it

    figure = go.Figure()
    figure.update_layout(
        height=320,
        margin={"l": 50, "r": 10, "t": 10, "b": 110},
        font={"color": "#808080"},  # reads on a light and on a dark page
        xaxis={"title": {"text": "seconds since the start"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "GiB"}, "rangemode": "tozero"},
        yaxis2={"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
        legend={"orientation": "h", "yanchor": "top", "y": -0.3},
        hovermode="x",
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    if not placement.memory:
        figure.add_annotation(text="No memory was sampled.", showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
        return figure
    devices = sorted({sample.device for sample in placement.memory}, key=_order)
    cards = any(device != "host" for device in devices)
    for number, device in enumerate(devices):
        samples = sorted((one for one in placement.memory if one.device == device), key=lambda one: one.time)
        for name, values, style in _series(placement, device, samples, COLOURS[number % len(COLOURS)]):
            figure.add_trace(
                go.Scatter(
                    x=[sample.time for sample in samples],
                    y=[None if value is None else value / GIB for value in values],
                    name=name,
                    mode="lines+markers" if len(samples) < 40 else "lines",
                    line=style,
                    hovertemplate="%{y:.2f} GiB",
                    visible="legendonly" if cards and name == "host, everybody" else True,
                )
            )
    _mark_steps(figure, go, placement.meta.get("steps", ()))
    return figure


def _series(
    placement: Placement, device: str, samples: Sequence[MemorySample], colour: str
) -> list[tuple[str, list[int | None], dict[str, Any]]]:
    """Return name, values and line style of what is drawn of a device; what was never read is left out."""
    used = [sample.used for sample in samples]
    own = [sample.process for sample in samples]
    if device.startswith("/"):
        short = placement.short(device)
        wanted = [
            (f"{short}, TensorFlow in use", used, {"color": colour}),
            (f"{short}, TensorFlow's peak", [sample.peak for sample in samples], {"color": colour, "dash": "dot"}),
        ]
    else:
        title = "host" if device == "host" else f"card {device.removeprefix('nvml:').replace('/mig:', ', MIG ')}"
        wanted = [
            (f"{title}, everybody", used, {"color": colour}),
            (f"{title}, this process", own, {"color": OWN if device == "host" else colour, "dash": "dash"}),
        ]
    return [one for one in wanted if any(value is not None for value in one[1])]


def _mark_steps(figure: Any, go: Any, steps: Sequence[Sequence[float | None]]) -> None:
    """Mark where each step starts and, where it is known, ends; one trace for all: many shapes would be slow."""
    for name, which, dash in (("start of a step", 0, "solid"), ("end of a step", 1, "dot")):
        if any(step[which] is not None for step in steps):
            figure.add_trace(
                go.Scatter(
                    x=[x for step in steps for x in (step[which], step[which], None)],
                    y=[y for _ in steps for y in (0, 1, None)],
                    yaxis="y2",
                    name=name,
                    mode="lines",
                    line={"color": "#7A7A7A", "width": 1, "dash": dash},
                    hoverinfo="skip",
                )
            )


def _order(device: str) -> tuple[int, Any]:
    """Cards first, then TensorFlow's devices, then the host."""
    if device == "host":
        return (2, ())
    return (1, sort_key(device)) if device.startswith("/") else (0, (len(device), device))
