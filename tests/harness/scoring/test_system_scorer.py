"""New texts through systems that are no adapters: what their records hold, their rationales, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest

from adapters_store.store import NoWeights
from harness.scoring.answers import COLUMNS, RATIONALE, NothingTrained
from harness.scoring.system_scorer import SystemScorer
from harness.study import systems
from harness.study.systems import Predicted, Span, add_files
from tests.harness.systems.test_own_systems import FILES
from tests.support.studies.small_study import small_study

ONE, TWO = "epitome_er", "news_empathy"
TASKS = f'tasks=["{ONE}", "{TWO}"]'
SYSTEMS = (
    TASKS,
    'systems=["counts", "bi-encoder", "nearest-text"]',
    'system.counts.kind="tfidf"',
    f'system.bi-encoder.tasks=["{ONE}"]',
    "system.bi-encoder.epochs=1",
    "system.bi-encoder.tokens=12",
    f'system.nearest-text.tasks=["{ONE}"]',
    "transfers=false",
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A study with shipped systems and one of a user's own, after a run."""
    add_files(FILES)
    study = small_study(tmp_path_factory.mktemp("scored_by_systems") / "runs", *SYSTEMS)
    report = study.run()
    assert report.is_complete, report
    yield study
    systems._own.clear()


@pytest.mark.parametrize("system", ["counts", "bi-encoder", "nearest-text"])
def test_each_system_says_of_its_test_rows_what_its_records_hold(done, system):
    scorer = SystemScorer(done.store, done.manifest(), system)
    assert [task.name for task in scorer.tasks] == ([ONE, TWO] if system == "counts" else [ONE])
    for task in scorer.tasks:
        stored = pd.read_parquet(done.store.open(task.record.key, "test.parquet"))
        rows = {row.id: row for row in done.plan.splits[task.name].test}
        every = scorer.answers([rows[id] for id in stored["id"]])
        (answers,) = [one for one in every if one.task is task]
        np.testing.assert_allclose(answers.logits, stored.filter(regex="^logit_"), atol=1e-5)


def test_rationales_are_the_spans_of_the_record_and_long_texts_are_named_cut(done):
    scorer = SystemScorer(done.store, done.manifest(), "bi-encoder")
    (task,) = scorer.tasks
    tested = set(pd.read_parquet(done.store.open(task.record.key, "test.parquet"))["id"])
    rows = [row for row in done.plan.splits[ONE].test if row.id in tested]
    contexts = [[turn.text for turn in row.context] for row in rows]
    frame = scorer.score([row.text for row in rows], contexts, [row.id for row in rows])
    assert list(frame) == [*COLUMNS, RATIONALE]
    said = {id: json.loads(spans) for id, spans in zip(frame["id"], frame[RATIONALE], strict=True)}
    assert "spans.parquet" in task.record.files
    spans = pd.read_parquet(done.store.open(task.record.key, "spans.parquet"))
    stored = spans[spans["split"] == "test"]
    wanted = {id: list(zip(of.start, of.end, strict=True)) for id, of in stored.groupby("id")}
    assert {id: [(start, end) for start, end, _ in marks] for id, marks in said.items() if marks} == wanted
    assert all(0 <= start < end and 0.5 < share <= 1 for marks in said.values() for start, end, share in marks)
    cut = scorer.score(["short", "a long text " * 20])["is_cut"].tolist()
    assert cut == [False, True]


def test_spans_stand_in_the_rows_of_their_texts(done, monkeypatch):
    scorer = SystemScorer(done.store, done.manifest(), "nearest-text")
    marks = [Span(1, 0, 2, 0.75), Span(1, 3, 7, 0.5)]
    outputs = scorer.tasks[0].outputs

    class Marking:
        def predict(self, rows):
            return Predicted(np.zeros((len(rows), outputs), np.float32), marks, is_cut=np.array([True, False]))

    scorer.__dict__["fitted"] = [Marking()]
    frame = scorer.score(["no", "so hard"])
    assert frame[RATIONALE].tolist() == ["[]", "[[0, 2, 0.75], [3, 7, 0.5]]"]
    assert frame["is_cut"].tolist() == [True, False]


def test_the_command_scores_a_file_by_a_system_and_says_how_good_it_is(done, command, tmp_path):
    (tmp_path / "texts.csv").write_text("reply,post\nso hard,I lost it\nwhat now,\n")
    out = tmp_path / "scores.csv"
    where = ("--store", done.store.root, "--text", "reply", "--context", "post", "--out", out)
    code, shown, err = command("texts", "score", "tiny", tmp_path / "texts.csv", *where, "--by", "bi-encoder")
    assert (code, err) == (0, "")
    assert ONE in shown
    frame = pd.read_csv(out)
    assert list(frame) == [*COLUMNS, RATIONALE]
    assert [isinstance(json.loads(cell), list) for cell in frame[RATIONALE]] == [True, True]


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("--by", "count"), "study 'tiny' has no system 'count'; did you mean 'counts'"),
        (("--by", "bi-encoder", "--task", TWO), f"has no trained cell of {TWO}"),
        (("--by", "bi-encoder", "--precision", "bf16"), "systems score in fp32"),
        (("--system", str(FILES[0])), "name the study's system that it is, with --by NAME"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_line(done, command, tmp_path, arguments, refusal):
    (tmp_path / "texts.txt").write_text("so hard\n")
    out = tmp_path / "scores.csv"
    where = ("--store", done.store.root, "--out", out)
    code, _, err = command("texts", "score", "tiny", tmp_path / "texts.txt", *where, *arguments)
    assert (code, len(err.splitlines()), out.exists()) == (2, 1, False)
    assert refusal in err


def test_a_system_of_ones_own_scores_where_its_file_is_named_and_unchanged(done, command, tmp_path, monkeypatch):
    (tmp_path / "texts.txt").write_text("so hard\n")
    where = ("--store", done.store.root, "--out", tmp_path / "scores.csv", "--by", "nearest-text")
    monkeypatch.setattr(systems, "_own", {})
    code, _, err = command("texts", "score", "tiny", tmp_path / "texts.txt", *where)
    assert (code, "a file of your own is named with --system FILE.py" in err) == (2, True)
    changed = tmp_path / "nearest_text.py"
    changed.write_text(FILES[0].read_text() + "\n# changed\n")
    code, _, err = command("texts", "score", "tiny", tmp_path / "texts.txt", *where, "--system", changed)
    assert (code, "was trained by another version of 'nearest-text' than is here" in err) == (2, True)
    code, _, err = command("texts", "score", "tiny", tmp_path / "texts.txt", *where, "--system", FILES[0])
    assert (code, err) == (0, "")


@pytest.mark.parametrize("keep", ["adapters", "baselines"])
def test_a_study_may_keep_no_weights_of_systems_and_score_says_so(tmp_path, done, keep):
    changes = ('systems=["tfidf"]', f'system.tfidf.tasks=["{ONE}"]', "transfers=false", f'keep="{keep}"')
    study = small_study(tmp_path / "runs", TASKS, *changes)
    assert study.run().is_complete
    (cell,) = [cell for cell in study.plan.cells if cell.system]
    assert not any(name.startswith("model/") for name in study.store.get(cell.key).files)
    assert not study.score(["so hard"]).empty  # the baselines' adapters stay
    with pytest.raises(NoWeights, match=r"keeps no weights of system 'tfidf' \(`keep` of its study"):
        study.score(["so hard"], by="tfidf")


def test_a_system_that_was_not_trained_is_named_with_the_command(tmp_path, done):
    study = small_study(tmp_path / "runs", TASKS, 'systems=["tfidf"]', "transfers=false")
    study.run(only_targets=[TWO])
    with pytest.raises(NothingTrained, match=f"has no trained cell of {ONE}; train it with: empathy-transfer run"):
        study.score(["so hard"], tasks=[ONE], by="tfidf")
