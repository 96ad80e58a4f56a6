"""``%%placement --on``: what a cell has run, placed on hardware that is not there."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jupyter_placement.placement import Event, Placement, PlacementError

if TYPE_CHECKING:
    from jupyter_placement.dryrun.comparison import Comparison
    from jupyter_placement.recording import Recording

NOTHING = (
    "--on places graphs, and the cell ran none: call a tf.function, fit or predict a Keras model, or run a session in "
    "it. Shown is where this machine put the operations."
)


def imagined(
    functions: Sequence[Any], recording: Recording, arguments: argparse.Namespace
) -> tuple[Placement, Placement | Comparison]:
    """Place the functions and the session graphs that a cell ran on the machines that were asked for.

    Parameters
    ----------
    functions : sequence of AtomicFunction
        The runtime's functions that the cell called.
    recording : Recording
        What the cell ran here.
    arguments : argparse.Namespace
        With ``on`` (machines), ``hard`` and ``batch``.

    Returns
    -------
    Placement
        On the first machine that it can be placed on; as it was recorded where there is none.
    Placement or Comparison
        For several machines the comparison; else the same Placement.
    """
    from jupyter_placement.dryrun import dry_run
    from jupyter_placement.dryrun.batch import NoBatchError
    from jupyter_placement.dryrun.comparison import dry_run_each

    recorded = recording.placement
    if recorded is None:
        raise PlacementError("the recording has not ended")
    graphs = [*functions, *(graph.graph_def for graph in recording.session_graphs)]
    if not graphs:
        print(NOTHING, file=sys.stderr)
        return recorded, recorded
    options: dict[str, Any] = {"soft": not arguments.hard, "progress": print}

    def place(**batch: int) -> tuple[Placement | Comparison, list[Placement]]:
        if len(arguments.on) == 1:
            found = dry_run(graphs, on=str(arguments.on[0]), **options, **batch)
            return found, [found]
        several = dry_run_each(graphs, on=arguments.on, **options, **batch)
        return several, [outcome.placement for outcome in several.outcomes if outcome.placement is not None]

    unused = ""
    try:
        try:
            found, placements = place(**({} if arguments.batch is None else {"batch_size": arguments.batch}))
        except NoBatchError:
            found, placements = place()
            unused = f"--batch {arguments.batch} was not needed: the cell's graphs have batches of known sizes."
    except PlacementError as error:
        print(f"--on {' --on '.join(arguments.on)}: {error}", file=sys.stderr)
        return recorded, recorded
    for placement in placements if unused else ():
        placement.events.append(Event("note", unused))
    eager = sum(data["graph"] == "eager" for _, data in recorded.graph.nodes(data=True))
    if eager:
        note = (
            f"{eager:,} eager operations of the cell belong to no graph and are not shown: on the real machine each is "
            "placed by itself when it runs. Put them into a tf.function to see where they would go."
        )
        for placement in placements:
            placement.events.append(Event("note", note))
    return (placements[0] if placements else recorded), found
