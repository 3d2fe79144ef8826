"""`make smoke`: the full grid in small, by the commands that its page names."""

import json
from collections import Counter

import pandas as pd
import pytest

from adapters_store import Store
from benchmarks.drills import grid_smoke
from harness.cli.main import parser
from harness.study.file import load_study


def test_every_command_can_be_typed_and_writes_only_where_it_is_told(tmp_path):
    typed = grid_smoke.commands(tmp_path, [])
    assert [words[0] for words in typed] == ["plan", "run", "run", "status", "report", "study"]
    for words in typed:
        options = parser().parse_args(words)
        places = [options.store, *([options.out] if words[0] in ("report", "study") else [])]
        assert all(place.startswith(str(tmp_path)) for place in places)
        assert options.study == "muddy-waters" if words[0] == "plan" else True


def test_it_ends_with_the_first_command_that_fails(monkeypatch, capsys):
    made = [["tasks", "list"], ["report", "no-such-study"], ["tasks", "list"]]
    monkeypatch.setattr(grid_smoke, "commands", lambda root, only: made)
    assert grid_smoke.main([]) == 2
    printed = capsys.readouterr().out
    assert printed.count("$ empathy-transfer tasks list") == 1
    assert "stopped by the command above" in printed


@pytest.mark.slow
def test_eighteen_tasks_and_a_column_go_from_raw_files_to_a_comparison(tmp_path, capsys):
    assert grid_smoke.main(["--only-target", "epitome_er", "--keep", str(tmp_path)]) == 0
    store = Store(tmp_path / "runs")
    manifest = store.manifest("muddy-waters-smoke")
    assert set(manifest["tasks"]) == set(load_study("muddy-waters").tasks)
    done = [cell for cell in manifest["cells"] if cell["key"] in store]
    assert Counter(cell["role"] for cell in done) == {"floor": 3, "baseline": 18, "transfer": 17}
    trained = next(cell for cell in done if cell["role"] == "baseline")
    backbone = store.get(trained["key"]).spec["backbone"]
    config = json.loads((tmp_path / "tiny-roberta" / "config.json").read_text(encoding="utf-8"))
    assert backbone["model_type"] == config["model_type"] == "roberta"
    results = tmp_path / "results"
    assert (results / "muddy-waters-smoke" / "report.html").is_file()
    compared = pd.read_csv(results / "reference-smoke-against-muddy-waters-smoke" / "tables" / "compared_gains.csv")
    assert len(compared) == 11  # the intermediates of both studies onto this target
    assert "all of it ran" in capsys.readouterr().out
