"""One graph on several machines, side by side: what differs, as a table and node by node."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_placement.dryrun.estimate_data import estimate_of
from jupyter_placement.dryrun.estimate_view import peak_range, readable_seconds
from jupyter_placement.placement import Placement, PlacementError
from jupyter_placement.summary import device_labels, plural, some_names, transfer_size
from jupyter_placement.sums import fallbacks, transfers

_SHOWN = 6


@dataclass(frozen=True)
class Outcome:
    """What came out on one machine.

    Attributes
    ----------
    machine : str
        Its name: the ``on`` of a dry run, or ``"run 1"`` where the placement was recorded.
    placement : Placement or None
        ``None`` when it could not be placed there.
    error : str
        TensorFlow's error in that case, else ``""``.
    """

    machine: str
    placement: Placement | None
    error: str = ""


@dataclass
class Move:
    """Operations that are on one device on the first machine, and on another on a later one.

    Attributes
    ----------
    machine : str
        The later machine.
    before, after : str
        Short device names.
    ops : collections.Counter
        How many operations of each type.
    nodes : list of str
        Their ids.
    """

    machine: str
    before: str
    after: str
    ops: Counter[str] = field(default_factory=Counter)
    nodes: list[str] = field(default_factory=list)


class Comparison:
    """Placements of one graph on several machines.

    Parameters
    ----------
    outcomes : sequence of Outcome
        In the order in which they are shown; the others are compared with the first that was placed.
    """

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = tuple(outcomes)

    def __getitem__(self, machine: str) -> Placement:
        """Return the Placement on a machine, by its name.

        Raises
        ------
        KeyError
            When there is no such machine here.
        PlacementError
            With TensorFlow's error, when the graph could not be placed there.
        """
        for outcome in self.outcomes:
            if outcome.machine == machine:
                if outcome.placement is None:
                    raise PlacementError(outcome.error)
                return outcome.placement
        raise KeyError(f"no {machine!r} here; there are {', '.join(one.machine for one in self.outcomes)}")

    def moves(self) -> list[Move]:
        """Return what is on another device than on the first machine, most operations first."""
        placed = [(one.machine, one.placement) for one in self.outcomes if one.placement is not None]
        found: dict[tuple[str, str, str], Move] = {}
        for machine, placement in placed[1:]:
            first = placed[0][1]
            labels, later = device_labels(first), device_labels(placement)
            for node, data in first.graph.nodes(data=True):
                if node not in placement.graph:
                    continue
                before, after = labels[data["device"]], later[placement.graph.nodes[node]["device"]]
                if before != after:
                    move = found.setdefault((machine, before, after), Move(machine, before, after))
                    move.ops[data["op"] or "operation of unknown type"] += 1
                    move.nodes.append(node)
        return sorted(found.values(), key=lambda move: -len(move.nodes))

    def only_in_one(self) -> dict[str, int]:
        """Return for each later machine how many operations only it, or only the first, has."""
        placed = [(one.machine, one.placement) for one in self.outcomes if one.placement is not None]
        counts = {
            machine: len(set(placed[0][1].graph).symmetric_difference(placement.graph))
            for machine, placement in placed[1:]
        }
        return {machine: count for machine, count in counts.items() if count}

    def rows(self) -> list[dict[str, str]]:
        """Return the table: a row for each machine, column titles to texts."""
        return [_row(outcome) for outcome in self.outcomes]

    def __str__(self) -> str:
        rows = self.rows()
        titles = list(dict.fromkeys(title for row in rows for title in row))
        # A cell with several devices has a line for each.
        texts = [{title: row.get(title, "").split("\n") for title in titles} for row in rows]
        widths = {title: max([len(title), *(len(line) for row in texts for line in row[title])]) for title in titles}
        lines = ["  ".join(f"{title:<{widths[title]}}" for title in titles).rstrip()]
        for row in texts:
            for number in range(max(len(cell) for cell in row.values())):
                cells = (row[title][number] if number < len(row[title]) else "" for title in titles)
                pairs = zip(titles, cells, strict=True)
                lines.append("  ".join(f"{cell:<{widths[title]}}" for title, cell in pairs).rstrip())
        return "\n".join([*lines, *self.sentences()])

    def sentences(self) -> list[str]:
        """Say what differs, and what could not be placed."""
        said = [f"{one.machine}: {one.error}" for one in self.outcomes if one.placement is None]
        first = next((one.machine for one in self.outcomes if one.placement is not None), "")
        for move in self.moves():
            ops = ", ".join(f"{count:,} {op}" for op, count in move.ops.most_common(_SHOWN))
            said.append(
                f"{move.machine}: {plural(len(move.nodes), 'operation')} on {move.after} that {first} has on "
                f"{move.before}: {ops}: {some_names(move.nodes, 4)}"
            )
        for machine, count in self.only_in_one().items():
            said.append(f"{machine}: {plural(count, 'operation')} only in one of it and {first}")
        return said

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._html()}

    def _html(self) -> str:
        rows = self.rows()
        titles = list(dict.fromkeys(title for row in rows for title in row))
        head = "".join(f"<th style='text-align:left'>{html.escape(title)}</th>" for title in titles)
        cells = (
            "".join(
                f"<td style='text-align:left;vertical-align:top'>{_lines(row.get(title, ''))}</td>" for title in titles
            )
            for row in rows
        )
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        said = "".join(f"<li>{_lines(one)}</li>" for one in self.sentences())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + (
            f"<ul>{said}</ul>" if said else ""
        )


def compare(*placements: Placement) -> Comparison:
    """Put placements of one graph side by side.

    Parameters
    ----------
    *placements : Placement
        Of dry runs or recordings; the others are compared with the first.

    Raises
    ------
    PlacementError
        For fewer than two, or for anything else than placements.

    Examples
    --------
    >>> device = "/job:localhost/replica:0/task:0/device:"
    >>> small, large = Placement(meta={"dry_run": "1xT4"}), Placement(meta={"dry_run": "2xT4"})
    >>> for placement, index in ((small, 0), (large, 1)):
    ...     placement.add_node("a", op="MatMul", device=f"{device}GPU:{index}", requested="/gpu:1")
    >>> print(compare(small, large))
    machine  operations  not as asked  transfers
    1xT4     GPU:0: 1    1             none
    2xT4     GPU:1: 1    none          none
    2xT4: 1 operation on GPU:1 that 1xT4 has on GPU:0: 1 MatMul: a
    """
    other = next((one for one in placements if not isinstance(one, Placement)), None)
    if len(placements) < 2 or other is not None:
        given = f"{len(placements)} given" if other is None else f"not {type(other).__name__} objects"
        raise PlacementError(
            f"compare takes two or more placements, {given}: compare(dry_run(f, on=...), dry_run(f, on=...))"
        )
    names: Counter[str] = Counter()
    outcomes = []
    for number, placement in enumerate(placements, 1):
        name = _machine_name(placement, number)
        names[name] += 1
        outcomes.append(Outcome(name if names[name] == 1 else f"{name} ({names[name]})", placement))
    return Comparison(outcomes)


def dry_run_each(what: Any, *args: Any, on: Sequence[str], **options: Any) -> Comparison:
    """Place a graph on several machines.

    Parameters
    ----------
    what, *args, **options
        As for :func:`~jupyter_placement.dryrun.dry_run`.
    on : sequence of str
        The machines.

    Returns
    -------
    Comparison
        A machine on which the graph cannot be placed stands in it with TensorFlow's error.

    Raises
    ------
    PlacementError
        When the name of a machine cannot be read, or ``what`` is nothing that can be placed.
    """
    from jupyter_placement.dryrun.errors import UnplaceableError
    from jupyter_placement.dryrun.machine import parse_machine
    from jupyter_placement.dryrun.run import dry_run

    for machine in on:
        parse_machine(machine)
    outcomes = []
    for machine in on:
        try:
            outcomes.append(Outcome(machine, dry_run(what, *args, on=machine, **options)))
        except UnplaceableError as error:
            outcomes.append(Outcome(machine, None, str(error)))
    return Comparison(outcomes)


def _machine_name(placement: Placement, number: int) -> str:
    on = placement.meta.get("dry_run")
    return on if isinstance(on, str) else f"run {number}"


def _row(outcome: Outcome) -> dict[str, str]:
    placement = outcome.placement
    if placement is None:
        return {"machine": outcome.machine, "operations": "cannot be placed"}
    counts = placement.device_counts()
    pairs, labels = transfers(placement), device_labels(placement)
    refused = sum(len(group.nodes) for group in fallbacks(placement))
    return {
        "machine": outcome.machine,
        "operations": "\n".join(
            f"{placement.short(name)}: {counts.get(name, 0):,}" for name in placement.device_names()
        ),
        "not as asked": f"{refused:,}" if refused else "none",
        "transfers": "\n".join(
            f"{' -> '.join(one.ends(labels))}: {one.tensors:,}, {transfer_size(one)}" for one in pairs if one.tensors
        )
        or "none",
        **_costs(placement),
    }


def _costs(placement: Placement) -> dict[str, str]:
    """Return the cells of what a step would cost; none for a placement that has no estimate."""
    if "estimate" not in placement.meta:
        return {}
    estimate = estimate_of(placement)
    peaks = [
        f"{placement.short(one.device)}: {peak_range(one)}" + (f", {one.verdict}" if one.verdict else "")
        for one in estimate.devices
    ]
    return {"memory (estimate)": "\n".join(peaks), "step (estimate)": readable_seconds(estimate.seconds)}


def _lines(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
