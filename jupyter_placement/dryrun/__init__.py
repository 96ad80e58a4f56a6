"""TensorFlow's placer on imagined hardware."""

from jupyter_placement.capture.requests import requests
from jupyter_placement.dryrun.cards import KNOWN_CARDS, Card
from jupyter_placement.dryrun.machine import parse_machine
from jupyter_placement.dryrun.run import close_helpers, dry_run

__all__ = ["KNOWN_CARDS", "Card", "close_helpers", "dry_run", "parse_machine", "requests"]
