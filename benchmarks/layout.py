"""How long the picture of a large graph takes, and how large its static output is.

    python benchmarks/layout.py [GRAPH.pb]

Without a graph: a synthetic one in nested scopes. With one: its operations, placed as they ask.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from jupyter_placement.layout import layout, scope_tree
from jupyter_placement.placement import Placement
from jupyter_placement.report import static_bundle
from tests.unit.placements import CPU0, graph_def_placement, layers_placement


def median(work: Callable[[], Any], rounds: int = 5) -> float:
    """Median seconds of a few runs."""
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def from_file(path: str) -> Placement:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from tensorflow.core.framework.graph_pb2 import GraphDef

    graph = GraphDef()
    graph.ParseFromString(Path(path).read_bytes())
    return graph_def_placement(graph)


def speed(placement: Placement) -> None:
    nodes, edges = placement.graph.number_of_nodes(), placement.graph.number_of_edges()
    tree = scope_tree(placement)
    print(f"{nodes:,} operations, {edges:,} edges, {len(tree.scopes):,} scopes")
    print(f"  scope tree with lifted edges: {median(lambda: scope_tree(placement)):.2f} s (goal 0.7 s for 50,000)")
    start = time.perf_counter()
    layout(tree)
    print(f"  first layout of the top level: {1e3 * (time.perf_counter() - start):.1f} ms")
    print(f"  top level again: {1e3 * median(lambda: layout(tree)):.2f} ms")
    taken = []
    for path, scope in tree.scopes.items():
        if scope.depth <= 3:
            opened = [one.path for one in scope.ancestors() if one.path][::-1]
            layout(tree, opened)
            taken.append((median(lambda opened=opened: layout(tree, opened), 3), path))  # type: ignore[misc]
    taken.sort()
    middle, (worst, path) = taken[len(taken) // 2][0], taken[-1]
    print(f"  opening a scope: median {1e3 * middle:.1f} ms, slowest {1e3 * worst:.1f} ms ({path})")


def size(placement: Placement) -> None:
    placement.log = placement.log or [f"{node}: (Op): {CPU0}" for node in placement.graph]
    start = time.perf_counter()
    bundle = static_bundle(placement)
    seconds = time.perf_counter() - start
    parts = ", ".join(f"{kind} {len(json.dumps(data)):,}" for kind, data in bundle.items())
    print(f"static output of {placement.graph.number_of_nodes():,} operations in {seconds:.2f} s:")
    print(f"  {len(json.dumps(bundle)):,} bytes (goal: under 1,000,000 for 10,000): {parts}")


def main() -> None:
    if len(sys.argv) > 1:
        placement = from_file(sys.argv[1])
        speed(placement)
        size(placement)
    else:
        speed(layers_placement(50_000))
        size(layers_placement(10_000))


if __name__ == "__main__":
    main()
