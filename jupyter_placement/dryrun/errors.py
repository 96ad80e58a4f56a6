"""What TensorFlow itself refuses."""

from jupyter_placement.placement import PlacementError


class UnplaceableError(PlacementError):
    """The placer's own error: with this machine, and as it was asked for, a graph cannot be placed."""
