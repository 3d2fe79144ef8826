"""What a task is: frozen records, validated when they are built, without any reading of files."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Annotated, NamedTuple, TypedDict

from tasks.errors import BadEntry
from tasks.fields import Count, Hash, OneOf, Range, Text, distinct, hexadecimal, matching

# Names that no task and no imported adapter may have, because they mean something else already.
#
# An adapter and a head are called after their task, and the adapters library keeps both in a
# ``torch.nn.ModuleDict``, which refuses the name of each of its own attributes; ``smart_apply`` is one that
# transformers adds. The list is written out, because nothing here may load torch; a test compares it with the class.

OF_CONTROLS = ("intermediate", "random")  # what a study's own cells call an intermediate
OF_MODULES = frozenset(
    """
    add_module apply bfloat16 buffers call_super_init children clear compile cpu cuda double dump_patches eval
    extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu items keys load_state_dict
    modules mtia named_buffers named_children named_modules named_parameters parameters pop register_backward_hook
    register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook
    register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
    set_extra_state set_submodule share_memory smart_apply state_dict to to_empty train training type update values
    xpu zero_grad

    _apply _backward_hooks _backward_pre_hooks _buffers _call_impl _compiled_call_impl _forward_hooks
    _forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs
    _get_backward_hooks _get_backward_pre_hooks _get_name _is_full_backward_hook _load_from_state_dict
    _load_state_dict_post_hooks _load_state_dict_pre_hooks _maybe_warn_non_full_backward_hook _modules _named_members
    _non_persistent_buffers_set _parameters _register_load_state_dict_pre_hook _register_state_dict_hook
    _replicate_for_data_parallel _save_to_state_dict _slow_forward _state_dict_hooks _state_dict_pre_hooks _version
    _wrapped_call_impl

    __annotations__ __call__ __class__ __contains__ __delattr__ __delitem__ __dict__ __dir__ __doc__ __eq__ __format__
    __ge__ __getattr__ __getattribute__ __getitem__ __getstate__ __gt__ __hash__ __init__ __init_subclass__ __iter__
    __le__ __len__ __lt__ __module__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ __setitem__
    __setstate__ __sizeof__ __str__ __subclasshook__ __weakref__
    """.split()
)


def why_taken(name: str) -> str | None:
    """Why nothing may have this name, as the end of a sentence that begins with it; None if the name is free."""
    if name in OF_CONTROLS:
        return "has a meaning of its own in a study"
    if name in OF_MODULES:
        return "is what torch.nn.ModuleDict, which keeps adapters by their names, calls a part of its own"
    return None


ID_PATTERN = re.compile(r"[a-z0-9_]{1,100}")


Id = Annotated[str, matching(ID_PATTERN.pattern, "an id; it may hold only small letters, digits and _, at most 100")]
Texts = tuple[str, ...]
Table = Mapping[str, object]
Address = Annotated[str, matching("https?://.*", "an address that begins with https:// or http://")]
Salt = Annotated[int, Range(0, 2**32 - 1)]

# The closed vocabularies of an entry.

METRICS = {
    "binary": "macro_f1",
    "multiclass": "macro_f1",
    "multilabel": "multilabel_f1",
    "ordinal": "macro_f1",
    "continuous": "pearson_r",
}
KINDS = tuple(METRICS)
HISTORIES = ("none", "previous", "all")
TRUNCATIONS = ("head", "tail", "head+tail", "windows")
CLASS_WEIGHTS = ("none", "balanced")
TAG_STYLES = ("none", "post_reply", "dialogue", "separator", "listener", "question")
COMBINED = {kind: "mean" if kind == "continuous" else "majority" for kind in KINDS}  # labels of several annotators
DECIMALS = (",", ".")
SEVERAL = ("table", "joined")  # readers that know the labels of several annotators
REPEATS = ("drop", "together")
ROLES = ("both", "intermediate", "target", "control")
MOST_FOLDS = 20


class Turn(NamedTuple):
    """A contribution to a conversation, before or after the text of a row.

    ``speaker`` is ``"speaker"`` or ``"listener"``, or ``"prompt"`` for the situation that they talk about.
    """

    speaker: str
    text: str


Answer = int | float | tuple[int, ...]


class Example(NamedTuple):
    """A row of a task, in the same shape for every dataset.

    ``group`` is the unit that significance tests resample (dialogue, post, article); ``block`` is the unit
    that a split never divides (at least the group, sometimes wider: Conv's dialogues share articles).
    ``context`` holds the earlier turns, oldest first, and may be empty. ``label`` is the index of a class,
    a real number for a continuous task, or for a multilabel task a 0 or 1 per class. ``split`` names the published
    set that the data themselves put the row in. ``after`` holds the later turns, nearest first; it is empty where a
    dataset has none, and only systems that ask for it see it (harness.study.systems, ``window``). ``marks`` are what
    every annotator answered, in the order of the label's columns, None where one did not: the index of a class, or a
    number; empty where the label comes from one column. No key and no system depends on them.

    A reply of a dialogue that is labelled with the second of three levels, for example:

        Example("7:2", "7", "article 3", (Turn("speaker", "My dog died."),), "I am so sorry.", 1)
    """

    id: str
    group: str
    block: str
    context: tuple[Turn, ...]
    text: str
    label: Answer
    rationale: tuple[str, ...] = ()
    split: str = ""
    after: tuple[Turn, ...] = ()
    marks: tuple[float | None, ...] = ()


def classes_of(label: Answer) -> tuple[int, ...]:
    """Indices of the classes that a label names: one, or any number for a multilabel task."""
    if isinstance(label, tuple):
        return tuple(index for index, value in enumerate(label) if value)
    return (int(label),)


@dataclass(frozen=True)
class Label:
    """The answer that a task asks for: its column, kind, classes in order of their index, and range.

    A label without ``classes`` that is not continuous has the distinct values of its column as classes, once the file
    is read. A multilabel label is one column of class names between ``separator``, or ``columns`` of 0 and 1, one per
    class; ``column`` names them all in messages. For other kinds ``columns`` are those of several annotators.
    """

    column: str
    kind: Annotated[str, OneOf(KINDS), "`ordinal` has classes with an order; a `multilabel` row has several"]
    classes: Annotated[Texts, "labels in the order of their index, ordered ones lowest first; default: the file's"] = ()
    names: Annotated[tuple[Text, ...], "how tables call the classes, in the same order"] = ()
    minimum: Annotated[float | None, "lowest value of a continuous label; lower ones are an error"] = None
    maximum: Annotated[float | None, "highest value of a continuous label"] = None
    separator: Annotated[str, "between the names of a cell with several, `[]` of a list"] = ""
    columns: tuple[str, ...] = ()
    combine: Annotated[str, "of annotators: `mean` or `majority`; of rows with one of several labels: `union`"] = ""
    decimal: Annotated[str, "the decimal mark of numbers: `,` or `.` (default)"] = ""

    def __post_init__(self) -> None:
        """Check that kind, classes and range fit each other; raise BadEntry if not."""
        self._check_annotators()
        if self.kind == "multilabel" and bool(self.separator) == bool(self.columns):
            raise BadEntry(
                "a multilabel label needs either a `separator` between the class names of its column, "
                "or a list of 0/1 columns as `label`"
            )
        if self.columns and not self.combine:
            object.__setattr__(self, "classes", self.classes or self.columns)
            if len(self.columns) != len(self.classes):
                raise BadEntry(f"{len(self.columns)} label columns for {len(self.classes)} classes")
        self._check_classes()

    def _check_annotators(self) -> None:
        if self.decimal and (self.decimal not in DECIMALS or self.kind != "continuous"):
            raise BadEntry(f'decimal {self.decimal!r} is not "," or "." of a continuous label, which has numbers')
        if self.combine == "union" and self.kind == "multilabel" and self.separator:
            return
        if bool(self.combine) != (bool(self.columns) and self.kind != "multilabel"):
            raise BadEntry(
                f"a {self.kind} label with {len(self.columns) or 1} column(s) and combine {self.combine!r}: a list of "
                'columns is of 0/1 columns, `kind` "multilabel", or of annotators, with `combine` "mean" or "majority"'
            )
        if self.combine and self.combine != COMBINED[self.kind]:
            raise BadEntry(f"combine {self.combine!r} does not suit a {self.kind} label; use {COMBINED[self.kind]!r}")
        if len(set(self.columns)) != len(self.columns):
            raise BadEntry(f"label columns repeat: {', '.join(self.columns)}")

    def _check_classes(self) -> None:
        if self.kind == "continuous" and self.classes:
            raise BadEntry("a continuous label has no classes; remove `classes` or change `kind`")
        if len(self.classes) == 1:
            raise BadEntry(f"a {self.kind} label needs at least two classes, got one: {self.classes[0]}")
        if self.kind == "binary" and self.classes and len(self.classes) != 2:
            raise BadEntry(f"a binary label has two classes, got {len(self.classes)}: {', '.join(self.classes)}")
        if len(set(self.classes)) != len(self.classes):
            raise BadEntry(f"classes repeat: {', '.join(self.classes)}")
        if self.names and len(self.names) != len(self.classes):
            raise BadEntry(f"{len(self.names)} names for {len(self.classes)} classes")

    @property
    def is_complete(self) -> bool:
        """Whether the classes are known (a continuous label has none to know)."""
        return self.kind == "continuous" or bool(self.classes)

    @property
    def n_outputs(self) -> int:
        """Width of the prediction head: one per class, or one for a continuous label; 0 while classes are unknown."""
        return 1 if self.kind == "continuous" else len(self.classes)


ASKED = ("binary", "multiclass", "ordinal")  # kinds of labels whose rows each have one of the options as answer
TEXT_OF_ROW = "{text}"  # where a question has the text that is judged


@dataclass(frozen=True)
class Instruction:
    """How a model that follows instructions is asked for a label, and the answers that it chooses from.

    Answers are compared with their end, so that one may be the beginning of another.
    """

    question: Annotated[Text, "what is asked about the text, which stands where `{text}` is written"]
    options: Annotated[tuple[Text, ...], "the answers, one for every class in their order"]
    domain: Annotated[Text, "whose words the turns are, as in `a chat of a seeker and a supporter`"] = ""
    definition: Annotated[Text, "what the label means, where the question does not say it all"] = ""
    new_tokens: Annotated[bool, "true: a trained system answers by new tokens, not the words of options"] = False

    def __post_init__(self) -> None:
        """Check question and options; raise BadEntry naming what is wrong."""
        if (places := self.question.count(TEXT_OF_ROW)) != 1:
            raise BadEntry(
                f"instruction.question has {TEXT_OF_ROW} {places} times: {self.question!r}; write it once, where the "
                "text that is judged stands"
            )
        if len(self.options) < 2:
            raise BadEntry(f"instruction.options has {len(self.options)} options; name one for every class")
        odd = [option for option in self.options if not option or option != option.strip()]
        if odd:
            raise BadEntry(f"instruction.options has {odd[0]!r}, which is empty or begins or ends with a space")
        if len({option.casefold() for option in self.options}) != len(self.options):
            raise BadEntry(f"instruction.options repeat: {', '.join(self.options)}; an answer stands for one class")

    @property
    def content_hash(self) -> str:
        """Sha256 (hex) of all of it, for the keys of the cells that read it."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Download:
    """One file that may be fetched; ``sha256`` and ``bytes`` are empty and 0 where they are not known."""

    url: Annotated[Address, "https address, pinned to a commit or version"]
    path: Annotated[str, "where it goes below the data folder; one of `files`"]
    sha256: Annotated[str, hexadecimal(64), "of the download; without it, `git_blob` counts, or nothing"] = ""
    bytes: Annotated[Count, "size of the download; more is refused"] = 0
    git_blob: Annotated[str, hexadecimal(40), "id that git gives the content; where that alone is known"] = ""
    archive_member: Annotated[str, "for a zip or tar archive: the one file in it to keep"] = ""

    def __post_init__(self) -> None:
        """Check the path; raise BadEntry naming the value."""
        path = PurePosixPath(self.path)
        if not self.path or path.is_absolute() or ".." in path.parts or "\\" in self.path:
            raise BadEntry(f"download path {self.path!r} must be relative and stay below the data folder")


FORBIDS = {  # words of a licence, in small letters, that keep its data where they are
    "not to be passed on": "its data are not to be passed on",
    "on request": "its data are given on request only",
    "withdrawn": "its data were withdrawn",
}


@dataclass(frozen=True)
class Dataset:
    """Where rows come from, and what may be done with them."""

    id: str
    title: str
    family: Annotated[Text, "tasks of one family share texts or people and are split alike; default: the dataset"]
    version: Annotated[Text, "raise it when rows or labels change; stands in every table"] = "1"
    data_source: Annotated[Text, "where the texts come from (reddit, twitter, crowdsourced, ...)"] = ""
    language: Annotated[Text, "language code. Backbone and tasks of other languages get a warning"] = "en"
    setting: Annotated[Text, "conversation, social_media or essay"] = ""
    licence: Annotated[Text, "SPDX id, or what is known"] = ""
    citation: Annotated[Text, "BibTeX"] = ""
    url: Annotated[Text, "where it is presented"] = ""
    access: Annotated[Text, "how to get the files; shown when they are missing"] = ""
    private: Annotated[bool, "true: ids are stored as hashes, and nothing is exported unless asked"] = False
    downloads: Annotated[tuple[Download, ...], "list of tables for `data fetch`; see below"] = ()
    published: Annotated[Table, "what is known of a published split"] = field(default_factory=dict)
    checksums: Annotated[Mapping[str, Hash], "sha256 of files that one asks for"] = field(default_factory=dict)

    def why_kept(self) -> str:
        """Why texts may not be passed on, as far as the entry says; empty where it forbids nothing."""
        if self.private:
            return "its data are private"
        licence = self.licence.lower()
        return next((f"{why} (licence: {self.licence})" for words, why in FORBIDS.items() if words in licence), "")


class Columns(TypedDict, total=False):
    """What a reader needs to know: of texts, conversations, labels and splits."""

    text: Annotated[str, "column of the text that is judged; here as elsewhere `post.body` reaches into nested JSON"]
    context: Annotated[str, "column of what was said before"]
    fallback_files: Annotated[Texts, "smaller files that are read while `files` are not all there; a warning says so"]
    encoding: Annotated[str, "Python's name of the encoding; default: utf-8, with or without byte order mark"]
    delimiter: Annotated[str, "character between cells; default: comma for .csv, tab for .tsv"]
    escape: Annotated[
        str,
        'character that takes the next one as it is, as in `\\"`; by default quotes are doubled; `none` where quotes'
        " are letters as others",
    ]
    skip_empty: Annotated[bool, "true leaves rows without a text out; otherwise they are an error"]
    unique_by: Annotated[Texts, "columns; of rows that are equal in all of them the first is kept"]
    rationale: Annotated[str, "column of the spans of the text that support the label, between |"]
    turn: Annotated[str, "column of a turn's number or time in its dialogue (`group`); default: the order of the file"]
    speaker: Annotated[str, "column of who says a turn; default: two people take turns"]
    roles: Annotated[Table, "from speakers' names to `speaker` or `listener`; default: `speaker` is the first to speak"]
    only: Annotated[Texts, "speakers whose turns are rows; the others' stand in the context alone"]
    dialogues: Annotated[str, "of nested JSON: where its dialogues are, a list or an object; default: the file itself"]
    turns: Annotated[str, "of nested JSON: where a dialogue's turns are; `.` where a dialogue is their list"]
    annotations: Annotated[str, "list in a dialogue with the labels of its turns, in order, each with the turn's text"]
    annotation_text: Annotated[str, "where an annotation has the text; default: as `text`"]
    relabel: Annotated[Table, "from labels of the file to classes"]
    relabel_rest: Annotated[str, "class of all labels that `relabel` does not list"]
    drop_labels: Annotated[Texts, "labels whose rows are left out"]
    annotators: Annotated[
        Texts, "columns of every annotator's answer, beside `label`; the leaderboard then ranks one, too"
    ]
    annotator: Annotated[str, "column of who gave a row's label; rows of one `row_id`, or of equal texts, become one"]
    label_sources: Annotated[Texts, "which annotators' labels count, for readers that know several"]
    group: Annotated[str, "column of what no split divides (dialogue, post) and tests resample whole; default: a row"]
    block: Annotated[str, "column of more that no split divides (the article of dialogues); default: the group"]
    row_id: Annotated[str, "column of a unique id; default: the number of the row"]
    split_column: Annotated[str, "column that names published sets: train, validation or dev, test"]
    split_files: Annotated[Table, 'from published sets to their files, as in { train = "a.csv", test = "b.csv" }']


@dataclass(frozen=True)
class Task:
    """One prediction problem on one dataset: an entry of the registry.

    ``columns`` is what its reader needs to know. ``split_salt`` is None where the clean split is searched for
    (tasks.splits.clean). Only systems that read an ``instruction`` have it in their keys, and ``later`` is in keys only
    where it is not 0; ``entry_file``, the file of the entry, is in none.
    """

    id: Annotated[
        Id, "the task's name everywhere, never used again for another; no name that torch needs (`train`, ...)"
    ]
    dataset: Dataset
    title: Annotated[Text, "how tables and figures call the task; default: the id"]
    files: Annotated[
        Texts,
        "csv, tsv, json, jsonl, parquet or arrow, maybe packed, below the data folder or beside the entry",
        distinct,
    ]
    reader: Annotated[str, "how files become rows: `table` (default), `turns`, `aligned`, `numbered`, ..."]
    label: Label
    columns: Columns = field(default_factory=Columns)
    description: Annotated[Text, "one sentence: what is judged, and by whom"] = ""
    theme: Annotated[Text, "`direct`, `abstract`, `adjacent` or `unrelated`: how near the label is to empathy"] = ""
    metric: Annotated[str, "follows from the kind; only its own may be named"] = ""
    role: Annotated[str, OneOf(ROLES), "in a transfer; a `control` is an intermediate without empathy"] = "both"
    history: Annotated[int | str, "how many earlier turns are read: `none`, `previous`, `all` or a number"] = "all"
    later: Annotated[Count, "how many of the turns that follow the text are read, of a reader that has them"] = 0
    truncation: Annotated[str, OneOf(TRUNCATIONS), "what remains of too long a text; `windows` keep all"] = "head"
    tags: Annotated[str, OneOf(TAG_STYLES), "how the published study marked turns, for input_format `tags`"] = "none"
    class_weights: Annotated[str, OneOf(CLASS_WEIGHTS), "`balanced` weighs classes by rarity in the loss"] = "none"
    split: Annotated[str, "`clean` (80/10/10), or `cv2` to `cv20`: folds, where every row is a test row"] = "clean"
    repeats: Annotated[str, OneOf(REPEATS), "equal rows of several splits: `drop`, or cut `together`"] = "drop"
    training: Annotated[Table, "departures from the study's, such as epochs and learning_rate"] = field(
        default_factory=dict
    )
    split_salt: Annotated[
        Salt | None, "fixes the split of the family; default: found from the rows, 0 for several tasks"
    ] = None
    instruction: Annotated[Instruction | None, "how a model that follows instructions is asked; see below"] = None
    entry_file: str = ""

    def __post_init__(self) -> None:
        """Check which fields go together; raise BadEntry naming the field and what is allowed."""
        object.__setattr__(self, "metric", self.metric or METRICS[self.label.kind])
        required = METRICS[self.label.kind]
        if self.metric != required:
            raise BadEntry(f"metric {self.metric!r} does not suit the label kind {self.label.kind}; use {required!r}")
        if not (self.history in HISTORIES if isinstance(self.history, str) else self.history >= 1):
            raise BadEntry(
                f"history {self.history!r} is not one of {', '.join(HISTORIES)}, nor a number of turns from 1"
            )
        if self.class_weights != "none" and self.label.kind == "continuous":
            raise BadEntry("class_weights do not suit a continuous label, which has no classes; remove them")
        odd = [name for name in ("relabel", "relabel_rest", "drop_labels") if name in self.columns]
        if odd and self.label.kind == "multilabel" and not self.label.separator:
            raise BadEntry(f"{odd[0]} renames what stands in a label's cell, and these are 0 and 1; remove it")
        if self.label.separator and self.label.kind != "multilabel" and "relabel" not in self.columns:
            raise BadEntry(
                f"a {self.label.kind} label with a `separator` needs `relabel`, which says what class a name "
                'stands for; or set `kind` to "multilabel"'
            )
        self._check_reader()
        self._check_instruction()
        if self.split != "clean" and not 2 <= self.folds <= MOST_FOLDS:
            raise BadEntry(f'split {self.split!r} is neither "clean" nor "cv2" to "cv{MOST_FOLDS}"')

    def _check_reader(self) -> None:
        fields = [name for name in ("split_files", "split_column") if name in self.columns]
        if fields and self.reader not in ("table", "turns", "aligned"):
            raise BadEntry(
                f"`{fields[0]}` is for the readers 'table', 'turns' and 'aligned'; {self.reader!r} reads none"
            )
        if self.label.combine == "union" and self.reader != "table":
            raise BadEntry(f"`combine` \"union\" joins the rows of an item for the reader 'table', not {self.reader!r}")
        if self.label.combine and self.reader not in (*SEVERAL, "turns"):
            raise BadEntry(
                f"`combine` is for the readers 'table', 'joined' and 'turns'; {self.reader!r} reads one label"
            )
        if annotators := self.columns.get("annotators"):
            self._check_annotators(annotators)
        is_read = self.reader in ("table", "turns") and not annotators and self.label.kind != "multilabel"
        if self.columns.get("annotator") and not is_read:
            raise BadEntry(
                "`annotator` names who gave a row's label, for the readers 'table' and 'turns' and labels of one class "
                "or number; remove it, or `annotators`"
            )

    def _check_annotators(self, columns: object) -> None:
        if self.reader not in SEVERAL:
            raise BadEntry(f"`annotators` is for the readers 'table' and 'joined'; {self.reader!r} reads one label")
        if not isinstance(columns, tuple) or not 2 <= len(set(columns)) == len(columns):
            raise BadEntry(f"annotators {columns!r}: name the columns of two or more annotators, each once")
        if self.label.combine or self.label.kind == "multilabel":
            why = "are the columns of `label`" if self.label.combine else "of a multilabel task have no column each"
            raise BadEntry(f"annotators {', '.join(map(str, columns))}: annotators {why}; remove `annotators`")

    def _check_instruction(self) -> None:
        if self.instruction is None:
            return
        if self.label.kind not in ASKED:
            raise BadEntry(f"a {self.label.kind} label is no choice of one option; remove `instruction`")
        options, classes = self.instruction.options, self.label.classes
        if not classes:
            raise BadEntry("instruction.options are in the order of `classes`, which is missing; write both")
        if len(options) != len(classes):
            raise BadEntry(
                f"instruction.options has {len(options)} options ({', '.join(options)}) for {len(classes)} classes "
                f"({', '.join(classes)}); name one for every class, in their order"
            )

    @property
    def folds(self) -> int:
        """K of a ``cvK`` split; 0 for a split that has no folds."""
        match = re.fullmatch(r"cv([0-9]{1,3})", self.split)
        return int(match[1]) if match else 0
