"""The console command as people use it: output, exit codes, one line for every mistake."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tasks import synthetic
from tests.support.faults.kill_drill import SMALL
from tests.support.faults.warm_start import completed

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The store of a finished tiny study, run in a process of its own that has torch already."""
    store = tmp_path_factory.mktemp("finished") / "runs"
    done = completed(["run", "tiny", "--store", store, *SMALL])
    assert done.returncode == 0, done.stderr
    assert "16 trained" in done.stdout and "1 done, 15 left; finished: " in done.stderr
    return store


def console(*arguments, cwd=ROOT, **more):
    command = [str(Path(sys.executable).parent / "empathy-transfer"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **more}, check=False)


def test_a_second_run_trains_nothing_and_never_loads_torch(finished):
    script = (
        "import sys; from harness.cli.main import main; "
        f"code = main(['run', 'tiny', '--store', {str(finished)!r}, *{SMALL!r}, '--json', '--quiet']); "
        "assert 'torch' not in sys.modules, 'torch was loaded'; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (len(report["done"]), len(report["stored"])) == (0, 16)


def test_status_counts_what_is_stored_and_what_is_left(finished, printed):
    out = printed("status", "tiny", "--store", finished, "--json")
    counts = {"study": "tiny", "cells": 16, "done": 16, "left": 0, "left by target": "-"}
    told = counts | {"done by role": "baseline 4/4, transfer 12/12"}
    assert json.loads(out).items() >= told.items()
    out = printed("status", "--store", finished, "--json")
    assert json.loads(out) == [told]


def test_plan_counts_controls_apart(tmp_path, printed):
    options = ["--store", tmp_path, "--set", 'controls=["random", "self"]', "--set", "baseline_seeds=[1]"]
    out = printed("plan", "tiny", *options, "--json")
    plan = json.loads(out)
    assert plan["roles"] == {"baseline": 4, "self-intermediate": 4, "transfer": 12, "random": 4, "self": 4}
    counts = {"baselines": 1, "transfers": 3, "controls": 2, "their intermediates": 1}
    assert all(row | counts == row and "references" not in row for row in plan["columns"])
    out = printed("plan", "tiny", *options)
    assert "baseline 4, self-intermediate 4, transfer 12, random 4, self 4" in out


def test_seeds_are_named_in_short_and_a_further_seed_has_its_price(tmp_path, command, printed, capsys):
    def planned(*options):
        return json.loads(printed("plan", "tiny", "--store", tmp_path, *options, "--json"))

    single, several = planned("--seeds", "1"), planned("--seeds", "1,2", "--seed", "5")
    assert (single["cells"], several["cells"]) == (16, 48)
    assert planned("--set", "seeds=[1, 2, 5]")["columns"] == several["columns"]
    costs, further = several["costs"], several["costs"]["further_seed"]
    assert further["cells"] == 16
    assert further["record_bytes"] == pytest.approx(costs["record_bytes"] / 3, rel=0.01)
    for device in costs["hours"]:
        assert further["hours"][device["device"]] == pytest.approx(device["expected"] / 3)
    assert "a further seed: 16 cells, " in printed("plan", "tiny", "--store", tmp_path)
    three = ("--set", "seeds=[1, 2, 3]", "--set", 'controls=["self"]')
    assert planned(*three, "--seeds", "1")["roles"]["self-intermediate"] == 4
    assert planned(*three, "--seeds", "3,4")["roles"].get("self-intermediate") is None  # a circle of their own
    once = ("--set", 'systems=["majority"]', "--set", "system.majority.seeds=[1]")  # not again for what is narrowed
    assert [planned(*once, "--seeds", seed)["roles"].get("system") for seed in ("1", "2")] == [4, None]
    with pytest.raises(SystemExit, match="2"):
        command("plan", "tiny", "--store", tmp_path, "--seeds", "1-3")
    assert "'1-3' is no seed, nor several as 1,2,3" in capsys.readouterr().err


def test_report_and_figures_need_the_store_alone(finished, printed, tmp_path, monkeypatch):
    done = console("report", "tiny", "--store", finished, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert {"report.md", "cells.csv", "gains.csv", "cells.parquet", "gains.parquet"} <= names
    assert {"heatmap-macro-f1-full.svg", "heatmap-pearson-r-full.svg"} == {
        n for n in names if n.startswith("heatmap") and n.endswith(".svg")
    }
    monkeypatch.chdir(tmp_path)
    out = printed("figures", "tiny", "--store", finished, "--out", tmp_path / "figures")
    assert all(Path(tmp_path / line).is_file() for line in out.splitlines())
    assert len(out.splitlines()) >= 4


def test_study_show_prints_which_layer_won(printed):
    out = printed("study", "show", "demo", "--set", "task.epitome_er.epochs=9", "--json")
    rows = {row["task"]: row for row in json.loads(out)["tasks"]}
    assert rows["epitome_er"]["epochs"] == {"value": 9, "from": "study.task"}
    assert rows["empdial_ei"]["epochs"]["from"] == "study"
    assert rows["empdial_ei"]["clip"]["from"] == "default"


def test_tasks_list_filters_and_shows_what_is_missing_and_tasks_show_has_ratings_rows_and_balance(
    command, printed, data, tmp_path
):
    words = ("--data", data, "--theme", "abstract", "--json")
    out = printed("tasks", "list", *words)
    rows = {row["task"]: row["data"] for row in json.loads(out)}
    assert rows["epitome_er"] == "here"
    assert rows["condolence"] == "data missing"
    assert "news_empathy" not in rows
    long = command("tasks", "list", "--long", "--store", tmp_path / "runs", *words)
    of_task = {row["task"]: row for row in json.loads(long[1])}
    assert (of_task["condolence"]["words"], of_task["epitome_er"]["rows"]) == ("-", 300)
    assert float(of_task["epitome_er"]["words"]) > float(of_task["epitome_er"]["majority"]) > 0
    out = printed("tasks", "show", "epitome_er", "--data", data, "--json")
    shown = json.loads(out)
    assert len(shown["ratings"]) == 6
    counts = shown["rows"]
    assert counts["train"] + counts["validation"] + counts["test"] == sum(counts["balance"].values())


def test_a_place_that_cannot_be_written_to_is_one_line(refused, tmp_path):
    (tmp_path / "file").write_text("mine")
    err = refused("study", "compare", "published", "published", "--out", tmp_path / "file" / "out")
    place = tmp_path / "file" / "out" / "tables" / "compared_scores.csv"
    assert err == f"empathy-transfer: {place}: cannot be written (Not a directory); mend this, or give another --out\n"
    assert (tmp_path / "file").read_text() == "mine"


USAGE = [
    (["run", "real-small", "--data", "nowhere"], "data folder nowhere does not exist"),
    (["run", "tiny", "--set", "nonsense"], "write key=value"),
    (["run", "tiny", "--only-target", "epitome_e"], "did you mean 'epitome_er'"),
    (["run", "tiny", "--limit", "0"], "max_train 0 is not a whole number"),
    (["run", "tiny", "--threads", "0"], "--threads 0 is not"),
    (["run", "tiny", "--set", "backbone='./nothing'"], "no such folder"),
    (["report", "tiny"], "run of study 'tiny' (it has no study yet); start it with: empathy-transfer run tiny\n"),
    (["status", "mine"], "start it with: empathy-transfer run FILE.toml, the file of a study of this name"),
    (["status"], "has no study yet"),
    (["tasks", "show", "epitome_err"], "did you mean 'epitome_er'"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_bad_input_is_one_line_and_exit_code_2(refused, tmp_path, monkeypatch, arguments, message):
    monkeypatch.setenv("EMPATHY_STORE", str(tmp_path / "runs"))
    assert message in refused(*arguments)


FILE = "emotional-reactions-reddit.csv"
ROWS = {
    FILE: lambda text: text.replace("response_post", "reply", 1),
    "'7'": lambda text: text.rstrip() + "\nzz9,yy9,a post,a reply,7,\n",
    "epitome_er: no training row has the class '2'": lambda text: re.sub(".*,2,.*\n", "", text),
}


@pytest.mark.parametrize(("message", "change"), ROWS.items())
def test_bad_rows_name_file_and_reason(refused, tmp_path, change, message):
    synthetic.write(tmp_path, ["epitome"], rows=300, seed=1)
    path = tmp_path / "epitome/raw/dataset" / FILE
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    study = tmp_path / "one.toml"
    study.write_text('tasks = ["epitome_er"]\nbackbone = "random-tiny"\nmax_tokens = 64\n', encoding="utf-8")
    assert message in refused("run", study, "--data", tmp_path, "--store", tmp_path / "runs")


def test_a_corrupted_record_names_the_file(finished, refused, tmp_path):
    store = tmp_path / "runs"
    shutil.copytree(finished, store)
    victim = sorted(store.glob("objects/*/test.parquet"))[0]
    victim.write_bytes(victim.read_bytes()[:-7])
    assert str(victim) in refused("report", "tiny", "--store", store, "--out", tmp_path / "out")


def test_output_without_a_reader_is_no_success():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        command = [sys.executable, "-m", "harness.cli.main", "tasks", "list"]
        done = subprocess.run(command, cwd=ROOT, stdout=gone, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_nobody_elses_modules_are_picked_up_and_one_that_hides_ours_is_refused(tmp_path):
    for name in ("tasks.py", "analysis.py", "harness.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong file was imported')\n", encoding="utf-8")
    done = console("tasks", "list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == console("tasks", "list", cwd=ROOT).stdout
    hiding = tmp_path / "hiding" / "analysis.py"
    hiding.parent.mkdir()
    hiding.write_text("", encoding="utf-8")
    done = console("tasks", "list", cwd=tmp_path, PYTHONPATH=str(hiding.parent))
    assert done.returncode == 2
    assert str(hiding) in done.stderr
    assert done.stderr.count("\n") == 1
