"""What an estimate consists of, and its JSON form."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from jupyter_placement.dryrun.transfers import Transfer
from jupyter_placement.placement import Placement, PlacementError

FITS, MAY_NOT_FIT, DOES_NOT_FIT = "fits", "may not fit", "does not fit"
# By how much a step may need less or more than the walks find: TensorFlow's graph optimizer saves and takes some. More
# than the errors that were measured on a CPU.
LESS, MORE = 0.1, 0.25


@dataclass
class DeviceEstimate:
    """What one step costs one device. All but ``operations``, ``variables`` and ``slots`` is an estimate.

    Attributes
    ----------
    device : str
        Full device name.
    card : str or None
        Its kind, where it is known.
    operations : int
        How many operations are there.
    variables, slots : int
        Bytes of variables, and of those that are the optimizer's, as far as names and operations tell these.
    constants, inputs : int
        Bytes of constants, and of what the step is given.
    step : int
        Bytes of the step's own tensors at the worst time, when who is ready first goes first.
    step_low, step_high : int
        The same in the better, and in the worse, of the two orders that were walked.
    parts : dict of str to int
        What ``step`` consists of: ``activations``, ``gradients``, ``copies`` of other devices' tensors.
    largest : list of (str, int)
        The operations whose tensors hold most of it, with their bytes.
    unknown : int
        Tensors and variables of unknown size, which are not counted.
    biggest : int
        Bytes of the step's largest tensor; ``high`` takes each unknown one for as large.
    open_inputs : int
        Inputs of the step, on any device, whose size is not known: then all of it may be larger.
    calls : int
        Calls of functions that are placed as one operation, and run on this device, or may: what is inside is not
        counted.
    available : int or None
        Bytes that TensorFlow takes of the card.
    seconds : float or None
        Time in which it computes.
    """

    device: str
    card: str | None = None
    operations: int = 0
    variables: int = 0
    slots: int = 0
    constants: int = 0
    inputs: int = 0
    step: int = 0
    step_low: int = 0
    step_high: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    largest: list[tuple[str, int]] = field(default_factory=list)
    unknown: int = 0
    biggest: int = 0
    open_inputs: int = 0
    calls: int = 0
    available: int | None = None
    seconds: float | None = None

    @property
    def always(self) -> int:
        """Bytes that are there all the time."""
        return self.variables + self.slots + self.constants + self.inputs

    @property
    def peak(self) -> int:
        """The most bytes at a time."""
        return self.always + self.step

    @property
    def low(self) -> int:
        """What it takes at least, in a good order.

        Examples
        --------
        >>> DeviceEstimate("/device:GPU:0", variables=100, step=80, step_low=60).low
        154
        """
        return self.always + int(self.step_low * (1 - LESS))

    @property
    def high(self) -> int:
        """What it may take: with a margin for what the walk over the step does not see, and for unknown sizes.

        Examples
        --------
        >>> DeviceEstimate("/device:GPU:0", variables=100, step=60, step_high=80).high
        200
        """
        return self.always + int(self.step_high * (1 + MORE)) + self.unknown * self.biggest

    @property
    def at_least(self) -> bool:
        """Whether something is not counted that may be large, so that it may take more than ``high``."""
        return bool(self.open_inputs or self.calls)

    @property
    def verdict(self) -> str | None:
        """``"fits"``, ``"may not fit"``, ``"does not fit"``; ``None`` where the device's memory is not known.

        Examples
        --------
        >>> [DeviceEstimate("", step_high=100, step_low=90, available=size).verdict for size in (200, 110, 80, None)]
        ['fits', 'may not fit', 'does not fit', None]
        >>> DeviceEstimate("", step_high=100, step_low=90, open_inputs=1, available=200).verdict
        'may not fit'
        >>> DeviceEstimate("", step_high=9, available=20, calls=1).verdict
        'may not fit'
        """
        if self.available is None:
            return None
        if self.low > self.available:
            return DOES_NOT_FIT
        return FITS if self.high <= self.available and not self.at_least else MAY_NOT_FIT


@dataclass
class Estimate:
    """What one step of a dry run would cost. Nothing was run for it.

    Attributes
    ----------
    devices : list of DeviceEstimate
        Every device that has an operation or a tensor.
    transfers : list of Transfer
        What moves in a step, by source and target, most bytes first.
    seconds : float or None
        The step; ``None`` where it cannot be told.
    notes : list of str
        What is not counted, and what was assumed.
    """

    devices: list[DeviceEstimate] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    seconds: float | None = None
    notes: list[str] = field(default_factory=list)

    def device(self, name: str) -> DeviceEstimate:
        """Return what a device's step costs.

        Raises
        ------
        KeyError
            When nothing is there, or it is no device.
        """
        for one in self.devices:
            if one.device == name or one.device.endswith(f"/device:{name}"):
                return one
        raise KeyError(f"there is no estimate of {name!r}; there is one of {[one.device for one in self.devices]}")

    def to_json(self) -> dict[str, Any]:
        """Return JSON values only."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Estimate:
        """Make an Estimate from its JSON form.

        Raises
        ------
        PlacementError
            When it is none.
        """
        try:
            devices = [_known(DeviceEstimate, one) for one in data["devices"]]
            for device in devices:
                device.largest = [(str(node), int(size)) for node, size in device.largest]
            return cls(devices, [_known(Transfer, one) for one in data["transfers"]], data["seconds"], data["notes"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlacementError(f"the estimate in this placement cannot be read ({error!r})") from error

    def __str__(self) -> str:
        from jupyter_placement.dryrun.estimate_view import estimate_text  # it needs these types

        return estimate_text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from jupyter_placement.dryrun.estimate_view import estimate_html, estimate_text

        return {"text/plain": estimate_text(self), "text/html": estimate_html(self)}


def estimate_of(placement: Placement) -> Estimate:
    """Return what one step of a dry run would cost.

    Parameters
    ----------
    placement : Placement
        What :func:`~jupyter_placement.dry_run` returned, or a saved one that was loaded again.

    Raises
    ------
    PlacementError
        When the placement is not that of a dry run.
    """
    if not isinstance(placement, Placement):
        raise PlacementError(f"estimate_of takes the Placement of a dry run, not a {type(placement).__name__}")
    data = placement.meta.get("estimate")
    if data is None:
        raise PlacementError("this placement has no estimate: only that of a dry run has one")
    return Estimate.from_json(data)


def _known(cls: type[Any], item: Any) -> Any:
    """Make a dataclass from the keys that it knows; later versions may add others."""
    names = {one.name for one in fields(cls)}
    return cls(**{key: value for key, value in item.items() if key in names})
