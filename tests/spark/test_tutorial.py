"""The tutorial, run as a notebook runs it: a kernel of its own, in an environment that nobody has activated."""

import os
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="the tutorial is a notebook: nbformat is needed")
nbclient = pytest.importorskip("nbclient", reason="the tutorial is a notebook: nbclient is needed")

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


def printed(cell):
    return "".join(output.get("text", "") + output.get("data", {}).get("text/html", "") for output in cell.outputs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_cell_runs_the_cause_is_named_and_the_pictures_are_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.defpath)
    notebook = nbformat.read(TUTORIAL, as_version=4)
    nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = {cell.source.splitlines()[-1]: printed(cell) for cell in notebook.cells if cell.cell_type == "code"}
    log = shown["print(told.stdout)"]
    assert 'evenly.by_key, key="player", instances=8' in log, log
    by_hash, by_evenly = shown['evenly.diagnose_keys(events, key="player", instances=8)'].split("<svg")[1:]
    assert by_hash.count("<rect") == by_evenly.count("<rect") == 8
    assert shown["mapping"].count("<rect") == shown["evenly.placed_rows(placed, instances=8)"].count("<rect") == 8
