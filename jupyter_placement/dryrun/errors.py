"""What TensorFlow itself refuses."""

from jupyter_placement.placement import Event, PlacementError


class UnplaceableError(PlacementError):
    """The placer's own error: with this machine, and as it was asked for, a graph cannot be placed.

    Parameters
    ----------
    text : str
        TensorFlow's message.
    event : Event, optional
        The same as a sentence with the operation, the user's line and a remedy, which then stands above the message.

    Attributes
    ----------
    text : str
        TensorFlow's message.
    event : Event or None
        What was given.
    """

    def __init__(self, text: str, event: Event | None = None) -> None:
        super().__init__(text if event is None else f"{event.message}\n\n{text}")
        self.text = text
        self.event = event
