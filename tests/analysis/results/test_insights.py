"""What scored texts say of their authors: by hand, against a bootstrap, and of authors made up to fall or to leave."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.results.people import by_group, by_level, followed, levels, over_time, ratio
from tasks.errors import BadInput


def scored(*rows):
    return pd.DataFrame(rows, columns=["id", "task", "prediction", "value"])


def made_up(rng, *, fall=0.36, authors=150, leaves_early=False):
    """Texts of authors whose levels differ and fall by a share over three years, or who leave the sooner the higher."""
    own = np.exp(rng.normal(0, 0.4, authors))
    years = np.clip(4 - 5 * own / own.max(), 1.1, 3.99) if leaves_early else rng.uniform(1.1, 3.99, authors)
    counts = rng.integers(12, 40, authors)
    who = np.repeat(np.arange(authors), counts)
    since = rng.uniform(0, 1, counts.sum()) * years[who]
    since[np.cumsum(counts) - counts] = 0
    expected = own[who] * (1 - fall) ** (np.floor(since) / 3)
    time = pd.Series(pd.Timestamp("2015-01-01") + pd.to_timedelta(since * 365.25 + 0.01, unit="D"))
    return pd.DataFrame({"er": rng.poisson(expected).astype(float)}), pd.Series(who.astype(str)), time


def test_levels_are_values_numbers_of_classes_or_places_in_an_order():
    frame = scored(("0", "a", "2", np.nan), ("0", "b", "", 0.5), ("1", "a", "0", np.nan), ("1", "b", "", 1.5))
    assert levels(frame).to_dict("list") == {"a": [2.0, 0.0], "b": [0.5, 1.5], "total": [2.5, 1.5]}
    named = scored(("0", "a", "weak", np.nan), ("1", "a", "none", np.nan))
    assert levels(named, ["none", "weak", "strong"]).to_dict("list") == {"a": [1.0, 0.0]}
    with pytest.raises(BadInput, match=r"classes of task 'a' are no numbers; .*--levels none,weak"):
        levels(named)
    with pytest.raises(BadInput, match=r"class .none. of task 'a' is not there; did you mean .nome"):
        levels(named, ["nome", "weak"])


def test_a_ratio_of_equal_counts_is_that_of_means_and_its_interval_worked_by_hand():
    sums, counts = np.array([[2.0, 4.0], [4.0, 4.0], [3.0, 4.0]]), np.ones((3, 2))
    value, low, high = ratio(sums, counts)
    terms = np.array([2 / 9 - 1 / 3, 4 / 9 - 1 / 3, 0.0])  # s1 / S1 - n1 / N, and nothing of the second side
    half = stats.t.ppf(0.975, 2) * np.sqrt(3 / 2 * (terms**2).sum())
    assert value == pytest.approx(0.75)
    assert (low, high) == pytest.approx((0.75 * np.exp(-half), 0.75 * np.exp(half)))


def test_the_error_of_a_ratio_is_that_of_drawing_authors_again():
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 12, (200, 2)).astype(float)
    sums = rng.poisson(counts * np.exp(rng.normal(0, 0.5, (200, 1))) * [0.8, 1.1]).astype(float)
    value, low, high = ratio(sums, counts)
    drawn = rng.integers(0, 200, (4000, 200))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    spread = np.log(means[:, 0] / means[:, 1]).std()
    half = (np.log(high) - np.log(low)) / 2 / stats.t.ppf(0.975, 199)
    assert half == pytest.approx(spread, rel=0.05)
    assert low < value < high


def test_what_cannot_be_compared_has_no_interval():
    nothing = ratio(np.array([[0.0, 1.0], [0.0, 2.0]]), np.ones((2, 2)))
    assert nothing[0] == 0 and np.isnan(nothing[1:]).all()
    alone = ratio(np.array([[1.0, 2.0]]), np.ones((1, 2)))
    assert alone[0] == 0.5 and np.isnan(alone[1:]).all()


def test_a_later_period_is_compared_with_the_first_of_the_same_authors():
    days = [0, 10, 400, 410, 0, 20, 700, 0, 400]
    author = pd.Series(["a"] * 4 + ["b"] * 3 + ["c"] * 2)
    time = pd.Timestamp("2015-06-01") + pd.to_timedelta(pd.Series(days), unit="D")
    time[author == "b"] += pd.Timedelta(days=365)
    scales = pd.DataFrame({"er": [4.0, 2.0, 1.0, 2.0, 2.0, 0.0, 3.0, 9.0, 9.0]})
    frame = over_time(scales, author, time, fewest_texts=3, fewest_days=300)
    rows = frame[frame.joined == "all"].set_index("period")
    assert rows.authors.to_dict() == {0: 2, 1: 2}  # c has too few texts
    assert (rows["first"][1], rows["mean"][1], rows.change[1]) == pytest.approx((2.0, 2.25, 12.5))
    assert rows.everyone.to_dict() == pytest.approx({0: 2.0, 1: 2.0})
    assert frame.joined.unique().tolist() == ["all", "2015", "2016"]
    assert frame[(frame.joined == "2016") & (frame.period == 1)].change.item() == pytest.approx(200)
    with pytest.raises(BadInput, match="0 authors of 3 with 10 texts over 300 days; ask less with --fewest-texts"):
        over_time(scales, author, time, fewest_days=300)


def test_groups_are_compared_with_the_largest_and_levels_with_the_lowest():
    author = pd.Series(list("aabbccdd"))
    group = pd.Series(["x", "x", "x", "y", "x", "y", "x", "y"])
    level = pd.DataFrame({"er": [0.0, 1.0, 2.0, 1.0, 0.0, 2.0, 2.0, 3.0]})
    rows = by_group(level, author, group).set_index("group")
    assert rows["mean"].to_dict() == {"x": 1.0, "y": 2.0}
    assert rows.change["y"] == pytest.approx(100) and np.isnan(rows.change["x"])
    assert rows.texts.to_dict() == {"x": 5, "y": 3}
    outcome = pd.Series([1.0, 2.0, 3.0, 2.0, 1.0, 3.0, 3.0, 0.0])
    rows = by_level(level, author, outcome).set_index("level")
    assert rows.outcome.to_dict() == {"0": 1.0, "1": 2.0, "2": 3.0, "3": 0.0}
    assert rows.change.drop("0").to_dict() == pytest.approx({"1": 100, "2": 200, "3": -100})
    with pytest.raises(BadInput, match="--group: 1 group where 2 to 24"):
        by_group(level, author, pd.Series(["x"] * 8))


def test_of_many_levels_quarters_of_the_texts_are_compared():
    level = pd.DataFrame({"distress": np.linspace(1, 7, 80)})
    rows = by_level(level, pd.Series([str(i % 9) for i in range(80)]), pd.Series(np.arange(80.0)))
    assert rows.texts.tolist() == [20] * 4
    assert rows.outcome.tolist() == [9.5, 29.5, 49.5, 69.5]
    assert rows.level.tolist()[-1].endswith("to 7")


def test_an_outcome_counts_if_it_comes_soon_and_not_before_the_text():
    time = pd.to_datetime(pd.Series(["2015-01-01T12:00"] * 4))
    outcome = pd.to_datetime(pd.Series(["2015-01-02T12:00", "2015-01-02T12:01", "2015-01-01T11:59", None]))
    assert followed(time, outcome, 24).tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.simulation
def test_a_planted_fall_is_in_its_interval_and_authors_who_leave_bring_none_about():
    rng, draws = np.random.default_rng(20261124), 400
    held, quiet, naive = [], [], []
    for _ in range(draws):
        frame = over_time(*made_up(rng))
        last = frame[(frame.joined == "all") & (frame.authors >= 10)].iloc[-1]
        assert last.period == 3
        held.append(last.low <= -36 <= last.high)
        frame = over_time(*made_up(rng, fall=0, leaves_early=True))
        still = frame[(frame.joined == "all") & (frame.period == 2)].iloc[0]
        quiet.append(still.low <= 0 <= still.high)
        naive.append(still.everyone / frame.everyone.iloc[0])
    assert 0.93 <= np.mean(held) <= 0.97
    assert 0.93 <= np.mean(quiet) <= 0.97
    assert np.mean(naive) < 0.85  # what comparing everyone with everyone would have called a fall


def test_levels_that_lie_close_together_have_names_of_their_own():
    level, author = pd.Series(3.001 + np.arange(80) / 1e6), pd.Series([str(i % 9) for i in range(80)])
    rows = by_level(pd.DataFrame({"a": level}), author, pd.Series(np.arange(80.0)))
    assert rows.level.nunique() == len(rows) == 4
