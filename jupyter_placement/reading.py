"""Show a placement log in a notebook."""

from __future__ import annotations

import os

from jupyter_placement.panel import PlacementPanel
from jupyter_placement.placement import Placement


def read_log(
    path_or_text: str | os.PathLike[str] | bytes | list[str | os.PathLike[str]],
    graph: str | os.PathLike[str] | None = None,
) -> PlacementPanel:
    """Read a placement log of any TensorFlow, and show it.

    Parameters
    ----------
    path_or_text : str, path-like, bytes, or list of these
        A file, or the log itself; several for several tasks.
    graph : path-like or None
        A graph file (``.pb``, ``.pbtxt``, a SavedModel folder, ``.keras``) that gives the edges.

    Returns
    -------
    PlacementPanel
        Shows itself as the last expression of a cell; its ``placement`` is the Placement.

    Raises
    ------
    PlacementError
        When there is no such file.

    Examples
    --------
    >>> line = "x: (Const): /job:localhost/replica:0/task:0/device:CPU:0"
    >>> read_log(line).placement
    <Placement: 1 operations on 1 devices, 0 edges, 0 events>
    """
    return PlacementPanel(Placement.from_log(path_or_text, graph))
