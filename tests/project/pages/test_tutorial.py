"""The tutorial notebook runs from its first cell to its last, and ends where it says it does."""

import ast
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NOTEBOOK = Path(__file__).resolve().parents[3] / "docs" / "tutorial.ipynb"
CELLS = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def value_of(source, names):
    """Run a cell among ``names``; the value of its last line where that is an expression."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.slow
def test_every_cell_runs_and_the_exported_adapter_predicts_as_the_study_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "tutorial"}
    values = [value_of("".join(cell["source"]), names) for cell in CELLS]
    plt.close("all")
    scores, exported, probabilities = values[-3:]
    assert exported == 0
    assert [json.loads(text) for text in scores.probabilities] == [
        {label: pytest.approx(each[text], abs=1e-5) for label, each in probabilities.items()}
        for text in range(len(scores))
    ]
    counts = [value for value in values if isinstance(value, tuple)]
    assert counts == [(4, 0), (0, 4), (5, 4)]  # trained and failed, trained and stored, the new task's and stored


def test_outputs_are_kept_in_the_order_in_which_the_cells_ran_and_name_no_machine():
    assert [cell["execution_count"] for cell in CELLS] == list(range(1, len(CELLS) + 1))
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not [word for word in ("/home/", "/tmp/", "/work/", "Traceback", "Warning") if word in text]
