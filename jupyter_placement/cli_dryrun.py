"""``jupyter-placement dry-run``: where a model would go on a machine that is not there."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from jupyter_placement.cli_log import CommandError
from jupyter_placement.placement import PlacementError


def run_dry(options: argparse.Namespace) -> None:
    """Place the model on each machine and print where it went; for several machines, a table.

    Raises
    ------
    CommandError
        When the model, or a machine, cannot be read, or the graph cannot be placed.
    """
    from jupyter_placement.dryrun import close_helpers, dry_run, estimate_of
    from jupyter_placement.dryrun.comparison import dry_run_each

    if options.json and len(options.on) > 1:
        raise CommandError("--json saves one placement: give one --on", 2)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    settings: dict[str, Any] = {"soft": not options.hard, "progress": lambda text: print(text, file=sys.stderr)}
    try:
        if len(options.on) > 1:
            print(dry_run_each(options.model, on=options.on, **settings))
            return
        placement = dry_run(options.model, on=str(options.on[0]), **settings)
        print(placement.summary())
        print()
        print(estimate_of(placement))
        if options.json:
            placement.save(options.json)
    except PlacementError as error:
        raise CommandError(str(error), 1) from error
    finally:
        close_helpers()
