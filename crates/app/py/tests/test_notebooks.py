"""The notebooks of docs/notebooks run, and show what is in them. `UPDATE=1` writes what they show."""

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

DIRECTORY = Path(__file__).parents[4] / "docs/notebooks"
NOTEBOOKS = sorted(DIRECTORY.glob("*.ipynb"))
# Jupyter's own.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning", "ignore::ResourceWarning")


def test_there_is_one_for_each_study() -> None:
    names = {path.stem for path in NOTEBOOKS}
    assert names == {"cache", "doublewrite", "filesystem", "namespaces", "oltp", "powercut", "quota", "zoned"}


def outputs(cell: Any) -> list[Any]:
    """What a cell shows, but for warnings: on a slow machine Matplotlib says that it builds its cache."""
    return [output for output in cell.get("outputs", []) if output.get("name") != "stderr"]


def texts(notebook: Any) -> list[tuple[str, str]]:
    """Each text that cells show, with the cell's source. Pictures may differ from machine to machine."""
    found = []
    for cell in notebook.cells:
        for output in outputs(cell):
            shown = output.get("text") or output.get("data", {}).get("text/plain", "")
            picture = "image/png" in output.get("data", {})
            found.append((cell.source, "a picture" if picture else shown))
    return found


def tidy(notebook: Any) -> None:
    """Without what is different each time."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = outputs(cell)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_shows(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Profiles, histories and settings of a user are no part of it.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(path, as_version=4)
    committed = texts(notebook)
    client = NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    if os.environ.get("UPDATE") == "1":
        tidy(notebook)
        nbformat.write(notebook, path)
        return
    assert texts(notebook) == committed
    assert any(shown == "a picture" for _, shown in committed), "it has no plot"
    shown = [output.get("data", {}) for cell in notebook.cells for output in outputs(cell)]
    assert any("text/html" in data for data in shown), "it has no table"
