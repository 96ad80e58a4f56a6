"""Sizes of tensors."""

from __future__ import annotations

from typing import Any


def tensor_bytes(dtype: str | None, shape: Any) -> int | None:
    """Return the size of a tensor in bytes; ``None`` where type or shape do not tell."""
    import tensorflow as tf

    if not dtype or shape is None or any(size is None for size in shape):
        return None
    kind = tf.dtypes.as_dtype(dtype.removesuffix("_ref"))
    if kind in (tf.string, tf.resource, tf.variant):
        return None
    total = int(kind.size)
    for size in shape:
        total *= size
    return total
