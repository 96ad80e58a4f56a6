"""`import jupyter_placement` is light: none of the slow packages is loaded, and none needs to be there."""

import subprocess
import sys

import pytest

SLOW = ("tensorflow", "keras", "plotly", "pynvml", "ipywidgets", "IPython")
# Makes the named packages look as if they were not installed.
HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""


def python(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


MODULES = ("jupyter_placement", "jupyter_placement.log", "jupyter_placement.cli")


@pytest.mark.parametrize("module", MODULES)
def test_nothing_slow_is_loaded(module: str) -> None:
    done = python(f"import sys, {module}; print(sorted(set({SLOW!r}) & set(sys.modules)))")
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("module", MODULES)
def test_nothing_slow_needs_to_be_installed(module: str) -> None:
    done = python(HIDE.format(names=SLOW) + f"import {module}\nprint(jupyter_placement.Placement().summary())")
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.strip() != ""


def test_hidden_packages_cannot_be_imported() -> None:
    done = python(HIDE.format(names=SLOW) + "import tensorflow")
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'tensorflow'"
