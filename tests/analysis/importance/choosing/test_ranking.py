"""How right a ranking of intermediates was: by hand, by enumeration, and on a made-up grid."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from analysis.importance.choosing import (
    FUSION,
    MODEL,
    RANKING_QUALITIES,
    RANKINGS,
    SIZE,
    better,
    ndcg,
    qualities,
    ranking_qualities,
    rankings,
    regret,
    summary,
)
from analysis.importance.question import Question
from analysis.results.similarity import SIMILARITIES, reciprocal_rank_fusion
from analysis.sections.answers import choosing
from tests.support.studies.fake_study import FakeTask, fake_study

SCORE = np.array([0.5, 0.9, 0.7, 0.6])


@pytest.fixture(scope="module")
def similarities(published):
    """Made-up similarities of the published pairs: one that knows the gains, one that knows nothing."""
    rng = np.random.default_rng(1)
    frame = published.gains[["intermediate", "target"]].reindex(columns=list(SIMILARITIES))
    return frame.assign(data_similarity=published.gains.score.to_numpy(), task_similarity=rng.normal(size=len(frame)))


def test_ndcg_is_that_counted_by_hand():
    order = np.array([4.0, 3.0, 2.0, 1.0])  # relevance 0, 1, .5, .25 at ranks 1 to 4
    found = 1 / np.log2(3) + 0.5 / np.log2(4) + 0.25 / np.log2(5)
    best = 1 + 0.5 / np.log2(3) + 0.25 / np.log2(4)
    assert ndcg(order, SCORE) == pytest.approx(found / best)
    assert ndcg(SCORE, SCORE) == pytest.approx(1)
    assert np.isnan(ndcg(order, np.ones(4)))


def test_ndcg_agrees_with_scikit_learns():
    from sklearn.metrics import ndcg_score

    rng = np.random.default_rng(2)
    order, score = rng.normal(size=(2, 9))
    relevance = (score - score.min()) / np.ptp(score)
    assert ndcg(order, score) == pytest.approx(ndcg_score([relevance], [order]))
    tied = np.round(order)
    assert ndcg(tied, score) == pytest.approx(ndcg_score([relevance], [tied]))


def test_regret_is_what_the_best_of_the_first_falls_short_in_percent():
    order = np.array([4.0, 1.0, 3.0, 2.0])
    assert regret(order, SCORE, 1) == pytest.approx(100 * 0.4 / 0.9)
    assert regret(order, SCORE, 3) == pytest.approx(100 * 0.2 / 0.9)
    assert regret(SCORE, SCORE, 1) == 0
    assert np.isnan(regret(order, SCORE - 1, 1))


@pytest.mark.parametrize("order", [[1, 1, 1, 1], [2, 1, 1, 1], [2, 2, 1, 1], [3, 2, 1, 1]])
@pytest.mark.parametrize("k", [1, 3])
def test_equal_ranks_count_as_the_mean_of_all_their_orders(order, k):
    order = np.array(order, dtype=float)
    broken = [order + 1e-6 * np.array(one) for one in permutations(range(4))]
    assert regret(order, SCORE, k) == pytest.approx(np.mean([regret(one, SCORE, k) for one in broken]))
    assert ndcg(order, SCORE) == pytest.approx(np.mean([ndcg(one, SCORE) for one in broken]))


def test_a_ranking_that_says_nothing_has_no_tau():
    assert np.isnan(qualities(np.ones(4), SCORE)["tau"])
    assert qualities(SCORE, SCORE)["tau"] == pytest.approx(1)
    assert qualities(-SCORE, SCORE)["tau"] == pytest.approx(-1)


def test_rankings_hold_similarities_size_their_fusion_and_a_model(published, similarities):
    ranked = rankings(published, similarities)
    assert list(ranked.columns) == ["intermediate", "target", *RANKINGS]
    assert ranked.logme.isna().all()
    assert ranked[[SIZE, FUSION, MODEL]].notna().all(axis=None)
    one = ranked[ranked.target == "condolence"]
    known = one[["data_similarity", "task_similarity", SIZE]].to_numpy().T
    assert one[FUSION].to_numpy() == pytest.approx(reciprocal_rank_fusion(known))


def test_the_model_never_sees_the_family_that_it_ranks_for(published, similarities):
    before = rankings(published, similarities)
    family = published.tasks.set_index("task").family
    own = (published.gains.target.map(family) == family["condolence"]).to_numpy()
    changed = published.gains.copy()
    changed.loc[own, "gain"] = changed.gain[own] * -7
    other = type(published)(published.name, changed, published.tasks, published.ratings)
    after = rankings(other, similarities)
    assert after[MODEL][own].to_numpy() == pytest.approx(before[MODEL][own].to_numpy())
    assert not np.allclose(after[MODEL][~own], before[MODEL][~own])


def test_a_ranking_by_the_truth_is_judged_perfect_and_others_are_not(published, similarities):
    ranked = rankings(published, similarities)
    rows = ranking_qualities(published, ranked)
    assert list(rows.columns) == list(RANKING_QUALITIES)
    perfect = rows[rows.ranking == "data_similarity"]
    assert len(perfect) == 18
    assert perfect.ndcg.to_numpy() == pytest.approx(1)
    assert perfect.regret_1.to_numpy() == pytest.approx(0, abs=1e-9)
    assert set(rows.ranking) == {"data_similarity", "task_similarity", SIZE, FUSION, MODEL}  # the others are unknown
    quality = summary(rows, published, ranked)
    found = quality.set_index("ranking")
    assert better(quality) == ["data_similarity", FUSION, MODEL]
    assert found.p_corrected["data_similarity"] == pytest.approx(1 / 500)
    assert found.tau["data_similarity"] == pytest.approx(1)
    line = found.loc["task_similarity"]
    assert line.tau_low < line.tau < line.tau_high
    assert line.tau_low < line.tau_chance < line.tau_high


def test_unfinished_and_small_columns_are_not_judged(tmp_path):
    from analysis.results.results import Results

    tasks = [FakeTask(name) for name in ("hope", "role", "distress", "warmth", "acts")]
    store, manifest = fake_study(tmp_path / "store", tasks, absent=[("hope", "role")])
    found = Results.of(store, manifest, draws=50)
    ranked = rankings(found, pd.DataFrame(columns=list(SIMILARITIES)))
    rows = ranking_qualities(found, ranked)
    assert set(rows.target) == {"hope", "distress", "warmth", "acts"}
    assert set(rows.ranking) == {SIZE, FUSION}  # 19 pairs are too few for a model
    few = summary(rows[rows.target.isin(["hope", "acts"])], found, ranked)
    assert few[["ndcg_low", "tau_high"]].isna().all(axis=None)


def test_a_target_whose_transfers_all_score_the_same_is_not_judged(published, similarities):
    gains = published.gains.copy()
    gains.loc[gains.target == "condolence", "score"] = 0.3
    level = type(published)("level", gains, published.tasks, published.ratings)
    rows = ranking_qualities(level, rankings(level, similarities))
    assert "condolence" not in set(rows.target)
    assert len(rows[rows.ranking == SIZE]) == 17


def test_a_page_tells_how_right_rankings_were_beside_a_random_order(published, similarities, tmp_path):
    question = Question(published, {}, (), tmp_path, similarities=similarities)
    section = choosing(question)
    _, table, verdict = section.blocks
    assert section.title == "Choosing an intermediate beforehand"
    assert next(row[:3] for row in table.rows) == ("a random order", "", "0.835")
    assert ("data_similarity", 18, "1.000 (1.000 to 1.000)") in [row[:3] for row in table.rows]
    assert "data_similarity" in verdict.text
    assert "task_similarity" not in verdict.text
    assert set(section.frames) == {"choosing", "choosing_targets"}


def test_a_page_of_too_few_transfers_says_so(published, tmp_path):
    few = type(published)("few", published.gains[:3], published.tasks, published.ratings)
    [block] = choosing(Question(few, {}, (), tmp_path)).blocks
    assert "no ranking can be judged" in block.text
