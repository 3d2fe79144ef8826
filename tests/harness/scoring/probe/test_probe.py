"""The probe of a finished study: who reads the context, who does not, and what the store keeps of it."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from adapters_store import key_of
from adapters_store.measures import IN_CLASS, OTHER_REPLY, OTHER_TASK, PROBE, PROBES, SWAPPED, UNCHANGED, measures_of
from analysis.manuscript.frames import stored_study, write_data
from analysis.manuscript.layout import printed
from analysis.manuscript.paper import numbers
from analysis.results.leaderboard import Contestant
from analysis.results.probes import PROBED, contestants_by_task, context_sensitivity, of_context_alone
from harness.scoring.probe.measured import OPERATIONS, Material
from tasks.task import Example, Turn
from tests.support.studies.small_study import small_study

ER, ROLE, NEWS = "epitome_er", "empdial_role", "news_empathy"
RESPONSE_ONLY = ("majority", "counts-response", "bi-encoder-alone")
SYSTEMS = (
    f'tasks=["{ER}", "{ROLE}", "{NEWS}"]',
    'systems=["majority", "counts", "counts-response", "counts-context", "bi-encoder-alone"]',
    *(f'system.counts{part}.kind="tfidf"' for part in ("", "-response", "-context")),
    'system.counts-response.reads="response"',
    'system.counts-context.reads="context"',
    f'system.counts-context.tasks=["{ER}", "{ROLE}"]',
    'system.bi-encoder-alone.kind="bi-encoder"',
    f'system.bi-encoder-alone.tasks=["{ER}"]',
    "system.bi-encoder-alone.epochs=1",
    "system.bi-encoder-alone.tokens=12",
    'system.bi-encoder-alone.joins="response"',
    "max_test=64",
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    study = small_study(tmp_path_factory.mktemp("probed") / "runs", *SYSTEMS)
    report = study.run(device="cpu")
    assert report.is_complete, report
    return study


@pytest.fixture(scope="module")
def probed(study):
    return study.probe(device="cpu")


def test_systems_that_declare_no_context_change_exactly_none_of_their_decisions(probed):
    own = probed.frame[probed.frame.system.isin(RESPONSE_ONLY) & (probed.frame.operation != OTHER_REPLY)]
    assert set(own.system) == set(RESPONSE_ONLY)
    assert set(own.operation) >= {*PROBES} - {UNCHANGED, OTHER_REPLY}
    assert (own[["changed", "changed_high", "shift", "drop", "drop_low", "drop_high"]] == 0).all(axis=None)


def test_another_reply_moves_every_system_that_reads_one_and_no_reader_of_contexts_alone(study, probed):
    said = {
        (measure.inputs["cell"], measure.inputs["operation"]): measure.result["probability"]
        for measure in study.store.measures()
        if measure.kind == PROBE
    }
    for contestant in contestants_by_task(study.store, study.manifest())[ER]:
        (cell,) = contestant.cells
        is_moved = said[cell.key, OTHER_REPLY] != said[cell.key, UNCHANGED]
        assert is_moved == (contestant.name not in ("majority", "counts-context")), contestant.name
    own = probed.frame[(probed.frame.operation == OTHER_REPLY) & (probed.frame.target == ER)].set_index("system")
    assert (own.changed[["counts", "counts-response"]] > 0).all()
    assert own.changed["counts-context"] == own["shift"]["counts-context"] == 0


def test_tasks_without_a_context_are_named_and_left_out(probed):
    assert probed.missing == {NEWS: "its rows have no context that it reads"}


def test_what_the_store_has_is_not_asked_again_and_says_the_same(study, probed, monkeypatch):
    monkeypatch.setattr("harness.scoring.probe.measured.scorer_of", None)
    pd.testing.assert_frame_equal(study.probe(device="cpu").frame, probed.frame)


def test_measures_hold_numbers_alone_and_go_with_an_archive(study, probed):
    stored = [measure for measure in study.store.measures() if measure.kind == PROBE]
    listed = {key_of({"kind": kind, "inputs": inputs}) for kind, inputs in measures_of(study.manifest())}
    for measure in stored:
        assert key_of({"kind": PROBE, "inputs": measure.inputs}) in listed
        text = json.dumps(measure.result, default=dict)
        assert set(json.loads(text)) == {"places", "left_out", "answers", "probability"}
        assert not any(isinstance(value, str) for values in json.loads(text).values() for value in np.ravel(values))
    assert {measure.inputs["operation"] for measure in stored} == set(PROBES)
    foreign = [measure.inputs for measure in stored if measure.inputs["operation"] == OTHER_TASK]
    assert all(inputs["donors"] for inputs in foreign)


def test_unchanged_answers_are_those_of_the_record_and_a_change_is_counted_by_hand(study, probed):
    (cell,) = [own.cells[0] for own in contestants_by_task(study.store, study.manifest())[ER] if own.name == "counts"]
    stored = pd.read_parquet(study.store.open(cell.key, "test.parquet"))
    logits = stored[[name for name in stored if name.startswith("logit_")]].to_numpy()
    answers = {
        measure.inputs["operation"]: measure.result
        for measure in study.store.measures()
        if measure.kind == PROBE and measure.inputs["cell"] == cell.key
    }
    places = answers[UNCHANGED]["places"]
    np.testing.assert_array_equal(answers[UNCHANGED]["answers"], logits.argmax(axis=1)[places])
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    own = (shares / shares.sum(axis=1, keepdims=True)).max(axis=1)[places]
    np.testing.assert_allclose(answers[UNCHANGED]["probability"], own, atol=1e-5)
    before = dict(zip(places, answers[UNCHANGED]["answers"], strict=True))
    swapped = answers[SWAPPED]
    differs = [before[place] != answer for place, answer in zip(swapped["places"], swapped["answers"], strict=True)]
    row = probed.frame[(probed.frame.system == "counts") & (probed.frame.operation == SWAPPED)]
    assert row[row.target == ER].changed.item() == pytest.approx(np.mean(differs))


def test_sensitivity_is_the_drop_of_the_adapter_alone_when_contexts_are_swapped(study, probed):
    frame = probed.frame[(probed.frame.system == "adapter alone") & (probed.frame.operation == SWAPPED)]
    assert context_sensitivity(study.store, study.manifest()) == pytest.approx(
        dict(zip(frame.target, frame["drop"], strict=True))
    )


def test_a_reader_of_nothing_but_the_context_changes_as_often_as_chance_allows():
    rng = np.random.default_rng(7)
    answer = {f"context {number}": int(rng.choice(3, p=(0.6, 0.3, 0.1))) for number in range(300)}
    rows = [Example(str(n), str(n), "b", (Turn("speaker", name),), "same", n % 2) for n, name in enumerate(answer)]
    decided = np.array([answer[row.context[0].text] for row in rows])
    for name, classes in ((SWAPPED, np.zeros(300)), (IN_CLASS, np.arange(300) % 2)):
        shares = []
        for seed in range(200):
            changed = OPERATIONS[name](rows, Material(seed))
            assert changed.left_out == 0
            after = np.array([answer[row.context[0].text] for row in changed.rows])
            shares.append((after != decided[changed.places]).mean())
        by_class = [decided[classes == kind] for kind in np.unique(classes)]
        by_hand = np.mean([(own[:, None] != own).sum() / (len(own) - 1) / len(own) for own in by_class])
        expected = of_context_alone(decided, np.arange(300), classes)
        assert expected == pytest.approx(by_hand)
        assert abs(np.mean(shares) - expected) < 4 * np.std(shares) / np.sqrt(200)


def test_groups_give_no_context_to_their_own():
    decided, groups = np.array([0, 0, 1, 1]), np.array(["a", "a", "b", "c"])
    assert of_context_alone(decided, groups, np.zeros(4)) == pytest.approx((1 + 1 + 2 / 3 + 2 / 3) / 4)


def test_the_command_prints_a_table_within_the_width_and_writes_it(study, probed, command, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    where = ("--store", study.store.root, "--out", tmp_path, "--quiet", "--device", "cpu")
    code, out, err = command("systems", "probe", "tiny", *where, "--task", ER)
    assert code == 0
    assert re.search(r"swapped .*\n +in class", out)
    assert [line for line in out.splitlines() if len(line) > 80 and len(line.split()) > 1] == []
    assert f"left out: {NEWS}" not in err
    assert set(pd.read_csv(tmp_path / "tables" / "probes.csv").target) == {ER}
    assert set(pd.read_csv(tmp_path / "figures" / "context_sensitivity.csv").task) == {ER}
    assert str(tmp_path / "figures" / "context_sensitivity.png") in out
    code, out, _ = command("systems", "probe", "tiny", *where, "--json", "--system", "counts")
    assert code == 0
    said = json.loads(out)
    assert {row["system"] for row in said["probes"]} == {"counts"}
    assert said["context_sensitivity"] == pytest.approx(context_sensitivity(study.store, study.manifest()))
    assert set(said["context_sensitivity"]) == {ER, ROLE}


def test_a_report_draws_what_was_probed_without_asking_anybody(study, probed, monkeypatch, tmp_path):
    monkeypatch.setattr("harness.scoring.probe.measured.scorer_of", None)
    page = study.report(tmp_path).read_text()
    written = pd.read_csv(tmp_path / "tables" / "probes.csv")
    assert list(written) == list(PROBED)
    pd.testing.assert_series_equal(written["drop"], probed.frame["drop"], atol=1e-9)
    assert set(pd.read_csv(tmp_path / "figures" / "context_sensitivity.csv").task) == {ER, ROLE}
    _, section = page.split("## Do they read the context?")
    assert "SYNTHETIC DATA: Context sensitivity of tasks" in section and "figures/context_sensitivity.png" in section
    swapped = probed.frame[probed.frame.operation == SWAPPED]
    rows = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("| ")][2:]
    lost = [float(row.replace("\u2212", "-").split(" | ")[5]) for row in rows]
    assert lost == pytest.approx([100 * drop for drop in swapped["drop"]], abs=0.051)


def test_a_text_may_quote_what_was_probed_and_what_the_leaderboard_says(study, probed, tmp_path):
    subject = stored_study(study.store, study.manifest())
    _, frames = write_data(subject, tmp_path)
    quoted = {number.macro: number for number in numbers(frames)}
    drops = context_sensitivity(study.store, study.manifest())
    assert quoted["ContextSensitivityTeachesEpitomeEr"].printed == printed("points", 100 * drops[ER])
    (changed,) = probed.frame.changed[
        (probed.frame.system == "counts-context") & (probed.frame.operation == SWAPPED) & (probed.frame.target == ROLE)
    ]
    assert quoted["ProbeChangedCountsContextSwappedEmpdialRole"].printed == printed("score", changed)
    board = subject.stored.leaderboard.board.set_index(["system", "target"])
    assert quoted["BoardScoreMajorityEpitomeEr"].printed == printed("score", board.score["majority", ER])
    assert quoted["BoardLowAdapterAloneEpitomeEr"].printed == printed("score", board.low["adapter alone", ER])
    assert {"BoardPairPMaxAdapterAloneCountsEpitomeEr"} <= set(quoted)


def test_a_system_that_saw_the_answers_is_left_out_by_name(study, probed, command, monkeypatch):
    monkeypatch.setattr(Contestant, "is_leaking", property(lambda self: self.name == "counts"))
    again = study.probe(device="cpu")
    assert again.missing["counts"] == "it predicted test rows from their own answers"
    assert set(again.frame.system) == set(probed.frame.system) - {"counts"}
    code, _, err = command("systems", "probe", "tiny", "--system", "counts", "--store", study.store.root)
    assert code == 2
    assert "system 'counts' is not probed, since it predicted test rows from their own answers" in err


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("tiny", "--system", "count"), "has no finished system 'count'; did you mean 'counts'"),
        (("tiny", "--task", "epitome_e"), "has no finished task 'epitome_e'; did you mean"),
        (("other",), "has no run of study 'other'"),
        (("tiny", "--system", "nowhere.py"), "no such Python file"),
        (("tiny", "--rows", "5"), "--rows: goes with --options alone; leave it out"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(study, command, arguments, refusal):
    code, out, err = command("systems", "probe", *arguments, "--store", study.store.root)
    assert (code, out, err.strip().count("\n")) == (2, "", 0)
    assert refusal in err


def test_rows_that_are_not_those_of_the_study_are_refused_by_name(study, monkeypatch):
    manifest = study.manifest()
    tasks = {name: {**facts, "splits_hash": "0" * 64} for name, facts in manifest["tasks"].items()}
    monkeypatch.setattr(type(study), "manifest", lambda self: {**manifest, "tasks": tasks})
    assert "are not those that the study was run on" in study.probe(tasks=[ER], device="cpu").missing[ER]
