"""Cells that differ by chance alone are rejected as rarely as promised, and a real difference is found."""

import logging

import numpy as np
import pytest

from analysis.gains.significance import Groups, difference_evidence, score_draws
from tasks.metrics import macro_f1, pearson_r

log = logging.getLogger(__name__)

MEASURES = {"macro_f1": macro_f1, "pearson_r": pearson_r}
ITEMS = 20
LANES = 4
SEED_NOISE = {"macro_f1": 0.12, "pearson_r": 0.07}  # as much variance between seeds as items give, at 50 groups


def _column(rng, metric, n_groups, n_seeds, *, effect, uneven, seed_noise, paired):
    """Labels ``[n]``, groups and predictions ``[1 + LANES, seeds, n]``; lane 0 is the baseline.

    Every cell errs in its own way on every group and on every item, partly alike and partly anew for each seed;
    with several seeds each training also has its own quality, for all items alike. Of what a seed changes, the share
    ``paired`` is the same for all lanes.
    """
    sizes = np.maximum(1, np.round(ITEMS * rng.lognormal(0, 1, n_groups))) if uneven else np.full(n_groups, ITEMS)
    index = np.repeat(np.arange(n_groups), sizes.astype(int))

    def noise(*shape):
        return 0.6 * rng.normal(size=(*shape, n_groups))[..., index] + rng.normal(size=(*shape, index.size))

    def by_seed(own, common):
        return own if paired == 0 else np.sqrt(1 - paired) * own + np.sqrt(paired) * common()

    truth = 0.7 * rng.normal(size=n_groups)[index] + rng.normal(size=index.size)
    spread = seed_noise * SEED_NOISE[metric] * np.sqrt(50 / n_groups) if n_seeds > 1 else 0.0
    quality = 1.0 + spread * by_seed(rng.normal(size=(1 + LANES, n_seeds, 1)), lambda: rng.normal(size=(1, n_seeds, 1)))
    quality[1:] += effect
    latent = quality * truth + noise(1 + LANES, 1) + by_seed(noise(1 + LANES, n_seeds), lambda: noise(1, n_seeds))
    if metric == "pearson_r":
        return truth, Groups.of(index), latent
    edges = np.quantile(truth, [1 / 3, 2 / 3])
    return np.digitize(truth, edges), Groups.of(index), np.digitize(latent, edges)


def _p_values(
    metric,
    n_groups,
    n_seeds,
    *,
    columns,
    draws=500,
    effect=0.0,
    uneven=False,
    seed_noise=1.0,
    baseline_seeds=0,
    paired=0.0,
):
    """One p per simulated transfer cell, ``columns`` x LANES of them; ``seed_noise`` is in units of the items'.

    The baseline has as many seeds as the transfers, or ``baseline_seeds``.
    """
    n_base = baseline_seeds or n_seeds
    rng, judge, found = np.random.default_rng(20), np.random.default_rng(21), []
    for _ in range(columns):
        labels, groups, lanes = _column(
            rng, metric, n_groups, n_base, effect=effect, uneven=uneven, seed_noise=seed_noise, paired=paired
        )
        scores = np.array([[MEASURES[metric](labels, one) for one in seeds] for seeds in lanes])
        flat = score_draws(metric, labels, groups, lanes.reshape(-1, labels.size), draws=draws, rng=rng)
        resampled = flat.reshape(draws, 1 + LANES, n_base)
        for lane in range(1, 1 + LANES):
            top, top_draws = scores[lane, :n_seeds], resampled[:, lane, :n_seeds]
            found.append(difference_evidence(top, scores[0], top_draws, resampled[:, 0], groups, judge).p)
    return np.array(found)


@pytest.mark.parametrize("metric", MEASURES)
@pytest.mark.parametrize(("n_groups", "n_seeds", "seed_noise", "columns"), [(50, 3, 3, 80), (10, 1, 0, 400)])
def test_no_more_than_seven_percent_of_null_cells_are_rejected(metric, n_groups, n_seeds, seed_noise, columns):
    p = _p_values(metric, n_groups, n_seeds, columns=columns, seed_noise=seed_noise)
    assert 0.01 <= np.mean(p <= 0.05) <= 0.07


@pytest.mark.parametrize("metric", MEASURES)
def test_a_planted_effect_is_found(metric):
    p = _p_values(metric, 50, 5, columns=10, effect=0.6)
    assert np.mean(p <= 0.05) > 0.8


@pytest.mark.simulation
@pytest.mark.parametrize("metric", MEASURES)
@pytest.mark.parametrize("paired", [0.0, 0.5])
@pytest.mark.parametrize(
    ("n_groups", "n_seeds", "baseline_seeds", "seed_noise"),
    [(50, 1, 4, 1), (50, 5, 20, 1), (50, 3, 4, 3), (10, 3, 12, 1)],
)
def test_the_level_holds_with_more_seeds_of_the_baseline(metric, n_groups, n_seeds, baseline_seeds, seed_noise, paired):
    options = {"baseline_seeds": baseline_seeds, "paired": paired, "seed_noise": seed_noise}
    p = _p_values(metric, n_groups, n_seeds, columns=250, draws=300, **options)
    log.info("%.4f of %d rejected", np.mean(p <= 0.05), p.size)
    assert 0.002 <= np.mean(p <= 0.05) <= 0.07


@pytest.mark.simulation
@pytest.mark.parametrize("metric", MEASURES)
@pytest.mark.parametrize(
    ("n_groups", "n_seeds", "uneven", "seed_noise"),
    [
        (50, 5, False, 3),
        (49, 5, True, 1),
        (10, 5, False, 1),
        (50, 2, False, 3),
        (50, 1, False, 0),
        (20, 1, True, 0),
        (10, 1, False, 0),
    ],
)
def test_the_level_holds_over_a_thousand_null_cells(metric, n_groups, n_seeds, uneven, seed_noise):
    p = _p_values(metric, n_groups, n_seeds, columns=250, draws=300, uneven=uneven, seed_noise=seed_noise)
    log.info("%.4f of %d rejected", np.mean(p <= 0.05), p.size)
    assert 0.01 <= np.mean(p <= 0.05) <= 0.07
