"""What a dry run's step would cost: memory, transfers and time. All of it is an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.dryrun.helper import Helper
from jupyter_placement.placement import Device, Placement


def add_estimate(
    placement: Placement,
    graphs: Sequence[CapturedGraph],
    devices: Sequence[Device],
    helper: Helper | None = None,
    timeout: float = 60.0,
) -> None:
    """Estimate what a step of a placed graph costs on each device; put it into ``placement.meta["estimate"]``.

    Parameters
    ----------
    placement : Placement
        Of the dry run, complete.
    graphs : sequence of CapturedGraph
        What it was made of, in the same order.
    devices : sequence of Device
        The machine, as :func:`parse_machine` returned it.
    helper : Helper, optional
        The process that counts the operations' costs. Without one there is no estimate of time.
    timeout : float
        Seconds that it may take.
    """
    counts: dict[str, Any] = placement.device_counts()
    placement.meta["estimate"] = {"devices": [{"device": one, "operations": counts[one]} for one in counts]}
