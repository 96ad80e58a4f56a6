"""Fixtures that several tests share."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kernel import Kernel


@pytest.fixture
def start_kernel(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    """Return a function that starts a kernel, with environment variables as keywords; all end with the test."""
    with ExitStack() as kernels:
        started: list[Kernel] = []

        def start(**env: str) -> Kernel:
            home = tmp_path / f"kernel{len(started)}"
            home.mkdir()
            started.append(kernels.enter_context(Kernel(home, env)))
            return started[-1]

        yield start


@pytest.fixture
def kernel(start_kernel: Callable[..., Kernel]) -> Kernel:
    """Return a fresh IPython kernel that ends with the test."""
    return start_kernel()


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """Return one kernel for all tests of a module, for those that leave nothing behind in it."""
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel
