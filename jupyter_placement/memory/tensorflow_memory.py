"""What TensorFlow's own allocators hold of each GPU, without ever starting TensorFlow.

The private names of TensorFlow that tell whether it has been started are used here alone, in :func:`eager_context` and
:func:`memory_limits`.
"""

from __future__ import annotations

import sys
from typing import Any

from jupyter_placement.devices import full_device
from jupyter_placement.placement import MemorySample

_CONTEXT_MODULE = "tensorflow.python.eager.context"


class TensorFlowChanged(RuntimeError):
    """The TensorFlow in use lacks a private name that is needed; the message says which versions work."""


def eager_context() -> Any | None:
    """Return TensorFlow's eager context if TensorFlow is imported and the context is initialised, and start neither.

    Raises
    ------
    TensorFlowChanged
        When this TensorFlow does not say whether it has been initialised.
    """
    if "tensorflow" not in sys.modules:
        return None
    module = sys.modules.get(_CONTEXT_MODULE)
    spec = getattr(module, "__spec__", None)
    if module is None or getattr(spec, "_initializing", False):
        return None  # another thread is in the middle of importing TensorFlow
    try:
        context = module.context_safe()
        return context if context is not None and context._initialized else None
    except AttributeError as error:
        version = getattr(sys.modules["tensorflow"], "__version__", "of this version")
        raise TensorFlowChanged(
            f"TensorFlow {version} does not tell whether it has started ({error}), so its own memory is not shown; "
            "TensorFlow 2.16 to 2.21 do"
        ) from error


class TensorFlowReader:
    """Reads in-use, peak and limit of TensorFlow's allocators, for as long as one context lives."""

    def __init__(self, kind: str = "GPU") -> None:
        self._kind = kind
        self._context: Any | None = None
        self._limits: dict[str, int] = {}

    def read(self, time: float) -> list[MemorySample]:
        """Read once.

        Parameters
        ----------
        time : float
            Seconds since the recording began, for the samples.

        Returns
        -------
        list of MemorySample
            One of each device of the kind, named in full: ``used`` and ``process`` are what the allocator has handed
            out, ``total`` is its limit, ``peak`` the most so far. Empty before TensorFlow has been started.

        Raises
        ------
        TensorFlowChanged
            When this TensorFlow does not say whether it has been initialised.
        """
        context = eager_context()
        if context is None:
            return []
        if context is not self._context:
            self._context, self._limits = context, memory_limits(context)
        import tensorflow as tf  # imported already: eager_context() has seen it

        samples = []
        for device in tf.config.list_logical_devices(self._kind):
            name = full_device(device.name)
            try:
                info = tf.config.experimental.get_memory_info(device.name)
            except ValueError:  # a device of another task, or an allocator without statistics
                info = {}
            samples.append(
                MemorySample(
                    time,
                    name or device.name,
                    used=info.get("current"),
                    total=self._limits.get(name or device.name),
                    process=info.get("current"),
                    peak=info.get("peak"),
                )
            )
        return samples


def memory_limits(context: Any) -> dict[str, int]:
    """Return the memory limit of each device of an initialised context, in bytes, by full name.

    TensorFlow has no public function for it after the start, short of making every device again; its wrapped C
    functions (seen in 2.21) read the list. Where one is missing no limit is known.
    """
    try:
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.client import pywrap_tf_session

        devices = pywrap_tfe.TFE_ContextListDevices(context._context_handle)
        try:
            count = pywrap_tfe.TF_DeviceListCount(devices)
            return {
                pywrap_tfe.TF_DeviceListName(devices, k): pywrap_tf_session.TF_DeviceListMemoryBytes(devices, k)
                for k in range(count)
            }
        finally:
            pywrap_tfe.TF_DeleteDeviceList(devices)
    except (ImportError, AttributeError, TypeError):
        return {}


def device_descriptions() -> dict[str, str]:
    """Return TensorFlow's description of each local device, by full name; empty before TensorFlow has been started.

    The devices are made once more for it, with the configuration of the running ones, whose memory they share: ask
    once after the start, not with every sample.

    Raises
    ------
    TensorFlowChanged
        When this TensorFlow does not say whether it has been initialised.
    """
    context = eager_context()
    if context is None:
        return {}
    from tensorflow.python.client import device_lib

    devices = device_lib.list_local_devices(context.config)
    return {full_device(device.name) or device.name: device.physical_device_desc for device in devices}
