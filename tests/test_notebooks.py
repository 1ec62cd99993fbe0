"""Notebooks run from top to bottom, and are stored without what they print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from waiting import PATIENCE

nbformat = pytest.importorskip("nbformat")
NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert [path.name for path in NOTEBOOKS] == ["look_into_a_memory.ipynb", "train_and_evaluate.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs_and_teach(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert sum(cell.cell_type == "markdown" for cell in notebook.cells) >= len(code) / 2
    assert "venv" not in str(notebook.metadata)


@pytest.mark.parametrize(
    "path", [NOTEBOOKS[0], pytest.param(NOTEBOOKS[1], marks=pytest.mark.slow)], ids=lambda path: path.stem
)
@pytest.mark.filterwarnings("ignore")
def test_notebooks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbclient import NotebookClient

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook: Any = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3", resources=where).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 3, "plots"
    assert not any(output.get("name") == "stderr" for output in outputs), "warnings"
