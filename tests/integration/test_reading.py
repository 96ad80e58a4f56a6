"""A pasted log in a notebook: the panel, and what stays when the kernel is gone."""

from __future__ import annotations

import pytest

from tests.kernel import Kernel

pytestmark = pytest.mark.kernel


def test_a_log_is_shown_by_the_panel_and_stays(kernel: Kernel) -> None:
    kernel.run("import jupyter_placement")
    cell = kernel.run(
        "panel = jupyter_placement.read_log('''\n"
        "a: (Const): /job:localhost/replica:0/task:0/device:CPU:0\n"
        "b/mul: (Mul): /job:localhost/replica:0/task:0/device:GPU:0\n"
        "''')\n"
        "panel"
    )
    assert cell.status == "ok", cell.errors
    live, static = cell.data
    assert live["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert "2 operations on 2 devices" in static["text/plain"]
    assert "GPU:0" in static["image/svg+xml"]
    assert kernel.evaluate("sorted(panel.placement.graph)") == ["a", "b/mul"]
    assert kernel.evaluate("'tensorflow' in __import__('sys').modules") is False
