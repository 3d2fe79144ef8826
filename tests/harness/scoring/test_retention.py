"""What merges have kept of their parents: scores under the parents' own heads, without any training."""

from __future__ import annotations

import json

import pytest
import torch

from adapters_store import Store
from harness.scoring import retention as retentions
from harness.scoring.retention import retention
from tests.support.studies.small_study import ONE, OVERRIDES, TWO, small_study

MERGED = ('merged.one.parents="others"', "merged.best.best=1", 'merged.best.by="validation"', "training.epochs=2")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    study = small_study(tmp_path_factory.mktemp("runs"), *MERGED)
    assert study.run().is_complete
    return study


def test_a_merge_of_a_single_parent_keeps_all_of_it_and_the_parent_scores_as_in_its_record(study):
    result = retention(study.plan, study.store)
    assert result.left_out == {}
    assert [(row.row, row.target, row.parent) for row in result.rows] == [
        ("one", ONE, TWO), ("best", ONE, TWO), ("one", TWO, ONE), ("best", TWO, ONE)
    ]  # fmt: skip
    for row in result.rows:
        (own,) = [cell for cell in study.plan.cells if (cell.role, cell.target) == ("baseline", row.parent)]
        record = study.store.get(own.key)
        assert row.alone == pytest.approx(record.results["validation"], abs=1e-3)
        assert row.merged == pytest.approx(row.alone, abs=1e-3) == row.own_part
        assert (row.weight, row.n_rows) == (1.0, 16)


def test_what_is_not_stored_is_left_out_and_said(study, tmp_path):
    result = retention(study.plan, Store(tmp_path / "empty"))
    assert result.rows == []
    assert result.left_out[f"one -> {ONE}"] == f"its parent {TWO} is not in the store"


def test_the_command_writes_a_table_and_prints_means(study, tmp_path, command):
    asked = ("tiny", "--store", study.store.root, "--out", tmp_path / "out")
    changes = [part for text in (*OVERRIDES, 'trainer="lanes"', *MERGED) for part in ("--set", text)]
    code, said, _ = command("merges", *asked, *changes)
    assert code == 0
    assert "above own part" in said
    assert (tmp_path / "out" / "tables" / "retention.csv").read_text().startswith("row,target,parent,metric,n_rows")
    rows = json.loads(command("merges", *asked, *changes, "--json")[1])["rows"]
    assert {row["row"] for row in rows} == {"one", "best"}
    code, _, refused = command("merges", *asked)
    assert (code, refused.count("\n")) == (2, 1)
    assert "has no merged rows" in refused


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
    rows = [row for row in retention(study.plan, study.store).rows if row.parent == ONE]
    assert [(row.alone, row.none, row.halved, row.weight) for row in rows] == [(0, 1, 2, 0.5)] * 2
    for row in rows:
        own, part, merge = (shown[ONE][place] for place in (row.alone, row.own_part, row.merged))
        counts = [sum(int(torch.count_nonzero(value)) for value in lane.values()) for lane in (own, part, merge)]
        assert counts[1] <= counts[0] < counts[2]  # side by side: a part has zeros for the other parent
