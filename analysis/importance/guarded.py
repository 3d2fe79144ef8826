"""What explains gains for families of tasks that were not seen: the guarded analysis, and one verdict a feature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.gains.significance import LEVEL, p_text
from analysis.importance.features import features_of
from analysis.importance.grid import Grid, grid_of
from analysis.importance.null_tests import (
    Arrangements,
    NullTest,
    against_nulls,
    delete_a_family,
    fits_of,
    largest_p,
    null_test,
)
from analysis.importance.ridge import MOST_FAMILIES_IN_PAIRS, SCHEMES, FamilyFits, why_no_fold
from analysis.importance.specification import DRAWS, PRIMARY, Specification, specifications
from analysis.results.results import Results
from analysis.tables import signed

SEED = 20_240_901
Progress = Callable[[int, int, str], None]
SUPPORTED, NOT_SUPPORTED, NOT_TESTED = "supported", "not supported", "not tested"
ONLY_TOGETHER = "only together"
TWINS = 0.9  # correlation of two ratings over tasks, from which the one adds nothing beside the other
COLUMNS = [
    "feature",
    "title",
    "kind",
    "added",
    "low",
    "high",
    "null_mean",
    "p_tasks",
    "p_families",
    "p_corrected",
    "verdict",
    "against",
    "why",
]
_MODELS = pd.DataFrame(columns=["left_out", "model", "r2_train", "q2"])
_CURVE = pd.DataFrame(
    columns=[*asdict(PRIMARY), "key", "n_pairs", "added", "chance_95", "p_tasks", "p_families", "p", "passes", "notes"]
)


@dataclass(frozen=True)
class Guarded:
    """The answer to one specification, and to those that differ from it in one respect.

    ``features``: one row per feature with its verdict; ``models``: one row per (role left out, model) with R2 on the
    training pairs and Q2 on the pairs left out; ``curve``: one row per specification with the test of the constructs,
    and what 95 % of the arrangements stay below (``chance_95``, the larger of both nulls).
    """

    specification: Specification
    headline: str
    features: pd.DataFrame
    models: pd.DataFrame
    curve: pd.DataFrame
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """The headline and one line per feature, for a terminal or a report."""
        if self.curve.empty:  # nothing was tested, for the one reason that the headline gives
            return [self.headline]
        return [self.headline, *(f"{row.title}: {row.verdict}: {row.why}" for row in self.features.itertuples())]


def guarded(
    results: Results,
    specification: Specification = PRIMARY,
    *,
    similarities: pd.DataFrame | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
    progress: Progress = lambda done, of, what: None,
) -> Guarded:
    """The guarded analysis; for a grid that is too small for it, the reason in place of verdicts."""
    grid = grid_of(results, specification, similarities)
    reason = grid.why_not() or why_no_fold(grid, specification.left_out)
    titles = {name: feature.title for name, feature in features_of(results).items()}
    if reason is not None:
        headline = f"nothing can be said: {reason}"
        return Guarded(specification, headline, not_estimable(titles, reason), _MODELS, _CURVE, grid.notes)
    others = [alternative for alternative in specifications(results, specification) if alternative != specification]
    steps = _Steps(len(grid.kinds) + 1 + len(grid.families) + len(SCHEMES) + len(others), progress)
    fits = fits_of(grid, specification.left_out)
    gate, tests = _null_tests(grid, fits, draws, seed, steps)
    intervals = delete_a_family(
        grid, specification.left_out, list(grid.kinds), fits, lambda done: steps.take("without a family")
    )
    models = _models(grid, steps)
    features = verdicts(grid, titles, gate, tests, largest_p(list(tests.values())), intervals)
    curve = [_curve_row(specification, grid, gate)]
    for alternative in others:
        other = grid_of(results, alternative, similarities)
        curve.append(_curve_row(alternative, other, _test_of_constructs(other, alternative, draws, seed)))
        steps.take("specifications")
    return Guarded(
        specification,
        _headline(grid, gate),
        features,
        models,
        pd.DataFrame(curve, columns=list(_CURVE.columns)),
        _notes(grid, results, specification),
    )


class _Steps:
    """Counts the steps of the analysis, most of which take about as long as each other."""

    def __init__(self, of: int, progress: Progress) -> None:
        self._done, self._of, self._progress = 0, of, progress

    def take(self, what: str) -> None:
        self._done += 1
        self._progress(self._done, self._of, what)


def _null_tests(
    grid: Grid, fits: FamilyFits, draws: int, seed: int, steps: _Steps
) -> tuple[NullTest, dict[str, NullTest]]:
    """The test of all constructs together, and of every feature on its own."""
    arrangements = Arrangements.of(grid, draws, seed)
    gate = null_test(grid, fits, grid.constructs, arrangements)
    steps.take("constructs together")
    tests = {}
    for name in grid.kinds:
        tests[name] = null_test(grid, fits, [name], arrangements)
        steps.take(name)
    return gate, tests


def _test_of_constructs(grid: Grid, specification: Specification, draws: int, seed: int) -> NullTest | None:
    if grid.why_not() or why_no_fold(grid, specification.left_out):
        return None
    return against_nulls(grid, specification.left_out, grid.constructs, Arrangements.of(grid, draws, seed))


def _curve_row(specification: Specification, grid: Grid, gate: NullTest | None) -> dict[str, Any]:
    row = {
        **asdict(specification),
        "key": specification.key,
        "n_pairs": int(grid.mask.sum()),
        "notes": "; ".join(grid.notes),
    }
    if gate is None:
        return {
            **row,
            "notes": "; ".join(
                [*grid.notes, f"nothing can be said: {grid.why_not() or why_no_fold(grid, specification.left_out)}"]
            ),
        }
    numbers = {name: float(getattr(gate, name)[0]) for name in ("added", "p_tasks", "p_families", "p")}
    chance = max(float(np.quantile(null[:, 0], 1 - LEVEL)) for null in (gate.by_tasks, gate.by_families))
    return {**row, **numbers, "chance_95": chance, "passes": bool(gate.passes[0])}


def _models(grid: Grid, steps: _Steps) -> pd.DataFrame:
    """R2 and Q2 of four models under each role in which families are left out.

    Effects of intermediates and targets need no feature; they know nothing of an intermediate that was left out, and
    their Q2 is about 0 then.
    """
    models = {
        "all but constructs": {name: grid.blocks(name) for name in grid.others},
        "constructs": {name: grid.blocks(name) for name in grid.constructs},
        "all features": {name: grid.blocks(name) for name in grid.kinds},
        "intermediate + target effects": {"intermediate": [_effects(len(grid.tasks))]},
    }
    rows = []
    for left_out in SCHEMES:
        is_too_large = left_out == "both" and len(grid.families) > MOST_FAMILIES_IN_PAIRS
        for model, blocks in models.items():
            fits = None if is_too_large else FamilyFits(grid, left_out, blocks)
            r2, q2 = (fits.r2_train(), fits.q2()[0]) if fits else (np.nan, np.nan)
            rows.append({"left_out": left_out, "model": model, "r2_train": r2, "q2": q2})
        steps.take("models")
    return pd.DataFrame(rows, columns=list(_MODELS.columns))


def _effects(n_tasks: int) -> np.ndarray:
    """One column per intermediate; the effects of targets went with the centring."""
    return np.broadcast_to(np.eye(n_tasks)[:, None, :], (n_tasks, n_tasks, n_tasks))


def _headline(grid: Grid, gate: NullTest) -> str:
    said = "supported" if gate.passes[0] else "not supported"
    full = gate.full_q2 - gate.added[0]
    return (
        f"constructs ({', '.join(grid.constructs)}) explain gains of families that were not seen: {said}; they add"
        f" {signed(gate.added[0], 4)} to a Q2 of {signed(full, 4)} (p = {p_text(gate.p_tasks[0])} with ratings"
        f" permuted over tasks, {p_text(gate.p_families[0])} over families)"
    )


def _on_weights(grid: Grid, results: Results, is_equal: bool) -> str:
    if np.isfinite(grid.heterogeneity):
        return (
            f"standard errors are {results.errors}; pairs differ beyond them by a variance of {grid.heterogeneity:.2f}"
        )
    asked = "weights are asked to be equal" if is_equal else "there is none above 0 for every pair"
    return f"all pairs weigh the same: standard errors are {results.errors}, and {asked}"


def _notes(grid: Grid, results: Results, specification: Specification) -> tuple[str, ...]:
    left_out = [f"{name} is left out: {why}" for name, why in grid.left_out.items()]
    return (
        *grid.notes,
        *left_out,
        "Q2 is pooled over the folds and taken about the mean of the training pairs, after centring by target",
        _on_weights(grid, results, specification.weights == "equal"),
        f"intervals leave out one of {len(grid.families)} families after the other: few, so they are wide",
    )


# Verdicts: one line per feature, supported or not supported for families that were not seen, and why.


def verdicts(
    grid: Grid,
    titles: Mapping[str, str],
    gate: NullTest,
    tests: Mapping[str, NullTest],
    corrected: np.ndarray,
    intervals: Mapping[str, tuple[float, float]],
) -> pd.DataFrame:
    """One row per feature, tested or not; ``added`` is the Q2 that is lost when it alone is dropped.

    ``against`` is what speaks against support, ``why`` the same after the numbers, ``low`` to ``high`` the
    interval, ``null_mean`` what it adds on average when it belongs to other tasks, and
    ``p_corrected`` the larger p of both nulls after correction for all features.
    """
    rows: list[dict[str, Any]] = []
    for (name, test), p in zip(tests.items(), corrected, strict=True):
        row: dict[str, Any] = {
            "feature": name,
            "title": titles[name],
            "kind": grid.kinds[name],
            "added": float(test.added[0]),
            "low": intervals[name][0],
            "high": intervals[name][1],
            "null_mean": float(test.by_tasks[:, 0].mean()),
            "p_tasks": float(test.p_tasks[0]),
            "p_families": float(test.p_families[0]),
            "p_corrected": float(p),
        }
        against = _reasons_against(row, test, gate if name in grid.constructs else None)
        verdict = NOT_SUPPORTED if against else SUPPORTED
        if against and gate.passes[0] and (twin := _twin(grid, name)):
            verdict, against = ONLY_TOGETHER, [_beside(titles[twin[0]], twin[1])]
        rows.append({**row, "verdict": verdict, "against": "; ".join(against), "why": _why(row, against)})
    rows += [
        {"feature": name, "title": titles[name], "verdict": NOT_TESTED, "why": why}
        for name, why in grid.left_out.items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def not_estimable(titles: Mapping[str, str], reason: str) -> pd.DataFrame:
    """The same frame where nothing could be tested."""
    rows = [{"feature": name, "title": title, "verdict": NOT_TESTED, "why": reason} for name, title in titles.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def _reasons_against(row: Mapping[str, Any], test: NullTest, gate: NullTest | None) -> list[str]:
    """The reasons against support, empty where there are none."""
    reasons = {
        "removing it does not lower out-of-family Q2": row["added"] <= 0,
        "with all features the gains are predicted no better than by their mean": test.full_q2 <= 0,
        "no better than permuted ratings": row["p_corrected"] > LEVEL,
        "the constructs together do not pass": gate is not None and not gate.passes[0],
    }
    return [reason for reason, holds in reasons.items() if holds]


def _twin(grid: Grid, name: str) -> tuple[str, float] | None:
    """The construct that says nearly the same of tasks as this one, with their correlation; None where none does."""
    others = [other for other in grid.constructs if other != name] if name in grid.constructs else []
    if not others:
        return None
    correlations = {other: float(np.corrcoef(grid.facts[name], grid.facts[other])[0, 1]) for other in others}
    most = max(others, key=lambda other: abs(correlations[other]))
    return (most, correlations[most]) if abs(correlations[most]) >= TWINS else None


def _beside(title: str, correlation: float) -> str:
    return (
        f"the constructs together pass, but it adds little beside {title}, with which it correlates over tasks"
        f" (r = {correlation:.2f})"
    )


def _why(row: Mapping[str, Any], against: list[str]) -> str:
    numbers = (
        f"adds {signed(row['added'], 4)} to Q2 (p = {p_text(row['p_tasks'])} over tasks, {p_text(row['p_families'])}"
        f" over families, {p_text(row['p_corrected'])} corrected)"
    )
    return "; ".join([numbers, *against])
