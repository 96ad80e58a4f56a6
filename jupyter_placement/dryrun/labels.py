"""What a compiled Keras model is to be trained on, as its outputs and its loss tell."""

from __future__ import annotations

from typing import Any

from jupyter_placement.placement import PlacementError

_GIVE = "give y, dry_run(model, x, y, on=...)"
# Their labels are numbers of classes, without the outputs' last dimension.
_SPARSE = ("sparsecategoricalcrossentropy",)
# Labels of other shapes than the outputs, which nothing tells.
_OTHER = ("ctc",)


def labels_of(model: Any, x: Any) -> list[Any]:
    """Return types and shapes of ``y``, in a list; an empty one for a model that is compiled without a loss.

    For a sparse loss integers without the last dimension of the output, for any other loss what the output itself is.

    Parameters
    ----------
    model : keras.Model
        Compiled.
    x : tf.TensorSpec or structure of these
        A batch.

    Raises
    ------
    PlacementError
        When they cannot be told.
    """
    import tensorflow as tf

    losses = model.loss
    if losses is None:
        return []  # a train step of the user's own, or losses that the layers add
    try:
        outputs = model(tf.nest.map_structure(lambda one: tf.keras.KerasTensor(one.shape.as_list(), one.dtype.name), x))
    except (TypeError, ValueError, NotImplementedError, AttributeError) as error:
        told = str(error).strip().partition("\n")[0]
        raise PlacementError(f"the labels cannot be told from the model: {told}; {_GIVE}") from error
    if isinstance(losses, dict) and not isinstance(outputs, dict):
        names = getattr(model, "output_names", None) or []
        losses = [losses.get(name) for name in names]
        if len(losses) != len(tf.nest.flatten(outputs)):
            raise PlacementError(
                f"the labels cannot be told: the losses name outputs that this model does not; {_GIVE}"
            )
    if isinstance(outputs, dict) and isinstance(losses, dict):
        return [{name: _label(one, losses.get(name)) for name, one in outputs.items()}]
    flat = tf.nest.flatten(outputs)
    each = list(losses) if isinstance(losses, list | tuple) else [losses] * len(flat)
    if len(each) != len(flat):
        raise PlacementError(f"the labels cannot be told: {len(each)} losses for {len(flat)} outputs; {_GIVE}")
    return [tf.nest.pack_sequence_as(outputs, [_label(*pair) for pair in zip(flat, each, strict=True)])]


def _label(output: Any, loss: Any) -> Any:
    """Return type and shape of the labels of one output."""
    import tensorflow as tf

    # A name, an object of Keras, or a function: all have the name in their own.
    name = loss if isinstance(loss, str) else (getattr(loss, "__name__", None) or type(loss).__name__)
    plain = name.lower().replace("_", "")
    if plain in _OTHER:
        raise PlacementError(f"the labels of the loss {name} have a shape of their own; {_GIVE}")
    shape = list(output.shape)
    if plain in _SPARSE and shape:
        return tf.TensorSpec(shape[:-1], tf.int64)
    return tf.TensorSpec(shape, output.dtype)
