"""On the real files: the audit's verdicts, the published sets and what leaks; skipped where the data is not at hand."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from harness.cli.main import main
from tasks.errors import MissingData
from tasks.registry import Registry
from tasks.splits.contamination import GRAM, THRESHOLD, Texts, contacts, texts_of
from tasks.splits.loading import load_kinds

SHARED = Path(os.environ.get("EMPATHY_SHARED", Path(__file__).parents[4] / "shared"))
DATA, IDS = SHARED / "data", SHARED / "paper/splits"
pytestmark = [
    pytest.mark.realdata,
    pytest.mark.slow,
    pytest.mark.skipif(not IDS.is_dir(), reason="no raw data; set EMPATHY_SHARED to the folder that holds data/"),
]
REGISTRY = Registry.load()
EMPDIAL = ("empdial_ei", "empdial_emo", "empdial_role", "empdial_qact", "empdial_qint")
VERDICTS = {
    **dict.fromkeys(("news_empathy", "news_distress", "news_emotion"), "exact"),
    **dict.fromkeys(("conv_empathy", "conv_emoint", "conv_emopol", "empdial_ei"), "exact"),
    **dict.fromkeys(("epitome_er", "epitome_ex", "epitome_ip"), "exact"),
    **dict.fromkeys(("empdial_emo", "empdial_role"), "shares exact"),
    **dict.fromkeys(("empdial_qact", "empdial_qint"), "close"),
    **dict.fromkeys(("condolence", "empathy_hope", "mi_adherent", "mi_behavior"), "data missing"),
}


@cache
def both():
    read = {}
    for name, task in REGISTRY.tasks.items():
        try:
            read[name] = load_kinds(task, DATA, IDS, hashed=False)
        except MissingData:
            continue
    return read


def splits(kind):
    return {name: kinds[kind] for name, kinds in both().items()}


@cache
def all_texts(kind):
    return texts_of(splits(kind).values())


@cache
def all_contacts(kind):
    named = splits(kind)
    found = contacts(named, [(target, other) for target in named for other in named], all_texts(kind))
    return {(one.target, one.intermediate): one for one in found}


def test_the_audit_reproduces_the_papers_rows(capsys):
    assert main(["tasks", "audit", "--data", str(DATA), "--splits", str(IDS), "--json"]) == 0
    rows: dict[str, dict[str, Any]] = {row["task"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name: row["verdict"] for name, row in rows.items()} == VERDICTS
    assert rows["epitome_ip"]["train/validation/test"] == "2418/303/302"
    assert rows["news_emotion"]["train/validation/test"] == "800/1000/900" and rows["news_emotion"]["rows"] == 2700
    assert "7.2 %" in rows["empdial_role"]["note"]


@pytest.mark.parametrize("name", ["news_empathy", "news_distress", "news_emotion"])
def test_as_published_800_of_900_news_test_essays_are_training_essays(name):
    contact = all_contacts("as-published")[name, name]
    assert (contact.same_row, contact.same_pair, contact.n_test) == (800, 800, 900)


def test_as_published_most_test_dialogues_stand_in_a_siblings_training_data():
    found = all_contacts("as-published")
    assert 0.75 < found["empdial_emo", "empdial_ei"].same_group / found["empdial_emo", "empdial_ei"].n_test < 0.85
    assert 0.75 < found["empdial_ei", "empdial_role"].same_group / found["empdial_ei", "empdial_role"].n_test < 0.85
    assert found["empdial_emo", "empdial_role"].same_group == 0


def test_no_clean_test_item_is_training_material_of_a_sibling():
    families = {name: one.task.dataset.family for name, one in splits("clean").items()}
    siblings = [one for (a, b), one in all_contacts("clean").items() if families[a] == families[b]]
    assert {one.target for one in siblings} >= set(EMPDIAL)
    assert sum(one.same_row + one.same_group for one in siblings) == 0
    # an utterance that recurs in another dialogue is dropped where a task labels both, and a sibling may label one
    assert {one.target for one in siblings if one.same_pair} <= {"dialogue_cause", "dialogue_emotion"}
    # bargains, everyday dialogues and tweets recur nearly word for word, in other groups
    near = {families[one.target] for one in siblings if one.is_contaminated}
    assert near == {"casino", "dailydialog", "tweeteval"}


def test_near_duplicates_of_real_texts_are_those_of_a_product_of_all_with_all():
    names = ("iempathize", "news_empathy", "epitome_er", "epitome_ip", "conv_empathy")
    texts = Texts([splits("as-published")[name].train for name in names])
    counter = CountVectorizer(analyzer="char_wb", ngram_range=(GRAM, GRAM), binary=True, lowercase=False)
    long = np.flatnonzero(texts.is_long)
    grams = counter.fit_transform([texts.names[i] for i in long]).tocsr()
    shared, sizes = (grams @ grams.T).tocoo(), grams.sum(axis=1).A1
    near = shared.data >= THRESHOLD * np.sqrt(sizes[shared.row] * sizes[shared.col]) - 1e-6
    pairs = {(long[i], long[j]) for i, j in zip(shared.row[near], shared.col[near], strict=True) if i < j}
    assert {(i, j) for i, j in texts.near.tolist()} == pairs and len(pairs) > 1


def test_with_all_grams_left_out_nearly_all_real_near_duplicates_are_met(monkeypatch):
    exact = {tuple(pair) for pair in all_texts("clean").near.tolist()}
    monkeypatch.setattr("tasks.splits.contamination.MOST_PAIRS", 0)
    bounded = texts_of(splits("clean").values())
    met = {tuple(pair) for pair in bounded.near.tolist()}
    assert bounded.left_out.texts > 0.9 * bounded.is_long.sum()
    assert met <= exact and len(met) >= 0.98 * len(exact)
