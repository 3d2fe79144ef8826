"""The table of rationales: scores of every form from what records hold, the constants beside them, and its printing."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from adapters_store import Store, key_of
from analysis.results.answers import CONSTANTS, FILE, rationale_rows
from analysis.results.leaderboard import leaderboard
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import markdown
from analysis.sections.study import RATIONALE_HEAD
from analysis.sections.study import leaderboard as section
from analysis.sections.study import rationale_rows as rows_in_words
from tests.support.studies.fake_study import FakeTask, fake_study

# gold, predicted, then token F1 and IOU F1 in the forms epitome, micromodels, corrected; None: the text has no part
TEXTS = (
    ("1100", "1100", (1, 1), (1, 1), (1, 1)),
    ("0001", "0001", (1, 1), (1, 0), (1, 1)),  # a last token alone is lost by micromodels
    ("1111....".replace(".", "0"), "10110000", (6 / 7, 2 / 3), (6 / 7, 2 / 3), (6 / 7, 2 / 3)),
    ("0000", "0000", (0, 0), (1, 1), None),
    ("0000", "1111", (1, 1), (0, 0), None),
)


def put(store, name, frame, seed=1):
    with store.staging() as folder:
        frame.to_parquet(folder / FILE, index=False)
        return store.put(key_of(spec := {"system": name, "seed": seed}), spec, {}, {}, folder)


def frame_of(texts):
    return pd.DataFrame({"id": list(map(str, range(len(texts)))), "gold": [text[0] for text in texts],
                         "predicted": [text[1] for text in texts]})  # fmt: skip


def by_name(rows):
    return {(row["system"], row["form"]): (row["token_f1"], row["iou_f1"]) for row in rows}


def test_every_form_is_the_mean_of_what_a_hand_computes(tmp_path):
    rows = rationale_rows(store := Store(tmp_path), [("marker", [put(store, "marker", frame_of(TEXTS))])])
    for place, form in enumerate(("epitome", "micromodels", "corrected"), start=2):
        expected = np.mean([text[place] for text in TEXTS if text[place] is not None], axis=0)
        assert by_name(rows)["marker", form] == pytest.approx(tuple(expected)), form
    assert {(row["n_test"], row["n_marked"]) for row in rows} == {(5, 3)}


def test_the_constants_stand_below_in_each_form(tmp_path):
    store = Store(tmp_path)
    rows = rationale_rows(store, [("marker", [put(store, "marker", frame_of(TEXTS))])])
    assert [row["system"] for row in rows] == ["marker"] * 3 + [name for name in CONSTANTS for _ in range(3)]
    scores = by_name(rows)
    assert scores["none marked", "epitome"] == (0, 0)
    assert scores["none marked", "micromodels"] == (2 / 5, 2 / 5)  # the two texts without a rationale
    assert scores["none marked", "corrected"] == (0, 0)
    every = np.mean([4 / 6, 2 / 5, 8 / 12]), np.mean([1, 0, 1])  # tokens: 2 of 4, 1 of 4, 4 of 8
    assert scores["every word marked", "corrected"] == pytest.approx(every)


def test_scores_are_means_over_repeats_and_then_over_seeds(tmp_path):
    store, right, wrong = Store(tmp_path), ("1000", "1000"), ("1000", "0010")
    first = pd.concat([frame_of([right, right]).assign(fold=1), frame_of([wrong]).assign(fold=2)])
    second = pd.concat([frame_of([right, right]).assign(fold=1), frame_of([right]).assign(fold=2)])
    records = [put(store, "marker", frame, seed) for seed, frame in enumerate((first, second))]
    rows = rationale_rows(store, [("marker", records)])
    assert by_name(rows)["marker", "corrected"] == (0.75, 0.75)  # a half and one; of all texts it would be 5 / 6
    assert [row["n_seeds"] for row in rows[::3]] == [2, 0, 0]
    assert rows[0]["n_test"] == 3


def test_there_is_no_table_where_nobody_marks(tmp_path):
    store, manifest = fake_study(tmp_path, [FakeTask("hope")], systems=("words",))
    board = leaderboard(store, manifest, draws=50)
    assert board.rationales.empty
    assert rationale_rows(store, [("nobody", [])]) == []


def test_a_study_s_rationales_are_printed_with_their_constants(tmp_path, command, monkeypatch):
    store, manifest = fake_study(tmp_path / "runs", [FakeTask("hope")], systems=("marker", "words"))
    rows = frame_of(TEXTS * 24)
    put_in, opened = Store.get, Store.open
    marker = next(cell["key"] for cell in manifest["cells"] if cell.get("system") == "marker")
    rows.to_parquet(tmp_path / FILE, index=False)

    def get(self, key):
        record = put_in(self, key)
        if key == marker:
            record.files[FILE] = ""  # in memory: a record on the disk says its hash
        return record

    def open_(self, key, name):
        return tmp_path / name if name == FILE else opened(self, key, name)

    monkeypatch.setattr(Store, "get", get)
    monkeypatch.setattr(Store, "open", open_)
    study = StudyResults.of(store, manifest, draws=50)
    board = study.leaderboard
    assert rows_in_words(board.rationales)[1:] == [
        tuple([name, *(f"{value:.3f}" for form in ("epitome", "micromodels", "corrected")
                       for value in by_name(board.rationales.to_dict("records"))[name, form])])
        for name in CONSTANTS
    ]  # fmt: skip
    assert len(rows_in_words(board.rationales)[0]) == len(RATIONALE_HEAD)
    page = markdown([section(study)])
    assert "**Title of hope** full data, 72 of 120 test rows have a rationale:" in page
    for row in rows_in_words(board.rationales):
        assert f"| {' | '.join(row)} |" in page
    code, out, _ = command("systems", "leaderboard", "fake", "--store", store.root, "--out", tmp_path / "out")
    assert code == 0 and "every word marked" in out and "epitome token F1" in out
    code, out, _ = command("systems", "leaderboard", "fake", "--store", store.root, "--out", tmp_path / "out", "--json")
    shown = json.loads(out)["rationales"]
    assert [row["system"] for row in shown[::3]] == ["marker", *CONSTANTS]
    written = pd.read_csv(tmp_path / "out" / "tables" / "leaderboard_rationales.csv")
    assert written.token_f1.tolist() == pytest.approx([row["token_f1"] for row in shown])
