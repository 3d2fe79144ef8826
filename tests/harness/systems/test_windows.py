"""Turns around the text: who asks for them is handed them, in every way to a row, and nobody else."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.local import Job, Runner
from harness.preflight.smoke import records
from harness.preflight.why import why
from harness.scoring.probe.measured import Probe, ProbedCell
from harness.scoring.system_scorer import SystemScorer
from harness.study import systems
from harness.study.cell import later_turns, make_cell, make_system_cell
from harness.study.config import StudyConfig
from harness.study.plan import Pack
from harness.study.systems import add_files, in_window, kind_of, turns_after
from harness.training.recipe import encoded
from tasks.errors import BadStudy
from tasks.splits.loading import after_hash, content_hash
from tasks.task import Example, Turn
from tests.harness.engines.test_remote import assert_refused, changed
from tests.support.studies.small_study import run_systems, small_study

FILE = Path(__file__).resolve().parents[2] / "support" / "systems" / "what_follows.py"
WINDOW_LINE = "    window: tuple[int, int] = (3, 3)\n"
ASKS, BLIND = "what-follows", "unasked"
PARTS = ("train", "validation", "test")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The system that reads later turns, and the same without its request for them; both remember what they see."""
    monkeypatch.setattr(systems, "_own", {})
    text = FILE.read_text()
    assert WINDOW_LINE in text
    (tmp_path / "unasked.py").write_text(text.replace(WINDOW_LINE, ""))
    add_files([FILE, tmp_path / "unasked.py"])
    for name in (ASKS, BLIND):
        seen(name).clear()


def seen(name):
    return kind_of(name).fit.__globals__["SEEN"]


def followed(splits, seed=0):
    """The splits, each row with four later turns whose first tells the label, and with three earlier ones."""
    rng = np.random.default_rng(seed)

    def row(place, of):
        earlier = tuple(Turn("speaker", f"earlier {place} {number}") for number in range(3))
        rest = tuple(Turn("listener", f"later {place} {int(rng.integers(1000))}") for _ in range(3))
        return of._replace(context=earlier, after=(Turn("speaker", f"sign{of.label}"), *rest))

    parts = {name: tuple(row(place, of) for place, of in enumerate(getattr(splits, name))) for name in PARTS}
    return dataclasses.replace(splits, **parts)


def cell_of(name, splits, backbone, **table):
    config = StudyConfig("toy", tuple(splits), backbone="random-tiny", systems=(name,), system={name: table})
    return make_system_cell(config, backbone, splits, target="one", name=name, seed=1, setting="full")


turns = st.lists(st.builds(Turn, st.sampled_from(["speaker", "listener"]), st.text(max_size=3)), max_size=6).map(tuple)


@given(turns, turns, st.integers(0, 8), st.integers(0, 8))
def test_a_window_is_the_last_earlier_and_the_first_later_turns(before, after, earlier, later):
    row = Example("r", "g", "g", before, "text", 1, ("te",), "train", after)
    config = dataclasses.make_dataclass("Config", [("window", tuple, (earlier, later))], frozen=True)()
    (cut,) = in_window([row], config)
    assert list(cut.context) == [turn for place, turn in enumerate(before) if place >= len(before) - earlier]
    assert list(cut.after) == [turn for place, turn in enumerate(after) if place < later]
    assert cut._replace(context=before, after=after) == row
    assert in_window([row], object()) == (row._replace(after=()),)
    assert (turns_after(config), turns_after(object())) == (later, 0)


@pytest.mark.parametrize("leak", ["none", "published"])
def test_no_later_turn_reaches_a_system_that_did_not_ask_in_fit_or_predict(own, tiny, toy_splits, store, leak):
    splits = {name: followed(toy_splits(name)) for name in ("one", "two")}
    for name, expected in ((ASKS, (2, 1)), (BLIND, (3, 0))):
        table = {"window": [2, 1]} if name == ASKS else {}
        cell = cell_of(name, splits, tiny, siblings=["two"], leak=leak, **table)
        (outcome,) = Runner(tiny, splits, store, lambda *_: None)(Pack((cell,)))
        assert outcome.error is None, outcome.trace
        # Its own training rows and those to predict; the sibling's are handed to fit, and with a leak for each part.
        sizes = {"none": [40, 16, 16, 40, 16, 24], "published": [40, 16, 16, 40, 16, 16, 24, 24]}
        assert sorted(len(rows) for rows in seen(name)) == sorted(sizes[leak])
        assert {(len(row.context), len(row.after)) for rows in seen(name) for row in rows} == {expected}
        score = store.get(cell.key).results["test"]
        assert (score == 1) == (name == ASKS)


def test_a_changed_later_turn_makes_new_cells_of_what_asked_for_it_and_of_nothing_else(own, tiny, toy_splits):
    first = followed(toy_splits("one"))
    row = first.train[0]

    def with_turn(place):
        after = (*row.after[:place], Turn("speaker", "another"), *row.after[place + 1 :])
        return dataclasses.replace(first, train=(row._replace(after=after), *first.train[1:]))

    def keys(splits):
        windows = {"wide": [3, 3], "narrow": [3, 1], "earlier": [2, 0]}
        asking = {name: cell_of(ASKS, {"one": splits}, tiny, window=window).key for name, window in windows.items()}
        return asking | {name: cell_of(name, {"one": splits}, tiny).key for name in (BLIND, "tfidf", "majority")}

    before = keys(first)
    assert {name for name, key in keys(with_turn(0)).items() if key != before[name]} == {"wide", "narrow"}
    assert {name for name, key in keys(with_turn(2)).items() if key != before[name]} == {"wide"}
    assert keys(with_turn(3)) == before
    assert len(set(before.values())) == len(before)


def test_only_cells_that_ask_for_later_turns_name_them(own, tiny, toy_splits):
    splits = {name: followed(toy_splits(name), seed) for seed, name in enumerate(("one", "two"))}
    asking = cell_of(ASKS, splits, tiny, siblings=["two"]).spec
    assert asking["after_hash"] == after_hash(splits["one"], 3)
    assert asking["sibling_after"] == {"two": after_hash(splits["two"], 3)}
    assert asking["after_hash"] != asking["sibling_after"]["two"]
    for spec in (
        cell_of(ASKS, splits, tiny, siblings=["two"], window=[3, 0]).spec,
        cell_of(BLIND, splits, tiny, siblings=["two"]).spec,
        cell_of("tfidf", splits, tiny).spec,
    ):
        assert not {"after_hash", "sibling_after"} & spec.keys()


def test_later_turns_are_not_in_the_content_of_splits(toy_splits):
    plain, rich = toy_splits("one"), followed(toy_splits("one"))
    bare = dataclasses.replace(rich, train=tuple(row._replace(after=()) for row in rich.train))
    assert content_hash(rich.train) == content_hash(bare.train)
    assert after_hash(rich, 1) != after_hash(bare, 1)
    assert after_hash(rich, 0) == after_hash(bare, 0) == after_hash(plain, 9)
    shuffled = dataclasses.replace(rich, train=rich.train[::-1])
    assert after_hash(shuffled, 4) == after_hash(rich, 4)


def test_a_window_that_is_no_pair_of_whole_numbers_is_refused_in_one_line(own, tmp_path):
    (tmp_path / "odd.py").write_text(FILE.read_text().replace(WINDOW_LINE, "    window: int = 3\n"))
    add_files([tmp_path / "odd.py"])
    for name, settings, refusal in (
        *((ASKS, {"window": odd}, f"{odd} is not a list of 2 whole numbers") for odd in ([1, 2, 3], [])),
        (ASKS, {"window": [-1, 3]}, "window[0] -1 is not a whole number from 0"),
        ("odd", {}, "window 3 is not a list of 2 whole numbers from 0"),
    ):
        with pytest.raises(BadStudy, match=re.escape(refusal)):
            kind_of(name).configured(settings, "own.toml")


# A study of turns of a conversation, scored and probed.

TASK = "esconv_question"
OVERRIDES = (f'tasks=["{TASK}"]', f'systems=["{ASKS}", "{BLIND}"]', f"system.{ASKS}.window=[2, 2]", "transfers=false")


@pytest.fixture
def study(own, store):
    study = small_study(store.root, *OVERRIDES)
    run_systems(study, device="cpu")
    for name in (ASKS, BLIND):
        assert {len(row.after) for rows in seen(name) for row in rows} == ({1, 2} if name == ASKS else {0})
        seen(name).clear()
    return study


def test_scored_rows_are_cut_as_in_training_and_new_texts_have_no_later_turn(study):
    for name in (ASKS, BLIND):
        scorer = SystemScorer(study.store, study.manifest(), name)
        stored = pd.read_parquet(study.store.open(scorer.tasks[0].record.key, "test.parquet"))
        rows = {row.id: row for row in study.plan.splits[TASK].test}
        own = [rows[id] for id in stored["id"]]
        assert all(row.after for row in own)
        bare = [row._replace(after=()) for row in own]
        logits, without = (scorer.answers(each)[0].logits for each in (own, bare))
        np.testing.assert_array_equal(logits, stored[[column for column in stored if column.startswith("logit_")]])
        assert np.array_equal(logits, without) == (name == BLIND)
        seen(name).clear()
        scorer.score(["so hard"], [["one", "two", "three"]])
        ((row,),) = seen(name)
        assert (len(row.context), row.after) == (2 if name == ASKS else 3, ())


def test_a_probe_leaves_later_turns_where_they_are_for_those_who_asked(study):
    probed = study.probe(device="cpu")
    assert probed.missing == {f"{TASK}, from other task": "the study has no task of another family with a context"}
    for name in (ASKS, BLIND):
        assert seen(name)
        assert {len(row.after) for rows in seen(name) for row in rows} == ({1, 2} if name == ASKS else {0})
        assert (max(len(row.context) for rows in seen(name) for row in rows) > 2) == (name == BLIND)


def test_a_probe_leaves_out_who_read_other_later_turns_than_the_files_have(study):
    splits = study.plan.splits[TASK]
    others = dataclasses.replace(splits, test=tuple(row._replace(after=row.after[1:]) for row in splits.test))
    asked = [ProbedCell(cell.key, TASK, cell.system) for cell in study.plan.cells if cell.system]
    probe = Probe(study.store, study.manifest(), lambda task: others, "cpu")
    probe.run(asked, lambda *_: None)
    (of_asking,) = [name for name in probe.missing if ASKS in name]
    assert not [name for name in probe.missing if BLIND in name]
    assert probe.missing[of_asking] == "the turns that follow its rows are others in the raw files than in its training"
    assert not seen(ASKS)
    assert seen(BLIND)


def test_a_job_refuses_rows_with_other_later_turns(study):
    (cell,) = [cell for cell in study.plan.cells if cell.system == ASKS]
    pack = changed(Pack((cell,)), after_hash="e" * 64)
    assert_refused(study.launch().job(pack), pack, study.store, f"later turns of {TASK} differ", "e" * 64)
    (outcome,) = study.launch().job(Pack((cell,)))(Job("tiny"))
    assert outcome.error is None
    other = changed(pack, after_hash="f" * 64)
    (line,) = why(dataclasses.replace(study.plan, baselines=(), transfers=(other,)), study.store, records(study.store))
    assert line.cause == f"later turns of {TASK} changed"


# Tasks whose adapters read later turns.


def adapter_cell(splits, backbone, **changes):
    config = StudyConfig("toy", ("one",), backbone="random-tiny", **changes)
    return make_cell(config, backbone, splits, seed=1, setting="full")


def with_later(splits, turns):
    return dataclasses.replace(splits, task=dataclasses.replace(splits.task, later=turns))


def test_only_a_task_that_reads_later_turns_has_them_in_its_keys(tiny, toy_splits):
    rich, bare = followed(toy_splits("one")), toy_splits("one")
    plain = adapter_cell(rich, tiny)
    assert not {"later", "after_hash"} & plain.spec.keys()
    asking = adapter_cell(with_later(rich, 2), tiny)
    assert (asking.spec["later"], asking.spec["after_hash"]) == (2, after_hash(rich, 2))
    assert later_turns(asking.spec) == 2
    assert later_turns(plain.spec) == 0
    assert {name for name in asking.spec if asking.spec[name] != plain.spec.get(name)} == {"later", "after_hash"}
    with pytest.raises(BadStudy, match="its reader 'table' finds none in its files; remove `later`"):
        adapter_cell(with_later(bare, 2), tiny)
    with pytest.raises(BadStudy, match="input_format = 'tags' has no place; say 'pair'"):
        adapter_cell(with_later(rich, 2), tiny, input_format="tags")


@pytest.mark.parametrize("turns", [0, 1])
def test_an_adapter_is_handed_the_turns_that_follow_where_its_task_reads_them(tiny, toy_splits, turns):
    rich = with_later(followed(toy_splits("one")), turns)
    rows, parts, tokenizer = encoded(adapter_cell(rich, tiny), tiny, rich)
    texts = [tokenizer.backend.decode(list(window.ids)) for (window,) in parts["train"].rows]
    assert all((f"sign{row.label}" in text) == (turns == 1) for row, text in zip(rows.train, texts, strict=True))
    assert not any("later" in text for text in texts), "one turn follows, not two"
