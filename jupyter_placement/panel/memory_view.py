"""Live memory as a widget: by itself with :func:`memory_panel`, or fed by the sampler of a recording."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets

from jupyter_placement.memory import CardReading, MemorySampler
from jupyter_placement.memory.mapping import CardMatch, Description, match_cards, parse_description
from jupyter_placement.memory.tensorflow_memory import TensorFlowChanged, device_descriptions
from jupyter_placement.panel.memory_cards import holders_html
from jupyter_placement.placement import Device, MemorySample


class MemoryView(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no type hints
    """Bars of each card by process, of TensorFlow's allocators and of the host; it shows what it is given.

    Parameters
    ----------
    descriptions : mapping of str to Description, optional
        What TensorFlow says of the card below each of its GPUs, by full device name.
    """

    def __init__(self, descriptions: Mapping[str, Description] | None = None) -> None:
        self._bars = ipywidgets.HTML()
        self._descriptions = dict(descriptions or {})
        super().__init__([self._bars])

    def show(
        self,
        samples: Sequence[MemorySample],
        readings: Sequence[CardReading] = (),
        notes: Sequence[str] = (),
        seconds: float | None = None,
    ) -> None:
        """Show the samples of one moment; may be called on any thread.

        Parameters
        ----------
        samples, readings, notes, seconds
            As a :class:`MemorySampler` gives them.
        """
        self._bars.value = holders_html(samples, readings, self._matches(samples, readings), notes, seconds)

    def _matches(self, samples: Sequence[MemorySample], readings: Sequence[CardReading]) -> list[CardMatch]:
        devices = [Device(sample.device) for sample in samples if sample.device.startswith("/")]
        cards = [reading.card for reading in readings]
        return match_cards(devices, cards, os.environ, self._descriptions) if devices and cards else []


class MemoryPanel(MemoryView):
    """Live memory by itself, until it is closed.

    Attributes
    ----------
    sampler : MemorySampler
        Where the samples come from.
    """

    def __init__(self, interval: float = 0.5) -> None:
        super().__init__(_descriptions())
        self.sampler = MemorySampler(interval, self._on_sample)
        stop = ipywidgets.Button(description="Stop", tooltip="Stop to read memory; what is shown stays")
        stop.on_click(self._on_stop)
        self._stop = stop
        self._ended = threading.Event()
        self.children = [self._bars, stop]
        self.sampler.start()

    def stop(self) -> None:
        """Stop to read memory; what is shown stays."""
        self.sampler.stop()
        if not self._ended.is_set():
            self._ended.set()
            self.children = [self._bars]
            self._stop.close()

    def close(self) -> None:
        """Stop to read memory, and take the panel away."""
        self.sampler.stop()
        self._ended.set()
        self._stop.close()
        self._bars.close()
        super().close()

    def _on_stop(self, _button: Any) -> None:
        self.stop()

    def _on_sample(self, samples: list[MemorySample], seconds: float, notes: list[str]) -> None:
        self.show(samples, self.sampler.readings, notes, seconds)


def memory_panel(interval: float = 0.5) -> MemoryPanel:
    """Show the memory of each GPU, of TensorFlow and of the host, live.

    TensorFlow is not started for it, and no GPU memory is taken. ``panel.close()`` ends it.

    Parameters
    ----------
    interval : float
        Seconds from one reading to the next.

    Returns
    -------
    MemoryPanel
        A widget: the value of a cell's last line, or of ``display``.

    Raises
    ------
    ValueError
        When ``interval`` is not above 0.
    """
    return MemoryPanel(interval)


def _descriptions() -> dict[str, Description]:
    """Ask TensorFlow, if it has started, which card is below each of its GPUs."""
    try:
        told = device_descriptions()
    except (TensorFlowChanged, RuntimeError):  # the environment variables tell it too
        return {}
    found = {device: parse_description(text) for device, text in told.items()}
    return {device: description for device, description in found.items() if description is not None}
