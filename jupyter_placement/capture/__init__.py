"""Record what TensorFlow really ran, and where: sessions, functions and eager operations."""

from jupyter_placement.capture.recording import Recording, record

__all__ = ["Recording", "record"]
