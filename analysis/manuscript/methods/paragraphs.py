"""The Methods paragraphs of a study, as far as its records tell; numbers and references stand in them by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.manuscript.methods.merges import merges
from analysis.manuscript.methods.trainings import models, training
from analysis.manuscript.references import (
    DATA,
    DESIGN,
    MIXED,
    OVER_SEEDS,
    PAPERS_WAY,
    STATISTICS,
    Use,
    keys_of,
)
from analysis.manuscript.subject import Subject
from analysis.tables import few

SPLITS = {
    "clean": "clean: no group of texts (a dialogue, a post, an article) is divided, and data sets that share texts are"
    " split alike",
    "as-published": "those that were published",
}


def methods(subject: Subject, uses: Sequence[Use]) -> list[tuple[str, str]]:
    """Headings and paragraphs."""
    parts = [("Tasks and data", _data(subject, uses))]
    if subject.stored is None:
        parts.append(("Source of the scores", _published_data()))
    else:
        parts += [("Models", models(subject, uses)), ("Training", training(subject, uses))]
    parts += [("Gains and tests", _tests(subject, uses)), ("Merged intermediates", merges(subject, uses))]
    parts += [("What explains a gain", _explanation(subject, uses))]
    return [(head, text) for head, text in parts if text]


def caps_of(study: Mapping[str, Any]) -> str:
    """How many rows of each split are used at most, in words; nothing where all are."""
    names = {"max_train": "training", "max_val": "validation", "max_test": "test"}
    caps = [f"{study[name]} {what}" for name, what in names.items() if study.get(name)]
    return f"at most {', '.join(caps)} rows of a task" if caps else ""


def _data(subject: Subject, uses: Sequence[Use]) -> str:
    study = subject.study
    caps = f"; {caps_of(study)}" if caps_of(study) else ""
    splits = SPLITS.get(str(study["splits"]), str(study["splits"]))
    text = (
        f"Tasks: [[StudyTasks]], of [[StudyDataSets]] data sets{keys_of(uses, DATA)}; families of data sets that share"
        f" texts or people: [[StudyFamilies]]. Splits are {splits}{caps}. Transfers between tasks, themes and ratings"
        f" follow an earlier design{keys_of(uses, DESIGN)}."
    )
    if subject.results.is_synthetic:
        text = f"The texts are synthetic, made in the forms of these data sets, and say nothing about real ones. {text}"
    folds = [f"{task['title']} ({task['folds']})" for task in subject.tasks.values() if task.get("folds")]
    if folds:
        text += f" Tasks whose rows were all tested, in so many folds: {', '.join(folds)}."
    missing = subject.stored.manifest["missing"] if subject.stored else {}
    return f"{text} Left out for want of data: {few(list(missing))}." if missing else text


def _published_data() -> str:
    return (
        "Scores, sizes and ratings are those that the paper prints; nothing was trained for this page. Devices, hours,"
        " seeds and predictions of the transfers are not published and so not known here."
    )


def _tests(subject: Subject, uses: Sequence[Use]) -> str:
    tested = subject.results.gains[subject.results.gains.p.notna()]
    if tested.empty:
        return (
            "A gain is the score of a transfer less that of its target alone. Single gains are not tested, since no"
            " predictions are available."
        )
    names = ("resampled groups of test rows", "correction (false discovery rate)", "correction (family-wise)")
    group, rate, familywise = (keys_of(uses, STATISTICS, name) for name in names)
    parts = [
        "A gain is the score of a transfer less that of its target alone on the same test items, in points (x 100).",
        f"Intervals and p values come from paired draws of whole groups of test items{group}: {draws_of(subject)}.",
        _over_seeds(subject, uses),
        "Over the [[StudyPairsTested]] gains that have a p, p values were corrected for the false discovery"
        f" rate{rate}; other corrections stand beside them{familywise}. Of these gains, [[StudySignificantGains]] are"
        " significantly above and [[StudySignificantHarms]] below the target alone.",
    ]
    return " ".join(filter(None, parts))


def draws_of(subject: Subject) -> str:
    """How many draws are behind a gain, and of how many gains they are more."""
    if subject.stored is None:
        return "[[StudyDraws]]"
    draws = tested_gains(subject.stored.gains).draws
    if draws.min() == draws.max():
        return "[[StudyDraws]] of each gain"
    return (
        "[[StudyDraws]], and [[StudyDrawsMost]] of the [[StudyGainsDrawnMore]] gains whose significance [[StudyDraws]]"
        " left within Monte Carlo error"
    )


def tested_gains(gains: pd.DataFrame) -> pd.DataFrame:
    """The gains that have a p."""
    return gains[gains.p.notna()]


def _over_seeds(subject: Subject, uses: Sequence[Use]) -> str:
    """What intervals and p values hold for: single runs, or what varies between seeds."""
    if subject.stored is None:
        return ""
    gains = tested_gains(subject.stored.gains)
    freedom = keys_of(uses, STATISTICS, OVER_SEEDS)
    is_single, is_repeated = gains.n_seeds == 1, gains.n_baseline_seeds > 1
    parts = []
    if (gains.n_seeds > 1).any():
        parts.append(f"They hold the spread between seeds{freedom}.")
    if (is_single & is_repeated).any():
        parts.append(f"A transfer with a single seed is taken to vary between seeds as its target alone does{freedom}.")
    if (is_single & ~is_repeated).any():
        which = "They are" if not is_repeated.any() else "Those of gains with a single seed of both are"
        parts.append(f"{which} conditional on one training run: what another seed would give is no part of them.")
    return " ".join(parts)


def _explanation(subject: Subject, uses: Sequence[Use]) -> str:
    rated = ""
    if n_rated := subject.results.ratings.task.nunique():
        all_or_some = "every task" if n_rated == len(subject.results.tasks) else f"{n_rated} of the tasks"
        rated = f"Raters ([[StudyRaters]]) judged {all_or_some}"
        if subject.results.ratings.rater.nunique() > 1:
            rated += f"; agreement is Krippendorff's alpha{keys_of(uses, STATISTICS, 'agreement of raters')}"
        rated += ". "
    if (reason := subject.why_no_slopes()) is not None:
        return f"{rated}Whether ratings explain gains cannot be said: {reason}."
    text = (
        f"{rated}Whether ratings explain gains was asked by a mixed model: the slope of gains on how much higher the"
        " intermediate is rated, means of targets free; tasks, data sets, families and all other features are"
        " components of variance; a likelihood ratio with simulated null, corrected for all ratings, and a"
        " random-effects meta-analysis of the slopes within families of"
        f" targets{keys_of(uses, STATISTICS, MIXED)}, of which the larger p counts."
    )
    if beside := keys_of(uses, STATISTICS, PAPERS_WAY):
        text += f" Importances by the paper's procedure{beside}, a fit in the sample, are given beside it."
    return f"{text} {subject.question.primary.line().split('; hash')[0]}."
