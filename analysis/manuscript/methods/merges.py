"""The Methods paragraph on merged intermediates: what rows there are, by which rule, of which parents, and their tests.

What a row is stands in the manifest, in the recipe of its cells and in the study's table of it, so that a row is told
whether or not its cells are finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from analysis.manuscript.references import MERGING, OVER_ROWS, STATISTICS, Use, keys_of
from analysis.manuscript.subject import Subject
from analysis.tables import few, percent
from tasks.plain_text import counted

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
    return " ".join([_opening(subject), *_rows(subject, uses), *_conditions(subject), *_tests(subject, uses)])


def _opening(subject: Subject) -> str:
    """What merged rows are, and how many there are."""
    rows, is_shared = counted(len(subject.recipes), "row"), subject.study.get("start") == "shared"
    start = " All adapters of a seed started from the same weights." if is_shared else ""
    return (
        "Beside single intermediates, targets were trained on the adapters of several tasks, their parents, made into"
        f" one ({rows} of merged intermediates).{start}"
    )


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
