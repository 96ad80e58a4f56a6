"""The devices that TensorFlow has, as it tells them, without starting it."""

from __future__ import annotations

from collections.abc import Iterable

from jupyter_placement.capture.private import current_context
from jupyter_placement.devices import device_type, parse_device, sort_key
from jupyter_placement.placement import Device


def tensorflow_devices(session_devices: Iterable[tuple[str, int | None]] = ()) -> list[Device]:
    """List the devices of the eager context, if it is initialised, and of sessions.

    Parameters
    ----------
    session_devices : iterable of (str, int or None)
        Full name and memory limit in bytes of the devices of sessions.
    """
    limits: dict[str, int | None] = {}
    if current_context() is not None:
        import tensorflow as tf

        limits.update({device.name: None for device in tf.config.list_logical_devices()})
    for name, limit in session_devices:
        limits[name] = limit if limits.get(name) is None else limits[name]
    limits = {full: limit for name, limit in limits.items() if (full := _full(name))}
    return [
        Device(name, physical_name=_physical_name(name), memory_limit=limits[name])
        for name in sorted(limits, key=sort_key)
        if (device_type(name) or "").startswith("XLA") is False
    ]


def _full(name: str) -> str | None:
    spec = parse_device(name)
    if spec is None or spec.type is None:
        return None
    if spec.job is None:
        return f"/job:localhost/replica:0/task:0/device:{spec.type}:{spec.id or 0}"
    return name


def _physical_name(name: str) -> str | None:
    """Return the card's name, where TensorFlow's numbers are the cards' own (one logical device on each)."""
    spec = parse_device(name)
    if spec is None or spec.type != "GPU":
        return None
    import tensorflow as tf

    cards = tf.config.list_physical_devices("GPU")
    logical = tf.config.list_logical_devices("GPU") if current_context() is not None else []
    if spec.id is None or spec.id >= len(cards) or (logical and len(logical) != len(cards)):
        return None
    found = tf.config.experimental.get_device_details(cards[spec.id]).get("device_name")
    return None if found is None else str(found)
