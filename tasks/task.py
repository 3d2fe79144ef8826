"""What a task is: frozen records, validated when they are built, without any reading of files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath
from typing import NamedTuple

from tasks.errors import BadEntry

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
    is read. Classes of an ordinal label are in their order. A multilabel label is one column of class names between
    ``separator``, or ``columns`` of 0 and 1, one per class; ``column`` names them all in messages. For other kinds
    ``columns`` are those of several annotators, and ``combine`` says how their labels become one. ``decimal`` is the
    decimal mark.
    """

    column: str
    kind: str
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    separator: str = ""
    columns: tuple[str, ...] = ()
    combine: str = ""
    decimal: str = ""

    def __post_init__(self) -> None:
        """Check that kind, classes and range fit each other; raise BadEntry if not."""
        if self.kind not in KINDS:
            raise BadEntry(f"label kind {self.kind!r} is not one of {', '.join(KINDS)}")
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

    ``question`` holds ``{text}`` once, where the text that is judged stands in it. ``options`` are the answers, one per
    class in their order; answers are compared with their end, so that one may be the beginning of another. ``domain``
    says whose words the turns are, and ``definition`` what the label means, empty where the question says it all. With
    ``new_tokens`` a model that is trained answers by a new token per class, whose meaning it learns, and not by the
    words of its option.
    """

    question: str
    options: tuple[str, ...]
    domain: str = ""
    definition: str = ""
    new_tokens: bool = False

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
    """One file that may be fetched: from ``url`` to ``path`` below the data folder.

    ``sha256`` (hex) and ``bytes`` are those of what is downloaded; empty and 0 where they are not known. Where only the
    git commit is known, ``git_blob`` (hex) is the id that git gives the content. Where the download is an archive,
    ``archive_member`` names the file in it that is kept.
    """

    url: str
    path: str
    sha256: str = ""
    bytes: int = 0
    git_blob: str = ""
    archive_member: str = ""

    def __post_init__(self) -> None:
        """Check address, path, hash and size; raise BadEntry naming the value."""
        path = PurePosixPath(self.path)
        if not self.url.startswith(("https://", "http://")):
            raise BadEntry(f"download url {self.url!r} does not start with https:// or http://")
        if not self.path or path.is_absolute() or ".." in path.parts or "\\" in self.path:
            raise BadEntry(f"download path {self.path!r} must be relative and stay below the data folder")
        if self.sha256 and not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise BadEntry(f"download sha256 {self.sha256!r} is not 64 hexadecimal digits")
        if self.git_blob and not re.fullmatch("[0-9a-f]{40}", self.git_blob):
            raise BadEntry(f"download git_blob {self.git_blob!r} is not 40 hexadecimal digits")
        if self.bytes < 0:
            raise BadEntry(f"download bytes {self.bytes} is negative")


FORBIDS = {  # words of a licence, in small letters, that keep its data where they are
    "not to be passed on": "its data are not to be passed on",
    "on request": "its data are given on request only",
    "withdrawn": "its data were withdrawn",
}


@dataclass(frozen=True)
class Dataset:
    """Where rows come from, and what may be done with them.

    ``downloads`` may be fetched without asking anybody; ``published`` describes the published split, if there is one.
    ``checksums`` holds the sha256 (hex) of files that must be requested, by their path below the data folder.
    """

    id: str
    title: str
    family: str
    version: str = "1"
    data_source: str = ""
    language: str = "en"
    setting: str = ""
    licence: str = ""
    citation: str = ""
    url: str = ""
    access: str = ""
    private: bool = False
    downloads: tuple[Download, ...] = ()
    published: Mapping[str, object] = field(default_factory=dict)
    checksums: Mapping[str, object] = field(default_factory=dict)

    def why_kept(self) -> str:
        """Why texts may not be passed on, as far as the entry says; empty where it forbids nothing."""
        if self.private:
            return "its data are private"
        licence = self.licence.lower()
        return next((f"{why} (licence: {self.licence})" for words, why in FORBIDS.items() if words in licence), "")

    def __post_init__(self) -> None:
        """Refuse a checksum that is none; raise BadEntry naming the file."""
        for path, value in self.checksums.items():
            if not (isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value)):
                raise BadEntry(f"checksum of {path!r} is not a sha256 of 64 hexadecimal digits: {value!r}")


@dataclass(frozen=True)
class Task:
    """One prediction problem on one dataset: an entry of the registry.

    ``reader`` names how raw files become rows and ``columns`` what that reader needs to know (text, context,
    group and id columns, ...). ``training`` holds departures from the default training settings.
    ``history`` is how many earlier turns are read: none, the previous one, all, or a number of last ones; ``later``
    how many of those that follow the text, which are in keys only where there are any.
    ``truncation`` is what remains of a text that is longer than the backbone takes. ``split`` is ``clean`` or ``cvK``:
    K folds, each tested by a training on the others. ``repeats`` is what happens to rows that repeat a later split's
    context and text: ``drop``, or ``together`` for splits that never separate equal texts.
    ``split_salt`` fixes the clean split of the whole family; with None it is searched for (tasks.splits.clean).
    ``instruction`` is how a model is asked for the label, if anybody wrote one; only systems that read it have it in
    their keys. ``entry_file`` is the file of the entry; it takes no part in any key.
    """

    id: str
    dataset: Dataset
    title: str
    files: tuple[str, ...]
    reader: str
    label: Label
    columns: Mapping[str, object] = field(default_factory=dict)
    description: str = ""
    theme: str = ""
    metric: str = ""
    role: str = "both"
    history: str | int = "all"
    later: int = 0
    truncation: str = "head"
    tags: str = "none"
    class_weights: str = "none"
    split: str = "clean"
    repeats: str = "drop"
    training: Mapping[str, object] = field(default_factory=dict)
    split_salt: int | None = None
    instruction: Instruction | None = None
    entry_file: str = ""

    def __post_init__(self) -> None:
        """Check the closed vocabularies; raise BadEntry naming the field and what is allowed."""
        object.__setattr__(self, "metric", self.metric or METRICS[self.label.kind])
        required = METRICS[self.label.kind]
        if self.metric != required:
            raise BadEntry(f"metric {self.metric!r} does not suit the label kind {self.label.kind}; use {required!r}")
        self._check_vocabularies()
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
        if self.split_salt is not None and not 0 <= self.split_salt < 2**32:
            raise BadEntry(f"split_salt {self.split_salt} is not between 0 and 4294967295")

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

    def _check_vocabularies(self) -> None:
        closed = {"truncation": TRUNCATIONS, "tags": TAG_STYLES, "role": ROLES, "class_weights": CLASS_WEIGHTS}
        closed["repeats"] = REPEATS
        if isinstance(self.history, str):
            closed["history"] = HISTORIES
        for name, allowed in closed.items():
            if getattr(self, name) not in allowed:
                raise BadEntry(f"{name} {getattr(self, name)!r} is not one of {', '.join(allowed)}")
        if isinstance(self.history, int) and self.history < 1:
            raise BadEntry(f'history {self.history} is not a number of turns from 1; for no turn write "none"')
        if self.later < 0:
            raise BadEntry(f"later {self.later} is not a number of turns; for none leave it out")

    @property
    def folds(self) -> int:
        """K of a ``cvK`` split; 0 for a split that has no folds."""
        match = re.fullmatch(r"cv([0-9]{1,3})", self.split)
        return int(match[1]) if match else 0
