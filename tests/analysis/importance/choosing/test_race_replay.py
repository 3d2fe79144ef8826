"""A race replayed from histories: by hand, as ``choose`` would have raced, and beside chance by enumeration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.importance.choosing.race import ALL, FEWEST, RACE, RACED, Candidates, candidates, raced, rounds_of, ways
from analysis.manuscript.frames import read_data
from analysis.manuscript.latex import printed
from analysis.manuscript.numbers import numbers
from analysis.sections.answers import raced as section
from analysis.sections.study_results import StudyResults
from analysis.tables import write_csv
from harness.search import choice, race
from tests.support.studies.fake_study import FakeTask, fake_study

# Five candidates, five epochs. After epoch 1 d and e leave (.2, .1), after epoch 2 c (best so far .4; a .5, b .45).
HISTORY = np.array(
    [
        [0.5, 0.4, 0.3, 0.3, 0.3],
        [0.3, 0.45, 0.6, 0.7, 0.65],
        [0.4, 0.3, 0.3, 0.9, 0.9],
        [0.2, 0.8, 0.8, 0.8, 0.8],
        [0.1, 0.2, 0.3, 0.4, 0.95],
    ]
)
POINTS = np.array([50.0, 60.0, 90.0, 70.0, 80.0])
BY_HAND = Candidates("hope", HISTORY, HISTORY.max(axis=1), POINTS)


def test_a_race_by_hand_chooses_b_for_16_of_25_epochs_and_falls_30_points_short():
    """a and b go on to epoch 5 (10 epochs), c leaves after 2, d and e after 1: 14; b is better on validation."""
    assert rounds_of(5, 5) == (1, 2)
    place, epochs = BY_HAND.race((1, 2))
    assert (place, epochs) == (1, 10 + 2 + 1 + 1)
    assert BY_HAND.regret(place) == 30.0
    frame = ways([BY_HAND]).set_index("way")
    assert frame.loc[RACE, "epochs"] == 14
    assert frame.loc[RACE, "share"] == pytest.approx(14 / 25)
    assert frame.loc[RACE, "regret"] == 30.0
    assert frame.loc[ALL, "regret"] == 10.0, "e has the best validation score, .95, and 80 points of 90"
    low, high = BY_HAND.random(2), BY_HAND.random(3)
    assert frame.loc[RACE, "chance"] == pytest.approx(low + (14 / 5 - 2) * (high - low))
    assert frame.loc[RACE, "difference"] == pytest.approx(30 - frame.loc[RACE, "chance"])


def test_test_scores_have_no_part_in_the_choice():
    assert Candidates("hope", HISTORY, BY_HAND.validation, POINTS[::-1]).race((1, 2)) == BY_HAND.race((1, 2))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_random_candidates_are_the_mean_over_all_draws_of_which_validation_chooses(count):
    chosen = [max(drawn, key=lambda place: BY_HAND.validation[place]) for drawn in combinations(range(5), count)]
    assert BY_HAND.random(count) == pytest.approx(np.mean([90 - POINTS[place] for place in chosen]))


@given(st.integers(0, 10_000), st.integers(2, 18), st.integers(2, 10))
def test_who_leaves_and_when_is_what_choose_itself_would_do(seed, count, epochs):
    """Scores on a coarse grid, so that ties are common, and some undefined."""
    rng = np.random.default_rng(seed)
    history = rng.integers(0, 6, size=(count, epochs)) / 5.0
    history[rng.random(history.shape) < 0.1] = -np.inf
    own = Candidates("t", history, history.max(axis=1), rng.normal(size=count))
    rounds = rounds_of(count, epochs)
    assert rounds == tuple(after for after in choice.ROUNDS if after < epochs)[: race._useful(count)]
    staying, left = [str(place) for place in range(count)], {}
    for after in rounds:
        best = {key: history[int(key), :after].max() for key in staying}
        gone = choice.to_leave({key: None if np.isinf(score) else score for key, score in best.items()})
        left |= dict.fromkeys(gone, after)
        staying = [key for key in staying if key not in gone]
    place, cost = own.race(rounds)
    assert cost == len(staying) * epochs + sum(left.values())
    assert str(place) == max(staying, key=lambda key: own.validation[int(key)])
    assert FEWEST == choice.FEWEST


def history_of(*scores):
    return [{"epoch": epoch, "train_loss": 1.0, "validation": score} for epoch, score in enumerate(scores, start=1)]


TASKS = [FakeTask(name) for name in ("hope", "role", "tone", "care")]


def test_finished_columns_of_a_store_are_replayed_with_their_own_scores(tmp_path):
    """All histories are equal here, so that the first of equals stays and stands first, unless its record is better."""
    store, manifest = fake_study(
        tmp_path, TASKS, seeds=(1, 2), history=history_of(0.1, 0.2, None), validation={("tone", "hope"): 0.9}
    )
    columns = list(candidates(store, manifest))
    assert [own.target for own in columns] == [task.id for task in TASKS for _ in (1, 2)]
    first = columns[0]
    assert first.history.tolist() == [[0.1, 0.2, -np.inf]] * 3
    assert first.validation.tolist() == [0.5, 0.9, 0.5]
    assert first.race((1,)) == (1, 2 * 3 + 1)
    keys = [cell["key"] for cell in manifest["cells"] if (cell["target"], cell["role"]) == ("hope", "transfer")]
    assert first.points == pytest.approx([100 * store.get(key).results["test"] for key in keys[:3]])
    frame = raced(store, manifest)
    assert list(frame.columns) == list(RACED)
    assert (frame.n_columns.unique().tolist(), frame.n_targets.unique().tolist()) == ([8], [4])
    assert frame.share.tolist() == pytest.approx([7 / 9, 1, 1, 1 / 3])


def test_of_a_task_with_folds_the_first_is_raced(tmp_path):
    tasks = [*TASKS[:3], FakeTask("folded", folds=2)]
    history = [history_of(0.1, 0.3), history_of(0.9, 0.9)]
    column = next(candidates(*fake_study(tmp_path, tasks, history=history)))
    assert column.history.tolist() == [[0.1, 0.3]] * 3


def test_a_column_that_is_not_whole_and_a_study_without_epochs_are_no_race(tmp_path):
    part = fake_study(tmp_path / "part", TASKS, history=history_of(0.1, 0.2), absent=[("role", "hope")])
    assert [own.target for own in candidates(*part)] == ["role", "tone", "care"]
    assert raced(*fake_study(tmp_path / "few", TASKS[:3], history=history_of(0.1, 0.2))).empty, "nobody could leave"
    assert raced(*fake_study(tmp_path / "none", TASKS)).empty


def test_the_section_has_a_row_per_way_and_writes_what_it_tells(tmp_path):
    store, manifest = fake_study(tmp_path / "store", TASKS, history=history_of(0.1, 0.2, 0.3))
    question = StudyResults.of(store, manifest, tmp_path / "out", draws=50).question
    own = section(question, raced(store, manifest))
    text, table = own.blocks
    assert "Of 4 finished columns of 4 targets" in text.text
    assert [row[0] for row in table.rows] == [
        "the race",
        "all to their end",
        "3 at random to their end",
        "1 at random to their end",
    ]
    assert (tmp_path / "out" / "tables" / "race.csv").is_file()
    assert section(question, raced(*fake_study(tmp_path / "bare", TASKS))) is None


def test_a_text_may_quote_each_way(tmp_path):
    frame = raced(*fake_study(tmp_path / "store", TASKS, history=history_of(0.1, 0.2, 0.3)))
    write_csv(frame, tmp_path / "race")
    run = pd.DataFrame(columns=["fact", "value"])
    quoted = {own.macro: own.printed for own in numbers({**read_data(tmp_path), "run": run})}
    for row, way in zip(frame.itertuples(), ("Race", "All", "RandomThree", "RandomOne"), strict=True):
        assert quoted[f"RaceRegret{way}"] == printed("points", row.regret)
        assert quoted[f"RaceShare{way}"] == printed("score", row.share)
