"""A line that appears when the kernel behind a panel is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets


class KernelState(anywidget.AnyWidget):
    """Says that the kernel is gone; shows nothing while it is there.

    It runs in the browser alone: a dead kernel can say nothing itself.
    """

    _esm = Path(__file__).with_name("kernel_state.js")
    gone = traitlets.Unicode(
        "The kernel is gone: this panel no longer answers. Run the cell again to bring it back."
    ).tag(sync=True)
    lost = traitlets.Unicode("The connection to the kernel is lost; this panel answers again when it is back.").tag(
        sync=True
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_class("jupyter-placement-kernel")
