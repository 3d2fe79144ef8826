"""The Methods paragraphs of a study, as far as its records tell, and answers to what reproducibility checklists ask.

Numbers and references stand in paragraphs by name; what is not known is said so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from adapters_store.record import Record
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.manuscript.frames import Subject
from analysis.manuscript.references import DATA, DESIGN, MIXED, OVER_SEEDS, PAPERS_WAY, STATISTICS, Use, keys_of
from analysis.manuscript.trainings import losses_of, merges, models, settings_of, training
from analysis.tables import few, inline
from tasks.plain_text import counted

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


NOT_PRINTED = "Not known: the paper's tables do not say it, and nothing was trained here."
NO_RECORD = "Not known: no cell is finished."
Answer = tuple[str, str]


def checklist(subject: Subject) -> list[Answer]:
    """Questions with their answers."""
    return [
        *_data_answers(subject),
        *_computing(subject),
        *_settings(subject),
        *_statistics(subject),
        *_limits(subject),
    ]


def _data_answers(subject: Subject) -> Iterator[Answer]:
    study, results = subject.study, subject.results
    metrics = ", ".join(METRIC_NAMES[metric] for metric in dict.fromkeys(results.tasks.metric))
    facts = "sizes" if results.is_synthetic else "sizes, languages and licences"
    yield "Which data?", f"[[StudyTasks]] tasks of [[StudyDataSets]] data sets; {facts} in a table."
    caps = f"; {caps_of(study)}" if caps_of(study) else ""
    yield "Which splits?", f"{study['splits']}; rows of every split in a table{caps}."
    yield "Which metrics?", f"{metrics}."
    if results.is_synthetic:
        yield "Are the data real?", "No: the texts are synthetic, and no number says anything about real ones."
    missing = subject.stored.manifest["missing"] if subject.stored else {}
    if missing:
        yield "Which tasks are left out?", "; ".join(f"{name}: {why}" for name, why in missing.items())
    if subject.unknown:
        yield "Whose facts are not known?", "; ".join(subject.unknown)


def _computing(subject: Subject) -> Iterator[Answer]:
    records = subject.stored.records if subject.stored else ()
    none = NO_RECORD if subject.stored else NOT_PRINTED
    asked = {
        "On which devices?": _tally(record.provenance["device"] for record in records),
        "With which packages?": _tally(inline(record.provenance["versions"]) for record in records),
        "With which code?": _tally(record.provenance["code"] for record in records),
        "Which weights of the backbone (sha256)?": _tally(
            record.spec["backbone"]["weights_sha256"] for record in records
        ),
    }
    for question, answer in asked.items():
        yield question, answer or none
    hours = (
        "[[StudyHours]] hours of wall clock in all, [[StudyProcessorHours]] of processor time, for"
        " [[StudyCellsFinished]] finished of [[StudyCellsPlanned]] planned trainings."
    )
    yield "How long did it compute?", hours if records else none
    yield "How many parameters?", _parameters(records) or none


def _settings(subject: Subject) -> Iterator[Answer]:
    study = subject.study
    if subject.stored is None:
        yield (
            "Which training settings?",
            "Epochs, batch sizes and rates of the paper's Table 4 (data/table-4-training.csv).",
        )
        yield "Which seeds?", NOT_PRINTED
        yield "Which search space?", NOT_PRINTED
        return
    settings = settings_of(subject, "{}; per task in data/table-4-training.csv.")
    said = " ".join(filter(None, [settings, losses_of(subject)]))
    yield "Which training settings?", said or NO_RECORD
    alone = f"; of targets alone {inline(study['baseline_seeds'])}" if study.get("baseline_seeds") else ""
    yield "Which seeds?", f"{inline(study['seeds'])}{alone}."
    yield "Which search space?", _search_spaces(subject.searches)
    adapter = {name: value for name, value in study["adapter"].items() if value is not None}
    inputs = {"input format": study.get("input_format"), "tokens at most": study.get("max_tokens")}
    yield (
        "Which adapter and input?",
        f"{inline(adapter)}; {inline(inputs)}; precision {study.get('precision', 'fp32')}.",
    )


def _statistics(subject: Subject) -> Iterator[Answer]:
    if subject.results.gains.p.isna().all():
        yield "Which tests?", "No test of single gains: no predictions are there."
    else:
        text = f"paired draws of groups of test items ({draws_of(subject)}); Benjamini and Hochberg over"
        gains = "[[StudyPairsTested]] gains; effects and intervals are given beside p values."
        yield "Which tests?", f"Two-sided, {text} {gains}"
    yield "What was declared beforehand?", subject.question.primary.line()


def _limits(subject: Subject) -> Iterator[Answer]:
    yield (
        "What failed?",
        (
            "[[StudyCollapsedPairs]] pairs collapsed, [[StudyContaminatedPairs]] were tested on training material;"
            " they are kept and marked. [[StudyPairsFinished]] of [[StudyPairsPlanned]] pairs are finished."
        ),
    )
    for limit in subject.question.limits:
        yield "What cannot be known?", limit


def _parameters(records: Iterable[Record]) -> str:
    """How many parameters a cell trains; those of the backbone are not in a record."""
    if not any("trainable_parameters" in record.results for record in records):
        return ""
    return (
        "[[StudyTrainedParametersLeast]] to [[StudyTrainedParametersMost]] trained ones in an adapter and its head;"
        " those of the frozen backbone are not in the records."
    )


def _search_spaces(searches: Iterable[Mapping[str, Any]]) -> str:
    """The spaces of the searches in the store, and how many trials each had."""
    spaces = [
        f"{search['task']}{' on ' + search['intermediate'] if search.get('intermediate') else ''}:"
        f" {inline(_space(search))},"
        f" {len(search['trials'])} trials, chosen on validation rows"
        for search in searches
    ]
    return "; ".join(spaces) or "No search of this study is in the store: settings are those of the study and entries."


def _space(search: Mapping[str, Any]) -> Mapping[str, Any]:
    space: Mapping[str, Any] = search["inputs"]["space"]
    return space


def _tally(values: Iterable[Any]) -> str:
    """Distinct values with how many trainings have each; nothing where there are none."""
    counts = Counter(map(str, values))
    return "; ".join(f"{value} ({counted(count, 'training')})" for value, count in sorted(counts.items()))
