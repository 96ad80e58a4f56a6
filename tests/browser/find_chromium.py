"""Where Chromium or Chrome is on this machine; run as a program it prints the path, or fails."""

import os
import shutil
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MISSING = (
    "no Chromium or Chrome was found: install one (Debian, Ubuntu: apt-get install chromium fonts-dejavu-core), "
    "or set CHROME_PATH to its program"
)


def find_chromium() -> str | None:
    """Return the program's path, or None; CHROME_PATH comes first."""
    named = os.environ.get("CHROME_PATH")
    if named:
        return shutil.which(named)
    return next((path for path in map(shutil.which, NAMES) if path), None)


if __name__ == "__main__":
    found = find_chromium()
    sys.exit(print(found) if found else MISSING)
