"""Where does my model run? TensorFlow's assigned devices, seen in the notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_placement.capture.kernels import Kernels, kernels
    from jupyter_placement.dryrun import Card, Comparison, Estimate, compare, dry_run, estimate_of
    from jupyter_placement.explain import Explanation, Finding, without_kernel
    from jupyter_placement.memory import limit_memory, plan_memory
    from jupyter_placement.panel import PlacementPanel
    from jupyter_placement.panel.memory_timeline import memory_timeline
    from jupyter_placement.panel.memory_view import memory_panel
    from jupyter_placement.placement import Counts, Device, Event, MemorySample, Placement, PlacementError
    from jupyter_placement.reading import read_log
    from jupyter_placement.recording import Recording, record

__version__ = "0.1.0"
__all__ = [
    "Card",
    "Comparison",
    "Counts",
    "Device",
    "Estimate",
    "Event",
    "Explanation",
    "Finding",
    "Kernels",
    "MemorySample",
    "Placement",
    "PlacementError",
    "PlacementPanel",
    "Recording",
    "compare",
    "dry_run",
    "estimate_of",
    "kernels",
    "limit_memory",
    "load_ipython_extension",
    "memory_panel",
    "memory_timeline",
    "plan_memory",
    "read_log",
    "record",
    "unload_ipython_extension",
    "without_kernel",
]

_LATER = {
    **dict.fromkeys(
        ("Counts", "Device", "Event", "MemorySample", "Placement", "PlacementError"), "jupyter_placement.placement"
    ),
    "PlacementPanel": "jupyter_placement.panel",
    **dict.fromkeys(
        ("Card", "Comparison", "Estimate", "compare", "dry_run", "estimate_of"), "jupyter_placement.dryrun"
    ),
    "memory_panel": "jupyter_placement.panel.memory_view",
    "memory_timeline": "jupyter_placement.panel.memory_timeline",
    "plan_memory": "jupyter_placement.memory",
    "limit_memory": "jupyter_placement.memory",
    **dict.fromkeys(("Explanation", "Finding", "without_kernel"), "jupyter_placement.explain"),
    "Kernels": "jupyter_placement.capture.kernels",
    "read_log": "jupyter_placement.reading",
    "Recording": "jupyter_placement.recording",
    "kernels": "jupyter_placement.capture.kernels",
    "record": "jupyter_placement.recording",
}


def __getattr__(name: str) -> Any:
    """Import a module of the package when a name of it is first asked for: networkx alone takes 0.1 s."""
    if name in _LATER:
        import importlib

        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def load_ipython_extension(shell: Any) -> None:
    """Register ``%%placement`` (``%load_ext jupyter_placement``)."""
    from jupyter_placement.magic import PlacementMagics

    PlacementMagics(shell).install()


def unload_ipython_extension(shell: Any) -> None:
    """Take ``%%placement`` out again (``%unload_ext jupyter_placement``)."""
    from jupyter_placement.magic import uninstall

    uninstall(shell)
