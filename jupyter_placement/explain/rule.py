"""The rules by name, and one of them applied to a node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# Each rule, with the one word of the data model for it.
RULES = {
    "pinned": "pinned",
    "pinned_partly": "pinned",
    "constant": "pinned",
    "colocated": "colocated",
    "overridden": "colocated",
    "no_kernel": "fallback",
    "no_such_device": "fallback",
    "default": "default",
    "call_device": "default",
    "generator": "followed",
    "metadata": "followed",
    "identity": "followed",
    "argument": "followed",
    "result": "followed",
    "control_group": "followed",
    "optimized": "followed",
    "data_function": "followed",
    "function_call": "followed",
    "existing": "followed",
    "small_on_host": "followed",
    "compiled": "default",
    "sticky": "followed",
    "never_placed": "unknown",
    "unknown": "unknown",
}


@dataclass
class Rule:
    """The rule of one node, and the facts that it rests on.

    Attributes
    ----------
    name : str
        One of :data:`RULES`.
    facts : dict
        JSON values only.
    reason : str
        The word of the data model.
    """

    name: str
    facts: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    def __post_init__(self) -> None:
        self.reason = self.reason or RULES[self.name]
