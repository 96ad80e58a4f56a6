"""Cards that the driver sees and TensorFlow does not use."""

from __future__ import annotations

from jupyter_placement.placement import Placement
from jupyter_placement.summary import plural

_REASONS = (
    (
        ("Cannot dlopen some GPU libraries", "Could not load dynamic library", "Could not find cuda drivers"),
        "TensorFlow did not find a CUDA library",
        "Install the libraries with TensorFlow: pip install 'tensorflow[and-cuda]'.",
    ),
    (
        ("driver version is insufficient", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "forward compatibility was attempted"),
        "the NVIDIA driver is too old for this TensorFlow",
        "Update the driver (nvidia-smi shows its version), or use an older TensorFlow.",
    ),
    (
        ("failed call to cuInit", "CUDA_ERROR_NO_DEVICE"),
        "CUDA could not be initialised",
        "Try nvidia-smi, and restart the kernel or the driver.",
    ),
)


def cards_not_used(placement: Placement) -> list[tuple[str, str, int]]:
    """Say that TensorFlow uses none of the cards that NVML sees, why, and what to do."""
    cards = {sample.device for sample in placement.memory if sample.device.startswith("nvml:")}
    if not cards or any(device.type == "GPU" for device in placement.devices):
        return []
    facts = (placement.meta.get("explain") or {}).get("gpu", {})
    seen = f"The driver sees {plural(len(cards), 'GPU')}, and TensorFlow uses none of them"
    if facts.get("built_with_gpu") is False:
        why, advice = "this TensorFlow is built for CPUs only", "Install the package tensorflow[and-cuda]."
    elif facts.get("visible") is not None and not facts["visible"].strip().strip("-1"):
        why = f"CUDA_VISIBLE_DEVICES is {facts['visible']!r}, which hides them"
        advice = "Unset CUDA_VISIBLE_DEVICES before TensorFlow starts, and restart the kernel."
    else:
        lines = "\n".join(facts.get("lines", ()))
        found = next((one for one in _REASONS if any(text in lines for text in one[0])), None)
        if found is None:
            return [
                (f"{seen}; its log does not tell why.", "Restart the kernel and read what TensorFlow logs.", len(cards))
            ]
        why, advice = found[1], found[2]
    return [(f"{seen}: {why}.", advice, len(cards))]
