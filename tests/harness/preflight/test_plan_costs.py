"""What ``plan`` prints of hours, memory, disk and causes, and how long it takes rows to be."""

import dataclasses
import json
import subprocess
import sys

import pytest

from adapters_store import Store
from harness.api import Study
from harness.cli.main import main
from harness.training.inputs import InputFormat, row_tokens
from harness.training.tokenizer import load_tokenizer
from tests.support.studies.made_up_records import keep_all

OPTIONS = ("--set", "trainer=lanes", "--set", "tasks=['epitome_er', 'news_emotion']", "--limit", "20")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def plan(place, capsys):
    def plan(*options):
        assert main(["plan", "tiny", "--store", str(place), *OPTIONS, *options]) == 0
        out = capsys.readouterr().out
        return json.loads(out) if "--json" in options else out

    return plan


def test_row_lengths_are_those_of_the_encoded_rows(tiny, study, toy_splits):
    rows = toy_splits("one").train
    task = toy_splits("one").task
    form = InputFormat(load_tokenizer(tiny), "pair", "none", study.max_tokens)
    lengths = [len(form.encode(row)[0].ids) for row in rows]
    found = row_tokens(task, rows, study, tiny)
    assert found.mean == pytest.approx(sum(lengths) / len(lengths))
    assert max(len(windows[0].ids) for windows in found.longest) == max(lengths)
    cut = row_tokens(task, rows * 10, dataclasses.replace(study, max_tokens=12), tiny)
    assert cut.mean <= 12


ASKED = """
import sys
from harness.cli.main import main
for words in ("plan tiny --set trainer=lanes", "plan tiny --json --why", "study doctor tiny --help", "data status",
              "tasks show epitome_er", "study show tiny"):
    try: code = main(words.split())
    except SystemExit as stopped: code = stopped.code
    heavy = {'torch', 'transformers', 'adapters', 'pandas', 'pyarrow', 'scipy'} & set(sys.modules)
    assert code == 0 and not heavy, (words, code, heavy)
"""


def test_what_is_asked_before_a_run_loads_no_torch_and_no_table_library(tmp_path):
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_without_records_the_assumption_is_named_and_columns_add_up(plan):
    found = plan("--json")
    costs, columns = found["costs"], found["columns"]
    assert [one["is_measured"] for one in costs["hours"]] == [False, False]
    for one in costs["hours"]:
        each = [column[f"hours on {one['device']} (assumed)"] for column in columns]
        assert sum(each) == pytest.approx(one["expected"])
        assert one["expected"] > 4 * 10 / 3600  # four packs of one cell start, 10 s each
    assert found["packs"] == 4
    assert 0 < costs["memory"]["cpu"]["bytes"] < costs["memory"]["cuda"]["bytes"]
    assert costs["record_bytes"] > 4 * 6_000
    out = plan()
    assert "ASSUMED" in out
    assert "4 cells in 4 packs; 0 stored, 4 to train" in out
    costed, _, following = out.partition("\nnext: ")
    why = "why cells must be trained:\n4 of 4: never trained: 2 baselines, 2 transfers\n"
    assert plan("--why") == f"{costed}\n{why}\nnext: {following}"


@pytest.mark.slow
def test_with_records_hours_are_measured_and_a_change_is_told_by_its_cause(plan, place):
    whole = Study("tiny", store=place, overrides=["trainer=lanes", "tasks=['epitome_er', 'news_emotion']"])
    whole.config = dataclasses.replace(whole.config, max_train=20, max_val=20, max_test=20)
    keep_all(Store(place), whole.plan.cells, rows=(20, 20, 20), seconds=36.0)
    found = plan("--json")
    assert (found["stored"], found["costs"]["hours"], found["costs"]["record_bytes"]) == (4, [], 0)
    assert "why cells must be trained:\nnothing: all 4 cells are stored\n" in plan("--why")
    changed = ("--set", "task.epitome_er.learning_rate=0.1")
    (hours,) = plan(*changed, "--json")["costs"]["hours"]
    assert (hours["device"], hours["is_measured"]) == ("cpu (any)", True)
    assert hours["least"] <= hours["expected"] <= hours["most"]
    assert hours["ways"]["one lane"]["records"] == 4
    said = "3 of 4: learning_rate of epitome_er 0.002 -> 0.1: 1 baseline, 1 onto it, 1 stacked on it\n"
    assert f"why cells must be trained:\n{said}" in plan(*changed, "--why")
    told = plan(*changed, "--why", "--json")
    assert told["why"][0]["cells"] == 3
    assert told["costs"]["hours"] == [hours]
