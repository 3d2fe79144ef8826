"""The answer on top of a report: every number is that of the frames beside it, whatever the study."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.gains.power import visible_gains
from analysis.importance.mixed.tested import SIGNED
from analysis.sections.blocks import Section
from analysis.sections.importance import Answer
from analysis.sections.in_short import seeds_of, sentences
from analysis.sections.study_results import StudyResults
from tests.support.studies.fake_study import FakeTask, fake_study

F1 = (FakeTask("hope"), FakeTask("role"))
BOTH = (*F1, FakeTask("distress", "continuous"))
NOTHING = "nothing can be said: too few families"
STUDIES: dict[str, dict[str, Any]] = {
    "one seed": {"tasks": BOTH, "helpful": [("role", "hope")]},
    "three seeds": {"tasks": BOTH, "seeds": (1, 2, 3), "helpful": [("role", "hope")]},
    "one of three seeds": {"tasks": BOTH, "study": {"seeds": [1, 2, 3]}},
    "one metric": {"tasks": F1},
    "harms": {"tasks": BOTH, "constant": [("hope", "role"), ("role", "hope")]},
    "a baseline that learned nothing": {"tasks": BOTH, "constant": [(None, "role")]},
    "less data": {"tasks": F1, "settings": ("full", "half")},
    "gaps": {"tasks": BOTH, "absent": [("hope", "role")], "synthetic": True},
    "contaminated": {"tasks": BOTH, "flags": {("hope", "role"): ["contaminated"]}},
    "no transfer at all": {"tasks": BOTH, "absent": [(a.id, b.id) for a in BOTH for b in BOTH]},
}


def slopes(*detectable: float | None) -> list[dict[str, Any]]:
    return [{"question": SIGNED, "verdict": "not supported", "detectable": size} for size in detectable]


def answer(headline: str = NOTHING, **facts: Any) -> Answer:
    return Answer((headline,), Section("", []), {"headline": headline, **facts})


@pytest.fixture(scope="module", params=STUDIES)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> StudyResults:
    folder: Path = tmp_path_factory.mktemp("study")
    options = dict(STUDIES[request.param])
    store, manifest = fake_study(folder, options.pop("tasks"), **options)
    return StudyResults.of(store, manifest, folder, draws=200)


def text_of(study: StudyResults) -> str:
    return "\n".join(sentences(study, visible_gains(study.gains), answer()))


def test_seeds_are_those_that_transfers_have(study: StudyResults) -> None:
    planned, has = len(study.manifest["study"]["seeds"]), {count for count in study.gains.n_seeds if count}
    words = "3 seeds;" if has == {3} else "1 of 3 seeds;" if planned == 3 else "1 seed;"
    assert f"adapters on random-tiny, {words}" in text_of(study)
    assert seeds_of(pd.DataFrame({"n_seeds": [2, 0, 3, 2]})) == "2 to 3"


def test_counts_are_those_of_the_gains(study: StudyResults) -> None:
    tested, text = study.gains[study.gains.p.notna()], text_of(study)
    if tested.empty:
        assert "none has a p value" in text
        return
    said = re.search(r"of (\d+) transfers? with a p value, (\w+) gains? and (\w+) harms? are.*other (\d+) are", text)
    assert said is not None
    numbers = [0 if word == "no" else int(word) for word in said.groups()]
    points = tested.points[tested.significant]
    gains, harms = int((points > 0).sum()), int((points < 0).sum())
    assert numbers == [len(tested), gains, harms, len(tested) - gains - harms]


def test_extremes_are_those_of_the_gains_and_have_their_sign(study: StudyResults) -> None:
    tested, text = study.gains[study.gains.p.notna()], text_of(study)
    for noun, size in (("gain", tested.points.max()), ("harm", tested.points.min())):
        if len(tested) and (size > 0) == (noun == "gain") and size:
            assert f"Largest {noun}: " in text
            assert f"{size:+.1f} points" in text
        else:
            assert f"Largest {noun}" not in text


def test_no_sentence_has_an_undefined_number_and_all_fit_a_screen(study: StudyResults) -> None:
    lines = sentences(study, visible_gains(study.gains), answer())
    assert not re.search(r"\bnan\b|<NA>|\bNone\b|\binf\b", "\n".join(lines))
    assert 4 <= len(lines) <= 8
    assert sum(len(line.split()) for line in lines) <= 200


def test_cautions_name_what_the_frames_flag(study: StudyResults) -> None:
    tested, (*_, cautions) = study.gains[study.gains.p.notna()], sentences(study, pd.DataFrame(), answer())
    assert cautions.startswith("Reasons for caution: ")
    assert ("made up" in cautions) == study.manifest["synthetic"]
    assert ("not finished" in cautions) == bool((study.cells.status != "done").any())
    assert ("one training run" in cautions) == bool((tested.seed_error == 0).any())
    assert ("learned nothing" in cautions) == bool(
        (study.cells.intermediate.isna() & study.cells.collapsed.fillna(False).astype(bool)).any()
    )
    for flag, words in (("contaminated", "training material"), ("collapsed", "of a collapsed cell")):
        assert (words in cautions) == bool(tested[flag].fillna(False).astype(bool).any())


def test_each_flag_and_a_missing_measure_of_contamination_is_a_caution(tmp_path: Path) -> None:
    store, manifest = fake_study(tmp_path, F1)
    study = StudyResults.of(store, manifest, tmp_path, draws=100)
    for flag, words in (
        ("collapsed", "2 of 2 gains are of a collapsed cell"),
        ("contaminated", "2 of 2 gains are on test items that are training material too"),
        ("dead_intermediate", "2 of 2 gains are with an intermediate that hardly changes anything"),
    ):
        for value in (True, False):
            given = replace(study, gains=study.gains.assign(**{flag: value}))
            assert (words in sentences(given, pd.DataFrame(), answer())[-1]) == value
    for value in (pd.NA, False):
        given = replace(study, gains=study.gains.assign(contaminated=value))
        said = "contamination was not measured" in sentences(given, pd.DataFrame(), answer())[-1]
        assert said == (value is pd.NA)
    cells = study.cells.assign(collapsed=study.cells.target == "hope")
    assert "Title of hope alone learned nothing" in sentences(replace(study, cells=cells), pd.DataFrame(), answer())[-1]
    cells = study.cells.assign(collapsed=True)
    last, n = sentences(replace(study, cells=cells), pd.DataFrame(), answer())[-1], study.cells.target.nunique()
    assert f"{n} targets alone learned nothing (collapsed: Title of " in last


def test_what_explains_gains_comes_with_the_slopes_that_would_have_been_found(tmp_path: Path) -> None:
    store, manifest = fake_study(tmp_path, F1)
    study = StudyResults.of(store, manifest, tmp_path, draws=100)
    for given, sentence in (
        (slopes(1.62, 2.94), "A slope of 1.6 to 2.9 points per step of a rating would"),
        (slopes(2.0, None), "A slope of 2.0 points per step of 1 of 2 ratings would"),
        (slopes(None), None),
        ([], None),
    ):
        said = "\n".join(sentences(study, pd.DataFrame(), answer("ratings explain gains", slopes=given)))
        assert "Ratings explain gains." in said
        assert (sentence in said) if sentence else ("A slope" not in said)
