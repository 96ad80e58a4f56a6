"""The part of the panel that runs in the browser alone."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets


class BrowserSide(anywidget.AnyWidget):
    """Says when the kernel is gone, which a dead kernel cannot, and brings what was found into sight.

    Attributes
    ----------
    gone, lost : str
        What is said when the kernel is gone, and when the connection to it is lost.
    sight : list of float
        Place in the graph to scroll to, in its pixels: x and y.
    """

    _esm = Path(__file__).with_name("browser_side.js")
    gone = traitlets.Unicode(
        "The kernel is gone: this panel no longer answers. Run the cell again to bring it back."
    ).tag(sync=True)
    lost = traitlets.Unicode("The connection to the kernel is lost: this panel answers again when it is back.").tag(
        sync=True
    )
    sight = traitlets.List(traitlets.Float()).tag(sync=True)
