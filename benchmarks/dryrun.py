"""How long a dry run takes, beside TensorFlow's own import and placement of the same graph in one session.

    python benchmarks/dryrun.py GRAPH.pb [GRAPH.pb ...]

Prints for each graph: nodes, seconds of the first and of the next dry run's placer, seconds of ``import_graph_def``
with a session's placer in this process on logical CPUs, and the ratio.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path


def main(paths: list[str]) -> None:
    import tensorflow as tf

    from jupyter_placement.dryrun.helper import Helper
    from jupyter_placement.dryrun.machine import parse_machine
    from jupyter_placement.dryrun.run import prepared

    helper, machine = Helper(), parse_machine("4xT4")
    devices = [
        {"name": one.name, "type": one.type, "memory": one.memory_limit, "description": one.physical_name or ""}
        for one in machine
    ]
    for path in paths:
        graph_def = tf.compat.v1.GraphDef.FromString(Path(path).read_bytes())
        times = []
        for _ in range(4):
            began = time.perf_counter()
            reply = helper.place(prepared(graph_def, machine).SerializeToString(), devices)
            times.append(time.perf_counter() - began)
        own = []
        config = tf.compat.v1.ConfigProto(allow_soft_placement=True, device_count={"CPU": 4})
        for _ in range(3):
            began = time.perf_counter()
            graph = tf.Graph()
            with graph.as_default():
                tf.import_graph_def(graph_def, name="")
            with tf.compat.v1.Session(graph=graph, config=config) as session:
                session._extend_graph()
            own.append(time.perf_counter() - began)
        again, best = min(times[1:]), min(own)
        print(
            f"{Path(path).stem}: {len(graph_def.node)} nodes, {len(reply.log)} placed; first {times[0]:.2f} s, "
            f"next {again:.3f} s; import and placer {best:.3f} s; ratio {again / best:.2f}{'  ' + reply.error[:200]}"
        )
    helper.close()


if __name__ == "__main__":
    main(sys.argv[1:])
