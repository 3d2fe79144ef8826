"""The registry: entry files, from TOML on disk to validated Task records, one per ``[[task]]`` table, and all of them.

The smallest entry has five fields:

    id = "support"
    files = ["replies.csv"]
    text = "reply"
    label = "level"
    kind = "ordinal"

The tables below give each field's type, and ``SECTIONS`` its meaning, from which the documentation is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import GenericAlias, UnionType
from typing import Any

from tasks.errors import BadEntry, UnknownTask
from tasks.plain_text import control_character, is_folder, is_inside, nearest, read_toml
from tasks.ratings import themes
from tasks.readers import READERS
from tasks.readers.rows import BESIDE, sets_of_files
from tasks.task import COMBINED, Dataset, Download, Instruction, Label, Task, why_taken

FieldType = type | UnionType | GenericAlias
TEXT_OR_LIST: FieldType = str | list
TEXT_OR_NUMBER: FieldType = str | int
TABLES: FieldType = list[dict[str, object]]

TYPES: Mapping[str, FieldType] = {  # of fields by those of the records that they fill
    "str": str,
    "bool": bool,
    "int": int,
    "int | None": int,
    "float | None": float,
    "str | int": TEXT_OR_NUMBER,
    "tuple[str, ...]": list,
    "tuple[Download, ...]": TABLES,
    "Mapping[str, object]": dict,
}


def _types(record: type, *but: str) -> dict[str, FieldType]:
    """The fields of an entry that are a record's, with their types."""
    return {part.name: TYPES[str(part.type)] for part in fields(record) if part.name not in but}


DATASET_FIELDS = _types(Dataset, "id", "title")
LABEL_FIELDS = _types(Label, "column", "columns")
COLUMN_FIELDS: Mapping[str, FieldType] = {
    **dict.fromkeys(("text", "context", "group", "block", "row_id", "rationale", "annotator", "turn", "speaker"), str),
    **dict.fromkeys(("encoding", "delimiter", "escape", "relabel_rest", "split_column"), str),
    **dict.fromkeys(("dialogues", "turns", "annotations", "annotation_text"), str),
    **dict.fromkeys(("annotators", "unique_by", "fallback_files", "drop_labels", "label_sources", "only"), list),
    **dict.fromkeys(("relabel", "split_files", "roles"), dict),
    "skip_empty": bool,
}
TASK_FIELDS = _types(Task, "dataset", "label", "columns", "instruction", "entry_file")
DOWNLOAD_FIELDS = _types(Download)
INSTRUCTION_FIELDS = _types(Instruction)
FIELDS: Mapping[str, FieldType] = {
    "label": TEXT_OR_LIST,
    "dataset": str,
    "dataset_title": str,
    "instruction": dict,
    **DATASET_FIELDS,
    **LABEL_FIELDS,
    **COLUMN_FIELDS,
    **TASK_FIELDS,
}
MANDATORY = ("id", "files", "text", "label", "kind")
TYPE_NAMES: Mapping[FieldType, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list of strings",
    dict: "a table",
    TEXT_OR_LIST: "a string or a list of strings",
    TEXT_OR_NUMBER: "a string or a whole number",
    TABLES: "a list of tables",
}
PRINTED = (  # for people, on terminals, in figures and on pages
    *("title", "description", "names", "theme", "dataset_title", "family", "language", "setting", "data_source"),
    *("licence", "access", "version", "url", "citation"),
)
ID_PATTERN = re.compile(r"[a-z0-9_]{1,100}")


def tasks_of(file: Path) -> list[Task]:
    """Every task of one entry file, in file order; BadEntry says file, field and what is allowed instead.

    A file is one dataset: its ``[[task]]`` tables share what is written above them, and the file's name as dataset
    where none is written. Of an ``[instruction]`` a task may replace single fields by its ``[task.instruction]``.
    """
    table = read_toml(file, BadEntry)
    shared = {name: value for name, value in table.items() if name != "task"}
    if "task" in table:
        shared.setdefault("dataset", file.stem)
    tables = table.get("task", [{}])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise BadEntry(f"{file}: `task` must be a list of tables; write [[task]] above each task")
    untitled = sum("title" not in table for table in tables)
    if "title" in shared and untitled > 1:
        raise BadEntry(f"{file}: `title` above [[task]] would name {untitled} tasks alike; write one below each")
    tasks = []
    for table in tables:
        entry = shared | table
        parts = (shared.get("instruction"), table.get("instruction"))
        if all(isinstance(part, dict) for part in parts):
            entry["instruction"] = parts[0] | parts[1]
        tasks.append(_task_of(entry, str(file)))
    return tasks


def _task_of(entry: Mapping[str, Any], file: str) -> Task:
    """Build one task from its merged fields."""
    _check_fields(entry, file)
    name = entry.get("dataset", entry["id"])
    of_dataset = {"family": name} | _pick(entry, DATASET_FIELDS)
    of_label = _pick(entry, LABEL_FIELDS)
    columns = entry["label"]
    if entry.get("annotator") and isinstance(columns, str):
        of_label = {"columns": (columns,), "combine": COMBINED.get(entry["kind"], "")} | of_label
    elif not isinstance(columns, str):
        of_label["columns"] = tuple(columns)
        columns = ", ".join(columns)
    try:
        of_dataset["downloads"] = tuple(_download(download) for download in of_dataset.get("downloads", ()))
        task = Task(
            dataset=Dataset(id=name, title=entry.get("dataset_title", name), **of_dataset),
            label=Label(column=columns, **of_label),
            columns=_pick(entry, COLUMN_FIELDS),
            instruction=_instruction(entry["instruction"]) if "instruction" in entry else None,
            entry_file=file,
            **{"title": entry["id"], "reader": "table"} | _pick(entry, TASK_FIELDS),
        )
    except BadEntry as error:
        raise BadEntry(f"{file}: task {entry['id']}: {error}") from None
    sets_of_files(task)
    return task


def _download(table: Mapping[str, Any]) -> Download:
    """One download; BadEntry for an unknown, missing or wrongly typed field of its table."""
    _check_types(table, DOWNLOAD_FIELDS, field="downloads.")
    if not (table.get("url") and table.get("path")):
        raise BadEntry("a download needs `url` and `path`")
    return Download(**table)


def _instruction(table: Mapping[str, Any]) -> Instruction:
    """How a model is asked; BadEntry for an unknown, missing or wrongly typed field of its table."""
    _check_types(table, INSTRUCTION_FIELDS, field="instruction.")
    if not (table.get("question") and table.get("options")):
        raise BadEntry("an instruction needs `question` and `options`")
    for name, value in table.items():
        if letter := control_character(" ".join(value) if isinstance(value, list) else str(value)):
            raise BadEntry(f"`instruction.{name}` has the control character {letter}; remove it")
    return Instruction(**_pick(table, INSTRUCTION_FIELDS))


def _check_types(
    table: Mapping[str, Any], types: Mapping[str, FieldType], *, before: str = "", field: str = ""
) -> None:
    """BadEntry for a field of a table that is not among these, or of another type."""
    for name, value in table.items():
        if name not in types:
            raise BadEntry(f"{before}unknown field `{field}{name}`{nearest(name, types)}")
        if not _fits(value, types[name]):
            raise BadEntry(f"{before}`{field}{name}` must be {TYPE_NAMES[types[name]]}, got {value!r}")


def _pick(entry: Mapping[str, Any], fields: Mapping[str, FieldType]) -> dict[str, Any]:
    """The entry's values for some fields, with lists as tuples so that records stay immutable."""
    return {
        name: tuple(entry[name]) if isinstance(entry[name], list) else entry[name] for name in fields if name in entry
    }


def _check_fields(entry: Mapping[str, Any], file: str) -> None:
    """Refuse unknown and missing fields, values of the wrong type, odd ids and unknown readers."""
    _check_types(entry, FIELDS, before=f"{file}: ")
    for name in PRINTED:  # control characters command a terminal, or reverse what follows them
        text = entry.get(name, "")
        if letter := control_character("".join(map(str, text)) if isinstance(text, list) else str(text)):
            raise BadEntry(f"{file}: `{name}` has the control character {letter}; remove it")
    missing = [f"`{name}`" for name in MANDATORY if not entry.get(name)]
    if missing:
        raise BadEntry(f"{file}: {', '.join(missing)} missing; an entry needs at least {', '.join(MANDATORY)}")
    if not ID_PATTERN.fullmatch(entry["id"]):
        raise BadEntry(f"{file}: id {entry['id']!r} may hold only small letters, digits and _, at most 100")
    if reason := why_taken(entry["id"]):
        raise BadEntry(f"{file}: id {entry['id']!r} {reason}; call the task otherwise, say {entry['id']}_task")
    dataset = entry.get("dataset", "")
    if dataset and (not is_inside(dataset) or "/" in dataset):
        raise BadEntry(f"{file}: dataset {dataset!r} must be a plain name: files of split ids are called by it")
    folder = "below the data folder (--data), or beside the entry or its folder"
    for name in ("files", "fallback_files"):
        for path in entry.get(name, []):
            if not is_inside(path.removeprefix(BESIDE)):
                raise BadEntry(f"{file}: `{name}` {path!r} leads elsewhere; put the file {folder}")
    reader = entry.get("reader", "table")
    if reader not in READERS:
        raise BadEntry(f"{file}: unknown reader {reader!r}; the readers are {', '.join(sorted(READERS))}")


def _fits(value: object, kind: FieldType) -> bool:
    """Whether a TOML value has the type that its field asks for."""
    if kind == TEXT_OR_LIST:
        return _fits(value, str) or _fits(value, list)
    if kind == TEXT_OR_NUMBER:
        return _fits(value, str) or _fits(value, int)
    if kind == TABLES:
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind in (int, float):
        return isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind if isinstance(kind, type) else ())


# The field reference: what every field of an entry means.

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "The task": {
        "id": "small letters, digits and _, but no name that torch needs (`train`, `type`, `values`, ...); the "
        "task's name everywhere, never used again for another task",
        "title": "how tables and figures call the task; default: the id",
        "description": "one sentence: what is judged, and by whom",
        "files": "raw files (csv, tsv, json, jsonl, parquet, arrow; text also as .gz, .xz, .zip), below the data "
        "folder or else beside the entry; several are read one after another",
        "fallback_files": "smaller files that are read while `files` are not all there; a warning says so",
        "reader": 'how files become rows; default: "table", one row per example; "turns" reads conversations, '
        '"aligned" texts and labels in files of their own, line by line, and "numbered" labels by the numbers of rows',
        "theme": "`direct`, `abstract`, `adjacent` or `unrelated`: how near the label is to empathy",
        "role": "what the task may be in a transfer: `both` (default), `intermediate`, `target`, or `control`: an "
        "intermediate without empathy, whose gains are told apart",
        "training": "departures from the study's training: epochs, batch_size, learning_rate, weight_decay, ...",
        "instruction": "how a model that follows instructions is asked; see below",
    },
    "The text": {
        "text": "column of the text that is judged; `post.body` reaches into nested JSON, as in every field that "
        "names a column",
        "context": "column of what was said before",
        "history": '`none`, `previous`, `all` (default) or a number: how many earlier turns are read',
        "later": "how many of the turns that follow the text are read, of a reader that has them; default: 0",
        "truncation": "what remains of too long a text: `head` (default), `tail`, `head+tail`, or all in `windows`",
        "tags": "how the published study marked the turns of this kind of data; only for input_format = \"tags\"",
        "language": 'language code; default "en". Backbone and tasks of other languages get a warning',
        "encoding": "Python's name of the encoding; default: utf-8, with or without byte order mark",
        "delimiter": "character between cells; default: comma for .csv, tab for .tsv",
        "escape": "character that takes the next one as it is, as in `\\\"`; default: none, quotes are doubled",
        "skip_empty": "true leaves rows without a text out; otherwise they are an error",
        "unique_by": "columns; of rows that are equal in all of them the first is kept",
        "rationale": "column of the spans of the text that support the label, between |; "
        "`tasks check` counts those it lacks",
    },
    "A conversation (reader `turns`)": {
        "turn": "column of a turn's number in its dialogue, which `group` names; default: the order of the file",
        "speaker": "column of who says a turn; default: two people take turns",
        "roles": "table from a speaker's name to `speaker` or `listener`; default: the first to speak is the speaker",
        "only": "speakers whose turns are rows; the others' stand in the context alone",
        "dialogues": "of nested JSON: where its dialogues are, a list or an object; default: the file itself",
        "turns": "of nested JSON: where a dialogue's turns are; `.` where a dialogue is their list",
        "annotations": "list in a dialogue with the labels of its turns, in their order, each with the turn's text",
        "annotation_text": "where an annotation has the text; default: as `text`",
    },
    "The label": {
        "label": "column of the label, or a list: of 0/1 columns (multilabel), or of annotators' columns (`combine`)",
        "kind": "`binary`, `multiclass`, `multilabel`, `ordinal` (classes with an order) or `continuous`",
        "classes": "labels in the order of their index, ordered ones lowest first; default: those in the file",
        "names": "how tables call the classes, in the same order",
        "separator": "what stands between the names of a cell with several, `[]` for a list; where the label is one "
        "class, the first name that `relabel` lists counts",
        "combine": "what of several annotators' columns in `label` counts: `mean` of numbers, `majority` of classes; "
        "`union`: the rows of an item (of one `row_id`, or of equal texts) become one with the labels of all",
        "decimal": 'the decimal mark of numbers: `,` or `.` (default)',
        "minimum": "lowest value of a continuous label; lower ones are an error",
        "maximum": "highest value of a continuous label",
        "metric": "follows from the kind; only its own may be named",
        "class_weights": '`balanced` weighs each class by its rarity in the loss; default: "none"',
        "relabel": "table from labels of the file to classes",
        "relabel_rest": "class of all labels that `relabel` does not list",
        "drop_labels": "labels whose rows are left out",
        "annotators": "columns of what every annotator answered, where `label` is a column of its own; the leaderboard "
        "then says how well one of them does",
        "annotator": "column of who gave a row's label, where a row is one annotator's; the rows of an item (of one "
        "`row_id`, or of equal texts) become one, by `combine`",
        "label_sources": "which annotators' labels count, for readers that know several",
    },
    "Splits": {
        "group": "column of what belongs together (dialogue, post): never divided, and resampled whole in tests; "
        "default: every row on its own",
        "block": "column of something else that splits do not divide either (the article of several dialogues); blocks "
        "that share a group are joined; default: the group",
        "row_id": "column of a unique id; default: the number of the row",
        "split": '`clean` (default: 80/10/10) or `cv2` to `cv20`, folds for small data: every row is a test row',
        "repeats": '`drop` (default) leaves a row out that repeats the context and text of a later split; `together` '
        "keeps all, and equal texts within one split",
        "family": "tasks of one family share texts or people and are split alike; default: the dataset",
        "split_salt": "fixes the split of the family; default: found from the rows of an only task, 0 for several",
        "split_column": "column that names published sets (train, validation or dev, test), for as-published splits",
        "split_files": "table from set to file or files, as in { train = \"a.csv\", test = \"b.csv\" }, for the same",
        "published": "what is known of a published split",
    },
    "The data set": {
        "dataset": "id of the data set; default: the task's id, or the file's name where it has `[[task]]` tables",
        "dataset_title": "its name",
        "version": "raise it when rows or labels change; stands in every table",
        "data_source": "where the texts come from (reddit, twitter, crowdsourced, ...)",
        "setting": "conversation, social_media or essay",
        "licence": "SPDX id, or what is known",
        "citation": "BibTeX",
        "url": "where it is presented",
        "access": "how to get the files; shown when they are missing",
        "private": "true: ids are stored as hashes, and nothing is exported or published unless asked",
        "downloads": "list of tables for `data fetch`; see below",
        "checksums": "table from file to sha256, for files that cannot simply be downloaded",
    },
    "An instruction": {
        "question": "what is asked about the text, which stands where `{text}` is written",
        "options": "the answers, one for every class in their order",
        "domain": "whose words the turns are, as in `a chat of a seeker and a supporter`",
        "definition": "what the label means, where the question does not say it all",
        "new_tokens": "true: a system that is trained answers by new tokens, and not by the words of the options",
    },
    "A download": {
        "url": "https address, pinned to a commit or version",
        "path": "where it goes below the data folder; one of `files`",
        "sha256": "of the download, hexadecimal; without it, `git_blob` is compared, or nothing",
        "bytes": "size of the download; more is refused",
        "git_blob": "id that git gives the file's content, where only the commit is known",
        "archive_member": "for a zip or tar archive: the one file in it to keep",
    },
}  # fmt: skip
TABLES_OF = {"A download": DOWNLOAD_FIELDS, "An instruction": INSTRUCTION_FIELDS}  # sections on fields of a table


def field_rows() -> list[dict[str, str]]:
    """One row per field: its section, name, type, and meaning; mandatory ones are marked."""
    return [
        {
            "section": section,
            "field": name,
            "type": TYPE_NAMES[TABLES_OF.get(section, FIELDS)[name]],
            "meaning": ("(mandatory) " if section not in TABLES_OF and name in MANDATORY else "") + meaning,
        }
        for section, fields in SECTIONS.items()
        for name, meaning in fields.items()
    ]


def field_reference() -> str:
    """The reference as Markdown, as it is in the documentation."""
    lines: list[str] = []
    for section in SECTIONS:
        lines += ["", f"### {section}", "", "| field | is | meaning |", "|---|---|---|"]
        for row in (row for row in field_rows() if row["section"] == section):
            lines.append(f"| `{row['field']}` | {row['type']} | {row['meaning'].replace('|', chr(92) + '|')} |")
    return "\n".join(lines[1:]) + "\n"


BUILT_IN = Path(__file__).with_name("entries")


@dataclass(frozen=True)
class Registry:
    """All known tasks by id, sorted."""

    tasks: Mapping[str, Task]

    @classmethod
    def load(cls, extra: Sequence[Path] = ()) -> Registry:
        """Read the built-in entries and every ``*.toml`` of the extra folders; BadEntry when two entries clash."""
        by_id: dict[str, Task] = {}
        for folder in (BUILT_IN, *extra):
            if not is_folder(folder):
                raise BadEntry(f"{folder}: not a folder; give the one that holds your .toml entries")
            for task in (task for file in sorted(folder.glob("*.toml")) for task in tasks_of(file)):
                if task.theme and task.theme not in themes():
                    raise BadEntry(
                        f"{task.entry_file}: task {task.id}: theme {task.theme!r} is not one of {', '.join(themes())}"
                    )
                if task.id in by_id:
                    raise BadEntry(
                        f"task {task.id!r} is in two entries, {by_id[task.id].entry_file} and {task.entry_file}; "
                        "rename one of them"
                    )
                by_id[task.id] = task
        return cls(_with_family_salts(dict(sorted(by_id.items()))))

    def task(self, id: str) -> Task:
        """Return the task with this id, or raise UnknownTask with the nearest name."""
        if id not in self.tasks:
            hint = nearest(id, self.tasks) or f"; known tasks: {', '.join(self.tasks)}"
            raise UnknownTask(f"no task {id!r}{hint}")
        return self.tasks[id]


def _with_family_salts(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Give the tasks of a family one split salt: the pinned one, else 0 when there is more than one task.

    Siblings share texts and people, so a block must fall in the same split for all of them; salts that are searched
    for by task would let one task's test rows into another's training.
    """
    families: dict[str, list[Task]] = {}
    for task in tasks.values():
        families.setdefault(task.dataset.family, []).append(task)
    for family in families.values():
        # What siblings join that keep equal texts together, the others would divide.
        by_rule = {task.repeats: task for task in family}
        if len(by_rule) > 1:
            together, other = by_rule["together"], by_rule["drop"]
            raise BadEntry(
                f'family {together.dataset.family!r}: `repeats` is "together" for {together.id} in '
                f"{together.entry_file} and not for {other.id} in {other.entry_file}; siblings must be split alike, so "
                "write it for all or none"
            )
    return {id: replace(task, split_salt=_salt(families[task.dataset.family])) for id, task in tasks.items()}


def _salt(family: Sequence[Task]) -> int | None:
    """Salt of one family; BadEntry when two entries pin different ones."""
    pinned = {task.split_salt: task for task in family if task.split_salt is not None}
    if len(pinned) > 1:
        first, second = sorted(pinned.values(), key=lambda task: task.id)[:2]
        raise BadEntry(
            f"family {first.dataset.family!r} has two split salts: {first.split_salt} in {first.entry_file} and "
            f"{second.split_salt} in {second.entry_file}; siblings must be split alike, so keep one"
        )
    return next(iter(pinned), 0 if len(family) > 1 else None)
