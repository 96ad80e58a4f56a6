"""Why each node is where it is, what would change it, and what is wrong in a whole run."""

from jupyter_placement.explain.explanation import Explanation, explain, set_reasons, unknown_share, without_kernel
from jupyter_placement.explain.ranking import Finding, findings
from jupyter_placement.explain.rule import RULES, Rule
from jupyter_placement.explain.rules import Rules

__all__ = [
    "RULES",
    "Explanation",
    "Finding",
    "Rule",
    "Rules",
    "explain",
    "findings",
    "set_reasons",
    "unknown_share",
    "without_kernel",
]
