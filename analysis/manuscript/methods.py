"""The Methods paragraphs of a study, as far as its records tell, and answers to what reproducibility checklists ask.

Numbers and references stand in paragraphs by name. A sentence whose fact no record holds is left out: what nobody wrote
down is not guessed. Settings that differ between tasks are named with their tasks. What a merged row is stands in the
manifest, in the recipe of its cells, so that a row is told whether or not its cells are finished.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from adapters_store.record import Record
from adapters_store.roles import CONTROL, RANDOM, SELF, SHUFFLED, WHOLE_MODELS
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.manuscript.frames import NO_TRANSFER, Subject
from analysis.manuscript.references import (
    ADAPTER,
    BACKBONE,
    DATA,
    DEFERRED,
    DESIGN,
    LOSSES,
    MERGING,
    MIXED,
    OVER_ROWS,
    OVER_SEEDS,
    OVER_SYSTEMS,
    PAPERS_WAY,
    RESAMPLED,
    STATISTICS,
    SYSTEM,
    TRAINING,
    Use,
    keys_of,
    origin_of,
)
from analysis.results.leaderboard import has_systems
from analysis.sections.in_short import seeds_of
from analysis.tables import few, inline, percent, tally
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
        text = (
            "Scores, sizes and ratings are those that the paper prints; nothing was trained for this page. Devices,"
            " hours, seeds and predictions of the transfers are not published and so not known here."
        )
        parts.append(("Source of the scores", text))
    else:
        parts += [("Models", models(subject, uses)), ("Training", training(subject, uses))]
    parts += [("Gains and tests", _tests(subject, uses)), ("Merged intermediates", merges(subject, uses))]
    parts += [("What explains a gain", _explanation(subject, uses))]
    return [(head, text) for head, text in parts if text]


def caps_of(study: Mapping[str, Any]) -> str:
    """How many rows of each split are used at most, in words after a semicolon; nothing where all are."""
    names = {"max_train": "training", "max_val": "validation", "max_test": "test"}
    caps = [f"{study[name]} {noun}" for name, noun in names.items() if study.get(name)]
    return f"; at most {', '.join(caps)} rows of a task" if caps else ""


def _data(subject: Subject, uses: Sequence[Use]) -> str:
    study = subject.study
    splits = SPLITS.get(str(study["splits"]), str(study["splits"]))
    text = (
        f"Tasks: [[StudyTasks]], of [[StudyDataSets]] data sets{keys_of(uses, DATA)}; families of data sets that share"
        f" texts or people: [[StudyFamilies]]. Splits are {splits}{caps_of(study)}. Transfers between tasks, themes and"
        f" ratings follow an earlier design{keys_of(uses, DESIGN)}."
    )
    if subject.results.is_synthetic:
        text = f"The texts are synthetic, made in the forms of these data sets, and say nothing about real ones. {text}"
    folds = [f"{task['title']} ({task['folds']})" for task in subject.tasks.values() if task.get("folds")]
    if folds:
        text += f" Tasks whose rows were all tested, in so many folds: {', '.join(folds)}."
    missing = subject.stored.manifest["missing"] if subject.stored else {}
    return f"{text} Left out for want of data: {few(list(missing))}." if missing else text


def _tests(subject: Subject, uses: Sequence[Use]) -> str:
    tested = subject.results.gains[subject.results.gains.p.notna()]
    if tested.empty:
        gain = "A gain is the score of a transfer less that of its target alone. Single gains are not tested, since"
        why = NO_TRANSFER if subject.results.gains.empty else "no predictions are available"
        return f"{gain} {why}. {_tests_of_systems(subject, uses)}".strip()
    names = (RESAMPLED, "correction (false discovery rate)", "correction (family-wise)")
    group, rate, familywise = (keys_of(uses, STATISTICS, name) for name in names)
    parts = [
        "A gain is the score of a transfer less that of its target alone on the same test items, in points (x 100).",
        f"Intervals and p values come from paired draws of whole groups of test items{group}: {draws_of(subject)}.",
        _over_seeds(subject, uses),
        "Over the [[StudyPairsTested]] gains that have a p, p values were corrected for the false discovery"
        f" rate{rate}; other corrections stand beside them{familywise}. Of these gains, [[StudySignificantGains]] are"
        " significantly above and [[StudySignificantHarms]] below the target alone; onto the [[StudyTargetsLearned]]"
        " targets that have learned (above the floor, not below words, not best at the last epoch), without collapsed"
        " and contaminated pairs, [[StudyCountedGains]] and [[StudyCountedHarms]].",
        _tests_of_systems(subject, uses),
    ]
    return " ".join(filter(None, parts))


def _tests_of_systems(subject: Subject, uses: Sequence[Use] = ()) -> str:
    """How the leaderboard tests systems; nothing for a study without one."""
    if subject.stored is None or not has_systems(subject.stored.manifest):
        return ""
    how = f"by paired draws of whole groups of test items{keys_of(uses, STATISTICS, RESAMPLED)}"
    if subject.study.get("protocol", {}).get("repeats", 1) > 1:
        how = "over repeated splits with the variance of Nadeau and Bengio (2003)"
    return (
        f"On the leaderboard all ways to solve a target are tested against each other {how}; p values are corrected"
        f" for all pairs of a target by the step-down maximum{keys_of(uses, STATISTICS, OVER_SYSTEMS)}."
    )


def draws_of(subject: Subject) -> str:
    """How many draws are behind a gain, and of how many gains they are more."""
    if subject.stored is None:
        return "[[StudyDraws]]"
    draws = subject.stored.gains.draws[subject.stored.gains.p.notna()]
    if draws.min() == draws.max():
        return "[[StudyDraws]] of each gain"
    return (
        "[[StudyDraws]], and [[StudyDrawsMost]] of the [[StudyGainsDrawnMore]] gains whose significance [[StudyDraws]]"
        " left within Monte Carlo error"
    )


def _over_seeds(subject: Subject, uses: Sequence[Use]) -> str:
    """What intervals and p values hold for: single runs, or what varies between seeds."""
    if subject.stored is None:
        return ""
    gains = subject.stored.gains[subject.stored.gains.p.notna()]
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
    if keys := keys_of(uses, STATISTICS, PAPERS_WAY):
        text += f" Importances by the paper's procedure{keys}, a fit in the sample, are given beside it."
    return f"{text} {subject.question.primary.line().split('; hash')[0]}."


NOT_PRINTED = "Not known: the paper's tables do not say it, and nothing was trained here."
NO_RECORD = "Not known: no finished cell says it."
Answer = tuple[str, str]


def checklist(subject: Subject) -> list[Answer]:
    """Questions with their answers."""
    parts = (_data_answers, _computing, _settings, _statistics, _limits)
    return [answer for part in parts for answer in part(subject)]


def _data_answers(subject: Subject) -> Iterator[Answer]:
    study, results = subject.study, subject.results
    metrics = ", ".join(METRIC_NAMES[metric] for metric in dict.fromkeys(results.tasks.metric))
    facts = "sizes" if results.is_synthetic else "sizes, languages and licences"
    yield "Which data?", f"[[StudyTasks]] tasks of [[StudyDataSets]] data sets; {facts} in a table."
    yield "Which splits?", f"{study['splits']}; rows of every split in a table{caps_of(study)}."
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
    backbones = (record.spec["backbone"] for record in records if "backbone" in record.spec)
    none = NO_RECORD if subject.stored else NOT_PRINTED
    questions = {
        "On which devices?": (record.provenance["device"] for record in records),
        "With which packages?": (inline(record.provenance["versions"]) for record in records),
        "With which code?": (record.provenance["code"] for record in records),
        "Which weights of the backbone (sha256)?": (backbone["weights_sha256"] for backbone in backbones),
    }
    for question, answers in questions.items():
        yield question, tally(answers, "training", none)
    hours = (
        "[[StudyHours]] hours of wall clock in all, [[StudyProcessorHours]] of processor time, for"
        " [[StudyCellsFinished]] finished of [[StudyCellsPlanned]] planned trainings."
    )
    yield "How long did it compute?", hours if records else none
    sizes = (
        "[[StudyTrainedParametersLeast]] to [[StudyTrainedParametersMost]] trained ones in an adapter and its head;"
        " those of the frozen backbone are not in the records."
    )
    yield "How many parameters?", sizes if any("trainable_parameters" in record.results for record in records) else none


def _settings(subject: Subject) -> Iterator[Answer]:
    study = subject.study
    if subject.stored is None:
        text = "Epochs, batch sizes and rates of the paper's Table 4 (data/table-4-training.csv)."
        yield "Which training settings?", text
        yield "Which seeds?", NOT_PRINTED
        yield "Which search space?", NOT_PRINTED
        return
    settings = settings_of(subject, "{}; per task in data/table-4-training.csv.")
    text = " ".join(filter(None, [settings, losses_of(subject)]))
    yield "Which training settings?", text or NO_RECORD
    alone = f"; of targets alone {inline(study['baseline_seeds'])}" if study.get("baseline_seeds") else ""
    yield "Which seeds?", f"{inline(study['seeds'])}{alone}."
    spaces = [
        f"{search['task']}{' on ' + search['intermediate'] if search.get('intermediate') else ''}:"
        f" {inline(search['inputs']['space'])},"
        f" {len(search['trials'])} trials, chosen on validation rows"
        for search in subject.searches
    ]
    no_search = "No search of this study is in the store: settings are those of the study and entries."
    yield "Which search space?", "; ".join(spaces) or no_search
    adapter = {name: value for name, value in study["adapter"].items() if value is not None}
    inputs = {"input format": study.get("input_format"), "tokens at most": study.get("max_tokens")}
    text = f"{inline(adapter)}; {inline(inputs)}; precision {study.get('precision', 'fp32')}."
    yield "Which adapter and input?", text


def _statistics(subject: Subject) -> Iterator[Answer]:
    text = "Single gains are not tested."
    if subject.results.gains.p.notna().any():
        text = f"Two-sided, paired draws of groups of test items ({draws_of(subject)}); Benjamini and Hochberg over"
        text += " [[StudyPairsTested]] gains; effects and intervals are given beside p values."
    yield "Which tests?", f"{text} {_tests_of_systems(subject)}".strip()
    yield "What was declared beforehand?", subject.question.primary.line()


def _limits(subject: Subject) -> Iterator[Answer]:
    failed = (
        "[[StudyCollapsedPairs]] pairs have a collapsed run, their own or the target's; [[StudyContaminatedPairs]] were"
        " tested on training material; they are kept and marked. [[StudyPairsFinished]] of [[StudyPairsPlanned]] pairs"
        " are finished."
    )
    yield "What failed?", failed
    for limit in subject.question.limits:
        yield "What cannot be known?", limit


# How cells were trained and merged, in sentences whose facts are those of the finished records.

Spec = Mapping[str, Any]
Values = dict[str, list[str]]  # a fact in words, and the titles of the tasks that it holds for

UNKNOWN_BACKBONE = "The records do not name a publication for it."
COMPOSITIONS = {
    "stack": "For a transfer, the adapter of the intermediate task was frozen and the target's adapter was stacked on"
    " it; only the target's adapter and head were trained.",
    "stack-trainable": "For a transfer, the target's adapter was stacked on that of the intermediate task, and both"
    " were trained.",
    "sequential": "For a transfer, the target's adapter started from the weights of the intermediate's and was trained"
    " on, under a new head.",
}
CONTROLS = {
    SELF: "the target's own adapter of another seed",
    SHUFFLED: "an adapter trained on the target's texts with permuted labels",
    RANDOM: "an adapter that was not trained",
    CONTROL: "adapters of tasks that stand for none of the study's",
}
FORMATS = {
    "pair": "A row's earlier turns are the first segment of its input and its text is the second; a row without earlier"
    " turns is one segment.",
    "tags": "Roles and the text to be judged were marked by words in the input, as in the paper.",
}
KEPT = {"head": "their first tokens", "tail": "their last tokens", "head+tail": "their first and last tokens"}
SETTINGS = {
    "epochs": "epochs: {}",
    "batch_size": "rows in a batch: {}",
    "learning_rate": "learning rate: {}",
    "weight_decay": "weight decay: {}",
    "clip": "gradients clipped to a norm of {}",
}


def models(subject: Subject, uses: Sequence[Use]) -> str:
    """What was trained, on which backbone, and how a transfer stands on its intermediate."""
    study = subject.study
    backbone = keys_of(uses, BACKBONE) or ("" if study["backbone"] == "random-tiny" else f" ({UNKNOWN_BACKBONE})")
    parts = [
        f"For every task an adapter{_adapters(subject, uses)} and a head were trained on the frozen backbone"
        f" {study['backbone']}{backbone}.",
        _sizes(subject),
        *(
            COMPOSITIONS[composition]
            for composition in _values(subject, lambda spec: spec.get("composition"))
            if composition in COMPOSITIONS
        ),
        _of_others(subject),
        _controls(subject),
        _references(subject),
        _systems(uses),
    ]
    return " ".join(filter(None, parts))


def _systems(uses: Sequence[Use]) -> str:
    """Which systems beside adapters were given the same rows, with who proposed them."""
    named = [f"{use.name}{keys_of(uses, SYSTEM, use.name)}" for use in uses if use.kind == SYSTEM]
    return f"Systems other than adapters were given the same rows: {', '.join(named)}." if named else ""


def training(subject: Subject, uses: Sequence[Use]) -> str:
    """How it was trained: optimizer, settings, implementation, input, seeds, and what it took."""
    several = any(record.spec.get("training", {}).get("epochs", 0) > 1 for record in records_of(subject))
    kept_epoch = "The weights of the epoch with the best validation score were kept." if several else ""
    # The seeds that are planned, and how many of them transfers have while these are not all.

    def words(seeds: Sequence[int]) -> str:
        return f"{'seed' if len(seeds) == 1 else 'seeds'} {inline(list(seeds))}"

    planned, more = list(subject.study["seeds"]), list(subject.study.get("baseline_seeds") or ())
    alone = f"; targets alone with {words(more)}" if more and more != planned else ""
    finished = seeds_of(subject.stored.gains) if subject.stored else ""
    some = "" if finished in ("", str(len(planned))) else f" A transfer has {finished} of them so far."
    best, searched = subject.study.get("best"), keys_of(uses, TRAINING, "search of settings")
    weighed = _values(subject, lambda spec: spec.get("class_weights")).get("balanced")
    less = [setting for setting in subject.study.get("settings", ()) if setting != "full"]
    may_retry = [record for record in records_of(subject) if record.spec.get("retry_collapsed")]
    parts = [
        f"Training used AdamW{keys_of(uses, TRAINING, 'AdamW')}: {_schedule(subject)}.",
        settings_of(subject, "{}."),
        kept_epoch,
        f"Searches on validation rows{searched} decided the settings of {', '.join(best)}." if best else "",
        losses_of(subject, uses),
        f"Classes were weighed in the loss by the inverse of their frequency: {', '.join(weighed)}." if weighed else "",
        "A training that came to nothing on validation rows was repeated once at a third of its learning rate, which"
        f" happened to {sum('retried' in record.results for record in may_retry)} of {len(may_retry)}."
        if may_retry
        else "",
        *_trainers(subject, uses),
        *_noise(subject),
        *(FORMATS[form] for form in _values(subject, lambda spec: spec.get("input_format")) if form in FORMATS),
        *_cuts(subject),
        _fact_sentence(_values(subject, lambda spec: spec.get("precision")), "Computing precision: {}."),
        f"Cells were trained with {words(planned)}{alone}.{some}",
        f"Targets were also trained on a share of their training rows ({', '.join(less)}), intermediates on all."
        if less
        else "",
        "Of [[StudyCellsPlanned]] planned trainings [[StudyCellsFinished]] are finished"
        + (
            "; they took [[StudyHours]] hours, each training of a shared pack counting its share."
            if records_of(subject)
            else "."
        ),
    ]
    return " ".join(filter(None, parts))


def settings_of(subject: Subject, form: str = "{}") -> str:
    """The settings as trained, put into ``form``; nothing where no record has them."""
    clauses = []
    for name, words in SETTINGS.items():
        values = _values(subject, partial(_setting, name=name), "{:g}".format)
        is_without = name == "weight_decay" and list(values) == ["0"]
        clauses.append("no weight decay" if is_without else _fact_sentence(values, words))
    text = "; ".join(filter(None, clauses))
    return form.format(text[0].upper() + text[1:]) if text else ""


def losses_of(subject: Subject, uses: Sequence[Use] = ()) -> str:
    """What was minimised, by task, with who proposed it; nothing where every task has the usual loss."""
    if not any("loss" in record.spec for record in records_of(subject)):
        return ""
    return _fact_sentence(_values(subject, lambda spec: spec, partial(_loss, uses=uses)), "Loss of a row: {}.")


def _loss(spec: Spec, uses: Sequence[Use]) -> str:
    """The loss of a cell in words."""
    if "loss" not in spec:
        return "squared error" if spec.get("label", {}).get("kind") == "continuous" else "cross-entropy"
    numbers = {name.replace("_", " "): f"{value:g}" for name, value in spec["loss"].items() if name != "kind"}
    epoch, beta = numbers.pop("deferred from", ""), numbers.pop("beta", "")
    name, _ = LOSSES[spec["loss"]["kind"]]
    words = f"{name} at {inline(numbers)}{keys_of(uses, TRAINING, name)}"
    if not epoch:
        return words
    cited = keys_of(uses, TRAINING, DEFERRED[0])
    return f"{words}, from epoch {epoch} on with classes weighed by effective numbers of rows at beta {beta}{cited}"


def _setting(spec: Spec, name: str) -> Any:  # noqa: ANN401 - a setting is a number of some kind
    return spec.get("training", {}).get(name)


def records_of(subject: Subject) -> Sequence[Record]:
    """The finished records of adapters; a whole model that was trained beside them is a reference, not one of them."""
    return subject.stored.adapters if subject.stored else ()


def _values(subject: Subject, read: Callable[[Spec], Any], words: Callable[[Any], str | None] = str) -> Values:
    """What records say of a fact, in words, with the titles of their targets; a fact that is null is none."""
    values: Values = {}
    names = dict(zip(subject.results.tasks.task, subject.results.tasks.title, strict=True))
    for record in records_of(subject):
        value = read(record.spec)
        if value is not None and (text := words(value)):
            titles = values.setdefault(text, [])
            title = names.get(record.spec["target"], record.spec["target"])
            titles += [] if title in titles else [title]
    return values


def _fact_sentence(values: Values, form: str) -> str:
    """One fact as it is, several each with its tasks; nothing where there is none."""
    if not values:
        return ""
    each = [f"{text} ({', '.join(titles)})" for text, titles in values.items()]
    return form.format(next(iter(values)) if len(values) == 1 else ", ".join(each))


def _adapters(subject: Subject, uses: Sequence[Use]) -> str:
    """The methods with their settings, as they were trained or, where no record says it, as the study has them."""

    def words(adapter: Mapping[str, Any]) -> str:
        options = {name: value for name, value in adapter.items() if name != "method" and value is not None}
        settings = f" ({inline(options)})".replace("_", " ") if options else ""
        return f"{adapter['method']}{settings}"

    values = _values(subject, lambda spec: spec.get("adapter"), words) or {words(subject.study["adapter"]): []}
    return f" of the kind {_fact_sentence(values, '{}')}{keys_of(uses, ADAPTER)}"


def _sizes(subject: Subject) -> str:
    sizes = {record.results.get("trainable_parameters") for record in records_of(subject)} - {None}
    if not sizes:
        return ""
    least, most = "[[StudyTrainedParametersLeast]]", "[[StudyTrainedParametersMost]]"
    return f"A cell trains {least if len(sizes) == 1 else f'{least} to {most}'} parameters."


def _of_others(subject: Subject) -> str:
    """Which adapters of others targets stand on; nothing where none do."""
    if not subject.imports:
        return ""
    named = [f"{name} ({spec['adapter']['method']}, {origin_of(spec)})" for name, spec in subject.imports.items()]
    return (
        f"Targets were also trained on frozen adapters that others have trained: {', '.join(named)}. What those"
        " learned from the records do not know."
    )


def _controls(subject: Subject) -> str:
    # The roles of finished cells.
    frame = subject.stored.cells if subject.stored else None
    roles = set() if frame is None else set(frame.role[frame.status == "done"])
    named = [meaning for role, meaning in CONTROLS.items() if role in roles]
    return (
        f"As controls, which no count of gains holds, targets were trained on {'; on '.join(named)}." if named else ""
    )


def _references(subject: Subject) -> str:
    records = subject.stored.records if subject.stored else ()
    rates = {record.spec["training"]["learning_rate"] for record in records if record.spec.get("role") in WHOLE_MODELS}
    if not rates:
        return ""
    return (
        "As a reference, which no gain is taken against, whole models were trained on targets at a learning rate of"
        f" {', '.join(f'{rate:g}' for rate in sorted(rates))}."
    )


def _schedule(subject: Subject) -> str:
    def words(warmup: float) -> str:
        if not warmup:
            return "the learning rate fell linearly to 0"
        return (
            f"the learning rate rose linearly over the first {percent(warmup)} of the steps and then fell linearly to 0"
        )

    values = _values(subject, partial(_setting, name="warmup"), words)
    return _fact_sentence(values, "{}") or "the learning rate fell linearly to 0 at the last step"


def _trainers(subject: Subject, uses: Sequence[Use]) -> Iterator[str]:
    """By what implementation cells were trained, one sentence for each that was."""
    # Rows that no lane can train are told of where they are described (merges).
    trainers = _values(subject, lambda spec: None if "merge" in spec else spec.get("trainer"))
    versions = {record.provenance["versions"].get("adapters") for record in records_of(subject)} - {None}
    version = f" {', '.join(sorted(versions))}" if versions else ""
    library = f"the adapters library{version}{keys_of(uses, TRAINING, 'adapters library')}"
    tasks = {name: f" ({', '.join(titles)})" if len(trainers) > 1 else "" for name, titles in trainers.items()}
    if "lanes" in trainers:
        yield (
            "Cells were trained with the project's own batched implementation, which trains the cells of a target"
            f" together and is checked against {library}{tasks['lanes']}."
        )
    if "library" in trainers:
        yield f"Cells were trained with {library}, one at a time{tasks['library']}."


def _noise(subject: Subject) -> Iterator[str]:
    """What the cells of a column share: known of those that were trained together."""
    specs = [record.spec for record in records_of(subject) if record.spec.get("trainer") == "lanes"]
    shared = {spec.get("shared_noise") for spec in specs}
    is_alike = all(spec.get("composition") != "sequential" for spec in specs)
    start = "start from the same weights and see" if is_alike else "see"
    cells = f"The cells of one target, seed and share of data {start} the same rows in the same order"
    if True in shared:
        yield f"{cells} under the same dropout masks, so that their differences are paired."
    if False in shared:
        yield f"{cells}, each under dropout masks of its own."


def _cuts(subject: Subject) -> Iterator[str]:
    """How long inputs may be, and which tasks' rows lost a part of them; as the report has it."""
    lengths = _values(subject, lambda spec: spec.get("max_tokens"))
    if not lengths or subject.stored is None:
        return
    yield _fact_sentence(lengths, "An input has at most {} tokens.")
    shares = subject.stored.cells.groupby("target", sort=False)[["cut_history", "cut_target"]].max()
    parts = (shares[part][shares[part] > 0] for part in ("cut_history", "cut_target"))
    named = ([f"{percent(share)} of {subject.results.title(task)}" for task, share in part.items()] for part in parts)
    history, text = map(", ".join, named)
    if shares.isna().all(axis=None):
        return
    if not history and not text:
        yield "No row was longer."
    if history:
        yield f"Of rows that were longer the earliest part of the history was left out: {history}."
    if text:
        kept = _values(subject, lambda spec: spec.get("truncation"), lambda value: KEPT.get(value))
        only = f", which kept {_fact_sentence(kept, '{}')}" if kept else ""
        yield f"Texts that were longer by themselves were cut{only}: {text}."


Recipe = Mapping[str, Any]
OTHERS, EQUAL, VALIDATION = "others", "equal", "validation"  # what recipes say where they say nothing
PARENTS = {
    OTHERS: "all other tasks of the study",
    "theme": "the other tasks of the target's theme",
    "family": "the other tasks of the target's family of data sets",
    "other families": "the tasks of other families of data sets than the target's",
}
RULES: Mapping[str, Callable[[Recipe], str]] = {  # what is done with the parents' adapters
    "outputs": lambda _: "what the parents' adapters add to a layer's output was averaged",
    "weights": lambda _: "the weights of the parents' adapters were averaged",
    "ties": lambda recipe: (
        f"of what training had changed in each parent's adapter the largest {percent(recipe['keep'])} was kept, of this"
        " what had the sign of the larger sum, and its mean was added to the common start"
    ),
    "gated": lambda _: (
        "what the parents' adapters add to a layer's output was averaged with a weight for each parent and layer, which"
        " was learned with the target"
    ),
    "fusion": lambda recipe: (
        "what the parents' frozen adapters add to a layer's output was weighed for every token by an attention that was"
        f" learned with the target, at a learning rate of {recipe['learning_rate']:g}; so it is no merge, and more"
        " parameters were trained than for any other intermediate"
    ),
    "joint": lambda _: (
        "one adapter was trained on the rows of all parents, with a head for each, and then frozen; so it is no merge,"
        " and the parents' own adapters take no part"
    ),
}
PEERS = ("fusion", "joint")


def merges(subject: Subject, uses: Sequence[Use]) -> str:
    """The paragraph; nothing for a study without merged rows."""
    if not subject.recipes:
        return ""
    # What merged rows are, and how many there are.
    rows, is_shared = counted(len(subject.recipes), "row"), subject.study.get("start") == "shared"
    start = " All adapters of a seed started from the same weights." if is_shared else ""
    opening = (
        "Beside single intermediates, targets were trained on the adapters of several tasks, their parents, made into"
        f" one ({rows} of merged intermediates).{start}"
    )
    return " ".join([opening, *_rows(subject, uses), *_conditions(subject), *_tests_of_merges(subject, uses)])


def _rows(subject: Subject, uses: Sequence[Use]) -> Iterator[str]:
    """What was done for each row, and with whose adapters."""
    tables = subject.study.get("merged", {})
    for name, recipe in subject.recipes.items():
        table, rule = tables.get(name, {}), recipe["rule"]
        parts = [f"{RULES[rule](recipe)}{keys_of(uses, MERGING, rule)}", f"parents: {_parents(subject, table)}"]
        if "best" in recipe:
            by, best = recipe["by"], int(recipe["best"])
            which, counts = (f"the {best}", "count") if best > 1 else ("the single parent", "counts")
            if by == VALIDATION:
                how = "on which the target, with the same seed and share of data, scored highest on validation rows"
            else:
                how = f"most like the target by {_noun(by)}"
            parts.append(f"of these only {which} {how} {counts}")
        if recipe["weights"] != EQUAL:
            parts.append(f"each counts in proportion to its {_noun(recipe['weights'])} to the target")
        if targets := table.get("targets"):
            parts.append(f"targets: {_titles(subject, targets)}")
        yield f"Row {name}: {'; '.join(parts)}."


def _parents(subject: Subject, table: Mapping[str, Any]) -> str:
    parents = table.get("parents", OTHERS)
    return PARENTS[parents] if isinstance(parents, str) else _titles(subject, parents)


def _titles(subject: Subject, tasks: Sequence[str]) -> str:
    return ", ".join(str(subject.tasks.get(task, {"title": task})["title"]) for task in tasks)


def _noun(similarity: Mapping[str, Any]) -> str:
    return str(similarity["similarity"]).replace("_", " ")


def _conditions(subject: Subject) -> Iterator[str]:
    """Who is never a parent, how parents were trained, and which rows could not be."""
    rules = {recipe["rule"] for recipe in subject.recipes.values()}
    if rules - {"joint"}:
        yield "Parents' adapters were those trained alone, on all their data and with the same seed."
    if peers := [rule for rule in PEERS if rule in rules]:
        yield f"Rows of the rule {' or '.join(peers)} were trained through the adapters library, one at a time."
    yield (
        "A target is never a parent of the adapter that it stands on, nor is any task that has test rows of the target"
        " among its training rows."
    )
    if left_out := (subject.stored.manifest.get("left_out") if subject.stored else None):
        yield f"Left out, since no parent is left: {few(list(left_out))}."


def _tests_of_merges(subject: Subject, uses: Sequence[Use]) -> Iterator[str]:
    """What merged rows were held against, and what they take no part in."""
    controls = {"random": "an untrained adapter", "self": "the target itself, trained with another seed"}
    planned = subject.study.get("controls") or ()
    against = [
        "the single intermediate with the best validation score of the same seed",
        "the mean of all single ones",
        *(noun for name, noun in controls.items() if name in planned),
    ]
    yield (
        f"Each was held against {', '.join(against[:-1])} and {against[-1]}, by paired differences on the same"
        " resampled groups; p values are corrected for all merged rows of a target by the largest"
        f" difference{keys_of(uses, STATISTICS, OVER_ROWS)}."
    )
    yield (
        "Merged rows are in no count, median or range of the gains of single intermediates, not among the tests whose"
        " false discovery rate is controlled, and in no analysis of what explains gains."
    )
