"""Cells whose test items are training material are marked in every table that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters_store import Store
from adapters_store.measures import CONTAMINATION, contamination_inputs
from analysis.figures.heatmaps import squares
from analysis.gains.baselines import baselines
from analysis.gains.cells import cells, contamination, not_compared
from analysis.gains.gains import gains
from analysis.report import report
from tasks.splits.contamination import Contact, LeftOut
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("news"))
LEFT_OUT = LeftOut(grams=12, most=3456, texts=78)


def contact(target: str, intermediate: str, same_group: int = 0, near: int = 0) -> Contact:
    return Contact(target, intermediate, 100, 80, 0, same_group, 0, near, near, 10, 1 if same_group else 0)


@pytest.fixture
def measured(tmp_path: Path) -> tuple[Store, dict[str, Any]]:
    """A study in which hope's test dialogues are in role's training data, and news' test rows in its own."""
    store, manifest = fake_study(tmp_path / "store", TASKS)
    for name, task in manifest["tasks"].items():
        task["splits_hash"] = name * 10
    shared = {("hope", "role"): 40, ("news", "news"): 90}
    found = [contact(a.id, b.id, shared.get((a.id, b.id), 0), near=2) for a in TASKS for b in TASKS]
    result = {"contacts": [list(one) for one in found], "left_out": LEFT_OUT._asdict()}
    store.put_measure(CONTAMINATION, contamination_inputs(manifest["tasks"]), result, 1.0)
    return store, manifest


def test_the_map_is_read_from_the_store(measured: tuple[Store, dict[str, Any]]) -> None:
    frame = contamination(*measured)
    assert len(frame) == 9
    row = frame[(frame.target == "hope") & (frame.intermediate == "role")].iloc[0]
    assert (row.share_group, row.share_near, row.contaminated) == (0.4, 2 / 80, True)
    assert frame.contaminated.sum() == 2


def test_cells_gains_and_baselines_are_marked(measured: tuple[Store, dict[str, Any]]) -> None:
    frame = cells(*measured)
    marked = {(one.target, one.intermediate) for one in frame[frame.contaminated].itertuples()}
    assert marked == {("hope", "role"), ("news", None), ("news", "hope"), ("news", "role")}
    assert set(frame[frame.contaminated]["flags"]) == {"contaminated"}
    pairs = gains(*measured, draws=50)
    assert {(one.target, one.intermediate) for one in pairs[pairs.contaminated].itertuples()} == marked - {
        ("news", None)
    }
    assert pairs["flags"][pairs.contaminated].str.contains("contaminated").all()
    alone = baselines(*measured, draws=50)
    assert list(alone.target[alone.contaminated]) == ["news"]


def test_heatmap_and_report_say_it(measured: tuple[Store, dict[str, Any]], tmp_path: Path) -> None:
    shown = squares(
        gains(*measured, draws=50), baselines(*measured, draws=50), measured[1], metric="macro_f1", setting="full"
    )
    assert shown.is_contaminated.sum() == 3
    assert not_compared(*measured) == LEFT_OUT
    page = report(*measured, tmp_path / "out", draws=50).page.read_text()
    assert "| contaminated | test items are training material" in page
    assert "12 frequent grams, of more than 3,456 texts each, were left out" in page
    drawn = (tmp_path / "out/figures/heatmap-macro-f1-full.svg").read_text()
    assert "contaminated: test items are training material" in drawn


def test_what_was_not_measured_is_not_called_clean(tmp_path: Path) -> None:
    store, manifest = fake_study(tmp_path / "store", TASKS)
    assert contamination(store, manifest).empty and not_compared(store, manifest) is None
    assert cells(store, manifest).contaminated.isna().all()


def test_controls_on_the_own_texts_of_a_task_in_folds_are_marked(tmp_path: Path) -> None:
    tasks = (FakeTask("hope", folds=5), FakeTask("role"))
    store, manifest = fake_study(tmp_path / "store", tasks, controls=("self", "shuffled", "random"))
    frame = cells(store, manifest)
    marked = {(one.role, one.target) for one in frame[frame.contaminated.fillna(False)].itertuples()}
    assert marked == {("self", "hope"), ("shuffled", "hope")}
    assert set(frame[frame.contaminated.fillna(False)]["flags"]) == {"contaminated"}
