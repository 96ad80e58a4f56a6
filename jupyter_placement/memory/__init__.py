"""Memory: what each card holds and who holds it, what TensorFlow's allocators make of it, and the host."""

from jupyter_placement.memory.cards import Card, CardReading, GpuProcess
from jupyter_placement.memory.sampler import MemorySampler

__all__ = ["Card", "CardReading", "GpuProcess", "MemorySampler"]
