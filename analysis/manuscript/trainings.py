"""How the cells of a study were trained and merged, in sentences whose facts are those of the finished records.

A sentence whose fact no record holds is left out: what nobody wrote down is not guessed. Settings that differ between
tasks are named with their tasks. What a merged row is stands in the manifest, in the recipe of its cells and in the
study's table of it, so that a row is told whether or not its cells are finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from adapters_store.record import Record
from adapters_store.roles import CONTROL, RANDOM, SELF, SHUFFLED, WHOLE_MODELS
from analysis.manuscript.frames import Subject
from analysis.manuscript.references import (
    ADAPTER,
    BACKBONE,
    DEFERRED,
    LOSSES,
    MERGING,
    OVER_ROWS,
    STATISTICS,
    TRAINING,
    Use,
    keys_of,
    origin_of,
)
from analysis.sections.in_short import seeds_of
from analysis.tables import few, inline, percent
from tasks.plain_text import counted

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
    ]
    return " ".join(filter(None, parts))


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
    parts = [
        f"Training used AdamW{keys_of(uses, TRAINING, 'AdamW')}: {_schedule(subject)}.",
        settings_of(subject, "{}."),
        kept_epoch,
        _search_sentence(subject.study, uses),
        losses_of(subject, uses),
        _weights(subject),
        _retry_sentence(subject),
        *_trainers(subject, uses),
        *_noise(subject),
        *(FORMATS[form] for form in _values(subject, lambda spec: spec.get("input_format")) if form in FORMATS),
        *_cuts(subject),
        _fact_sentence(_values(subject, lambda spec: spec.get("precision")), "Computing precision: {}."),
        f"Cells were trained with {words(planned)}{alone}.{some}",
        _shares(subject.study),
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
    said = []
    for name, words in SETTINGS.items():
        values = _values(subject, partial(_setting, name=name), "{:g}".format)
        is_without = name == "weight_decay" and list(values) == ["0"]
        said.append("no weight decay" if is_without else _fact_sentence(values, words))
    text = "; ".join(filter(None, said))
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
    records = subject.stored.records if subject.stored else ()
    return [record for record in records if record.spec.get("role") not in WHOLE_MODELS]


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
        own = {name: value for name, value in adapter.items() if name != "method" and value is not None}
        settings = f" ({inline(own)})".replace("_", " ") if own else ""
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


def _search_sentence(study: Mapping[str, Any], uses: Sequence[Use]) -> str:
    """Whose settings a search decided; nothing where none did."""
    if not study.get("best"):
        return ""
    searched = keys_of(uses, TRAINING, "search of settings")
    return f"Searches on validation rows{searched} decided the settings of {', '.join(study['best'])}."


def _weights(subject: Subject) -> str:
    """Whose classes were weighed in the loss; nothing where all rows count alike."""
    values = _values(subject, lambda spec: spec.get("class_weights"))
    tasks = values.get("balanced")
    return f"Classes were weighed in the loss by the inverse of their frequency: {', '.join(tasks)}." if tasks else ""


def _retry_sentence(subject: Subject) -> str:
    """How often a training that came to nothing was repeated; nothing where the study does not ask for it."""
    asked = [record for record in records_of(subject) if record.spec.get("retry_collapsed")]
    if not asked:
        return ""
    again = sum("retried" in record.results for record in asked)
    return (
        "A training that came to nothing on validation rows was repeated once at a third of its learning rate, which"
        f" happened to {again} of {len(asked)}."
    )


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
    history, text = (_cut_of(subject, shares[part]) for part in ("cut_history", "cut_target"))
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


def _cut_of(subject: Subject, shares: Any) -> str:  # noqa: ANN401 - a column of shares by target
    named = [f"{percent(share)} of {subject.results.title(target)}" for target, share in shares.items() if share > 0]
    return ", ".join(named)


def _shares(study: Mapping[str, Any]) -> str:
    shares = [setting for setting in study.get("settings", ()) if setting != "full"]
    if not shares:
        return ""
    return f"Targets were also trained on a share of their training rows ({', '.join(shares)}), intermediates on all."


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
    return " ".join([opening, *_rows(subject, uses), *_conditions(subject), *_tests(subject, uses)])


def _rows(subject: Subject, uses: Sequence[Use]) -> Iterator[str]:
    """What was done for each row, and with whose adapters."""
    tables = subject.study.get("merged", {})
    for name, recipe in subject.recipes.items():
        table, rule = tables.get(name, {}), recipe["rule"]
        parts = [f"{RULES[rule](recipe)}{keys_of(uses, MERGING, rule)}", f"parents: {_parents(subject, table)}"]
        parts += _counting(recipe)
        if targets := table.get("targets"):
            parts.append(f"targets: {_titles(subject, targets)}")
        yield f"Row {name}: {'; '.join(parts)}."


def _parents(subject: Subject, table: Mapping[str, Any]) -> str:
    parents = table.get("parents", OTHERS)
    return PARENTS[parents] if isinstance(parents, str) else _titles(subject, parents)


def _titles(subject: Subject, tasks: Sequence[str]) -> str:
    return ", ".join(str(subject.tasks.get(task, {"title": task})["title"]) for task in tasks)


def _counting(recipe: Recipe) -> Iterator[str]:
    """How many of the parents count, chosen by what, and how much each."""
    if "best" in recipe:
        by, best = recipe["by"], int(recipe["best"])
        which, counts = (f"the {best}", "count") if best > 1 else ("the single parent", "counts")
        if by == VALIDATION:
            how = "the target, with the same seed and share of data, scored highest on validation rows"
            yield f"of these only {which} on which {how} {counts}"
        else:
            yield f"of these only {which} most like the target by {_named(by)} {counts}"
    weights = recipe["weights"]
    if weights != EQUAL:
        yield f"each counts in proportion to its {_named(weights)} to the target"


def _named(similarity: Mapping[str, Any]) -> str:
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


def _tests(subject: Subject, uses: Sequence[Use]) -> Iterator[str]:
    """What merged rows were held against, and what they take no part in."""
    controls = {"random": "an untrained adapter", "self": "the target itself, trained with another seed"}
    asked = subject.study.get("controls") or ()
    against = [
        "the single intermediate with the best validation score of the same seed",
        "the mean of all single ones",
        *(what for name, what in controls.items() if name in asked),
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
