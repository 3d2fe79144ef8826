"""What trainers and systems do for those who run and cost cells, and what a system is handed and keeps."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from adapters_store import Store
from harness.run.pack import PackRunner
from harness.study import systems
from harness.study.cell import make_cell, make_system_cell
from harness.study.config import StudyConfig
from harness.study.plan import Pack
from harness.study.systems import SHIPPED, Predicted, Reads, add_files, check_rows, kind_of
from harness.systems import name_of_system, system_of
from harness.systems.system import System, unanswered_of
from tasks.errors import BadInput, BadStudy
from tasks.task import Label

TRAINERS = ("lanes", "library")


def system_cell(name, target, splits, backbone, study=None, seed=1, **table):
    """A system's cell of a target among the splits of toy tasks."""
    config = StudyConfig("toy", tuple(splits), backbone="random-tiny", systems=(name,), system={name: table})
    return make_system_cell(config, backbone, splits, target=target, name=name, seed=seed, setting="full")


@pytest.mark.parametrize("name", TRAINERS)
def test_every_trainer_keeps_the_contract(name, study, tiny, toy_splits):
    cell = make_cell(dataclasses.replace(study, trainer=name), tiny, toy_splits("one"), seed=1, setting="full")
    other = make_cell(dataclasses.replace(study, trainer=name), tiny, toy_splits("one"), seed=2, setting="full")
    system = system_of(cell.spec)
    assert isinstance(system, System)
    assert [member for group in system.groups([cell, other]) for member in group] == [cell, other]
    assert system.steps(cell.spec) == cell.spec["training"]["epochs"]
    assert system.way(cell.spec, 1)
    assert system.kept_bytes(cell.spec, tiny) > 0
    assert "torch" in system.packages


@pytest.mark.parametrize("name", SHIPPED)
def test_every_kind_is_a_system_as_trainers_are(name):
    system, spec = system_of({"system": name}), {"system": name, "config": {}}
    assert isinstance(system, System)
    assert system.groups(["first", "second"]) == [("first",), ("second",)]
    assert system.way(spec, 1) == f"system {name}"
    assert system.steps(spec) == 1
    assert system.steps({**spec, "config": {"epochs": 3}}) == 3


def test_an_adapter_s_system_is_its_trainer_and_an_unknown_one_is_refused_by_name():
    assert name_of_system({"trainer": "lanes"}) == "lanes"
    assert name_of_system({"system": "tfidf"}) == "tfidf"
    with pytest.raises(BadInput, match="no trainer 'lane' is known here; did you mean 'lanes'"):
        system_of({"trainer": "lane"})
    with pytest.raises(BadInput, match="no system 'tf-idf' is known here; did you mean 'tfidf'"):
        system_of({"trainer": "lanes", "system": "tf-idf"})


def test_a_pack_of_a_system_leaves_a_record_as_any_other(tiny, toy_splits, store):
    heard, splits = [], {"one": toy_splits("one")}
    cell = system_cell("majority", "one", splits, tiny)
    runner = PackRunner(tiny, splits, store, lambda *said: heard.append(said))
    (outcome,) = runner.run_pack(Pack((cell,)))
    assert outcome.error is None, outcome.trace
    record = store.get(cell.key)
    assert record.results["test"] == record.results["floor"]
    assert record.results["flags"] == ["collapsed", "constant_prediction"]
    assert (record.results["cut"], record.results["liveness"], record.results["best_epoch"]) == ({}, None, None)
    assert set(record.provenance["versions"]) == {"python", "numpy"}
    assert set(record.files) == {"model/frequencies.safetensors", "test.parquet", "validation.parquet", "history.json"}
    assert len(pd.read_parquet(store.open(cell.key, "test.parquet"))) == record.results["n_test"]


SPY = """
from dataclasses import dataclass
from harness.study.systems import Fitted, Kind, Predicted, Reads, Span
import numpy as np

SEEN = []


@dataclass(frozen=True)
class Heard:
    siblings: tuple = ()
    epochs: int = 2


class Spy(Fitted):
    history = [{"epoch": 1, "train_loss": 1.0, "validation": 0.5}, {"epoch": 2, "train_loss": 0.5, "validation": 0.6}]
    best_epoch = 2

    def predict(self, rows):
        SEEN.append(rows)
        logits = np.tile(np.array([0, 1], np.float32), (len(rows), 1))
        return Predicted(logits, [Span(0, 1, 4, 0.5)], {"tokens": len(rows)})

    def save(self, folder):
        folder.mkdir()


class SpyKind(Kind):
    reads = Reads(siblings=True, rationales=True)
    config = Heard

    def fit(self, fit):
        SEEN.append(fit)
        fit.watch(1, 2)
        fit.watch(2, 2)
        return Spy()

    def load(self, folder, place):
        raise NotImplementedError
"""


@pytest.fixture
def spy(tmp_path, monkeypatch):
    """What a system was handed that keeps it, in a file of its own."""
    monkeypatch.setattr(systems, "_own", {})
    (tmp_path / "spy.py").write_text(SPY)
    add_files([tmp_path / "spy.py"])
    return kind_of("spy").fit.__globals__["SEEN"]


PARTS = ("train", "validation", "test")


def rationale_splits(toy_splits, name, letters=4):
    """The splits, of whose rows so many last letters are the rationale."""
    splits = toy_splits(name)
    rows = {
        part: tuple(row._replace(rationale=(row.text[-letters:],)) for row in getattr(splits, part)) for part in PARTS
    }
    task = dataclasses.replace(splits.task, columns={"rationale": "why"})
    return dataclasses.replace(splits, task=task, **rows)


def test_a_system_sees_no_test_row_in_its_fit_and_no_answer_in_what_it_predicts(spy, tiny, toy_splits, store):
    splits = {name: rationale_splits(toy_splits, name) for name in ("one", "two")}
    cell, heard = system_cell("spy", "one", splits, tiny, siblings=["two"]), []
    runner = PackRunner(tiny, splits, store, lambda *said: heard.append(said))
    (outcome,) = runner.run_pack(Pack((cell,)))
    assert outcome.error is None, outcome.trace
    fit, *shown = spy
    assert (fit.train, fit.validation) == (splits["one"].train, splits["one"].validation)
    sibling = fit.siblings["two"]
    assert tuple(sibling.train) == splits["two"].train
    assert tuple(sibling.validation) == splits["two"].validation
    assert [len(rows) for rows in shown] == [16, 24]
    assert {(row.label, row.rationale) for rows in shown for row in rows} == {(0, ())}
    assert heard == [(cell.label, 1, 2), (cell.label, 2, 2)]
    record = store.get(cell.key)
    assert (record.results["best_epoch"], record.results["cost"]) == (2, {"tokens": 24})
    spans = pd.read_parquet(store.open(cell.key, "spans.parquet"))
    assert spans.to_dict("records")[1] == {"split": "test", "id": "r0", "start": 1, "end": 4, "score": 0.5}
    marks = pd.read_parquet(store.open(cell.key, "rationales.parquet"))
    assert marks.id.tolist() == [row.id for row in splits["one"].test]
    lengths = [len(row.text) for row in splits["one"].test]  # the random backbone reads a token per byte
    assert marks.predicted.tolist() == ["0111".ljust(lengths[0], "0"), *("0" * length for length in lengths[1:])]
    assert marks.gold.tolist() == ["0" * (length - 4) + "1111" for length in lengths]


def test_every_seed_of_a_cell_draws_otherwise_and_a_seed_always_alike(spy, tiny, toy_splits, store):
    splits, drawn = {"one": rationale_splits(toy_splits, "one")}, []
    for seed in (1, 2, 1):
        cell = system_cell("spy", "one", splits, tiny, seed=seed)
        runner = PackRunner(tiny, splits, Store(store.root / str(len(drawn))), lambda *_: None)
        (outcome,) = runner.run_pack(Pack((cell,)))
        assert outcome.error is None, outcome.trace
        drawn.append([seen.seed for seen in spy if hasattr(seen, "seed")][-1])
    assert drawn[0] == drawn[2] != drawn[1]


def test_a_changed_rationale_makes_new_cells_of_what_reads_it_and_of_nothing_else(spy, tiny, toy_splits):
    before, after = ({"one": rationale_splits(toy_splits, "one", letters)} for letters in (4, 3))
    keys = {name: [system_cell(name, "one", own, tiny).key for own in (before, after)] for name in ("spy", "tfidf")}
    assert keys["spy"][0] != keys["spy"][1]
    assert keys["tfidf"][0] == keys["tfidf"][1]


def test_what_a_system_cannot_read_is_refused_in_one_line(spy, tiny, toy_splits, monkeypatch):
    plain, marked = toy_splits("one"), rationale_splits(toy_splits, "one")
    with pytest.raises(BadStudy, match=r"'spy' needs rationales, and task 'one' has no column of them; or name its"):
        system_cell("spy", "one", {"one": plain}, tiny)
    with pytest.raises(BadStudy, match="sibling 'three' is no task of the study with data here"):
        system_cell("spy", "one", {"one": marked}, tiny, siblings=["three"])
    other = rationale_splits(toy_splits, "two")
    other = dataclasses.replace(other, train=other.train[1:])
    with pytest.raises(BadStudy, match="'two' is no sibling of 'one': 1 ids of their train rows differ"):
        system_cell("spy", "one", {"one": marked, "two": other}, tiny, siblings=["two"])
    for needed, refusal in (
        ({"weights": "decoder"}, "reads weights of the kind 'decoder', and backbone 'random-tiny' is an encoder"),
        ({"package": "no_such", "extra": "forests"}, r"optional package; .* pip install 'empathy-transfer\[forests\]'"),
        ({"instructions": True}, r"asks by an instruction, and task 'one' has none; write \[instruction\] in its"),
        ({"labels": ("continuous",)}, "predicts no binary label, and 'one' has one"),
    ):
        monkeypatch.setattr(kind_of("spy"), "reads", Reads(**needed))
        with pytest.raises(BadInput, match=refusal):
            system_cell("spy", "one", {"one": marked}, tiny)
    label = Label("label", "multilabel", ("a", "b", "c"), separator=",")
    several = dataclasses.replace(marked, task=dataclasses.replace(marked.task, label=label, metric="multilabel_f1"))
    with pytest.raises(BadStudy, match="that would be 3 questions of yes or no about every row"):
        check_rows(kind_of("prompted"), "prompted", several, {})


def test_a_system_that_predicts_too_few_logits_fails_and_says_so(spy, tiny, toy_splits, store):
    splits = {"one": rationale_splits(toy_splits, "one")}
    three = dataclasses.replace(splits["one"].task, label=Label("label", "multiclass", ("0", "1", "2")))
    splits["one"] = dataclasses.replace(splits["one"], task=three)
    rows = tuple(row._replace(label=place % 3) for place, row in enumerate(splits["one"].train))
    splits["one"] = dataclasses.replace(splits["one"], train=rows)
    cell = system_cell("spy", "one", splits, tiny)
    (outcome,) = PackRunner(tiny, splits, store, lambda *_: None).run_pack(Pack((cell,)))
    assert outcome.error == "system 'spy' predicts (16, 2) logits for 16 validation rows of 3 outputs; mend its predict"


def test_the_same_kind_under_two_names_is_two_cells_and_equal_settings_are_one(tiny, toy_splits):
    splits = {"one": toy_splits("one")}
    tables = {"words": {"kind": "tfidf"}, "response": {"kind": "tfidf", "reads": "response"}, "tfidf": {}}
    config = StudyConfig("toy", ("one",), systems=tuple(tables), system=tables)
    cells = {
        name: make_system_cell(config, tiny, splits, target="one", name=name, seed=1, setting="full") for name in tables
    }
    assert cells["words"].key == cells["tfidf"].key != cells["response"].key
    assert cells["response"].label == "one (response), seed 1, full"
    assert {cell.intermediate_key for cell in cells.values()} == {None}


def test_keys_of_systems_stay_what_they_are(tiny, toy_splits):
    splits = {"one": toy_splits("one")}
    keys = {name: system_cell(name, "one", splits, tiny).key[:16] for name in ("majority", "tfidf")}
    assert keys == {"majority": "c591726d2635d1f7", "tfidf": "31702f5f8c0bb527"}


def test_rows_without_an_answer_are_named_and_no_others(toy_splits):
    rows = toy_splits("one").test[:4]
    mask = np.array([False, True, False, False])
    logits = np.zeros((4, 2), dtype=np.float32)
    assert unanswered_of(rows, Predicted(logits, unanswered=mask)) == (rows[1].id,)
    assert unanswered_of(rows, Predicted(logits)) == ()
