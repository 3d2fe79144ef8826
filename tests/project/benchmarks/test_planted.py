"""The benchmark of planted effects: what it trains, and how it counts what came out."""

import pandas as pd
import pytest

from benchmarks.studies import planted
from harness.study.cell import Cell

PAIR = ("empdial_ei", "epitome_er")
OTHER = ("news_emotion", "epitome_er")


def cell(target: str, intermediate: str | None, setting: str) -> Cell:
    role = "transfer" if intermediate else "baseline"
    return Cell(target, intermediate, 1, setting, role, {}, f"{intermediate}>{target} {setting}")


def gains(pair: tuple[str, str], points: list[float], low: list[float]) -> pd.DataFrame:
    frame = pd.DataFrame({"points": points, "low": low})
    return frame.assign(intermediate=pair[0], target=pair[1])


def test_a_planted_pair_counts_where_its_interval_is_above_0_and_another_where_it_is_not():
    ours, other = gains(PAIR, [9.0, 3.0, -1.0, 5.0], [4.0, -2.0, -6.0, 0.0]), gains(OTHER, [9.0, 1.0], [4.0, -4.0])
    first, second = planted.summary(pd.concat([ours, other])).to_dict("records")
    assert (first["planted"], first["seeds"], first["as planted"], first["above 0"]) == (True, 4, 1, 3)
    assert (first["points"], first["lowest"]) == (4.0, -1.0)
    assert (second["planted"], second["seeds"], second["as planted"]) == (False, 2, 1)


def test_the_chance_of_what_always_came_out_is_bounded_as_clopper_and_pearson_have_it():
    (row,) = planted.summary(gains(PAIR, [5.0] * 20, [1.0] * 20)).to_dict("records")
    assert row["to %"] == 100
    assert (row["from %"] / 100) ** 20 == pytest.approx(0.025)  # so rarely would it be 20 of 20 with that chance


def test_only_the_pairs_and_their_targets_alone_in_the_settings_of_transfers_decide():
    grid = [
        cell("epitome_er", None, "full"),
        cell("epitome_er", None, "half"),
        cell("epitome_er", "empdial_ei", "half"),
        cell("epitome_er", "news_emotion", "half"),
        cell("news_emotion", None, "half"),
    ]
    assert planted.deciding(grid, [PAIR]) == {grid[1].key, grid[2].key}


@pytest.mark.slow
def test_a_seed_trains_the_chosen_pairs_alone_on_texts_of_its_own():
    changes = ["synthetic_rows=400", "max_train=16", "max_val=16", "max_test=16", "training.epochs=1"]
    frame = planted.gains_of("tiny", 1, [OTHER], changes)
    assert [(row.intermediate, row.target) for row in frame.itertuples()] == [OTHER]
    assert (frame.n_test == 16).all()
