"""One colour, pattern and label for each device."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_placement.devices import DeviceSpec, parse_device, short_device, sort_key

# Okabe and Ito's palette for every kind of colour vision, without its black; the last two hues are from Paul Tol's
# "muted" scheme. Neighbours in this order differ most, also in grey.
PALETTE = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#882255")
GREYS = ("#9A9A9A", "#BFBFBF", "#7A7A7A", "#D4D4D4")
PATTERNS = ("", "/", ".", "x", "-", "\\", "+", "|")
UNPLACED = "not placed"


@dataclass(frozen=True)
class DeviceStyle:
    r"""How a device is drawn.

    Attributes
    ----------
    label : str
        The device's short name, for people.
    fill : str
        Colour of its nodes and stripes, ``#rrggbb``.
    text : str
        Colour of text on ``fill``: black or white, whichever reads better.
    pattern : str
        One of ``"" / \ x - | + .``: what is drawn over ``fill`` in stripes and legends, so that two devices differ
        by more than colour.
    """

    label: str
    fill: str
    text: str
    pattern: str


def device_colors(devices: list[str]) -> dict[str, DeviceStyle]:
    """Give each device a colour, a pattern and a label; the same devices always get the same ones.

    The first CPU of each task is grey. All other devices, logical CPUs too, share the palette in the devices' order;
    when it is used up it starts again with another pattern.

    Parameters
    ----------
    devices : list of str
        Full device names, in any order.

    Returns
    -------
    dict
        Device name to style, in the devices' order.

    Examples
    --------
    >>> styles = device_colors(["/job:localhost/replica:0/task:0/device:GPU:0", "/device:CPU:0"])
    >>> [(style.label, style.fill, style.pattern) for style in styles.values()]
    [('CPU:0', '#9A9A9A', ''), ('localhost:0/GPU:0', '#E69F00', '/')]
    """
    names = sorted(set(devices), key=sort_key)
    tasks = len({name.split("/device:")[0] for name in names}) > 1
    styles: dict[str, DeviceStyle] = {}
    greys = hues = 0
    for name in names:
        spec = parse_device(name) or DeviceSpec()
        if spec.type == "CPU" and not spec.id:
            fill, pattern = GREYS[greys % len(GREYS)], PATTERNS[greys // len(GREYS) % len(PATTERNS)]
            greys += 1
        else:
            # Patterns differ between neighbours of one round and between the rounds.
            turn, index = divmod(hues, len(PALETTE))
            fill, pattern = PALETTE[index], PATTERNS[(index + 1 + turn) % len(PATTERNS)]
            hues += 1
        styles[name] = DeviceStyle(short_device(name, tasks=tasks), fill, text_on(fill), pattern)
    return styles


def unplaced_style() -> DeviceStyle:
    """Return the style of an operation that was never placed."""
    return DeviceStyle(UNPLACED, "#FFFFFF", "#000000", "")


def text_on(fill: str) -> str:
    """Choose black or white for text on a colour, by WCAG's contrast ratio.

    Examples
    --------
    >>> text_on("#F0E442"), text_on("#882255")
    ('#000000', '#FFFFFF')
    """
    return "#000000" if contrast(fill, "#000000") >= contrast(fill, "#FFFFFF") else "#FFFFFF"


def contrast(one: str, other: str) -> float:
    """Return WCAG's contrast ratio of two colours, from 1 to 21.

    Examples
    --------
    >>> round(contrast("#000000", "#FFFFFF"))
    21
    """
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
