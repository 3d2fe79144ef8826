"""What explains gains, answered by the mixed model: a slope, its interval and a verdict for every rating."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.gains.significance import p_text
from analysis.importance.detection import smallest_slopes, spread
from analysis.importance.grid import (
    CONSTRUCT,
    PRIMARY,
    SIMILARITY,
    Grid,
    Specification,
    features_of,
    grid_of,
    not_rejected,
    specifications,
)
from analysis.importance.mixed_test import DISTANCE, OVERLAP, SIGNED, MixedTest, Overlaps, why_not
from analysis.results.results import Results
from analysis.tables import Declared, fixed, framed, signed

Array = np.ndarray
Progress = Callable[[int, int, str], None]
SUPPORTED, NOT_SUPPORTED, NOT_TESTED = "supported", "not supported", "not tested"
ONLY_TOGETHER = "only together"
STEPS, WIDEST = 161, 8.0  # slopes that are tried for an interval, and how many of its errors it may reach to a side
OVERLAPPING = 0.5  # correlation of two ratings from which a verdict names the other

SLOPES = {
    "question": Declared("str", "signed difference of ratings (primary), or distance"),
    "construct": Declared("str", "what was rated"),
    "title": Declared("str", "its name in tables and figures"),
    "slope": Declared("float64", "points of gain per step by which the intermediate is rated higher, or further away"),
    "low": Declared("float64", "lower end of the slopes that the test does not reject at 5 %, corrected"),
    "high": Declared("float64", "their upper end; undefined where no end was met"),
    "share": Declared("float64", "of the weighted squares of gains within targets, that the slope accounts for"),
    "p_ratio": Declared("float64", "of the likelihood ratio, corrected for all ratings"),
    "p_families": Declared("float64", "of the mean slope over families of targets, corrected for all ratings"),
    "df": Declared("Int64", "degrees of freedom of that mean: families - 1"),
    "p": Declared("float64", "the larger of the two"),
    "detectable": Declared("float64", "slope that would be seen in 80 % of such studies; undefined: none was"),
    "overlaps": Declared("str", "rating that correlates most with this one over tasks, from .5"),
    "correlation": Declared("float64", "Pearson's r with it"),
    "p_beside": Declared("float64", "beside all that correlate by .8 or more with it; undefined: none does"),
    "verdict": Declared("str", "supported, only together (with those), not supported or not tested"),
    "why": Declared("str", "the same in a sentence"),
}
PROFILE = {
    "construct": Declared("str", "what was rated"),
    "title": Declared("str", "its name in tables and figures"),
    "slope": Declared("float64", "points per step of the signed difference"),
    "drop": Declared("float64", "of the log likelihood below its maximum, variances maximised at every slope"),
    "p": Declared("float64", "of the test that this is the slope, corrected for all ratings"),
}

BY_CHOICE = {
    "outcome": Declared("str", "points, percent, ranks or winsorised points: what is explained"),
    "weights": Declared("str", "of pairs: inverse variance or equal"),
    "cells": Declared("str", "which pairs are used"),
    "without_rater": Declared("str", "whose ratings are left out; empty: nobody's"),
    "construct": Declared("str", "the rating"),
    "title": Declared("str", "its name in tables"),
    "slope": Declared("float64", "of the signed difference, in the outcome's unit per step of the rating"),
    "p": Declared("float64", "that it is none, corrected for all ratings but not for choices"),
    "why": Declared("str", "why it is not tested; empty: it is"),
}


@dataclass(frozen=True)
class Mixed:
    """``slopes`` (SLOPES) one row per question and rating, ``profile`` (PROFILE), what it rests on, in a sentence."""

    headline: str
    slopes: pd.DataFrame
    profile: pd.DataFrame
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """The headline and one line per rating, for a terminal or a report."""
        primary = self.slopes[self.slopes.question == SIGNED]
        return [self.headline, *(f"{row.title}: {row.verdict}: {row.why}" for row in primary.itertuples())]


def mixed(
    results: Results,
    specification: Specification = PRIMARY,
    *,
    similarities: pd.DataFrame | None = None,
    progress: Progress = lambda done, of, stage: None,
) -> Mixed:
    """The mixed-model test of a study; for a grid that is too small for it, the reason in place of verdicts."""
    grid = grid_of(results, specification, similarities)
    titles = {name: feature.title for name, feature in features_of(results).items()}
    # Rows of the ratings that are the same for all tasks.
    rated = set(results.constructs)
    untested = [row for name, why in grid.left_out.items() if name in rated for row in _not_tested([name], titles, why)]
    beside = {
        name: kind.title for name, kind in features_of(results).items() if kind.kind not in (CONSTRUCT, SIMILARITY)
    }
    left_out = [f"{beside[name]} is left out: {grid.left_out[name]}" for name in beside if name in grid.left_out]
    used = (*grid.notes, *left_out)
    if (reason := why_not(grid)) is not None:
        rows = [*_not_tested(grid.constructs, titles, reason), *untested]
        return Mixed(f"nothing can be said: {reason}", _slopes(rows), framed(pd.DataFrame(), PROFILE), used)
    test = MixedTest.of(grid)
    steps = len(test.constructs) + 2
    progress(1, steps, "slopes")
    overlaps = Overlaps.of(test)
    tried = {question: _trial(test, question, overlaps) for question in (SIGNED, DISTANCE)}
    progress(2, steps, "slopes")
    smallest = smallest_slopes(test, lambda done: progress(2 + done, steps, "slopes that could be seen"))
    unit = "points" if specification.outcome in ("points", "winsorised") else specification.outcome
    rows = [
        _row(test, titles, question, tried[question], construct, smallest if question == SIGNED else None, unit)
        for question in tried
        for construct in range(len(test.constructs))
        if question == SIGNED or test.distances.estimable[construct]
    ]
    slopes = _slopes([*rows, *untested])
    notes = (*used, _on_weights(grid, results, specification), *_notes(test))
    return Mixed(_headline(slopes), slopes, _profile(test, titles, tried[SIGNED]), notes)


def slopes_by_choice(
    results: Results, primary: Specification = PRIMARY, *, similarities: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Slopes and p under the primary specification, and under each that differs in one respect: the columns BY_CHOICE.

    A rating under a choice whose gains cannot be tested has a reason.
    """
    titles = {name: feature.title for name, feature in features_of(results).items()}
    rows = [
        row for choice in specifications(results, primary) for row in _chosen(results, choice, similarities, titles)
    ]
    return framed(pd.DataFrame(rows, columns=list(BY_CHOICE)), BY_CHOICE)


def _chosen(
    results: Results, choice: Specification, similarities: pd.DataFrame | None, titles: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    grid = grid_of(results, choice, similarities)
    facts = {name: getattr(choice, name) for name in BY_CHOICE if hasattr(choice, name)}
    if (reason := why_not(grid)) is not None:
        yield from ({**facts, "construct": name, "title": titles[name], "why": reason} for name in grid.constructs)
        return
    test = MixedTest.of(grid)
    part = test.answer(SIGNED, grid.outcome[..., None])
    for position, name in enumerate(test.constructs):
        slope, p = part.slope[position, 0] / test.deviations[position], part.p[position, 0]
        yield {**facts, "construct": name, "title": titles[name], "slope": slope, "p": p, "why": ""}


@dataclass(frozen=True)
class _Tried:
    """One question, answered for the observed gains, and for them less every slope that is tried.

    ``slope``, ``p``, ``p_beside`` and ``verdict`` are [constructs], ``slopes`` and ``ps`` [constructs, STEPS] per
    standard deviation.
    """

    slope: Array
    p_ratio: Array
    p_families: Array
    df: int
    slopes: Array
    ps: Array
    p_beside: Array
    verdict: list[str]

    @property
    def p(self) -> Array:
        return np.asarray(np.maximum(self.p_ratio, self.p_families))


def _trial(test: MixedTest, question: str, overlaps: Overlaps) -> _Tried:
    """The answer to one question, with the p of every slope around its estimate."""
    gains = test.grid.outcome[..., None]
    part = test.answer(question, gains)
    reach = WIDEST * np.maximum(part.error[:, 0], np.nan_to_num(part.guard.error[:, 0]) * test.unit(gains)[0])
    slopes = part.slope + reach[:, None] * np.linspace(-1, 1, STEPS)
    ps = [
        test.answer(question, gains - test.effect(question, construct)[..., None] * slope).p[construct]
        for construct, slope in enumerate(slopes)
    ]
    p_beside = overlaps.p_beside(gains) if question == SIGNED else np.full_like(part.p, np.nan)
    named, together = (rule(part.p, p_beside)[:, 0] for rule in (overlaps.named, overlaps.together))
    verdict = np.select([named, together & (question == SIGNED)], [SUPPORTED, ONLY_TOGETHER], NOT_SUPPORTED).tolist()
    ratio_p, families_p = part.ratio_p[:, 0], part.guard.corrected[:, 0]
    return _Tried(part.slope[:, 0], ratio_p, families_p, part.guard.df, slopes, np.stack(ps), p_beside[:, 0], verdict)


def _row(
    test: MixedTest,
    titles: dict[str, str],
    question: str,
    tried: _Tried,
    construct: int,
    smallest: Array | None,
    unit: str,
) -> dict[str, Any]:
    """One rating and question as a row of SLOPES."""
    step = test.deviations[construct]
    effect = test.effect(question, construct)[..., None] * tried.slope[construct]
    ends = not_rejected(tried.slopes[construct], tried.ps[construct])
    low, high = (end / step if np.isfinite(end) else np.nan for end in ends)
    other, correlation = _overlap(test, construct)
    row = {
        "question": question,
        "construct": test.constructs[construct],
        "title": titles[test.constructs[construct]],
        "slope": tried.slope[construct] / step,
        "low": low,
        "high": high,
        "share": float((spread(test.grid, effect) / spread(test.grid, test.grid.outcome[..., None]))[0]),
        "p_ratio": tried.p_ratio[construct],
        "p_families": tried.p_families[construct],
        "df": tried.df,
        "p": tried.p[construct],
        "detectable": np.nan if smallest is None else smallest[construct] / step,
        "overlaps": other if abs(correlation) >= OVERLAPPING else "",
        "correlation": correlation if abs(correlation) >= OVERLAPPING else np.nan,
        "p_beside": tried.p_beside[construct],
        "verdict": tried.verdict[construct],
    }
    return {**row, "why": _why(row, titles, unit)}


def _why(row: dict[str, Any], titles: dict[str, str], unit: str) -> str:
    """The numbers of a row in a sentence."""
    step = "by which the intermediate is rated higher" if row["question"] == SIGNED else "between the two ratings"
    clauses = [
        f"{signed(row['slope'], 2)} {unit} per step {step} (95 % interval {ends(row['low'], row['high'])};"
        f" p {p_text(row['p'])}, the larger of {p_text(row['p_ratio'])} beside tasks and families that differ"
        f" anyway and {p_text(row['p_families'])} over families of targets with {row['df']} degrees of freedom)"
    ]
    if row["verdict"] == NOT_SUPPORTED and row["question"] == SIGNED:
        seen = "no slope that was tried" if pd.isna(row["detectable"]) else f"{fixed(row['detectable'], 1)} {unit}"
        clauses.append(f"{seen} per step would have been seen in four of five such studies")
    if row["overlaps"]:
        together = f"; beside all that correlate with it by {OVERLAP:g} or more its p is {p_text(row['p_beside'])}"
        clauses.append(
            f"it correlates with {titles[row['overlaps']]} over tasks (r = {fixed(row['correlation'], 2)}), and each"
            f" is tested without the other{'' if pd.isna(row['p_beside']) else together}"
        )
    if row["verdict"] == ONLY_TOGETHER:
        clauses.append("gains follow it or what it has in common with those, and cannot tell which")
    return "; ".join(clauses)


def ends(low: float, high: float) -> str:
    """The ends of an interval of slopes, in which one that was not met is named."""
    return " to ".join(signed(end, 2) if np.isfinite(end) else "no end" for end in (low, high))


def _overlap(test: MixedTest, construct: int) -> tuple[str, float]:
    """The other rating that correlates most with one over tasks, and how much; nothing where there is no other."""
    correlations = np.corrcoef(test.ratings.T)[construct] if len(test.constructs) > 1 else np.ones(1)
    others = [k for k in range(len(test.constructs)) if k != construct]
    if not others:
        return "", 0.0
    most = max(others, key=lambda k: abs(correlations[k]))
    return test.constructs[most], float(correlations[most])


def _headline(slopes: pd.DataFrame) -> str:
    """Which ratings gains follow, or the smallest p of those that they do not."""
    primary = slopes[(slopes.question == SIGNED) & (slopes.verdict != NOT_TESTED)]
    supported, together = (primary[primary.verdict == verdict] for verdict in (SUPPORTED, ONLY_TOGETHER))
    names = ", ".join(primary.title)
    if supported.empty and together.empty:
        best = primary.loc[primary.p.idxmin()]
        return (
            f"ratings ({names}) explain gains: not supported; the smallest corrected p is {fixed(best.p, 3)}, of"
            f" {best.title}, {signed(best.slope, 2)} per step ({ends(best.low, best.high)})"
        )
    clauses = [f"{row.title} ({signed(row.slope, 2)} per step, p {p_text(row.p)})" for row in supported.itertuples()]
    if len(together):
        group = f"{', '.join(together.title)} only together (r up to {fixed(together.correlation.abs().max(), 2)},"
        clauses.append(f"{group} smallest p {p_text(together.p.min())})")
    return f"ratings ({names}) explain gains: supported for {', '.join(clauses)}"


def _profile(test: MixedTest, titles: dict[str, str], tried: _Tried) -> pd.DataFrame:
    """How far the likelihood falls, and the p of the test, at every slope that was tried."""
    gains = test.grid.outcome[..., None]
    frames = []
    for construct, name in enumerate(test.constructs):
        slopes = tried.slopes[construct]
        drop = test.log_likelihood(gains - test.effect(SIGNED, construct)[..., None] * slopes)
        values = {"slope": slopes / test.deviations[construct], "drop": drop.max() - drop, "p": tried.ps[construct]}
        frames.append(pd.DataFrame({"construct": name, "title": titles[name], **values}))
    return framed(pd.concat(frames, ignore_index=True), PROFILE)


def _not_tested(names: list[str], titles: dict[str, str], why: str) -> list[dict[str, Any]]:
    same = {"question": SIGNED, "verdict": NOT_TESTED, "why": why, "overlaps": ""}
    return [{**same, "construct": name, "title": titles[name]} for name in names]


def _slopes(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return framed(pd.DataFrame(rows, columns=list(SLOPES)), SLOPES)


def _on_weights(grid: Grid, results: Results, specification: Specification) -> str:
    if np.isfinite(grid.heterogeneity):
        return (
            f"standard errors are {results.errors}; pairs differ beyond them by a variance of {grid.heterogeneity:.2f}"
        )
    reason = (
        "weights are asked to be equal" if specification.weights == "equal" else "there is none above 0 for every pair"
    )
    return f"all pairs weigh the same: standard errors are {results.errors}, and {reason}"


def _notes(test: MixedTest) -> Iterator[str]:
    """What the test rests on."""
    scale = float(test.scale(test.grid.outcome[..., None])[0])
    sizes = [
        f"{part.name} {fixed(float(np.sqrt(variance)), 2)}"
        for part, variance in zip(test.model.parts, test.variances(), strict=True)
    ]
    yield (
        "beside ratings, effects of intermediates differ by (standard deviations where the likelihood is largest):"
        f" {', '.join(sizes)}; the variance of pairs is {fixed(scale, 2)} times what their weights promise"
    )
    count = len(test.families.families)
    if count < len(test.grid.families):
        yield f"{count} of {len(test.grid.families)} families of targets have enough pairs for a slope of their own"
