"""The Methods paragraphs of a study, as far as its records tell; numbers and references stand in them by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.manuscript.references import (
    ADAPTER,
    BACKBONE,
    DATA,
    GUARDED,
    PAPERS_WAY,
    STATISTICS,
    TRAINING,
    Use,
    keys_of,
    origin_of,
)
from analysis.manuscript.subject import Subject
from analysis.markdown import few, inline

SPLITS = {
    "clean": "clean: no group of texts (a dialogue, a post, an article) is divided, and data sets that share texts are"
    " split alike",
    "as-published": "those that were published",
}
COMPOSITIONS = {
    "stack": "For a transfer, the adapter of the intermediate task was frozen and the target's adapter was stacked on"
    " it; only the target's adapter and head were trained.",
    "stack-trainable": "For a transfer, the target's adapter was stacked on that of the intermediate task, and both"
    " were trained.",
    "sequential": "For a transfer, the target's adapter started from the weights of the intermediate's and was trained"
    " on, under a new head.",
}
UNKNOWN_BACKBONE = "The records do not name a publication for it."


def methods(subject: Subject, uses: Sequence[Use]) -> list[tuple[str, str]]:
    """Headings and paragraphs."""
    parts = [("Tasks and data", _data(subject, uses))]
    if subject.stored is None:
        parts.append(("Source of the scores", _printed()))
    else:
        parts += [("Models", _models(subject, uses)), ("Training", _training(subject, uses))]
    parts += [("Gains and tests", _tests(subject, uses)), ("What explains a gain", _explained(subject, uses))]
    return [(head, text) for head, text in parts if text]


def settings_of(study: Mapping[str, Any]) -> str:
    """The training settings in words, with those of single tasks beside."""
    common = inline(study.get("training") or {}).replace("_", " ") or "the program's defaults"
    own = [f"{name}: {inline(one)}" for name, one in study.get("task", {}).items()]
    return f"{common}{'; ' + '; '.join(own) if own else ''}".replace("_", " ")


def caps_of(study: Mapping[str, Any]) -> str:
    """How many rows of each split are used at most, in words; nothing where all are."""
    names = {"max_train": "training", "max_val": "validation", "max_test": "test"}
    caps = [f"{study[name]} {what}" for name, what in names.items() if study.get(name)]
    return f"at most {', '.join(caps)} rows of a task" if caps else ""


def _data(subject: Subject, uses: Sequence[Use]) -> str:
    study = subject.study
    synthetic = "The texts are synthetic and say nothing about real ones. " if subject.results.is_synthetic else ""
    caps = f"; {caps_of(study)}" if caps_of(study) else ""
    text = (
        f"{synthetic}Tasks: [[StudyTasks]], of [[StudyDataSets]] data sets{keys_of(uses, DATA)}; families of data sets"
        f" that share texts or people: [[StudyFamilies]]. Splits are"
        f" {SPLITS.get(str(study['splits']), str(study['splits']))}{caps}."
    )
    missing = subject.stored.manifest["missing"] if subject.stored else {}
    return f"{text} Left out for want of data: {few(list(missing))}." if missing else text


def _printed() -> str:
    return (
        "Scores, sizes and ratings are those that the paper prints; nothing was trained for this page. Devices, hours,"
        " seeds and predictions of the transfers are not published and so not known here."
    )


def _models(subject: Subject, uses: Sequence[Use]) -> str:
    study, adapter = subject.study, dict(subject.study["adapter"])
    backbone = keys_of(uses, BACKBONE) or ("" if study["backbone"] == "random-tiny" else f" ({UNKNOWN_BACKBONE})")
    own = {name: value for name, value in _adapter(subject).items() if name != "method"}
    settings = f" ({inline(own)})".replace("_", " ") if own else ""
    text = (
        f"Every task trained an adapter of the kind {adapter['method']}{settings}{keys_of(uses, ADAPTER)} and a head on"
        f" the frozen backbone {study['backbone']}{backbone}, with the adapters library"
        f"{keys_of(uses, TRAINING, 'adapters library')}."
    )
    if study.get("transfers", True):
        text += f" {COMPOSITIONS[str(study.get('composition', 'stack'))]}"
    return f"{text}{_of_others(subject)}"


def _of_others(subject: Subject) -> str:
    """Which adapters of others targets stand on; nothing where none do."""
    if not subject.imports:
        return ""
    named = [f"{name} ({spec['adapter']['method']}, {origin_of(spec)})" for name, spec in subject.imports.items()]
    return (
        f" Targets were also trained on frozen adapters that others have trained: {', '.join(named)}. What those"
        " learned from the records do not know."
    )


def _adapter(subject: Subject) -> Mapping[str, Any]:
    """The adapter with its settings as the first record has them, or as the study says."""
    records = subject.stored.records if subject.stored else ()
    found: Mapping[str, Any] = next((one.spec["adapter"] for one in records if "adapter" in one.spec), {})
    return found or {name: value for name, value in subject.study["adapter"].items() if value is not None}


def _training(subject: Subject, uses: Sequence[Use]) -> str:
    study = subject.study
    text = (
        f"Training used AdamW{keys_of(uses, TRAINING, 'AdamW')} with a rate that falls linearly to 0 after any warm-up"
        f" ({settings_of(study)}); the epoch with the best validation score was kept.{_searched(study, uses)}"
        f" Texts were cut to {study.get('max_tokens', '(not known)')} tokens;"
        f" precision {study.get('precision', 'fp32')}."
        f" Seeds: {inline(study['seeds'])}"
    )
    if study.get("baseline_seeds"):
        text += f"; of targets alone: {inline(study['baseline_seeds'])}"
    hours = (
        "Of [[StudyCellsPlanned]] planned trainings [[StudyCellsFinished]] are finished; they took [[StudyHours]] hours"
        " of computing, each training of a shared pack counting its share."
    )
    return f"{text}. {hours}"


def _searched(study: Mapping[str, Any], uses: Sequence[Use]) -> str:
    """Whose settings a search decided; nothing where none did."""
    if not study.get("best"):
        return ""
    searched = keys_of(uses, TRAINING, "search of settings")
    return f" Searches on validation rows{searched} decided the settings of {', '.join(study['best'])}."


def _tests(subject: Subject, uses: Sequence[Use]) -> str:
    if subject.results.gains.p.isna().all():
        return (
            "A gain is the score of a transfer less that of its target alone. No gain has a p value: predictions are"
            " not there."
        )
    names = ("resampled groups of test rows", "degrees of freedom of intervals", "correction (false discovery rate)")
    group, freedom, rate = (keys_of(uses, STATISTICS, name) for name in names)
    return (
        "A gain is the score of a transfer less that of its target alone on the same test items, in points (x 100)."
        f" Intervals and p values come from [[StudyDraws]] paired draws of whole groups of test items{group}; where"
        f" there are several seeds, their spread is added{freedom}. Over the [[StudyPairsTested]] gains that have a p,"
        f" p values were corrected for the false discovery rate{rate}; other corrections stand beside them"
        f"{keys_of(uses, STATISTICS, 'correction (family-wise)')}. Of these gains, [[StudySignificantGains]] are"
        " significantly above and [[StudySignificantHarms]] below the target alone."
    )


def _explained(subject: Subject, uses: Sequence[Use]) -> str:
    rated = ""
    if len(subject.results.ratings):
        rated = (
            "Raters ([[StudyRaters]]) judged every task; agreement is Krippendorff's alpha"
            f"{keys_of(uses, STATISTICS, 'agreement of raters')}. "
        )
    reason = subject.why_not_guarded()
    if reason is not None:
        return f"{rated}What explains gains for families of tasks that were left out cannot be said: {reason}."
    text = (
        f"{rated}What explains gains was asked for families of tasks that were left out: a ridge regression"
        f"{keys_of(uses, STATISTICS, GUARDED)} on gains centred by target, one feature dropped at a time,"
        " tested against facts handed round among tasks and among families."
    )
    if beside := keys_of(uses, STATISTICS, PAPERS_WAY):
        text += f" Importances in the paper's way{beside}, a fit in the sample, are given beside it."
    return f"{text} {subject.question.primary.line().split('; hash')[0]}."
