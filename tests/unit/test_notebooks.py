"""The notebooks as they are stored; ``make notebooks`` runs them."""

from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_placement.placement import MIME_TYPE
from jupyter_placement.report import from_static_bundle, static_bundle

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def code_cells(path: Path) -> list[Any]:
    cells = nbformat.read(path, as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]


def test_there_is_a_first_notebook() -> None:
    assert NOTEBOOKS[0].name == "01_first_placement.ipynb"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_all_cells_ran_in_order_in_a_fresh_kernel(path: Path) -> None:
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert [output.evalue for cell in cells for output in cell.outputs if output.output_type == "error"] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_json_form_holds_what_the_text_the_html_and_the_picture_show(path: Path) -> None:
    bundles = [
        output.data for cell in code_cells(path) for output in cell.outputs if MIME_TYPE in output.get("data", {})
    ]
    assert len(bundles) == sum(
        cell.source.startswith("%%placement") and "--quiet" not in cell.source for cell in code_cells(path)
    )
    for bundle in bundles:
        again = static_bundle(from_static_bundle(bundle))
        assert again["text/plain"] == bundle["text/plain"]
        assert again["image/svg+xml"] == bundle["image/svg+xml"]
        # The last element lists the versions in the order in which a notebook file keeps them.
        assert again["text/html"].rpartition("<div")[0] == bundle["text/html"].rpartition("<div")[0]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_file_is_small_and_holds_no_state_of_widgets(path: Path) -> None:
    assert path.stat().st_size < 300_000
    assert "widgets" not in nbformat.read(path, as_version=4).metadata
