"""An import goes downward only; and what is pure stays pure."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "jupyter_placement"
FOLDER = Path(__file__).parents[2] / PACKAGE

# Top first. A name is a module or a subpackage; what stands on one line may import each other, unless in APART.
LAYERS = (
    (
        "__init__",
        "magic",
        "magic_dryrun",
        "magic_options",
        "magic_output",
        "cli",
        "cli_log",
        "cli_quiet",
        "cli_watch",
        "cli_dryrun",
        "recording",
        "reading",
    ),
    ("panel",),
    ("layout", "report", "colors"),
    ("dryrun",),
    ("explain", "advise"),
    ("capture", "memory"),
    ("log",),
    ("graphfile",),
    ("placement", "checking", "summary", "sums", "devices", "device_functions", "kernel_table"),
)
# These sources stand beside each other; a dry run makes its Placement with the capture's own graphs.
APART = ("capture", "memory")
# (importer, imported): the only ways up, and only inside a function.
UPWARD = {("placement", "log.build"), ("placement", "explain"), ("summary", "explain")}  # Placement.findings, a type

# Pure functions of text or of a Placement: Python's own modules and networkx.
PURE = (
    "layout",
    "report",
    "colors",
    "log",
    "placement",
    "summary",
    "sums",
    "devices",
    "checking",
    "device_functions",
    "explain",
    "kernel_table",
)
PURE_MAY = {"networkx"}
# Slow to import (TensorFlow 4 s): at the top of a file only where nothing works without it.
HEAVY = {
    "tensorflow": (),
    "keras": (),
    "pynvml": (),
    "plotly": ("panel",),
    "ipywidgets": ("panel",),
    "IPython": ("panel", "magic", "magic_options"),
}


@dataclass(frozen=True)
class Import:
    """One import: who, what, where; `lazy` when it runs inside a function or only for the type checker."""

    importer: str
    target: str
    line: int
    lazy: bool


def name_of(path: Path, root: Path = FOLDER) -> str:
    """Return the dotted name within the package; `__init__` for the package itself."""
    parts = list(path.relative_to(root).with_suffix("").parts)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return ".".join(parts)


def imports_of(path: Path, root: Path = FOLDER) -> list[Import]:
    """Parse every import of a file; those of the package are named in full, relative ones too."""
    found: list[Import] = []
    own = [PACKAGE, *path.relative_to(root).parts[:-1]]

    def visit(node: ast.AST, lazy: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(name_of(path, root), alias.name, node.lineno, lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = own[: len(own) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = root.joinpath(*f"{module}.{alias.name}".split(".")[1:])
                is_module = module.split(".")[0] == PACKAGE and (inner.is_dir() or inner.with_suffix(".py").is_file())
                target = f"{module}.{alias.name}" if is_module else module
                found.append(Import(name_of(path, root), target, node.lineno, lazy))
        lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.iter_child_nodes(node):
            visit(child, lazy or (typing_only and child in node.body))  # type: ignore[attr-defined]

    visit(ast.parse(path.read_text(encoding="utf-8")), lazy=False)
    return found


def problem(one: Import) -> str | None:
    """Say what is wrong with an import, or return None."""
    importer = one.importer.split(".")[0]
    package, _, rest = one.target.partition(".")
    where = f"{one.importer}, line {one.line}: imports {one.target}"
    if package == PACKAGE:
        target = rest.split(".")[0] or "__init__"
        if importer == target or (one.lazy and (one.importer, rest) in UPWARD):
            return None
        if level(target) < level(importer):
            return f"{where}, which is a layer above"
        if target in APART and importer in APART:
            return f"{where}, which stands beside it"
        return None
    if package in HEAVY and not one.lazy and importer not in HEAVY[package]:
        return f"{where} at the top of the file: import it where it is first needed"
    if importer in PURE and package not in sys.stdlib_module_names | PURE_MAY:
        return f"{where}, but it is pure"
    return None


def level(name: str) -> int:
    for index, layer in enumerate(LAYERS):
        if name in layer:
            return index
    raise AssertionError(f"{PACKAGE}.{name} stands in no layer: add it to LAYERS in {__file__}")


def package_files() -> list[Path]:
    return sorted(FOLDER.rglob("*.py"))


def test_the_parser_sees_the_package() -> None:
    targets = {one.target for path in package_files() for one in imports_of(path)}
    assert targets >= {"networkx", f"{PACKAGE}.devices", f"{PACKAGE}.placement", f"{PACKAGE}.log.records"}


@pytest.mark.parametrize("path", package_files(), ids=name_of)
def test_imports_go_downward(path: Path) -> None:
    assert level(name_of(path).split(".")[0]) >= 0
    assert [text for one in imports_of(path) if (text := problem(one))] == []


def test_every_way_up_is_used() -> None:
    used = {(one.importer, one.target.partition(".")[2]) for path in package_files() for one in imports_of(path)}
    assert used >= UPWARD, "take ways up that nobody uses out of UPWARD"


@pytest.mark.parametrize(
    ("file", "source", "said"),
    [
        ("log/build.py", "from jupyter_placement.panel import PlacementPanel", "a layer above"),
        ("log/build.py", "import jupyter_placement", "a layer above"),
        ("log/build.py", "from jupyter_placement import record", "a layer above"),
        ("log/build.py", "from .. import memory", "a layer above"),
        ("log/build.py", "def f():\n    from ..capture import record", "a layer above"),
        ("placement.py", "from jupyter_placement.log.build import build", "a layer above"),
        ("placement.py", "def f():\n    from jupyter_placement.log.lines import parse_line", "a layer above"),
        ("report/text.py", "class A:\n    import jupyter_placement.magic as m", "a layer above"),
        (
            "capture/graphs.py",
            "if TYPE_CHECKING:\n    from jupyter_placement.memory import Sampler",
            "stands beside it",
        ),
        ("memory/host.py", "def f():\n    import jupyter_placement.capture", "stands beside it"),
        ("capture/graphs.py", "def f():\n    import jupyter_placement.dryrun", "a layer above"),
        ("capture/graphs.py", "import tensorflow as tf", "where it is first needed"),
        ("magic.py", "from plotly import graph_objects", "where it is first needed"),
        ("log/lines.py", "def f():\n    import tensorflow", "but it is pure"),
        ("layout/tree.py", "import numpy as np", "but it is pure"),
    ],
)
def test_a_wrong_import_is_caught(tmp_path: Path, file: str, source: str, said: str) -> None:
    (one,) = write(tmp_path, file, source)
    assert said in str(problem(one))


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("log/build.py", "from jupyter_placement.placement import Placement"),
        ("log/build.py", "from .. import devices"),
        ("log/build.py", "from .lines import parse_line"),
        ("log/__init__.py", "from .lines import parse_line"),
        ("placement.py", "def f():\n    from jupyter_placement.log.build import build"),
        ("capture/graphs.py", "def f():\n    import tensorflow as tf"),
        ("capture/graphs.py", "if TYPE_CHECKING:\n    import tensorflow as tf"),
        ("panel/widget.py", "import plotly.graph_objects as go"),
        ("capture/recording.py", "from jupyter_placement.log import parse_line"),
        ("__init__.py", "from jupyter_placement.magic import PlacementMagics"),
    ],
)
def test_a_right_import_passes(tmp_path: Path, file: str, source: str) -> None:
    (one,) = write(tmp_path, file, source)
    assert problem(one) is None


def test_a_module_of_no_layer_is_caught() -> None:
    with pytest.raises(AssertionError, match="helpers stands in no layer"):
        level("helpers")


def write(root: Path, file: str, source: str) -> list[Import]:
    # The modules that the sources name must be there: `from .. import memory` may else be a name of __init__.
    for layer in LAYERS:
        for name in layer:
            (root / name).mkdir()
    path = root / file
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True) if path.is_file() else None
    path.write_text(source, encoding="utf-8")
    return imports_of(path, root)
