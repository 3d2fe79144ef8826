"""The answer on top of a report: every number is that of the frames beside it, whatever the study."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.importance.mixed_test import SIGNED
from analysis.importance.question import of_study
from analysis.report import report
from analysis.results.study_results import StudyResults
from analysis.sections import in_short
from analysis.sections.blocks import Section
from analysis.sections.importance import ImportanceReport
from analysis.sections.in_short import explanation, seeds_of, sentences
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.page_study import with_frames

F1 = (FakeTask("hope"), FakeTask("role"))
BOTH = (*F1, FakeTask("distress", "continuous"))
NOTHING = "nothing can be said: too few families"
EXPLAINED = (f"{NOTHING[0].upper()}{NOTHING[1:]}.",)
STUDIES: dict[str, dict[str, Any]] = {
    "one seed": {"tasks": BOTH, "helpful": [("role", "hope")]},
    "three seeds": {"tasks": BOTH, "seeds": (1, 2, 3), "helpful": [("role", "hope")]},
    "one of three seeds": {"tasks": BOTH, "study": {"seeds": [1, 2, 3]}},
    "harms": {"tasks": BOTH, "constant": [("hope", "role"), ("role", "hope")]},
    "a baseline that learned nothing": {"tasks": BOTH, "constant": [(None, "role")]},
    "less data": {"tasks": F1, "settings": ("full", "half")},
    "gaps": {"tasks": BOTH, "absent": [("hope", "role")], "synthetic": True},
    "contaminated": {"tasks": BOTH, "flags": {("hope", "role"): ["contaminated"]}},
    "below words": {"tasks": BOTH, "helpful": [("role", "hope"), ("tfidf", "hope"), (None, "role")]},
    "without words": {"tasks": BOTH, "helpful": [("role", "hope")], "systems": ()},
    "still learning": {"tasks": BOTH, "helpful": [("role", "hope")], "best_epoch": {((None, "hope"), 1): 4}},
    "no transfer at all": {"tasks": BOTH, "absent": [(a.id, b.id) for a in BOTH for b in BOTH]},
}


def slopes(*detectable):
    return [{"question": SIGNED, "verdict": "not supported", "detectable": size} for size in detectable]


def answer(headline=NOTHING, **facts):
    return ImportanceReport((headline,), Section("", []), {"headline": headline, **facts})


@pytest.fixture(scope="module", params=STUDIES)
def study(request, tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("study")
    options = {"systems": ("majority", "tfidf"), **STUDIES[request.param]}
    return StudyResults.of(*fake_study(folder, options.pop("tasks"), **options), draws=200)


def text_of(study):
    return "\n".join(sentences(study, EXPLAINED))


def test_seeds_are_those_that_transfers_have(study):
    planned, has = len(study.manifest["study"]["seeds"]), {count for count in study.gains.n_seeds if count}
    words = "3 seeds;" if has == {3} else "1 of 3 seeds;" if planned == 3 else "1 seed;"
    assert f"adapters on random-tiny, {words}" in text_of(study)
    assert seeds_of(pd.DataFrame({"n_seeds": [2, 0, 3, 2]})) == "2 to 3"


def holds(mark):
    return not pd.isna(mark) and bool(mark)


def may_count(study):
    """Which gains may be counted, from the frames and not from the function that the sentences ask."""
    has_learned = {(row.target, row.setting): row.has_learned for row in study.learned.itertuples()}
    return pd.Series(
        [
            pair.p == pair.p
            and holds(has_learned[pair.target, pair.setting])
            and not any(map(holds, (pair.collapsed, pair.contaminated)))
            for pair in study.gains.itertuples()
        ],
        dtype=bool,
    )


def found(gains):
    points = gains.points[gains.significant]
    return int((points > 0).sum()), int((points < 0).sum())


def test_counts_are_those_of_gains_onto_targets_that_have_learned(study):
    tested, text = study.gains[study.gains.p.notna()], text_of(study)
    counted = study.gains[may_count(study)]
    if tested.empty:
        assert "none has a p value" in text
        return
    if counted.empty:
        assert "Gains: none is claimed" in text or "Gains: no transfer may be counted" in text
        return
    said = re.search(
        r"of (\d+) transfers? onto the (\d) targets? that have learned, (\w+) gains? and (\w+) harms? are.* over all"
        r" (\d+)\), the other (\d+) inconclusive",
        text,
    )
    assert said is not None
    numbers = [0 if word == "no" else int(word) for word in said.groups()]
    gains, harms = found(counted)
    n_targets = counted.target.nunique()
    assert numbers == [len(counted), n_targets, gains, harms, len(tested), len(counted) - gains - harms]


def test_without_words_a_sentence_says_what_to_do_and_all_gains_stand_behind_it(tmp_path):
    study = StudyResults.of(*fake_study(tmp_path, BOTH, helpful=[("role", "hope")]), draws=200)
    _, first, second, *others = sentences(study, EXPLAINED)
    assert first.startswith("Gains: none is claimed") and "run the study again, words are trained in seconds" in first
    gains, harms = found(study.gains)
    assert f"of {len(study.gains)} transfers with a p value, {gains or 'no'} gain" in second and harms == 0
    assert not any(line.startswith(("Largest", "A single test")) for line in others)


def test_each_reason_stands_beside_its_target(tmp_path):
    helpful = [("role", "hope"), ("tfidf", "hope"), (None, "role"), ("hope", "distress")]
    options = {"systems": ("tfidf",), "best_epoch": {((None, "distress"), 1): 4}}
    study = StudyResults.of(*fake_study(tmp_path, BOTH, helpful=helpful, **options), draws=500)
    line = sentences(study, EXPLAINED)[1]
    assert line.startswith("Gains: of 2 transfers onto the 1 target that have learned, no gains and 2 harms are")
    assert line.endswith(
        "; not counted are 2 more significant gains, onto Title of hope (below words)"
        " and Title of distress (best epoch is the last in 1 of 1 seeds)."
    )


def test_cells_that_are_best_at_their_last_epoch_are_a_caution_where_they_are_many(tmp_path):
    for name, last, is_said in (("few", [(None, "hope")], False), ("many", [(None, "hope"), ("role", "hope")], True)):
        best = {(pair, 1): 4 for pair in last}
        tasks = (*BOTH, FakeTask("joy"))
        study = StudyResults.of(*fake_study(tmp_path / name, tasks, systems=("tfidf",), best_epoch=best), draws=100)
        text = sentences(study, EXPLAINED)[-2]
        assert (f"{100 * len(last) / 16:.1f} % of the cells are best at their last epoch" in text) == is_said


def test_what_single_tests_find_is_said_of_targets_that_have_learned(tmp_path):
    study = StudyResults.of(
        *fake_study(tmp_path, F1, systems=("tfidf",), helpful=[("tfidf", "hope"), ("role", "hope")]), draws=300
    )
    visible = study.visible
    assert visible.visible.notna().all()
    size = visible.visible[visible.target == "role"].item()
    assert f"finds a true gain of {size:.1f} points in four" in "\n".join(sentences(study, EXPLAINED))


def test_extremes_are_those_of_the_counted_gains_and_have_their_sign(study):
    counted, text = study.gains[may_count(study)], text_of(study)
    for noun, size in (("gain", counted.points.max()), ("harm", counted.points.min())):
        if len(counted) and (size > 0) == (noun == "gain") and size:
            assert f"Largest {noun}: " in text
            assert f"{size:+.1f} points" in text
        else:
            assert f"Largest {noun}" not in text


def test_no_sentence_has_an_undefined_number_and_all_fit_a_screen(study):
    lines = sentences(study, EXPLAINED)
    assert not re.search(r"\bnan\b|<NA>|\bNone\b|\binf\b", "\n".join(lines))
    assert 4 <= len(lines) <= 8
    assert sum(len(line.split()) for line in lines) <= 200


def test_cautions_name_what_the_frames_flag(study):
    tested = study.gains[study.gains.p.notna()]
    *_, cautions, _ = sentences(study, EXPLAINED)
    assert cautions.startswith("Reasons for caution: ")
    assert ("made up" in cautions) == study.manifest["synthetic"]
    assert ("not finished" in cautions) == bool((study.cells.status != "done").any())
    assert ("one training run" in cautions) == bool((tested.seed_error == 0).any())
    alone = study.cells[study.cells.intermediate.isna()].groupby("target").collapsed
    assert ("learned nothing" in cautions) == bool(alone.all().any())
    assert ("runs of the target alone collapsed: " in cautions) == bool((alone.any() & ~alone.all()).any())
    for flag, words in (("contaminated", "training material"), ("collapsed", "with a collapsed run")):
        assert (words in cautions) == bool(tested[flag].fillna(False).astype(bool).any())


def test_what_explains_gains_comes_with_the_slopes_that_would_have_been_found(tmp_path):
    study = StudyResults.of(*fake_study(tmp_path, F1), draws=100)
    for given, sentence in (
        (slopes(1.62, 2.94), "A slope of 1.6 to 2.9 points per step of a rating would"),
        (slopes(2.0, None), "A slope of 2.0 points per step of 1 of 2 ratings would"),
        (slopes(None), None),
        ([], None),
    ):
        question = of_study(study, tmp_path)
        said = "\n".join(explanation(answer("ratings explain gains", slopes=given), question))
        assert "Ratings explain gains." in said
        assert (sentence in said) if sentence else ("A slope" not in said)


def test_a_study_of_systems_names_the_best_those_tied_with_it_and_how_far_the_adapter_is(tmp_path):
    tasks = (FakeTask("hope", rows=300, groups=60), FakeTask("role", rows=60, groups=12))
    store, manifest = fake_study(
        tmp_path / "store",
        tasks,
        systems=("majority", "tfidf", "encoder"),
        helpful=[("encoder", "hope")],
        study={"transfers": False},
    )
    manifest["cells"] = [cell for cell in manifest["cells"] if cell["role"] != "transfer"]
    results = StudyResults.of(store, manifest, draws=300)
    board = results.leaderboard
    first, hope, role, cautions, following = sentences(results)
    assert following.startswith("Next: more seeds")
    assert "8 of 8 cells are finished" in first
    rows = board.board.set_index(["target", "system"])
    best, alone = rows.loc[("hope", "encoder")], rows.loc[("hope", "adapter alone")]
    assert best["rank"] == 1 and not alone.is_tied
    assert hope.startswith(f"Best on Title of hope: encoder, {best.score:.2f} (95 % interval {best.low:.2f} to ")
    assert "tied with" not in hope
    apart = f"{100 * (best.score - alone.score):.1f} points and significantly less"
    assert hope.endswith(f"the adapter alone has {alone.score:.2f}, {apart}.")
    assert role.startswith("Best on Title of role: ")
    assert "every score is from one training run" in cautions
    assert "few groups of test rows: Title of role (12)" in cautions
    written = report(store, manifest, tmp_path / "out", draws=300)
    assert written.sentences[1] == hope
    assert "Nothing can be said" not in written.page.read_text(encoding="utf-8").partition("## Learned")[0]


@pytest.mark.parametrize("shared", [[], [("role", "hope")]])
@pytest.mark.parametrize("is_one_family", [True, False])
def test_families_that_share_texts_are_named_with_what_mends_it(tmp_path, monkeypatch, is_one_family, shared):
    store, manifest = fake_study(tmp_path / "store", BOTH, systems=("tfidf",), seeds=(1, 2))
    for name, task in manifest["tasks"].items():
        task["family"] = "one" if is_one_family else name
    store.write_manifest("fake", manifest)
    monkeypatch.setattr(in_short, "contaminated_pairs", lambda *_: {("hope", "hope"), *shared})
    results = StudyResults.of(store, manifest, draws=200)
    results = with_frames(results, gains=results.gains.assign(contaminated=True))  # hope repeats its own test items
    last, following = sentences(results, EXPLAINED)[-2:]
    mended = "Next: give one `family` to tasks that share texts: Title of hope and Title of role."
    is_named = bool(shared) and not is_one_family
    assert following == mended if is_named else following.startswith("Next: `empathy-transfer study power")
    said = "tests over families take for unrelated what shares texts (Title of hope and Title of role): give both one"
    assert (said in last) == is_named


NEXT = {
    "one seed": "Next: more seeds",
    "three seeds": "Next: `empathy-transfer study power fake`",
    "gaps": "Next: finish the cells that are missing",
    "below words": "Next: give Title of hope more training rows (max_train) or another recipe (`study search`)",
    "still learning": "Next: train Title of hope for more epochs (training.epochs): the last is the best so far.",
}


def test_the_last_line_is_the_step_that_is_due(study, request):
    last = sentences(study)[-1]
    assert last.startswith(NEXT.get(request.node.callspec.params["study"], "Next: "))
