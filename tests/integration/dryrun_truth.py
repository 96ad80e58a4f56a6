"""What TensorFlow really does with a function on this machine's logical CPU devices, beside a dry run of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jupyter_placement.placement import Placement
from jupyter_placement.recording import record

# What a recording has besides the placer's nodes: TensorFlow adds these to the graph after the placer has ended.
ADDED_LATER = {
    r"(.*/)?ConstantFolding(Ctrl)?/.*": "Grappler's constant folding, and the control edges that it keeps",
    r"(.*/)?ArithmeticOptimizer/.*": "Grappler's arithmetic optimizer: sums and products written in another way",
    r".*/unary_ops_composition": "Grappler's arithmetic optimizer: several element-wise operations in one",
    r"(.*/)?(LayoutOptimizer|LoopOptimizer|RemapperOptimizer|DependencyOptimizer).*": "other passes of Grappler",
    r"GroupCrossDeviceControlEdges_\d+/.*": "one NoOp for the control edges from another device, before partitioning",
    r".*/replicate/_\d+": "a small constant, copied to each device that reads it",
}


def devices_by_name(placement: Placement, label: str | None = None) -> dict[str, str]:
    """Return the assigned device of each operation by TensorFlow's name, of one captured graph or of all."""
    return {
        data["name"]: data["device"]
        for _, data in placement.graph.nodes(data=True)
        if data["device"] and (label is None or data["graph"] == label)
    }


def really_run(function: Any, args: Sequence[Any], label: str, soft: bool = True) -> dict[str, str]:
    """Run a function and return where its operations were assigned, without those that were added later."""
    with record(soft=soft) as recording:
        function(*args)
    assert recording.placement is not None
    found = devices_by_name(recording.placement, label)
    return {name: device for name, device in found.items() if not was_added_later(name)}


def was_added_later(name: str) -> bool:
    """Tell whether a node is one of :data:`ADDED_LATER`."""
    return any(re.fullmatch(pattern, name) for pattern in ADDED_LATER)


def real_error(function: Any, args: Sequence[Any]) -> str:
    """Return the error of hard placement that a call ends with, without what Python adds to it; or ``""``."""
    import tensorflow as tf

    tf.config.set_soft_device_placement(False)
    try:
        function(*args)
    except tf.errors.OpError as error:
        return str(error.message).split(" [Op:")[0]
    finally:
        tf.config.set_soft_device_placement(True)
    return ""


def dry_error(*args: Any, **options: Any) -> str:
    """Return TensorFlow's error of a dry run, or ``""``."""
    from jupyter_placement.dryrun import UnplaceableError, dry_run

    try:
        dry_run(*args, **options)
    except UnplaceableError as error:
        return error.text
    return ""
