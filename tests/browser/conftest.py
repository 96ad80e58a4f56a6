"""Fixtures of the browser tests."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.find_chromium import MISSING, find_chromium
from tests.browser.lab import CHROMIUM_ARGS, Lab


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return a headless Chromium; without one the tests skip, but fail with CI=true."""
    path = find_chromium()
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS) as running,
    ):
        yield running


@pytest.fixture
def start_lab(tmp_path: Path, browser: Browser) -> Iterator[Callable[[], Lab]]:
    """Return a function that starts a JupyterLab; all of them show one folder, each has its own home."""
    root = tmp_path / "root"
    root.mkdir()
    with ExitStack() as labs:
        started: list[Lab] = []

        def start() -> Lab:
            home = tmp_path / f"lab{len(started)}"
            home.mkdir()
            started.append(labs.enter_context(Lab(home, root, browser)))
            return started[-1]

        yield start


@pytest.fixture
def lab(start_lab: Callable[[], Lab]) -> Lab:
    """Return a JupyterLab that shows an empty folder."""
    return start_lab()
