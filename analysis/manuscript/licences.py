"""What of a study's data may be shared, as far as the licences say that its entries state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from adapters_store.record import imports_of
from analysis.gains.cells import Manifest
from analysis.manuscript.subject import Subject
from analysis.sections.blocks import Heading, Section, Table, Text, markdown, table

UNKNOWN = "not known: read the licence"
RULES = {  # by how a licence begins, in small letters; the longer beginning stands first
    "on request": "no: ask its authors",
    "unstated": "nothing is granted: share ids, not texts, or ask its authors",
    "cc-by-nc-sa": "yes, naming its authors, not commercially, under the same licence",
    "cc-by-nc-nd": "yes, unchanged, naming its authors, not commercially",
    "cc-by-nc": "yes, naming its authors, not commercially",
    "cc-by-sa": "yes, naming its authors, under the same licence",
    "cc-by": "yes, naming its authors",
    "cc0": "yes",
    "mit": "yes, with the text of the licence",
    "apache-2.0": "yes, with the text of the licence and notices",
    "academic research only": "for academic research only",
}
WHOLE = {"unstated; withdrawn": "no: withdrawn by its author"}  # of several parts that make one
PRIVATE = "no: private, neither texts nor ids"
NOTE = (
    "Scores, gains and other numbers of this study hold no text and may be shared; predictions hold ids and labels and"
    " go with their data. Whether a trained adapter is bound by the licence of its data is not settled: ask before you"
    " publish one that was trained on data that are not free. This table repeats what the entries state; it is no"
    " legal advice."
)
SYNTHETIC = "The texts of this study are synthetic: no data set was read, and so none of their licences binds it."


class Licence(NamedTuple):
    """A data set with its tasks, its licence as stated, what that says about sharing, and where it comes from."""

    data_set: str
    tasks: str
    licence: str
    may_be_shared: str
    url: str


def licences(subject: Subject) -> list[Licence]:
    """One row per data set of a study, in the order of tasks; none for made-up texts."""
    if subject.results.is_synthetic:
        return []
    rows: dict[str, Licence] = {}
    for task in subject.results.tasks.itertuples():
        known, fact = subject.datasets.get(task.task), subject.tasks.get(task.task, {})
        name = known.title if known else str(task.dataset)
        licence = str(fact.get("licence", known.licence if known else "")) or "unstated"
        is_private = bool(fact.get("private", known.private if known else False))
        tasks = f"{rows[name].tasks}, {task.title}" if name in rows else str(task.title)
        rule = PRIVATE if is_private else sharing(licence)
        rows[name] = Licence(name, tasks, licence, rule, known.url if known else "")
    return list(rows.values())


def sharing(licence: str) -> str:
    """What a licence says about sharing texts and labels, part by part; read the licence where no rule knows it."""
    if whole := _rule(licence, WHOLE):
        return whole
    parts = [part.strip() for part in licence.split(";")]
    rules_by_part = {part: _rule(part, RULES) or UNKNOWN for part in parts}
    if len(rules_by_part) == 1:
        return next(iter(rules_by_part.values()))
    return "; ".join(f"{part}: {rule}" for part, rule in rules_by_part.items())


def as_markdown(rows: list[Licence]) -> str:
    """The table with what has to be known beside it; without rows, that there is nothing to ask."""
    if not rows:
        return f"# Licences\n\n{SYNTHETIC}\n"
    head = ("data set", "tasks", "licence as stated", "may texts and labels be shared", "where")
    return markdown([Section("", [Heading("Licences"), Table(head, rows), Text(NOTE)])])


def _rule(licence: str, rules: Mapping[str, str]) -> str:
    """What the first rule says whose beginning the licence has; nothing if none does."""
    return next((rule for start, rule in rules.items() if licence.lower().startswith(start)), "")


# The licences of a study's data sets, as its manifest has them, and what they say about sharing, as a page.

HEAD = (
    "# Licences of the data\n\nNo text of any data set is in this archive. Ids, labels and predictions of test and"
    " validation items are, and go with their data."
)
MADE_UP = "The texts of this study were made up; the licences are those of the data sets whose form they have."
BROUGHT = (
    "Cells stand on adapters of others: {names}. Their weights are {place} this archive. Where they came from their"
    " records say (`origin` in `record.json`); under which licence, and what they were trained on, is not known here."
)
COLUMNS = ("data set", "tasks", "licence as stated", "may texts and labels be shared")


def licences_page(manifest: Manifest, *, has_weights: bool = False) -> str:
    """One row per data set and licence of a study, for an archive that has weights or none."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name, task in manifest["tasks"].items():
        rows.setdefault((str(task["dataset"]), str(task.get("licence") or "unstated")), []).append(name)
    body = [(data, ", ".join(tasks), licence, sharing(licence)) for (data, licence), tasks in rows.items()]
    parts = [HEAD, *([MADE_UP] if manifest["synthetic"] else []), table(COLUMNS, body)]
    if brought := sorted(imports_of(manifest)):
        parts.append(BROUGHT.format(names=", ".join(brought), place="in" if has_weights else "not in"))
    return "\n\n".join(parts) + "\n"
