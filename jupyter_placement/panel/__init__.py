"""The interactive view of one Placement, and of memory while a cell runs."""

from jupyter_placement.panel.panel import PlacementPanel

__all__ = ["PlacementPanel"]
