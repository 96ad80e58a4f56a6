"""TensorFlow's placer on imagined hardware."""

from jupyter_placement.capture.requests import requests
from jupyter_placement.dryrun.card import Card
from jupyter_placement.dryrun.cards import KNOWN_CARDS
from jupyter_placement.dryrun.comparison import Comparison, compare
from jupyter_placement.dryrun.errors import UnplaceableError
from jupyter_placement.dryrun.estimate_data import Estimate, estimate_of
from jupyter_placement.dryrun.machine import parse_machine
from jupyter_placement.dryrun.run import close_helpers, dry_run

__all__ = [
    "KNOWN_CARDS",
    "Card",
    "Comparison",
    "Estimate",
    "UnplaceableError",
    "close_helpers",
    "compare",
    "dry_run",
    "estimate_of",
    "parse_machine",
    "requests",
]
