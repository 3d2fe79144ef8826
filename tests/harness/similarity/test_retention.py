"""What merges have kept of their parents: scores under the parents' own heads, without any training."""

import json
import shutil

import pytest
import torch

from adapters_store import Store
from adapters_store.measures import RETENTION, measures_of
from analysis.gains.comparisons import retained
from harness.similarity import retention as retentions
from harness.similarity.fill import fill
from harness.similarity.retention import retention
from tests.support.studies.small_study import ONE, OVERRIDES, TWO, small_study

MERGED = ('merged.one.parents="others"', "merged.best.best=1", 'merged.best.by="validation"', "training.epochs=2")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    study = small_study(tmp_path_factory.mktemp("runs"), *MERGED)
    assert study.run().is_complete
    return study


def test_a_merge_of_a_single_parent_keeps_all_of_it_and_the_parent_scores_as_in_its_record(study):
    (report,) = fill(study.plan, study.store, ["retention"])
    assert (report.made, report.missing) == (4, {})
    assert fill(study.plan, study.store, ["retention"])[0].stored == 4
    frame = retained(study.store, study.manifest())
    assert frame[["row", "target", "parent"]].to_numpy().tolist() == [
        ["one", ONE, TWO], ["best", ONE, TWO], ["one", TWO, ONE], ["best", TWO, ONE]
    ]  # fmt: skip
    for row in frame.itertuples():
        (own,) = [cell for cell in study.plan.cells if (cell.role, cell.target) == ("baseline", row.parent)]
        record = study.store.get(own.key)
        assert row.alone == pytest.approx(record.results["validation"], abs=1e-3)
        assert row.merged == pytest.approx(row.alone, abs=1e-3) == row.own_part
        assert (row.weight, row.n_rows) == (1.0, 16)


def test_what_is_not_stored_is_left_out_and_said(study, tmp_path):
    (report,) = fill(study.plan, Store(tmp_path / "empty"), ["retention"])
    assert report.made == 0
    assert report.missing[f"one -> {ONE}"] == f"its parent {TWO} is not in the store"


def test_the_report_has_the_table_once_it_was_measured_and_an_archive_carries_it(study, tmp_path, command):
    store = Store(shutil.copytree(study.store.root, tmp_path / "runs"))
    shutil.rmtree(store.root / "measures", ignore_errors=True)
    where = ("tiny", "--store", store.root, "--quiet")
    assert command("report", *where, "--out", tmp_path / "before")[0] == 0
    assert not (tmp_path / "before/tables/retention.csv").exists()
    changes = [part for text in (*OVERRIDES, 'trainer="lanes"', *MERGED) for part in ("--set", text)]
    code, shown, err = command("study", "similarities", *where, "--measure", "retention", *changes)
    assert (code, err) == (0, "")
    assert "retention" in shown
    assert command("report", *where, "--out", tmp_path / "after")[0] == 0
    assert "above own part" in (tmp_path / "after/report.md").read_text()
    table = (tmp_path / "after/tables/retention.csv").read_text()
    assert table.startswith("row,target,parent,metric,n_rows")
    kinds = [kind for kind, _ in measures_of(store.manifest("tiny"))]
    assert kinds.count(RETENTION) == 4
    assert command("report", *where, "--public", "--out", tmp_path / "shared")[0] == 0
    assert (tmp_path / "shared/tables/retention.csv").read_text() == table  # none of these tasks is private


def test_a_merge_and_a_parents_own_part_of_it_are_what_is_scored_under_their_names(tmp_path, monkeypatch):
    """Of two parents at a half each: the own part has half of one adapter, and the merge both."""
    names = (ONE, TWO, "epitome_er")
    study = small_study(tmp_path, f"tasks={json.dumps(names)}", 'merged.both.parents="others"')
    assert study.run().is_complete
    shown = {}

    def numbered(plan, store, parent, adapters, device):
        shown[parent.target] = adapters
        return 16, list(range(len(adapters)))

    monkeypatch.setattr(retentions, "_scores", numbered)
    rows = [parents[ONE] for parents in retention(study.plan, study.store).values() if ONE in parents]
    assert [(row["alone"], row["none"], row["halved"], row["weight"]) for row in rows] == [(0, 1, 2, 0.5)] * 2
    for row in rows:
        own, part, merge = (shown[ONE][row[name]] for name in ("alone", "own_part", "merged"))
        counts = [sum(int(torch.count_nonzero(value)) for value in lane.values()) for lane in (own, part, merge)]
        assert counts[1] <= counts[0] < counts[2]  # side by side: a part has zeros for the other parent
