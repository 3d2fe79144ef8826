"""Answers to what reproducibility checklists ask, from the records; what is not known is said so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from adapters_store.record import Record
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.manuscript.methods.paragraphs import caps_of, draws_of
from analysis.manuscript.methods.trainings import losses_of, settings_of
from analysis.manuscript.subject import Subject
from analysis.tables import inline
from tasks.plain_text import counted

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
