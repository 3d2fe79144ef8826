"""What an entry for a new file could say, guessed from its columns; a person has the last word.

From a file with the columns ``id,seeker_post,reply,level`` and the levels 1 to 5, ``proposal`` guesses

    text = "reply", context = "seeker_post", label = "level", kind = "ordinal", row_id = "id"

by the usual names of columns (``NAMES``) and, where these do not decide, by what the cells look like.
"""

import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tasks import columns
from tasks.columns import FEWEST_STEPS, LOOKED_AT, MOST_CLASSES, cells_of, repeats
from tasks.errors import BadRow
from tasks.plain_text import counted
from tasks.readers.labels import DECIMAL_COMMA, LISTED, TRUTH, names_in_list, normalise
from tasks.readers.raw import COLUMNAR, CONVERTED, JSON_LINES, SEPARATOR_LINE, Raw, ending_of, read_raw
from tasks.readers.rows import BESIDE
from tasks.readers.streams import decodes, open_bytes, read_text
from tasks.task import COMBINED, why_taken

DELIMITERS = (",", ";", "\t", "|")
BACKSLASH = "\\"
LONGEST_HEADER = 1 << 20  # characters
BY_HAND = (
    'if these are dialogues, write the entry by hand: reader = "turns", with `turns`, `text`, `speaker` and `label`'
)
MOST_LISTED = 12  # columns in a line
NAMES: Mapping[str, tuple[str, ...]] = {
    "text": ("text", "reply", "response", "response_post", "utterance", "sentence", "essay", "tweet", "message", "post",
             "comment", "content", "body"),
    "label": ("label", "labels", "class", "category", "kind", "level", "rating", "score", "stars", "emotion", "intent",
              "gold", "target", "annotation", "empathy"),
    "context": ("context", "history", "previous", "prompt", "seeker_post", "parent", "question", "situation"),
    "group": ("group", "dialog_id", "dialogue_id", "conversation_id", "conv_id", "thread_id", "session", "sp_id",
              "post_id", "article_id", "document_id", "user", "author", "speaker_id"),
    "row_id": ("row_id", "id", "uid", "uuid", "example_id", "index"),
}  # fmt: skip
GUESSED = ("label", "text", "context", "group", "row_id")  # in this order: a label is the easiest to recognise
SCALES = ("level", "rating", "score", "stars", "degree", "intensity")
SEPARATORS = ("|", ";", ",")
SCRIPTS = {"CJK": "zh", "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "ARABIC": "ar", "HEBREW": "he",
           "CYRILLIC": "ru", "DEVANAGARI": "hi", "GREEK": "el", "THAI": "th"}  # fmt: skip
MOST_STEPS = 11  # of a scale of whole numbers
SHORT_CELL = 40  # characters; longer cells may be text, which is never shown


@dataclass(frozen=True)
class ReadableFile:
    """A file that can be read: its cells, and encoding, delimiter and escape where an entry must name them."""

    raw: Raw
    encoding: str = ""
    delimiter: str = ""
    escape: str = ""


def read_file(path: Path) -> ReadableFile:
    """Read a file of rows, finding encoding, delimiter and escape; BadRow or BadEntry if it cannot be."""
    file = _read(path)
    if not file.raw.rows:
        raise BadRow(f"{path}:1: the file has a header and no rows; give the file that has them")
    return file


def _read(path: Path) -> ReadableFile:
    """The cells of a file; where quotes are not doubled, it is read again with backslashes as escapes."""
    ending = ending_of(path)
    if ending in COLUMNAR or ending in CONVERTED:
        return ReadableFile(read_raw(path))
    with open_bytes(path) as file:
        has_mark = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
    encoding = "utf-16" if has_mark else "" if decodes(path, "utf-8") else "cp1252"
    if ending in (*JSON_LINES, ".json"):
        return ReadableFile(read_raw(path, encoding=encoding or "utf-8"), encoding)
    delimiter = ""  # where the ending's own parts cells, or the file names one itself
    if ending != ".tsv":
        header = read_text(path, encoding or "utf-8", "", lambda file: file.readline(LONGEST_HEADER))
        best = max(DELIMITERS, key=header.count)
        is_usual = (best == "," and ending == ".csv") or SEPARATOR_LINE.fullmatch(header)
        delimiter = best if best in header and not is_usual else ""
    try:
        return ReadableFile(read_raw(path, encoding=encoding or "utf-8", delimiter=delimiter), encoding, delimiter)
    except BadRow:
        with suppress(BadRow):
            raw = read_raw(path, encoding=encoding or "utf-8", delimiter=delimiter, escape=BACKSLASH)
            return ReadableFile(raw, encoding, delimiter, BACKSLASH)
        raise


def proposal(file: ReadableFile, stated: Mapping[str, object], guessed: Sequence[str] = GUESSED) -> dict[str, object]:
    """Fields of an entry: those ``stated``, and of those to be ``guessed`` what the columns suggest.

    BadRow when a stated column is not there, or the labels suit no kind.
    """
    fields: dict[str, object] = {name: value for name, value in stated.items() if value}
    for name in _columns_of(fields):
        file.raw.column(name)
    if guessed and (nested := columns.nested(file.raw)):
        raise BadRow(f"{file.raw.path}:1: {nested}; {BY_HAND}")
    for part in guessed:
        taken = _columns_of(fields)
        if part not in fields and (guess := _guess(file.raw, part, taken)):
            fields[part] = guess
    if guessed:
        fields |= _several_rows(file.raw, fields)
        if fields.get("group") and fields["group"] == fields.get("row_id"):
            del fields["group"]
    fields |= _of_label(file.raw, fields)
    if "text" in fields and "language" not in fields:
        fields |= _language(cells_of(file.raw, str(fields["text"])))
    label = fields.get("label")
    if isinstance(label, str) and fields.get("kind") != "multilabel" and not all(file.raw.cells(label)):
        dropped = fields.get("drop_labels", [])  # of several labels none is an answer, too
        fields["drop_labels"] = sorted({"", *dropped}) if isinstance(dropped, list) else dropped
    others = (name for name in file.raw.header if name not in _columns_of(fields))
    if sets := next((name for name in others if columns.names_sets(cells_of(file.raw, name))), ""):
        fields["split_column"] = sets
    return fields | {name: value for name in ("encoding", "delimiter", "escape") if (value := getattr(file, name))}


def _several_rows(raw: Raw, fields: Mapping[str, object]) -> dict[str, object]:
    """What rows that are no items by themselves ask for: those of one annotator each, or turns of a dialogue."""
    taken = _columns_of(fields)
    if not isinstance(fields.get("label"), str) or "text" not in fields:
        return {}
    text, group = str(fields["text"]), str(fields.get("group", ""))
    who = columns.annotator(raw, taken) if repeats(raw, text) else ""
    by = {"annotator": who} if who else {}
    turns: dict[str, str] = {}
    if group and "context" not in fields:
        turns = columns.of_turns(raw, group, [*taken, who], by_annotators=bool(who))
    if turns and (not who or "turn" in turns):
        return {"reader": "turns"} | dict[str, object](turns | by) | _only(raw, fields, turns.get("speaker", ""))
    others = [name for name in taken if name != group]  # an item's id recurs as a group's does
    item = columns.item(raw, text, [*others, who]) if who and "row_id" not in fields else ""
    return {**by, **({"row_id": item} if item else {})}


def _only(raw: Raw, fields: Mapping[str, object], speaker: str) -> dict[str, object]:
    """The speakers whose turns have a label, where those of others have none or say so (``n/a``)."""
    if not speaker:
        return {}
    pairs = set(zip(raw.cells(speaker), raw.cells(str(fields["label"])), strict=True))
    names = {name for name, label in pairs if label.casefold() not in ("", *columns.MISSING)}
    are_few = 0 < len(names) < min(len({name for name, _ in pairs}), MOST_LISTED)
    return {"only": sorted(names)} if are_few else {}


def remarks(file: ReadableFile, fields: Mapping[str, object]) -> list[str]:
    """What a person should look at before believing a proposal, each in one line."""
    raw = file.raw
    taken = _columns_of(fields)
    lines = []
    parts = ("text", "label", "group", "row_id", "split_column", "annotator", "turn", "speaker")
    if others := label_candidates(file, [name for part in parts for name in _named(fields.get(part))]):
        lines.append(f"other columns that could be the label: {others}")
    used = [str(fields[part]) for part in ("text", "context", "label") if part in fields]
    if texts := [name for name in raw.header if name not in used and columns.is_text(cells_of(raw, name))]:
        lines.append(f"texts that are not read: {', '.join(texts)}; what was said before is `context`")
    if any("\0" in cell for name in used if name in raw.header for cell in cells_of(raw, name)):
        lines.append("cells hold NUL characters (U+0000), which no text has: is it the file's encoding, or damage?")
    delimiter = file.delimiter or ("\t" if ending_of(raw.path) == ".tsv" else ",")
    # a line of a text has commas, too, and may look like a row of cells between them
    cells = (cell for cells in raw.rows for cell in cells if "\n" in cell) if delimiter != "," else ()
    if swallowed := sum(
        any(line.count(delimiter) == len(raw.header) - 1 for line in cell.split("\n")) for cell in cells
    ):
        lines.append(
            f"{counted(swallowed, 'cell')} of several lines that would be rows by themselves: is a quote not closed, or"
            " part of a text? Write quotes in texts twice"
        )
    if any(columns.is_text([name]) or name in cells_of(raw, name) for name in raw.header if name):
        lines.append("the first line looks like a row: if it is no header, write one above it")
    if file.encoding == "cp1252":
        lines.append(
            "the file is not UTF-8, and is read as cp1252 (Western European), which is a guess: look at its texts, and"
            " write the right `encoding` in the entry"
        )
    lines += _ungrouped(raw, fields, taken)
    times = [name for name in raw.header if columns.is_named(name, (*columns.OF_TURNS, *columns.OF_TIMES))]
    if fields.get("reader") == "turns" and "turn" not in fields and (unused := [n for n in times if n not in taken]):
        lines.append(
            f"turns stand in the order of the file: {', '.join(unused)} cannot order them, being no numbers or ISO"
            " times, or the same twice in a dialogue"
        )
    lines += _odd_labels(raw, fields)
    is_row_of_each = isinstance(fields.get("label"), list) and repeats(raw, str(fields["text"]))
    if is_row_of_each and (who := columns.annotator(raw, taken)):
        lines.append(f"a text has a row of each {who}, which several labels do not combine: keep one row a text")
    return lines


def label_candidates(file: ReadableFile, but: Sequence[str] = ()) -> str:
    """The columns that could be the label, each with its kind: ``strategy (multiclass), V (continuous)``."""
    names = []
    for name in columns.labels(file.raw, but):
        kind = "no kind"
        with suppress(BadRow):
            kind = str(_kind(file.raw, name)["kind"])
        names.append(f"{name} ({kind})")
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more


def _named(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else [str(value)] if value else []


def _ungrouped(raw: Raw, fields: Mapping[str, object], taken: Sequence[str]) -> list[str]:
    """What looks like a group beside the group, or in its place; and that rows count as independent where none is."""
    parts = ("annotator", "turn", "speaker", "split_column")
    ruled_out = [*taken, *(str(fields[part]) for part in parts if part in fields)]
    others = [f"{name} (a value has {rows:.1f} rows)" for name, rows in columns.groups(raw, ruled_out).items()]
    if "group" in fields or fields.get("annotator"):
        more = f"what repeats, too: {', '.join(others)}; if such rows belong together, write it as `block` or `group`"
        return [more] if others else []
    hint = f"; {', '.join(others)} may say what belongs together: write it as `group`" if others else ""
    if not others and (parts_of := columns.of_no_dialogue(raw, taken)):
        hint = (
            f"; {' and '.join(parts_of)} may be of dialogues: give every row its dialogue in a column of its own,"
            " without gaps, and write it as `group`"
        )
    return [f"not grouped: rows count as independent{hint}"]


def _odd_labels(raw: Raw, fields: Mapping[str, object]) -> list[str]:
    """Labels that may mean that there is none, a scale and its other readings, and labels that a group decides."""
    label = fields.get("label")
    if not isinstance(label, str) or label not in raw.header:
        return []
    rows = raw.cells(label)
    only, speaker = fields.get("only"), fields.get("speaker")
    if isinstance(only, list) and isinstance(speaker, str):  # the labels of the rows that the proposal keeps
        rows = [cell for name, cell in zip(raw.cells(speaker), rows, strict=True) if name in only]
    cells = [cell for cell in rows if cell]
    lines = _readings(fields, cells)
    dropped = fields.get("drop_labels", [])
    for name, count in columns.missing(cells).items():
        hint = f": if it means that there is none, write drop_labels = {json.dumps([name], ensure_ascii=False)}"
        if isinstance(dropped, list) and name in dropped:
            hint = " and is left out: if it is an answer, take it out of `drop_labels`"
        lines.append(f"{name!r} is {100 * count / len(cells):.0f} % of the labels{hint}")
    if fields.get("kind") == "multilabel" and len(cells) < len(rows):
        lines.append(
            f"{100 - 100 * len(cells) / len(rows):.0f} % of the rows have an empty label, which is taken as none of the"
            ' classes: if nobody has labelled them, write drop_labels = [""]'
        )
    if fields.get("kind") == "ordinal":
        lines.append(
            'the labels are steps of a scale; for a measurement write kind = "continuous", for classes "multiclass"'
        )
    if {cell.casefold() for cell in cells} & {"true", "false"} and set(cells) & {"0", "1"}:
        lines.append("true or false and 1 or 0 stand in one column: they are different labels; join them by `relabel`")
    group = fields.get("group")
    if isinstance(group, str) and group in raw.header and columns.decides(raw, group, label):
        if len(set(columns.first_rows(raw, group))) < len(raw.rows[:LOOKED_AT]):
            lines.append(
                f"every {group} has one {label} alone: rows of a group are one judgement, and few groups say little"
            )
    return lines


def _readings(fields: Mapping[str, object], cells: Sequence[str]) -> list[str]:
    """How marks in labels are read, and numbers that could be classes."""
    kind, lines = fields.get("kind"), []
    if fields.get("decimal"):
        example = max(cells, key=lambda cell: ("," in cell, len(cell)), default="")
        lines.append(
            f"the comma is read as a decimal mark, {example!r} as {example.replace(',', '.')}: if it parts thousands,"
            ' leave it out of the file; if it parts classes, write kind = "multilabel" and separator = ","'
        )
    if kind == "multilabel" and (separator := str(fields.get("separator", LISTED))) != LISTED:
        lines.append(f'labels are parted at {separator!r}: if a cell is one class, write kind = "multiclass"')
    numbers = {*_numbers({*cells})} if kind == "continuous" else set()
    if MOST_STEPS < len(numbers) == max(numbers) - min(numbers) + 1 <= MOST_CLASSES and min(numbers) in (0, 1):
        lines.append(
            f"labels are the whole numbers {min(numbers):g} to {max(numbers):g} without a gap, and read as a"
            ' measurement: if they number classes, write kind = "multiclass"'
        )
    return lines


def columns_text(header: Sequence[str], cells: Mapping[str, Sequence[str]]) -> str:
    """One line per column: how many values, and what they look like where they are too short to be text."""
    lines = []
    for name in header:
        distinct = sorted(set(cells[name]))
        is_shown = len(distinct) <= 12 and all(len(cell) <= SHORT_CELL for cell in distinct)
        mean = sum(map(len, cells[name])) / max(1, len(cells[name]))
        about = ", ".join(distinct) if is_shown else f"{mean:.0f} characters on average"
        lines.append(f"  {name}: {len(distinct)} distinct; {about}")
    return "\n".join(lines)


def path_in_entry(path: Path, folder: Path, data: Path) -> str:
    """The file as an entry names it: relative to the data folder if it is inside, else to the entry's folder."""
    if data.is_dir() and path.resolve().is_relative_to(data.resolve()):
        return path.resolve().relative_to(data.resolve()).as_posix()
    name = Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    # a file of the data folder with the same name would be read in its place
    return f"{BESIDE}{folder.resolve().name}/{name}" if (data / name).is_file() else name


def entry_text(fields: Mapping[str, object]) -> str:
    """The TOML of an entry, one field a line, the mandatory ones first."""
    first = ("id", "title", "files", "text", "label", "kind")
    names = [*(name for name in first if name in fields), *(name for name in fields if name not in first)]
    return "".join(f"{name} = {_toml(fields[name])}\n" for name in names)


def task_id(name: str) -> str:
    """An id made of a file's or data set's name; for ``train`` it is ``train_task``, since ``train`` is taken."""
    id = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "task"
    return f"{id}_task" if why_taken(id) else id


def _toml(value: object) -> str:
    """A string, number, list or table as TOML; strings are written as in JSON, and a table in a list has its line."""
    if isinstance(value, Mapping):
        # 0.5 by itself would be the key 5 of the table 0
        keys = (name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) else _toml(name) for name in value)
        return f"{{ {', '.join(f'{key} = {_toml(inner)}' for key, inner in zip(keys, value.values(), strict=True))} }}"
    if isinstance(value, list) and any(isinstance(element, Mapping) for element in value):
        return "[\n" + "".join(f"  {_toml(element)},\n" for element in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _columns_of(fields: Mapping[str, object]) -> list[str]:
    """Columns that the fields name."""
    return [name for role in NAMES for name in _named(fields.get(role))]


def _guess(raw: Raw, part: str, taken: Sequence[str]) -> str:
    """The column with a role, by its name or, for text and label, by what it holds; empty if there is none."""
    free = [name for name in raw.header if name not in taken and _may_be(raw, part, name)]
    likely = [name for name in columns.groups(raw, taken) if name in free] if part == "group" else []
    if likely:
        return likely[0]
    named = [name for usual in NAMES[part] for name in free if name.lower().rpartition(".")[2] == usual]
    if suited := [name for name in named if _suits(raw, part, name)]:
        # a text has spaces where any of these columns has; one without is of ids
        spaced = [name for name in suited if part == "text" and any(" " in cell for cell in cells_of(raw, name))]
        return (spaced or suited)[0]
    if part == "row_id":
        ids = [name for name in free if columns.words_of(name)[-1:] == ["id"] and _suits(raw, part, name)]
        return ids[0] if len(ids) == 1 else ""
    if part == "text":
        means = {name: sum(map(len, cells)) / len(cells) for name in free if (cells := cells_of(raw, name))}
        longest = max(means, key=lambda name: means[name], default="")
        if not longest:
            return ""
        cells = cells_of(raw, longest)
        is_text = means[longest] > 12 and any(" " in cell for cell in cells)
        # Or of a script without spaces.
        is_text = is_text or (means[longest] > 4 and bool(_language(cells)) and not repeats(raw, longest))
        return longest if is_text else ""
    likely = list(columns.labels(raw, taken)) if part == "label" else []
    return likely[0] if len(likely) == 1 else ""


def _may_be(raw: Raw, part: str, name: str) -> bool:
    """Whether a column can have the role at all: sets are no label, ids no text, lists nothing but several labels."""
    cells = cells_of(raw, name)
    if part == "label":
        return not columns.names_sets(cells) and bool(name)
    holds_lists = bool(cells) and all(cell[0] == "[" and cell[-1] == "]" for cell in cells)  # of JSON
    return not holds_lists and bool(name) and not (part == "group" and columns.names_sets(cells))


def _suits(raw: Raw, part: str, name: str) -> bool:
    """Whether a column of the usual name can have the role: ids are distinct, groups repeat, others are not empty."""
    cells = cells_of(raw, name)
    if part == "row_id":
        return len(set(cells)) == len(raw.rows[:LOOKED_AT])
    if part == "group":
        return len(cells) == len(raw.rows[:LOOKED_AT]) and repeats(raw, name)
    return bool(cells)


def _of_label(raw: Raw, fields: Mapping[str, object]) -> dict[str, object]:
    """What the label's columns suggest where the fields do not say it: kind, separator, decimal mark, ``combine``."""
    label, kind = fields.get("label"), fields.get("kind")
    if isinstance(label, list):
        return {name: value for name, value in _of_annotators(raw, fields).items() if name not in fields}
    if label is None or kind not in (None, "continuous", "multilabel"):
        return {}
    if kind is None:
        return _kind(raw, str(label))
    cells = cells_of(raw, str(label))
    if kind == "continuous":
        return _decimal(set(cells))
    return {} if "separator" in fields else _separator(cells)


def _of_annotators(raw: Raw, fields: Mapping[str, object]) -> dict[str, object]:
    """Kind of several label columns: one per class where all hold 0 and 1, else one per annotator."""
    names = _columns_of({"label": fields["label"]})
    every = {cell for name in names for cell in raw.cells(name) if cell}
    cells, kind = every - {*columns.missing(every)}, fields.get("kind")
    are_people = all(columns.is_named(name, columns.OF_ANNOTATORS) for name in names)
    if kind == "multilabel" or (kind is None and not are_people and {cell.lower() for cell in every} <= set(TRUTH)):
        return {"kind": "multilabel"}
    if kind is None:
        kind = "binary" if len(cells) == 2 else "continuous" if _numbers(cells) or _decimal(cells) else "multiclass"
    decimal = _decimal(cells) if kind == "continuous" else {}
    gaps = {"drop_labels": sorted(every - cells)} if cells < every else {}
    return {"kind": kind, "combine": COMBINED[str(kind)], **decimal, **gaps}


def _decimal(cells: set[str]) -> dict[str, object]:
    """The decimal comma of cells that are numbers with one."""
    has_comma = any("," in cell for cell in cells)
    is_number = all(DECIMAL_COMMA.fullmatch(cell) or cell.lstrip("+-").isdecimal() for cell in cells)
    return {"decimal": ","} if has_comma and is_number else {}


def _kind(raw: Raw, label: str) -> dict[str, object]:
    """Kind of the label, with what else its cells ask for; BadRow when they suit no kind."""
    cells = [cell for cell in raw.cells(label) if cell]
    distinct = set(cells)
    if len(distinct) < 2:
        raise BadRow(f"{raw.path}:1: column {label!r} holds {len(distinct)} distinct labels; a label has two or more")
    gaps = columns.missing(distinct)  # which beside numbers and lists are no class
    if measured := _kind_of_values(distinct - {*gaps}, label):
        return {**measured, **({"drop_labels": sorted(gaps)} if gaps else {})}
    if len(distinct) == 2:
        return {"kind": "binary"}
    if steps := columns.scale(cells):
        usual = {normalise(step): step for step in steps}
        relabel = {cell: usual[normalise(cell)] for cell in sorted(distinct - set(steps))}
        return {"kind": "ordinal", "classes": steps, **({"relabel": relabel} if relabel else {})}
    if separated := _separator(cells):
        return {"kind": "multilabel", **separated}
    if len(distinct) > MOST_CLASSES:
        raise BadRow(f"{raw.path}:1: column {label!r} holds {len(distinct)} distinct labels; is it another column?")
    return {"kind": "multiclass"}


def _kind_of_values(cells: set[str], label: str) -> dict[str, object]:
    """Kind of labels that are all numbers, percentages or lists of names, two or more; else nothing."""
    kind: dict[str, object] = {}
    if len(cells) < 2:
        return kind
    if decimal := _decimal(cells):
        kind = {"kind": "continuous", **decimal}
    elif all(columns.PERCENT.fullmatch(cell) for cell in cells):
        kind = {"kind": "continuous"}
    elif numbers := _numbers(cells):
        kind = {"kind": _kind_of_numbers(sorted({*numbers}), label)}
        usual: dict[str, str] = {}
        spelled = {cell: usual.setdefault(normalise(cell), cell) for cell in sorted(cells, key=lambda c: (len(c), c))}
        relabel = {cell: shortest for cell, shortest in spelled.items() if cell != shortest}
        kind |= {"relabel": relabel} if relabel and kind["kind"] != "continuous" else {}
    elif all(names_in_list(cell) is not None for cell in cells):
        kind = {"kind": "multilabel", "separator": LISTED}
    return {"kind": "binary"} if kind and len(cells) == 2 else kind


def _kind_of_numbers(numbers: Sequence[float], label: str) -> str:
    """Few whole numbers are a scale when they are named or start like one, and classes otherwise."""
    if len(numbers) == 2:
        return "binary"
    is_whole = all(number == int(number) for number in numbers)
    if not is_whole or len(numbers) > MOST_STEPS:
        return "continuous"
    steps = {number - min(numbers) for number in numbers}
    is_scale = any(word in label.lower() for word in SCALES) or (
        min(numbers) in (0, 1) and len(steps) - 1 == max(steps)
    )
    return "ordinal" if is_scale and len(numbers) >= FEWEST_STEPS else "multiclass"


def _numbers(cells: set[str]) -> list[float]:
    """The cells as numbers, or nothing if one of them is none, or too large to be a label."""
    numbers = columns.numbers(cells) or []
    return numbers if all(abs(number) < 1e12 for number in numbers) else []


def _separator(cells: Sequence[str]) -> dict[str, object]:
    """The separator of class names in cells that hold several, or nothing."""
    for separator in SEPARATORS:
        parts = {part.strip() for cell in cells for part in cell.split(separator)}
        if any(separator in cell for cell in cells) and 2 <= len(parts) < len(set(cells)) + 2 and len(parts) <= 50:
            return {"separator": separator}
    return {}


def _language(cells: Sequence[str]) -> dict[str, object]:
    """The language that the texts' script suggests, where it is one that few languages share."""
    letters = [letter for letter in "".join(cells[:200]) if letter.isalpha()]
    scripts = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in letters)
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > len(letters) / 10:
        return {"language": "ja"}
    script, count = scripts.most_common(1)[0] if scripts else ("", 0)
    return {"language": SCRIPTS[script]} if script in SCRIPTS and count > len(letters) / 2 else {}
