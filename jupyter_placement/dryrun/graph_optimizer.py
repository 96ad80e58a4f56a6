"""What TensorFlow's graph optimizer changes of a step before it runs, as far as it decides about memory."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_placement.dryrun.step_graph import StepNode, Use


def split_identities(nodes: Sequence[StepNode]) -> None:
    """Let nobody wait for an IdentityN that hands on more than is needed.

    The optimizer makes one Identity of each output that is needed (``SplitIdentityNInputs`` in ``model_pruner.cc``).
    Keras sends all gradients of a step through such a node: with it no update could begin, and no gradient be given
    back, before the last gradient is there.

    Parameters
    ----------
    nodes : sequence of StepNode
        The step; the edges are changed.
    """
    for number, node in enumerate(nodes):
        if node.op != "IdentityN" or len({use.output for use in node.users}) >= len(node.outputs):
            continue
        kept = []
        for use in node.users:
            user, given = nodes[use.node], node.inputs[use.output]
            if use.to:
                kept.append(use)  # it goes on to another device from here
                continue
            for position, taken in enumerate(user.inputs):
                if taken.node == number and taken.output == use.output:
                    user.inputs[position] = given
            nodes[given.node].users.append(Use(given.output, use.node, given.to))
        node.users[:] = kept
        if not kept:
            for source in {taken.node for taken in node.inputs}:
                before = len(nodes[source].users)
                nodes[source].users[:] = [use for use in nodes[source].users if use.node != number]
                node.waits -= before - len(nodes[source].users)
            node.inputs.clear()
            node.outputs.clear()
            node.device = ""  # it does not run
