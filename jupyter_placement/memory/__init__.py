"""Memory: what each card holds and who holds it, what TensorFlow's allocators make of it, and the host.

Nothing here starts TensorFlow or takes memory of a card; pynvml is imported when a card is first asked for.
"""

from jupyter_placement.memory.cards import Card, CardReading, GpuProcess
from jupyter_placement.memory.limit import MemoryLimitError, limit_memory
from jupyter_placement.memory.mapping import CardMatch, Description, match_cards, parse_description, with_cards
from jupyter_placement.memory.nvml_worker import NvmlAnswer, read_cards
from jupyter_placement.memory.oom import OomExplanation, explain_oom
from jupyter_placement.memory.oom_facts import read_oom
from jupyter_placement.memory.plan import MemoryPlan, PlannedCard, plan_memory
from jupyter_placement.memory.sampler import MemorySampler
from jupyter_placement.memory.setup import TensorFlowSetup, tensorflow_setup
from jupyter_placement.memory.tensorflow_memory import TensorFlowChanged, device_descriptions

__all__ = [
    "Card",
    "CardMatch",
    "CardReading",
    "Description",
    "GpuProcess",
    "MemoryLimitError",
    "MemoryPlan",
    "MemorySampler",
    "NvmlAnswer",
    "OomExplanation",
    "PlannedCard",
    "TensorFlowChanged",
    "TensorFlowSetup",
    "device_descriptions",
    "explain_oom",
    "limit_memory",
    "match_cards",
    "parse_description",
    "plan_memory",
    "read_cards",
    "read_oom",
    "tensorflow_setup",
    "with_cards",
]
