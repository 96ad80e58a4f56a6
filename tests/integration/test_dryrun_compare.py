"""Several machines side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_placement.cli import main
from jupyter_placement.dryrun import close_helpers, dry_run
from jupyter_placement.dryrun.comparison import compare, dry_run_each
from jupyter_placement.placement import Placement, PlacementError

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", autouse=True)
def _end_helpers() -> Iterator[None]:
    yield
    close_helpers()


@pytest.fixture
def graph() -> Any:
    """Return a graph whose product asks for the second card, and whose sum asks for none."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [4, 4], name="x")
        with tf.device("/gpu:1"):
            product = tf.matmul(x, x, name="product")
        tf.add(product, x, name="sum")
    return graph


def test_what_a_second_card_changes(graph: Any) -> None:
    comparison = compare(dry_run(graph, on="1xT4"), dry_run(graph, on="2xT4"))
    (move,) = comparison.moves()
    assert (move.machine, move.before, move.after, move.nodes) == ("2xT4", "GPU:0", "GPU:1", ["product"])
    one, two = comparison.rows()
    assert (one["not as asked"], two["not as asked"]) == ("1", "none")
    assert two["transfers"] == "GPU:0 -> GPU:1: 1, 64 B\nGPU:1 -> GPU:0: 1, 64 B"
    assert "2xT4: 1 operation on GPU:1 that 1xT4 has on GPU:0: 1 MatMul: product" in str(comparison)
    assert "<td" in comparison._repr_mimebundle_()["text/html"]


def test_where_it_cannot_be_placed_the_error_stands(graph: Any) -> None:
    comparison = dry_run_each(graph, on=["2xT4", "1xT4"], soft=False)
    assert [one.placement is None for one in comparison.outcomes] == [False, True]
    assert comparison.rows()[1]["operations"] == "cannot be placed"
    with pytest.raises(PlacementError, match="Cannot assign a device for operation product"):
        comparison["1xT4"]
    with pytest.raises(KeyError, match="there are 2xT4, 1xT4"):
        comparison["3xT4"]


def test_what_is_no_machine_is_refused_before_anything_is_placed(graph: Any) -> None:
    with pytest.raises(PlacementError, match="did you mean"):
        dry_run_each(graph, on=["2xT4", "2xT44"])


@pytest.mark.parametrize("placements", [(), (Placement(),), (Placement(), "2xT4")])
def test_what_cannot_be_compared(placements: Any) -> None:
    with pytest.raises(PlacementError, match="two or more placements"):
        compare(*placements)


def test_the_command_prints_a_table(graph: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    assert main(["dry-run", str(path), "--on", "1xT4", "--on", "2xT4"]) == 0
    out = capsys.readouterr().out.splitlines()
    titles = ["machine", "operations", "not as asked", "transfers", "memory (estimate)", "step (estimate)"]
    assert out[0].split("  ")[0] == titles[0]
    assert [title in out[0] for title in titles] == [True] * 6
    assert [line.split()[0] for line in out if line.startswith(("1x", "2x"))] == ["1xT4", "2xT4", "2xT4:"]


def test_a_list_of_machines_is_a_comparison_with_what_a_step_would_cost(graph: Any) -> None:
    comparison = dry_run(graph, on=["1xT4", "1xT4 + 1xA100-80GB"])
    assert [one.machine for one in comparison.outcomes] == ["1xT4", "1xT4 + 1xA100-80GB"]
    one, two = comparison.rows()
    assert one["memory (estimate)"].endswith("fits")
    assert [line.partition(": ")[0] for line in two["memory (estimate)"].splitlines()] == ["GPU:0", "GPU:1"]
    assert one["step (estimate)"].endswith("s")
