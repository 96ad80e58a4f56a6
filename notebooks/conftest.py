"""What nbval does not compare in these notebooks."""

from typing import Any

from jupyter_placement.placement import MIME_TYPE


def pytest_collectstart(collector: Any) -> None:
    """Leave out the JSON form of a placement, whose times and memory no pattern can reach: it is no text.

    Its text, HTML and picture are compared, and ``tests/unit/test_notebooks.py`` compares the JSON form with those.
    """
    if collector.path.suffix == ".ipynb":
        collector.skip_compare += (MIME_TYPE,)
