"""What both modes answer for stored studies and for results with gaps: reported, never dropped, never a crash."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from analysis.gains.gains import gains
from analysis.importance.grid import Primary
from analysis.importance.question import of_grids, of_published
from analysis.results.results import Results
from analysis.sections import importance
from analysis.sections.answers import write_answers
from analysis.sections.importance import guarded_answer, paper_answer
from tests.support.studies.fake_study import FakeTask, fake_study

FAMILIES = ("one", "two", "three", "four")
MODES = {"guarded": guarded_answer, "paper": paper_answer}


@pytest.fixture(autouse=True)
def few_seeds(monkeypatch):
    monkeypatch.setattr(importance, "SEEDS", 2)
    monkeypatch.setattr(importance, "PERMUTATIONS", 3)


def answered(question, mode="guarded"):
    """The answer of a mode, after its page was written and found to be free of undefined numbers."""
    steps = []
    answer = MODES[mode](question, lambda *step: steps.append(step))
    parts = [part for part in (answer.section, answer.further) if part]
    page = write_answers(question, parts).read_text(encoding="utf-8")
    json.dumps(answer.facts, allow_nan=False)
    for text in (page, *answer.lines):
        assert "nan" not in text.lower().replace("finance", "")
    assert all(done <= of for done, of, _ in steps)
    return answer, page


def published(tmp_path, **changes):
    """The question to the paper's scores with other gains, tasks or ratings."""
    question = of_published(tmp_path)
    return replace(question, results=replace(question.results, **changes))


def stored(tmp_path, tasks, families=FAMILIES, rated=True, **options):
    """The question to a stored study of made-up predictions, whose tasks are rated by two raters."""
    store, manifest = fake_study(tmp_path / "runs", tasks, **options)
    for place, one in enumerate(manifest["tasks"].values()):
        one["family"] = families[place % len(families)]
    by_setting = Results.by_setting(store, manifest, gains(store, manifest, draws=100))
    ratings = pd.DataFrame(
        [
            (task.id, construct, rater, float(1 + (place * step + shift) % 5))
            for place, task in enumerate(tasks)
            for step, construct in ((1, "definition"), (2, "link"))
            for shift, rater in enumerate("AB")
        ],
        columns=["task", "construct", "rater", "value"],
    )
    full = by_setting["full"]
    results = replace(full, ratings=ratings if rated else full.ratings.head(0))
    return of_grids({"full": results}, tmp_path / "out")


def several(count=8):
    """Tasks, of which the third has a single class in its test set and the second predicts a number."""
    kinds = {1: {"kind": "continuous"}, 2: {"only_class": 1}}
    return [FakeTask(f"task{place}", rows=60, groups=12, **kinds.get(place, {})) for place in range(count)]


def test_a_study_with_gaps_one_class_and_a_constant_prediction_is_analyzed_and_they_are_told(tmp_path):
    question = stored(tmp_path, several(), absent=[("task0", "task3")], constant=[("task4", "task1")])
    answer, page = answered(question)
    assert "explain gains" in answer.lines[1]
    assert "2 pairs without a defined outcome left out" in page
    _, page = answered(question, "paper")
    assert "2 of 56 pairs have no percent change and are left out" in page


@pytest.mark.parametrize("mode", MODES)
def test_three_tasks_get_a_reason(tmp_path, mode):
    answer, page = answered(stored(tmp_path, several(3)), mode)
    assert "nothing can be said: " in page.lower()
    assert any(("3 tasks in 3 families" if mode == "guarded" else "6 pairs") in line for line in answer.lines)


def test_tasks_without_ratings_get_a_reason_and_the_paper_leaves_constructs_out(tmp_path):
    question = stored(tmp_path, several(), rated=False)
    answer, _ = answered(question)
    assert "no task has ratings" in answer.facts["headline"]
    answer, page = answered(question, "paper")
    assert answer.facts["null"] == []
    assert "definition" not in page


@pytest.mark.parametrize("mode", MODES)
def test_a_study_of_which_nothing_is_finished_gets_a_reason(tmp_path, mode):
    pairs = [(f"task{a}", f"task{b}") for a in range(4) for b in range(4)]
    answer, page = answered(stored(tmp_path, several(4), absent=pairs), mode)
    assert "nothing can be said: " in page.lower()
    assert answer.facts


@pytest.mark.parametrize("mode", MODES)
def test_gains_that_are_all_alike_get_a_reason_or_undefined_numbers(tmp_path, mode):
    own = of_published(tmp_path).results.gains
    flat = own.assign(score=own.baseline, gain=0.0, percent=0.0)
    _, page = answered(published(tmp_path, gains=flat), mode)
    assert ("gains differ by nothing but their tasks" if mode == "guarded" else "not defined") in page


def test_the_page_says_what_was_declared_and_how_much_was_trained_before(tmp_path):
    question = stored(tmp_path, several(3))
    _, page = answered(question)
    assert "Not preregistered: no study file declares it" in page
    assert question.primary.key in page
    store, manifest = fake_study(tmp_path / "declared", several(2))
    manifest["study"]["analysis"] = {
        **{"outcome": "ranks", "left_out": "both", "cells": "all", "without_rater": "", "weights": "equal"},
        **{"draws": 99, "margin": 3},
    }
    manifest["declared"] = "2025-01-01T00:00:00+00:00"
    primary = Primary.of(manifest, store)
    assert (primary.specification.outcome, primary.specification.left_out, primary.draws) == ("ranks", "both", 99)
    assert "declared 2025-01-01T00:00:00+00:00; 4 of 4 cells were trained before that" in primary.line()
    assert of_grids({"full": question.results}, tmp_path, primary=primary).margin == 3
    assert of_grids({"full": question.results}, tmp_path, 1.0, primary=primary).margin == 1
    assert primary.key != Primary().key


def test_a_declared_specification_is_the_one_that_is_asked(tmp_path):
    question = stored(tmp_path, several())
    asked = replace(question.primary.specification, outcome="ranks")
    answer, _ = answered(replace(question, primary=Primary(asked, declared="2025-01-01")))
    assert answer.facts["choices"][0]["outcome"] == "ranks"
    assert [row["outcome"] for row in answer.facts["choices"]].count("points") == len(question.results.constructs)
    for place in ("figures/mixed_choices.png", "figures/mixed_choices.csv", "tables/mixed_choices.parquet"):
        assert (question.out / place).stat().st_size > 500
    slopes = (question.out / "figures" / "mixed_choices.svg").read_text(encoding="utf-8")
    assert all(label in slopes for label in ("primary", "outcome points", "without rater B"))


def test_the_papers_way_stands_beside_table_6_with_what_it_is_worth(tmp_path):
    answer, page = answered(of_published(tmp_path), "paper")
    assert "| Definition |" in page
    assert "Table 6" in page
    assert "random placeholder" in page
    assert answer.facts["importances"]["V1"][0]["feature"] == "definition"
    assert {row["variant"] for row in answer.facts["unseen"]} == {"V1", "V3"}
    assert {path.stem for path in (tmp_path / "tables").glob("paper_*.csv")} == {
        f"paper_{name}" for name in ("importances", "fits", "unseen", "null", "table6")
    }
