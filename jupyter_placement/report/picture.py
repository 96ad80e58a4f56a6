"""The collapsed view as an SVG picture."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from jupyter_placement.colors import DeviceStyle, device_colors, unplaced_style
from jupyter_placement.layout import Box, Link, View, default_opened, layout, scope_tree
from jupyter_placement.summary import device_labels, nothing_placed, plural
from jupyter_placement.sums import handed_over, in_host_memory, transfers

if TYPE_CHECKING:
    from jupyter_placement.placement import Placement

INK, QUIET, PAPER, CARD = "#1f2328", "#59636e", "#fbfbfa", "#ffffff"
TRANSFER = "#C2185B"
HOST_DASH = "10 4"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_MARGIN = 18.0
_HATCH = {
    "/": "M-2,2 l4,-4 M0,8 l8,-8 M6,10 l4,-4",
    "\\": "M-2,6 l4,4 M0,0 l8,8 M6,-2 l4,4",
    "x": "M0,0 l8,8 M8,0 l-8,8",
    "-": "M0,4 h8",
    "|": "M4,0 v8",
    "+": "M0,4 h8 M4,0 v8",
    ".": "M3,4 h2",
}


def svg_picture(placement: Placement, width: float = 920.0) -> str:
    """Draw the scopes of a Placement, collapsed, as a picture that needs nothing else.

    It has its own light background, so that it reads on any page.

    Parameters
    ----------
    placement : Placement
        What to draw.
    width : float
        Width to aim at, in pixels.

    Returns
    -------
    str
        An SVG document.
    """
    styles = device_colors(placement.device_names())
    if not placement.graph:
        return _sentence(nothing_placed(placement), width)
    tree = scope_tree(placement)
    view = layout(tree, default_opened(tree), width=width - 2 * _MARGIN)
    legend, legend_height = _legend(placement, styles, width)
    wide = max(width, view.width + 2 * _MARGIN)
    high = legend_height + view.height + 2 * _MARGIN
    left = (wide - view.width) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" font-family="{escape(_FONT)}" font-size="12" role="img">',
        f"<title>{escape(_title(placement))}</title>",
        f"<defs>{''.join(_pattern(number, style) for number, style in enumerate(styles.values()))}{_ARROWS}</defs>",
        f'<rect width="{wide:.0f}" height="{high:.0f}" rx="8" fill="{PAPER}"/>',
        *legend,
        f'<g transform="translate({left:.1f},{legend_height + _MARGIN:.1f})">',
    ]
    numbers = {name: number for number, name in enumerate(styles)}
    parts += [_frame(box) for box in view.boxes if box.opened]
    parts += [_line(link) for link in sorted(view.links, key=lambda link: link.totals.transfers > 0)]
    parts += [_card(box, styles, numbers) for box in view.boxes if not box.opened]
    parts += _labels(view)
    return "".join([*parts, "</g></svg>"])


_ARROWS = "".join(
    f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" '
    f'markerUnits="userSpaceOnUse"><path d="M0,1 L8,4 L0,7 z" fill="{color}"/></marker>'
    for name, color in (("edge", "#8c959f"), ("transfer", TRANSFER))
)


def cut(label: str, width: float, char: float = 6.6) -> str:
    """Shorten a label to a width in pixels, in its middle: the ends of TensorFlow's names tell most.

    Examples
    --------
    >>> cut("short", 100)
    'short'
    >>> cut("batch_normalization_17", 80)
    'batch…ion_17'
    """
    most = max(int(width / char), 3)
    if len(label) <= most:
        return label
    tail = most // 2
    return f"{label[: most - 1 - tail]}…{label[-tail:]}"


def _title(placement: Placement) -> str:
    labels = device_labels(placement)
    counts = ", ".join(f"{count} on {labels[name]}" for name, count in placement.device_counts().items())
    return f"Where TensorFlow placed {plural(placement.graph.number_of_nodes(), 'operation')}: {counts or 'nowhere'}"


def _sentence(text: str, width: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="60" font-family="{escape(_FONT)}" '
        f'font-size="13" role="img"><rect width="{width:.0f}" height="60" rx="8" fill="{PAPER}"/>'
        f'<text x="18" y="35" fill="{INK}">{escape(text)}</text></svg>'
    )


def _pattern(number: int, style: DeviceStyle) -> str:
    hatch = _HATCH.get(style.pattern)
    drawn = ""
    if hatch:
        heavy = 3 if style.pattern == "." else 1.3
        drawn = f'<path d="{hatch}" stroke="{style.text}" stroke-opacity="0.45" stroke-width="{heavy}" fill="none"/>'
    return (
        f'<pattern id="d{number}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect width="8" height="8" fill="{style.fill}"/>{drawn}</pattern>'
    )


def _legend(placement: Placement, styles: dict[str, DeviceStyle], width: float) -> tuple[list[str], float]:
    counts = placement.device_counts()
    entries = [
        (f"url(#d{number})", style.label, plural(counts[name], "op"))
        for number, (name, style) in enumerate(styles.items())
        if name in counts
    ]
    unplaced = placement.graph.number_of_nodes() - sum(counts.values())
    if unplaced:
        entries.append((unplaced_style().fill, unplaced_style().label, plural(unplaced, "op")))
    drawn = []
    x, y = _MARGIN, _MARGIN + 12
    for fill, label, count in entries:
        need = 26 + 6.8 * (len(label) + len(count) + 1) + 14
        if x + need > width - _MARGIN and x > _MARGIN:
            x, y = _MARGIN, y + 22
        drawn.append(
            f'<rect x="{x:.0f}" y="{y - 12:.0f}" width="20" height="14" rx="3" fill="{fill}" stroke="{QUIET}" '
            f'stroke-width="0.6"/><text x="{x + 26:.0f}" y="{y:.0f}" fill="{INK}"><tspan font-weight="600">'
            f'{escape(label)}</tspan> <tspan fill="{QUIET}">{count}</tspan></text>'
        )
        x += need
    moved = sum(pair.tensors for pair in transfers(placement))
    marks = []
    if moved:
        line = f'<path d="M0,-5 h24" stroke="{TRANSFER}" stroke-width="2.4" stroke-dasharray="6 3"/>'
        marks.append((line, "transfer", plural(moved, "tensor")))
    host = len(in_host_memory(placement))
    if host:
        box = f'<rect y="-12" width="24" height="14" rx="3" fill="none" stroke="{QUIET}" stroke-width="0.6"/>'
        marks.append((box + _host_mark(0, -12, 24, 14, INK), "in host memory", plural(host, "op")))
    if handed_over(placement):
        line = f'<path d="M0,-5 h24" stroke="#8c959f" stroke-width="1.2" stroke-dasharray="{HOST_DASH}"/>'
        marks.append((line, "stays in host memory", "nothing is copied"))
    for mark, label, count in marks:
        need = 32 + 6.8 * (len(label) + len(count) + 1) + 14
        if x + need > width - _MARGIN and x > _MARGIN:
            x, y = _MARGIN, y + 22
        drawn.append(
            f'<g transform="translate({x:.0f},{y:.0f})">{mark}<text x="32" fill="{INK}"><tspan font-weight="600">'
            f'{label}</tspan> <tspan fill="{QUIET}">{count}</tspan></text></g>'
        )
        x += need
    return drawn, y + 8


def _frame(box: Box) -> str:
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="8" '
        f'fill="#656d76" fill-opacity="0.06" stroke="#8c959f" stroke-width="1"/>'
        f'<text x="{box.x + 10:.1f}" y="{box.y + 18:.1f}" fill="{INK}" font-weight="600">'
        f"{escape(cut(box.label, box.width - 90))} "
        f'<tspan fill="{QUIET}" font-weight="400">{plural(box.size, "op")}</tspan></text>'
    )


def _line(link: Link) -> str:
    (x0, y0), *rest = link.points
    path = f"M{x0:.1f},{y0:.1f} L" + " ".join(f"{x:.1f},{y:.1f}" for x, y in rest)
    totals = link.totals
    if link.kind == "transfers":
        look = f'stroke="{TRANSFER}" stroke-width="2.2" stroke-dasharray="6 3" marker-end="url(#transfer)"'
    elif link.kind == "host":
        look = f'stroke="#8c959f" stroke-width="1.2" stroke-dasharray="{HOST_DASH}" marker-end="url(#edge)"'
    elif link.kind == "edges":
        look = f'stroke="#8c959f" stroke-width="{1 + min(totals.tensors, 50) / 50:.1f}" marker-end="url(#edge)"'
    else:
        look = 'stroke="#8c959f" stroke-width="1" stroke-dasharray="1 3" marker-end="url(#edge)"'
    return f'<path d="{path}" fill="none" stroke-linejoin="round" {look}/>'


def _card(box: Box, styles: dict[str, DeviceStyle], numbers: dict[str, int]) -> str:
    x, y, wide, high = box.x, box.y, box.width, box.height
    if box.kind == "node":
        device = box.devices[0][0]
        style = styles[device] if device is not None else unplaced_style()
        dash = ' stroke-dasharray="3 2"' if device is None else ""
        inner = _host_mark(x, y, wide, high, style.text) if box.host else ""
        return (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="6" fill="{style.fill}" '
            f'stroke="{QUIET}" stroke-width="0.8"{dash}/>{inner}'
            f'<text x="{x + wide / 2:.1f}" y="{y + 15:.1f}" text-anchor="middle" fill="{style.text}">'
            f"{escape(cut(box.label, wide - 12))}</text>"
            f'<text x="{x + wide / 2:.1f}" y="{y + 29:.1f}" text-anchor="middle" fill="{style.text}" font-size="10">'
            f"{escape(cut(style.label + box.about_host, wide - 12, 5.4))}</text>"
        )
    stripes = []
    at, bar = x + 1, wide - 2
    for device, count in box.devices:
        share = bar * count / box.size
        fill = f"url(#d{numbers[device]})" if device is not None else unplaced_style().fill
        stripes.append(f'<rect x="{at:.2f}" y="{y + high - 11:.1f}" width="{share:.2f}" height="10" fill="{fill}"/>')
        at += share
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="4" fill="{CARD}" '
        f'stroke="{QUIET}" stroke-width="1"/>{"".join(stripes)}'
        f'<text x="{x + wide / 2:.1f}" y="{y + 15:.1f}" text-anchor="middle" fill="{INK}" font-weight="600">'
        f"{escape(cut(box.label, wide - 12, 7.0))}</text>"
        f'<text x="{x + wide / 2:.1f}" y="{y + 29:.1f}" text-anchor="middle" fill="{QUIET}" font-size="10">'
        f"{escape(cut(plural(box.size, 'op') + box.about_host, wide - 12, 5.4))}</text>"
    )


def _host_mark(x: float, y: float, wide: float, high: float, color: str) -> str:
    """Draw what marks an operation whose values are in host memory: a dashed line within its border."""
    return (
        f'<rect x="{x + 2.5:.1f}" y="{y + 2.5:.1f}" width="{wide - 5:.1f}" height="{high - 5:.1f}" rx="4" fill="none" '
        f'stroke="{color}" stroke-width="1" stroke-dasharray="3 2"/>'
    )


def _labels(view: View) -> list[str]:
    """Write how much a transfer moves beside its line."""
    drawn = []
    for link in view.links:
        if link.totals.transfers:
            x, y = link.points[min(len(link.points) // 2, 10)]
            drawn.append(
                f'<text x="{x + 5:.1f}" y="{y + 3:.1f}" font-size="10" fill="{TRANSFER}" stroke="{PAPER}" '
                f'stroke-width="3" paint-order="stroke">{link.totals.transfers:,}</text>'
            )
    return drawn
