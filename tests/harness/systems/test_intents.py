"""A user's intents in a study: what reaches CLSN, and the controls beside joint training."""

from __future__ import annotations

import random
import re

import pandas as pd
import pytest

from analysis.results.leaderboard import leaderboard
from harness.api import Study
from tasks.errors import BadStudy
from tasks.registry import Registry
from tasks.synthetic import write
from tests.support.systems.intents import EMPATHY, INTENTS, ROWS, write_entry, write_intents

JOINT = ('siblings=["iempathize_intent"]',)
SYSTEMS = {"single": (), "joint": JOINT, "shuffled": (*JOINT, 'sibling_labels="shuffled"')}


def study_of(folder, data, *settings, systems=SYSTEMS, seeds=(1,), rows=9999):
    """A study of empathy and intents in which these systems solve empathy."""
    overrides = [
        'tasks=["iempathize", "iempathize_intent"]',
        f'registry=["{data}"]',
        'data="files"',
        "protocol.shares=[0.25, 0.1, 0.65]",
        f"systems={list(systems)}".replace("'", '"'),
        f"seeds={list(seeds)}",
        *(f"{part}={rows}" for part in ("max_train", "max_val", "max_test")),
        *("transfers=false", "training.epochs=1"),
    ]
    shared = ('kind="clsn"', 'tasks=["iempathize"]', "tokens=24", "width=32")
    overrides += [f"system.{name}.{value}" for name, own in systems.items() for value in (*shared, *own, *settings)]
    return Study("tiny", store=folder / "runs", data=data, overrides=overrides)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A user's folder: made-up sentences, their intents by Table 2, and the entry of these."""
    folder = tmp_path_factory.mktemp("data")
    write(folder, ["iempathize"], rows=ROWS, seed=1)
    write_entry(folder)
    write_intents(folder, random.Random(1))
    return folder


def test_a_study_trains_empathy_with_a_user_s_intents_and_predicts_empathy_alone(data, tmp_path):
    study = study_of(tmp_path, data, "epochs=1", rows=24)
    report = study.run()
    assert report.is_complete, report
    cells = {cell.system: cell for cell in study.plan.cells if cell.system}
    hash_of = study.plan.splits["iempathize_intent"].content_hash
    assert [cell.spec.get("siblings") for cell in cells.values()] == [None, *[{"iempathize_intent": hash_of}] * 2]
    assert len({cell.key for cell in cells.values()}) == 3
    for cell in cells.values():
        test = pd.read_parquet(study.store.open(cell.key, "test.parquet"))
        assert len(test.filter(like="logit_").columns) == len(EMPATHY)
        assert set(test.id) <= {row.id for row in study.plan.splits["iempathize"].test}
    board = leaderboard(study.store, study.store.manifest("tiny"), draws=200)
    own = board.pairs[board.pairs.a.isin(SYSTEMS) & board.pairs.b.isin(SYSTEMS)]
    assert set(zip(own.a, own.b, strict=True)) == {("single", "joint"), ("single", "shuffled"), ("joint", "shuffled")}


def test_intents_of_some_rows_alone_are_no_sibling(data, tmp_path):
    lines = (data / "intents.csv").read_text().splitlines()
    ids = [row.id for row in study_of(tmp_path, data, "epochs=1").plan.splits["iempathize"].train][:3]
    other = tmp_path / "other"
    write(other, ["iempathize"], rows=ROWS, seed=1)
    write_entry(other)
    (other / "intents.csv").write_text("\n".join(line for line in lines if line.split(",")[0] not in ids) + "\n")
    said = "'iempathize_intent' is no sibling of 'iempathize': 3 ids of their train rows differ"
    with pytest.raises(BadStudy, match=re.escape(said)):
        study_of(tmp_path, other, "epochs=1").plan  # noqa: B018 - planning refuses
    assert Registry.load([other]).task("iempathize_intent").label.classes == INTENTS
