"""``jupyter-placement dry-run``: where a model would go on a machine that is not there."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import IO, Any

from jupyter_placement.cli_log import CommandError
from jupyter_placement.cli_quiet import quiet_start
from jupyter_placement.placement import Placement, PlacementError

_KERAS = (".keras", ".h5", ".hdf5")


def run_dry(options: argparse.Namespace) -> None:
    """Place the model on each machine and print where it went; for several machines, a table.

    Raises
    ------
    CommandError
        When the model, or a machine, cannot be read, or the graph cannot be placed.
    """
    _check(options)
    try:
        with quiet_start() as told:
            found, texts = _placed(options, told)
        if options.json == "-":
            json.dump(found.to_json(), sys.stdout)
            sys.stdout.write("\n")
            return
        print("\n\n".join(texts))
        if options.json:
            print(f"wrote {found.save(options.json)}", file=sys.stderr)
    except PlacementError as error:
        raise CommandError(str(error), 1) from error
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("tensorflow", "keras"):
            raise
        raise CommandError(
            "a dry run needs TensorFlow's Linux build with CUDA, which is not installed here: pip install tensorflow", 1
        ) from error


def _placed(options: argparse.Namespace, told: IO[str]) -> tuple[Any, list[str]]:
    """Return the placement, or the comparison of several, and what is to be printed of it."""
    from jupyter_placement.dryrun import close_helpers, dry_run, estimate_of

    settings: dict[str, Any] = {
        "soft": not options.hard,
        "signature": options.signature,
        "progress": lambda text: print(text, file=told),
    }
    if options.train:
        settings["train"] = True
    if options.batch is not None:
        settings["batch_size"] = int(options.batch)
    try:
        found = dry_run(options.model, on=options.on if len(options.on) > 1 else options.on[0], **settings)
    finally:
        close_helpers()
    if isinstance(found, Placement):
        return found, [found.summary(), str(estimate_of(found))]
    return found, [str(found)]


def _check(options: argparse.Namespace) -> None:
    """Refuse what does not go together, before TensorFlow is started for it.

    Raises
    ------
    CommandError
        With a sentence.
    """
    path = Path(options.model)
    if options.json and len(options.on) > 1:
        raise CommandError("--json saves one placement: give one --on", 2)
    if options.train and path.suffix not in _KERAS:
        raise CommandError("--train is for a Keras model (.keras, .h5), saved with its optimizer and loss", 2)
    if options.signature is not None and not path.is_dir():
        raise CommandError("--signature names a signature of a SavedModel: give its folder", 2)
    batch = options.batch
    if batch is not None and not (batch.isascii() and batch.isdigit() and 0 < int(batch) < 2**31):
        raise CommandError(f"--batch is a whole number of examples, 1 or more, not {batch!r}", 2)
    if not path.exists():
        raise CommandError(f"there is no file or folder {options.model}")
    from jupyter_placement.dryrun import parse_machine

    for on in options.on:
        try:
            parse_machine(on)
        except PlacementError as error:
            raise CommandError(str(error), 2) from error
