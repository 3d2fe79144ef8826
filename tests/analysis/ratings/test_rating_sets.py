"""A model's ratings beside people's: agreement, runs, and the same test with each set of ratings."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.ratings.agreement import (
    AMONG_PEOPLE,
    BOTH,
    MODEL,
    OVERALL,
    PEOPLE,
    WITH_MEAN,
    WITH_PERSON,
    Beside,
    agreement,
    agreements,
    alpha,
    frame_of,
    rater_pairs,
    repeats,
)
from tasks.errors import BadRow
from tasks.ratings import Rating, Repeat

HEADER = "task,construct,rater,value"


def of(ratings, rater):
    return ratings[ratings.rater == rater].reset_index(drop=True)


def test_a_model_that_copies_a_person_agrees_wholly_with_that_person_and_as_that_person_with_others(published):
    people = published.ratings
    frame = agreements(of(people, "A").assign(rater="m"), people, draws=200)
    copied = frame[(frame.comparison == WITH_PERSON) & (frame.other == "A")]
    whole = ["alpha_interval", "low_interval", "high_interval", "alpha_ordinal", "low_ordinal", "spearman"]
    np.testing.assert_allclose(copied[whole].to_numpy(), 1.0)
    assert (copied.mean_difference == 0).all()
    numbers = [name for name in frame if name not in ("comparison", "rater", "other")]
    as_other = frame[(frame.comparison == WITH_PERSON) & (frame.other == "B")][numbers].reset_index(drop=True)
    among = frame[frame.comparison == AMONG_PEOPLE][numbers].reset_index(drop=True)
    pd.testing.assert_frame_equal(as_other, among)
    assert list(copied.construct) == ["definition", "link", "conduciveness", OVERALL]


def test_agreement_of_people_is_that_of_the_section_on_ratings(published):
    frame = agreements(of(published.ratings, "A").assign(rater="m"), published.ratings, draws=200)
    among = frame[frame.comparison == AMONG_PEOPLE].set_index("construct")
    panels = agreement(published, draws=200).set_index("construct")
    pairs = rater_pairs(published, draws=200).set_index("construct")
    for name in ("alpha_interval", "low_interval", "high_ordinal"):
        assert among[name].to_dict() == panels[name].to_dict()
    assert among.spearman.to_dict() == pairs.spearman.to_dict()
    assert among.low_spearman.to_dict() == pairs.low.to_dict()


def test_the_mean_of_people_is_compared_where_there_are_several():
    people = [Rating(f"t{k}", "link", name, value) for k in range(12) for name, value in (("A", 1), ("B", 1 + k % 4))]
    model = [Rating(f"t{k}", "link", "m", 1 + (k % 4) / 2) for k in range(12)]
    frame = agreements(frame_of(model), frame_of(people), draws=50)
    (mean,) = frame[frame.comparison == WITH_MEAN].to_dict("records")
    assert (mean["alpha_interval"], mean["spearman"], mean["mean_difference"]) == (1.0, pytest.approx(1.0), 0.0)
    (with_b,) = frame[(frame.other == "B") & (frame.comparison == WITH_PERSON)].to_dict("records")
    assert with_b["mean_difference"] == pytest.approx(-0.75)  # the model's less the person's: 1.75 less 2.5
    higher = frame_of([rating._replace(value=rating.value + 0.5) for rating in model])
    shifted = agreements(higher, frame_of(people), draws=50).set_index("comparison")
    assert shifted.mean_difference[WITH_MEAN] == pytest.approx(0.5)
    only = agreements(frame_of(model), frame_of(people[::2]), draws=50)
    assert set(only.comparison) == {WITH_PERSON}
    assert agreements(frame_of(model), frame_of([]), draws=50).empty


def test_readings_agree_from_run_to_run_as_far_as_they_do():
    values = {1: [1, 2, 3, 4, 5, 5], 2: [1, 2, 3, 4, 5, 4], 3: [2, 2, 3, 4, 5, np.nan]}
    readings = [
        Repeat(f"t{k}", "link", "m", value, repeat)
        for repeat, own in values.items()
        for k, value in enumerate(own)
        if value == value
    ]
    (row,) = repeats(pd.DataFrame(readings), draws=50).to_dict("records")
    assert (row["n_readings"], row["n_tasks"], row["rater"]) == (3, 6, "m")
    same = 1 + 4 * 3  # of the pairs of the first task, and of the next four; the last has one pair that differs
    assert row["same"] == pytest.approx(same / (5 * 3 + 1))
    assert row["alpha_interval"] == pytest.approx(alpha(np.array(list(values.values())).T))


def test_two_models_of_a_file_are_no_runs_of_each_other():
    readings = [Repeat(f"t{k}", "link", name, 1.0 + k % 5, r) for name in "mn" for k in range(10) for r in (1, 2)]
    frame = repeats(pd.DataFrame(readings), draws=50)
    assert list(zip(frame.rater, frame.n_readings, frame.same, strict=True)) == [("m", 2, 1.0), ("n", 2, 1.0)]


def test_a_model_asked_once_has_no_runs():
    assert repeats(pd.DataFrame([Repeat(f"t{k}", "link", "m", 1.0 + k % 5, 1) for k in range(10)])).empty
    assert repeats(pd.DataFrame(columns=list(Repeat._fields))).empty


def written(path, *lines):
    path.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    return path


def test_the_sets_are_peoples_the_models_and_both_wherever_the_model_stands_already(published, tmp_path):
    lines = [f"{row.task},{row.construct},m,{row.value:g}" for row in of(published.ratings, "A").itertuples()]
    file = written(tmp_path / "m.csv", *lines)
    own = Beside.read(file, published)
    sets = own.sets(published)
    assert {name: sorted(set(each.ratings.rater)) for name, each in sets.items()} == {
        PEOPLE: ["A", "B"],
        MODEL: ["m"],
        BOTH: ["A", "B", "m"],
    }
    assert len(sets[BOTH].ratings) == len(published.ratings) * 3 // 2
    merged = replace(published, ratings=sets[BOTH].ratings)  # the file lies beside the entries, too
    again = Beside.read(file, merged).sets(merged)
    sizes = [{name: len(each.ratings) for name, each in named.items()} for named in (again, sets)]
    assert sizes[0] == sizes[1]
    alone = replace(published, ratings=published.ratings.iloc[:0])
    assert list(own.sets(alone)) == [MODEL]


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("nowhere,link,m,4", "rates no task of published"),
        ("epitome_er,link,m,9", r"m\.csv:2: value 9.0 is outside 1 to 5"),
        ("epitome_er,lnk,m,4", r"m\.csv:2: unknown construct 'lnk'"),
        ("epitome_er,link,A,1", "A rated epitome_er on link with 1, and with .* elsewhere; a model needs a name"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(line, refusal, published, tmp_path):
    with pytest.raises(BadRow, match=refusal):
        Beside.read(written(tmp_path / "m.csv", line), published)


@pytest.mark.simulation
@pytest.mark.parametrize("way", ["any point", "a person's points shuffled"])
def test_a_model_that_answers_at_random_has_an_alpha_about_0_whose_interval_mostly_holds_0(way, published):
    """18 tasks: resampling them makes the interval of alpha a little narrow, .92 of 400 held 0; Spearman's .95."""
    person, rng, frames = of(published.ratings, "A"), np.random.default_rng(5), []
    for _ in range(200):
        if way == "any point":
            values = rng.integers(1, 6, len(person)).astype(float)
        else:
            values = person.groupby("construct").value.transform(lambda own: rng.permutation(own.to_numpy()))
        frames.append(agreements(person.assign(rater="m", value=values), person, draws=499))
    frame = pd.concat(frames)
    holds = {
        part: ((frame[f"low_{part}"] <= 0) & (frame[f"high_{part}"] >= 0)).groupby(frame.construct).mean()
        for part in ("interval", "spearman")
    }
    assert frame.groupby("construct").alpha_interval.mean().abs().max() < 0.06
    assert holds["interval"].between(0.88, 0.97).all(), holds
    assert holds["spearman"].between(0.90, 0.98).all(), holds
