"""What the tests of TensorFlow share that run in this process."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def three_logical_cpus() -> None:
    """Ask for three logical CPU devices before any test starts TensorFlow: it takes no other number afterwards."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
