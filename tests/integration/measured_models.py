"""Training steps of small models, to be estimated and measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def mlp_adam(batch: int = 256, loss_on: str = "") -> tuple[Any, list[Any]]:
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input([784]), layers.Dense(512, "relu"), layers.Dense(512, "relu"), layers.Dense(10)]
    )
    return train_step(model, tf.keras.optimizers.Adam(), loss_on), inputs([batch, 784])


def resnet(batch: int = 16, loss_on: str = "") -> tuple[Any, list[Any]]:
    import tensorflow as tf

    layers = tf.keras.layers
    image = layers.Input([32, 32, 3])
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(32, 3, padding="same")(image)))
    for filters, stride in ((32, 1), (64, 2), (128, 2)):
        short = x if stride == 1 else layers.Conv2D(filters, 1, stride)(x)
        y = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(filters, 3, stride, padding="same")(x)))
        y = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same")(y))
        x = layers.ReLU()(layers.Add()([y, short]))
    model = tf.keras.Model(image, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))
    return train_step(model, tf.keras.optimizers.SGD(0.1, momentum=0.9), loss_on), inputs([batch, 32, 32, 3])


def lstm(batch: int = 32, loss_on: str = "") -> tuple[Any, list[Any]]:
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input([40, 32]), layers.LSTM(128), layers.Dense(10)])
    return train_step(model, tf.keras.optimizers.RMSprop(), loss_on), inputs([batch, 40, 32])


def transformer(batch: int = 16, loss_on: str = "") -> tuple[Any, list[Any]]:
    import tensorflow as tf

    layers = tf.keras.layers
    tokens = layers.Input([64, 128])
    x = layers.LayerNormalization()(tokens + layers.MultiHeadAttention(4, 32)(tokens, tokens))
    y = layers.Dense(128)(layers.Dense(512, "gelu")(x))
    x = layers.LayerNormalization()(x + y)
    model = tf.keras.Model(tokens, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))
    return train_step(model, tf.keras.optimizers.Adam(), loss_on), inputs([batch, 64, 128])


def embedding(batch: int = 128, loss_on: str = "") -> tuple[Any, list[Any]]:
    import tensorflow as tf

    layers = tf.keras.layers
    ids = layers.Input([50], dtype="int64")
    x = layers.Embedding(20_000, 64)(ids)
    model = tf.keras.Model(ids, layers.Dense(10)(layers.Dense(128, "relu")(layers.Flatten()(x))))
    return train_step(model, tf.keras.optimizers.Adagrad(), loss_on), inputs([batch, 50], tf.int64)


def gru(batch: int = 64, loss_on: str = "") -> tuple[Any, list[Any]]:
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input([30, 16]), layers.GRU(64, return_sequences=True), layers.GRU(32), layers.Dense(10)]
    )
    return train_step(model, tf.keras.optimizers.Adam(), loss_on), inputs([batch, 30, 16])


def dropout(batch: int = 64, loss_on: str = "") -> tuple[Any, list[Any]]:
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input([28, 28, 1]),
            *(layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D()),
            *(layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D()),
            *(layers.Flatten(), layers.Dropout(0.5), layers.Dense(128, "relu"), layers.Dense(10)),
        ]
    )
    return train_step(model, tf.keras.optimizers.SGD(0.1), loss_on), inputs([batch, 28, 28, 1])


def autoencoder(batch: int = 32, loss_on: str = "") -> tuple[Any, list[Any]]:
    import tensorflow as tf

    layers = tf.keras.layers
    x = image = layers.Input([32, 32, 3])
    for filters in (16, 32):
        x = layers.Conv2D(filters, 3, 2, "same", activation="relu")(x)
    for filters in (32, 16):
        x = layers.Conv2DTranspose(filters, 3, 2, "same", activation="relu")(x)
    model = tf.keras.Model(image, layers.Dense(10)(layers.Flatten()(x)))
    return train_step(model, tf.keras.optimizers.Adam(), loss_on), inputs([batch, 32, 32, 3])


def attention(batch: int = 32, loss_on: str = "") -> tuple[Any, list[Any]]:
    import tensorflow as tf

    layers = tf.keras.layers
    ids = layers.Input([32], dtype="int64")
    x = layers.Embedding(1000, 64)(ids)
    for _ in range(3):
        x = layers.LayerNormalization()(x + layers.Dropout(0.1)(layers.MultiHeadAttention(4, 16)(x, x)))
        x = layers.LayerNormalization()(x + layers.Dense(64)(layers.Dense(256, "relu")(x)))
    model = tf.keras.Model(ids, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))
    return train_step(model, tf.keras.optimizers.Adam(), loss_on), inputs([batch, 32], tf.int64)


def large_batch(batch: int = 2048, loss_on: str = "") -> tuple[Any, list[Any]]:
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input([100]), *(layers.Dense(256, "tanh") for _ in range(6)), layers.Dense(10)])
    return train_step(model, tf.keras.optimizers.AdamW(), loss_on), inputs([batch, 100])


def resnet50(batch: int = 4, loss_on: str = "") -> tuple[Any, list[Any]]:
    import tensorflow as tf

    model = tf.keras.applications.ResNet50(
        weights=None, input_shape=(64, 64, 3), classes=10, classifier_activation=None
    )
    return train_step(model, tf.keras.optimizers.SGD(0.1, momentum=0.9), loss_on), inputs([batch, 64, 64, 3])


# The first five were there while the walk was written, the others were not.
MODELS: dict[str, Callable[..., tuple[Any, list[Any]]]] = {
    "mlp_adam": mlp_adam,
    "resnet": resnet,
    "lstm": lstm,
    "transformer": transformer,
    "embedding": embedding,
    "gru": gru,
    "dropout": dropout,
    "autoencoder": autoencoder,
    "attention": attention,
    "large_batch": large_batch,
}


def inputs(shape: list[int], dtype: Any = None) -> list[Any]:
    """Return the types of one batch, and of its classes."""
    import tensorflow as tf

    return [tf.TensorSpec(shape, dtype or tf.float32), tf.TensorSpec(shape[:1], tf.int64)]


def train_step(model: Any, optimizer: Any, loss_on: str = "") -> Any:
    """Return a function that does one step of training; its loss and the update on a device of their own, if asked."""
    import tensorflow as tf

    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            with tf.device(loss_on or None):
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        gradients = tape.gradient(loss, model.trainable_variables)
        with tf.device(loss_on or None):
            optimizer.apply(gradients, model.trainable_variables)
        return loss

    return step


# Takes half a minute.
LARGE: dict[str, Callable[..., tuple[Any, list[Any]]]] = {"resnet50": resnet50}
