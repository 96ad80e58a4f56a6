"""Keras models: the graph of ``predict``, or of the step that ``fit`` repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_placement.capture.graphs import CapturedGraph
from jupyter_placement.capture.requests import requests
from jupyter_placement.dryrun.functions import graph_of_function, known_device
from jupyter_placement.dryrun.labels import labels_of
from jupyter_placement.dryrun.model_state import unchanged
from jupyter_placement.placement import PlacementError

_MOST = 3  # x, y, sample_weight


def loaded_model(path: Path, train: bool | None, args: Sequence[Any]) -> Any:
    """Read a Keras model, with its optimizer where a train step is wanted.

    Raises
    ------
    PlacementError
        When the file holds no model that can be read here.
    """
    import tensorflow as tf

    try:
        model = tf.keras.models.load_model(path, compile=bool(train) or (train is None and len(args) > 1))
    except (OSError, ValueError, TypeError) as error:
        raise PlacementError(f"{path} holds no Keras model that can be read here: {error}") from error
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and path.suffix != ".keras":
        # Of a model that was never trained HDF5 files give an optimizer for no variables, with which even fit fails
        # (seen on Keras 3.15).
        model.optimizer = type(optimizer).from_config(optimizer.get_config())
    return model


def graph_of_model(
    model: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any] | None = None,
    train: bool | None = None,
    batch: int | None = None,
) -> CapturedGraph:
    """Return the graph of a model's predict step, or of its train step; the model stays as it is.

    Parameters
    ----------
    model : keras.Model
        Built or not.
    args : sequence
        One batch: ``x``, or ``x, y``, or ``x, y, sample_weight``; or a ``tf.data.Dataset`` of these.
    keywords : mapping
        ``x``, ``y`` and ``sample_weight`` by name.
    train : bool, optional
        Whether it is the train step; if not given, when there is a ``y``.
    batch : int, optional
        Without inputs: what their unknown first dimension becomes; one if not given.

    Raises
    ------
    PlacementError
        When the inputs are not known, or the model is not compiled for a train step.
    """
    import tensorflow as tf

    data = _batch(args, keywords or {})
    train = len(data) > 1 if train is None else train
    if not train and len(data) > 1:
        raise PlacementError("predict takes x alone: without y, or with train=True")
    if train and (not getattr(model, "compiled", False) or model.optimizer is None):
        raise PlacementError("a train step needs model.compile(optimizer=..., loss=...) before the dry run")
    notes: list[str] = []
    data = data or [_inputs(model, batch, notes)]
    with unchanged(model):
        if train and len(data) == 1 and not isinstance([*args, None][0], tf.data.Dataset):
            data += labels_of(model, tf.nest.map_structure(_spec, data[0]))
        graph = _graph(model, data, train)
    graph.notes = notes
    return graph


def _graph(model: Any, data: Sequence[Any], train: bool) -> CapturedGraph:
    import tensorflow as tf

    strategy = model.distribute_strategy
    step = model.train_step if train else model.predict_step
    batch = tuple(tf.nest.map_structure(_spec, one) for one in data)
    with strategy.scope():
        with requests():  # slots are made where their variables were asked for
            _build(model, batch[0], train)
        alone = strategy.num_replicas_in_sync == 1

        def one_step(*batch: Any) -> Any:
            return step(batch) if alone else strategy.run(step, args=(batch,))

        concrete = tf.function(one_step, autograph=False).get_concrete_function(*batch)
    devices = [known_device(one) for one in tf.nest.flatten(list(data))]
    graph = graph_of_function(concrete, devices)
    graph.label = f"function:{model.name}.train_step" if train else f"function:{model.name}"
    return graph


def _build(model: Any, x: Any, train: bool) -> None:
    """Make the weights and the optimizer's slots before the step is traced, as ``fit`` does."""
    import tensorflow as tf

    if not all(layer.built for layer in model._flatten_layers()):
        model(tf.nest.map_structure(lambda one: tf.keras.KerasTensor(one.shape.as_list(), one.dtype.name), x))
    if train and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _batch(args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
    """Return ``x``, ``y`` and ``sample_weight``, as many as there are."""
    import tensorflow as tf

    named = dict(zip(("x", "y", "sample_weight"), args, strict=False))
    if len(args) > _MOST or named.keys() & keywords.keys() or keywords.keys() - {"x", "y", "sample_weight"}:
        raise PlacementError(
            "a model takes one batch: x, y and sample_weight; several inputs of the model go into one list or dict"
        )
    named |= keywords
    if isinstance(named.get("x"), tf.data.Dataset):
        element = named["x"].element_spec
        found = list(element) if isinstance(element, tuple) else [element]
    else:
        found = [named[one] for one in ("x", "y", "sample_weight") if one in named]
    if named and "x" not in named:
        raise PlacementError("a model needs x: dry_run(model, x, y, on=...)")
    return [_arrays(one) for one in found]


def _arrays(value: Any) -> Any:
    """Make arrays of lists of numbers, as Keras does; lists of arrays are several inputs."""
    import numpy as np
    import tensorflow as tf

    if isinstance(value, dict):
        return {key: _arrays(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        if all(isinstance(one, int | float | str | bool) for one in tf.nest.flatten(value)):
            return np.asarray(value)
        return type(value)(_arrays(one) for one in value)
    return np.asarray(value) if hasattr(value, "to_numpy") else value


def _spec(value: Any) -> Any:
    """Return type and shape of an input; Keras takes floating point arrays as ``keras.config.floatx()``."""
    import numpy as np
    import tensorflow as tf

    if isinstance(value, tf.TypeSpec):
        return value
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        value = np.asarray(value)
    kind = value.dtype
    if isinstance(kind, np.dtype):
        kind = tf.string if kind.kind in "OUS" else kind
        kind = tf.as_dtype(tf.keras.config.floatx()) if kind == np.float64 else tf.as_dtype(kind)
    return tf.TensorSpec(value.shape, kind)


def _inputs(model: Any, batch: int | None, notes: list[str]) -> Any:
    """Return inputs as the model was built for, and note what is assumed of their unknown dimensions."""
    import tensorflow as tf

    inputs = getattr(model, "inputs", None) if model.built else None
    if not inputs:
        raise PlacementError("this model has no known inputs yet: give one, dry_run(model, x, on=...)")
    shapes = [one.shape for one in tf.nest.flatten(inputs)]
    if batch is not None and not any(shape and shape[0] is None for shape in shapes):
        raise PlacementError(f"batch_size={batch} has nothing to stand for: each input of this model has a fixed batch")
    if batch is None and any(shape and shape[0] is None for shape in shapes):
        notes.append("No batch was given: a batch of 1 is assumed; batch_size= (--batch) gives another.")
    others = sum(size is None for shape in shapes for size in shape[1:])
    if others:
        notes.append(
            f"{others:,} more dimension{'s' * (others > 1)} of the inputs unknown: 1 is assumed for each; "
            "give an input, a tf.TensorSpec say, for another."
        )
    # A functional model tells their structure as well; a Sequential that was never called has one.
    known = inputs[0] if isinstance(model, tf.keras.Sequential) else model.input
    return tf.nest.map_structure(lambda one: tf.TensorSpec(_known(one.shape, batch or 1), one.dtype), known)


def _known(shape: Sequence[int | None], batch: int) -> list[int]:
    return [(1 if position else batch) if size is None else size for position, size in enumerate(shape)]
