"""The batch of a model or graph whose inputs are not given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_placement.placement import PlacementError

_MOST = 2**31 - 1


def taken_batch(args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Take ``batch_size`` out of the keywords.

    Raises
    ------
    PlacementError
        When it is no number of examples, or inputs are given, which have a batch.

    Examples
    --------
    >>> taken_batch([], {"batch_size": 64}), taken_batch([], {"x": 1})
    (({}, 64), ({'x': 1}, None))
    """
    rest = {name: value for name, value in keywords.items() if name != "batch_size"}
    batch = keywords.get("batch_size")
    if batch is None:
        return rest, None
    if isinstance(batch, bool) or not isinstance(batch, int) or not 0 < batch <= _MOST:
        raise PlacementError(f"batch_size= is a whole number of examples, 1 or more, not {batch!r}")
    if args or rest:
        raise PlacementError("batch_size= stands for inputs that are not given: give the inputs, or batch_size=")
    return rest, batch
