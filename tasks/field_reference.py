"""What every field of an entry means; the reference in the documentation is made from this."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.entry import DOWNLOAD_FIELDS, FIELDS, MANDATORY, TYPE_NAMES, FieldType

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "The task": {
        "id": "small letters, digits and _, but no name that torch needs (`train`, `type`, `values`, ...); the "
        "task's name everywhere, never used again for another task",
        "title": "how tables and figures call the task; default: the id",
        "description": "one sentence: what is judged, and by whom",
        "files": "raw files (csv, tsv, json, jsonl, parquet, arrow; text also as .gz, .xz, .zip), below the data "
        "folder or else beside the entry; several are read one after another",
        "fallback_files": "smaller files that are read while `files` are not all there; a warning says so",
        "reader": 'how files become rows; default: "table", one row per example',
        "theme": "`direct`, `abstract` or `adjacent`: how near the label is to empathy",
        "role": "what the task may be in a transfer: `both` (default), `intermediate`, `target`, or `control`: an "
        "intermediate without empathy, whose gains are told apart",
        "training": "departures from the study's training: epochs, batch_size, learning_rate, weight_decay, ...",
    },
    "The text": {
        "text": "column of the text that is judged; `post.body` reaches into nested JSON, as in every field that "
        "names a column",
        "context": "column of what was said before",
        "history": '`none`, `previous`, `all` (default) or a number: how many earlier turns are read',
        "truncation": "what remains of too long a text: `head` (default), `tail`, `head+tail`, or all in `windows`",
        "tags": "how the published study marked the turns of this kind of data; only for input_format = \"tags\"",
        "language": 'language code; default "en". Backbone and tasks of other languages get a warning',
        "encoding": "Python's name of the encoding; default: utf-8, with or without byte order mark",
        "delimiter": "character between cells; default: comma for .csv, tab for .tsv",
        "escape": "character that takes the next one as it is, as in `\\\"`; default: none, quotes are doubled",
        "skip_empty": "true leaves rows without a text out; otherwise they are an error",
        "unique_by": "columns; of rows that are equal in all of them the first is kept",
        "rationale": "column of the spans of the text that support the label, between |",
    },
    "The label": {
        "label": "column of the label, or a list: of 0/1 columns (multilabel), or of annotators' columns (`combine`)",
        "kind": "`binary`, `multiclass`, `multilabel`, `ordinal` (classes with an order) or `continuous`",
        "classes": "labels in the order of their index, ordered ones lowest first; default: those in the file",
        "names": "how tables call the classes, in the same order",
        "separator": "what stands between the class names of a multilabel cell",
        "combine": "what of several annotators' columns in `label` counts: `mean` of numbers, `majority` of classes",
        "decimal": 'the decimal mark of numbers: `,` or `.` (default)',
        "minimum": "lowest value of a continuous label; lower ones are an error",
        "maximum": "highest value of a continuous label",
        "metric": "follows from the kind; only its own may be named",
        "class_weights": '`balanced` weighs each class by its rarity in the loss; default: "none"',
        "relabel": "table from labels of the file to classes",
        "relabel_rest": "class of all labels that `relabel` does not list",
        "drop_labels": "labels whose rows are left out",
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
    "A download": {
        "url": "https address, pinned to a commit or version",
        "path": "where it goes below the data folder; one of `files`",
        "sha256": "of the download, hexadecimal; without it, `git_blob` is compared, or nothing",
        "bytes": "size of the download; more is refused",
        "git_blob": "id that git gives the file's content, where only the commit is known",
        "archive_member": "for a zip or tar archive: the one file in it to keep",
    },
}  # fmt: skip


def rows() -> list[dict[str, str]]:
    """One row per field: its section, name, type, and meaning; mandatory ones are marked."""
    return [
        {
            "section": section,
            "field": name,
            "type": TYPE_NAMES[_type(section, name)],
            "meaning": ("(mandatory) " if section != "A download" and name in MANDATORY else "") + meaning,
        }
        for section, fields in SECTIONS.items()
        for name, meaning in fields.items()
    ]


def markdown() -> str:
    """The reference as it stands in the documentation."""
    lines: list[str] = []
    for section in SECTIONS:
        lines += ["", f"### {section}", "", "| field | is | meaning |", "|---|---|---|"]
        named = [row for row in rows() if row["section"] == section]
        lines += [
            f"| `{row['field']}` | {row['type']} | {row['meaning'].replace('|', chr(92) + '|')} |" for row in named
        ]
    return "\n".join(lines[1:]) + "\n"


def _type(section: str, name: str) -> FieldType:
    return (DOWNLOAD_FIELDS if section == "A download" else FIELDS)[name]
