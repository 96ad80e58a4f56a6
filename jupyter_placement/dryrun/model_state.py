"""Leave a Keras model as it was: tracing a step builds what is not built yet."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def unchanged(model: Any) -> Iterator[None]:
    """Put a model back, with its layers, optimizer, metrics and losses, when the body of the ``with`` ends.

    Nothing runs in a dry run, so no variable gets another value. What tracing does is to build: layers make their
    weights, the optimizer its iterations and slots, ``compile``'s metrics and losses find out their structure, and
    losses of the traced graph are noted. A clone would not do: it needs ``get_config`` of every layer, and its
    variables would be without the devices that those of the model were made for. So each attribute of each Keras
    object that can be reached from the model is noted before, and set again after; what was made meanwhile goes.
    The random states of Python, NumPy and TensorFlow, and Keras' counters for names, are put back as well.

    Parameters
    ----------
    model : keras.Model
        Built or not, compiled or not.
    """
    import numpy as np

    attributes, containers = _reachable(model)
    names, counters = _name_counters(), dict(_name_counters())
    states = random.getstate(), np.random.get_state(), _tensorflow_random().getstate()
    try:
        yield
    finally:
        for found, before in attributes:
            found.clear()
            found.update(before)
        for container, content in containers:
            _refill(container, content)
        names.clear()
        names.update(counters)
        random.setstate(states[0])
        np.random.set_state(states[1])
        _tensorflow_random().setstate(states[2])


def _reachable(model: Any) -> tuple[list[tuple[dict[str, Any], dict[str, Any]]], list[tuple[Any, Any]]]:
    """Return the attributes of all Keras objects that a model holds, and the containers in them, with copies."""
    attributes: list[tuple[dict[str, Any], dict[str, Any]]] = []
    containers: list[tuple[Any, Any]] = []
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        one = waiting.pop()
        # TensorFlow's stand-in for a dict or tuple that a layer holds, with notes of its own in vars.
        notes = object.__getattribute__(one, "__dict__") if hasattr(one, "_self_last_wrapped_dict_snapshot") else None
        if isinstance(notes, dict) and id(notes) not in seen:
            seen.add(id(notes))
            attributes.append((notes, dict(notes)))
        one = getattr(one, "__wrapped__", one)
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, list | set):
            containers.append((one, list(one)))
            # TensorFlow's lists hold their content twice, and note in attributes what it was and how it changed.
            waiting.extend([*one, getattr(one, "_storage", None)])
            if hasattr(one, "_last_wrapped_list_snapshot"):
                attributes.append((vars(one), dict(vars(one))))
        elif isinstance(one, dict):
            containers.append((one, dict(one)))
            waiting.extend(one.values())
        elif isinstance(one, tuple):
            waiting.extend(one)
        if _is_kerases(one):
            found = vars(one)
            attributes.append((found, dict(found)))
            waiting.extend(found.values())
    return attributes, containers


def _is_kerases(one: Any) -> bool:
    """Tell whether an object is one of Keras, or of a user's class that is made of one of Keras'."""
    kind = type(one)
    return hasattr(one, "__dict__") and any(base.__module__.partition(".")[0] == "keras" for base in kind.__mro__)


def _refill(container: Any, content: Any) -> None:
    # Keras' own lists and dicts take note of each change, and may be locked: their base classes do not.
    if isinstance(container, list):
        list.__setitem__(container, slice(None), content)
    elif isinstance(container, set):
        set.clear(container)
        set.update(container, content)
    else:
        dict.clear(container)
        dict.update(container, content)


def _name_counters() -> dict[str, int]:
    """Return Keras' counters by which it names layers (``dense_3``), the dict itself where there is one."""
    try:
        from keras.src.backend.common import global_state  # as in Keras 3.0 to 3.15
    except ImportError:
        return {}
    found = global_state.get_global_attribute("object_name_uids", {})
    return found if isinstance(found, dict) else {}


def _tensorflow_random() -> random.Random:
    from jupyter_placement.capture.private import private_tensorflow

    context = private_tensorflow().context.context()
    found = getattr(context, "_rng", None)  # where eager operations without a seed get theirs after set_seed
    return found if isinstance(found, random.Random) else random.Random(0)
