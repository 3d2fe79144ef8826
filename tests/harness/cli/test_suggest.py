"""The commands ``similarities`` and ``suggest`` on a finished tiny study."""

import json

import pytest

from harness.api import Study
from harness.cli.main import main

MEASURED = {"data": 4, "vocabulary": 12, "weights": 6, "task": 4, "logme": 12}
LIMIT = ("--limit", "24")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The store of a finished tiny study of 24 rows a split."""
    store = tmp_path_factory.mktemp("suggested") / "runs"
    assert main(["run", "tiny", "--store", str(store), "--quiet", *LIMIT]) == 0
    return store


@pytest.fixture
def command(capsys, finished, tmp_path):
    """Run a command on that store; returns (exit code, standard output, standard error)."""

    def command(*arguments):
        out = ["--out", str(tmp_path / "out")] if "suggest" in arguments or "figures" in arguments else []
        code = main([*arguments, *LIMIT, "--store", str(finished), *out])
        out, err = capsys.readouterr()
        return code, out, err

    return command


def test_similarities_are_measured_once_and_their_cost_is_told(command, printed):
    code, out, err = command("study", "similarities", "tiny", "--json")
    assert (code, err) == (0, "")
    first = json.loads(out)
    assert {one["measure"]: one["made"] + one["stored"] for one in first} == MEASURED
    out = printed("study", "similarities", "tiny", "--json")
    again = json.loads(out)
    assert {one["measure"]: one["stored"] for one in again} == MEASURED
    assert [one["seconds"] for one in again] == pytest.approx([one["seconds"] for one in first])
    out = printed("study", "similarities", "tiny", "--measure", "vocabulary")
    assert out.splitlines()[1].split()[:3] == ["vocabulary", "0", "12"]


def test_intermediates_of_a_trained_task_are_ranked_with_every_heuristic_and_nothing_judges_that_yet(
    command, printed, tmp_path
):
    code, out, _ = command("study", "suggest", "tiny", "epitome_er", "--json")
    told = json.loads(out)
    assert code == 0
    rows = told["intermediates"]
    assert {row["intermediate"] for row in rows} == {"news_emotion", "empdial_role", "news_empathy"}
    assert [row["fusion"] for row in rows] == sorted((row["fusion"] for row in rows), reverse=True)
    assert all(row[name] is not None for row in rows for name in ("logme", "task_similarity", "size", "gain"))
    assert told["rankings"] == []  # of three intermediates a ranking cannot be judged
    names = {path.name for path in (tmp_path / "out" / "tables").iterdir()}
    assert names == {"suggest-epitome_er.csv", "choosing.csv", "choosing-targets.csv"}
    out = printed("study", "suggest", "tiny", "epitome_er")
    assert out.splitlines()[0].split()[:2] == ["rank", "intermediate"]
    assert "nothing says how right this is" in out


def test_a_task_that_is_not_in_the_study_is_ranked_without_training_it(command):
    code, out, err = command("study", "suggest", "tiny", "news_distress", "--json")
    rows = json.loads(out)["intermediates"]
    assert code == 0
    assert {row["intermediate"] for row in rows} == {"epitome_er", "news_emotion", "empdial_role", "news_empathy"}
    for row in rows:
        assert row["logme"] is not None
        assert row["data_similarity"] is not None
        assert row["task_similarity"] is None
        assert row["gain"] is None
    assert "task: not measured for news_distress: its baseline is not in the store" in err
    assert "logme" not in err


def test_a_task_of_no_registry_or_without_files_is_refused_in_a_line(refused, tmp_path):
    assert "epitome_er" in refused("study", "suggest", "tiny", "epitome_err")
    (tmp_path / "data").mkdir()
    refused("study", "suggest", "tiny", "condolence", "--data", str(tmp_path / "data"), "--set", 'data="files"')


def test_figures_9_and_10_are_drawn_once_similarities_are_measured(finished, command, tmp_path, capsys):
    command("study", "similarities", "tiny", "--measure", "data", "--measure", "task")
    assert main(["figures", "tiny", "--store", str(finished), "--out", str(tmp_path / "figures")]) == 0
    out, err = capsys.readouterr()
    assert "figure-9-data-similarity.png" in out
    assert "figure-10-task-similarity.svg" in out
    assert err.startswith("Figure 2 is not drawn: ")
    assert "Figures 9" not in err


def test_python_has_the_similarities_too(finished):
    changes = [f"{name}=24" for name in ("max_train", "max_val", "max_test")]
    found = Study("tiny", store=finished, overrides=changes).similarities("weights")
    assert len(found) == 12
    assert found.weight_similarity.notna().all()
