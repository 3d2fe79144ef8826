"""A system: a way to solve a task that is no adapter, as one class with a small contract, ``Kind``.

A shipped system is a module or a folder of ``harness/systems``, a user's own a file (docs/systems-beside-adapters.md).
Either declares one subclass of ``Kind``, and imports nothing heavy at its top: studies are planned without torch.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.study.backbone import Backbone
from harness.study.device import ANY_DEVICE, Device
from tasks.errors import BadInput, BadStudy
from tasks.fields import Count, check_record, check_table, fields_of, misfits, record_of
from tasks.plain_text import nearest
from tasks.splits.loading import Splits
from tasks.task import KINDS, Example, Instruction, Label, Task

ROOM = "harness.systems"
SHIPPED = ("bi-encoder", "clsn", "decoder", "encoder", "majority", "micromodels", "prompted", "seq2seq", "tfidf")
OF_STUDIES = ("kind", "tasks", "seeds")  # fields of [system.NAME] that are no settings of the kind
ENCODER = "encoder"  # weights of a kind that every backbone of a study is
NOTHING: Mapping[str, Any] = {}
ALIKE, SAME_START, SHORT = 0.8, 4, 8  # likeness, or first letters of a short name, from which one is meant for another
LEAK = "leak"  # a field of settings
NO_LEAK: Literal["none"] = "none"  # its value where predictions see no answer
WINDOW = "window"  # a field of settings: how many earlier and later turns rows have


@dataclass(frozen=True)
class Reads:
    """What a system needs. A study is refused before anything runs where that is not there.

    ``rationales``: the spans of ``Example.rationale``; their content then enters the keys of its cells.
    ``siblings``: other tasks of the same rows, which its configuration names in a field ``siblings``, by default none.
    ``sibling_labels``: the kinds of labels that it learns from of siblings, none of which may then be the task itself.
    ``weights``: empty, or ``encoder`` for those of the study's backbone, whose identity then enters the keys.
    ``labels``: the kinds of labels that it can predict.
    ``instructions``: how a model is asked for the label (``Task.instruction``), whose content then enters the keys.
    ``package``: the import name of an optional package, and ``extra`` the extra of this project that installs it.
    """

    rationales: bool = False
    siblings: bool = False
    sibling_labels: tuple[str, ...] = ()
    weights: str = ""
    labels: tuple[str, ...] = KINDS
    instructions: bool = False
    package: str = ""
    extra: str = ""


@dataclass(frozen=True)
class Place:
    """Where a system computes: a device, and the backbone of the study for those that read weights, else None.

    ``answers`` is a folder beside the store for what a system has paid for and no cell should pay for again. ``local``
    are values of the kind's ``local`` settings, which no record holds, for a system that is loaded.
    """

    device: Device = ANY_DEVICE
    backbone: Backbone | None = None
    answers: Path | None = None
    local: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sibling:
    """Another task of the same rows: its label, and its training and validation rows in the order of the target's."""

    label: Label
    train: Sequence[Example]
    validation: Sequence[Example]


@dataclass(frozen=True)
class Fit:
    """Everything that a system may learn from: no test row is in it.

    ``instruction`` is the task's, for systems that read one, else None.
    ``metric`` is the task's, as tasks.metrics names it, and ``seed`` a 63-bit number from which all randomness comes.
    ``checkpoint`` is a folder of this fit alone, which survives when the process is killed and is removed once the
    record is stored; it need not exist yet. ``watch(step, steps)`` is told of every finished step, from 1.
    """

    train: Sequence[Example]
    validation: Sequence[Example]
    label: Label
    metric: str
    seed: int
    config: Any
    checkpoint: Path
    place: Place = Place()
    siblings: Mapping[str, Sibling] = field(default_factory=dict)
    watch: Callable[[int, int], None] = lambda step, steps: None
    instruction: Instruction | None = None


class Source(NamedTuple):
    """Characters of a training row that explain a prediction, -1 where they are not found in its text."""

    id: str
    start: int
    end: int


class Span(NamedTuple):
    """A predicted rationale: characters ``start`` to ``end`` (exclusive) of the text of the row at place ``row``.

    ``source`` is what of a training row it was likened to, where a system says so.
    """

    row: int
    start: int
    end: int
    score: float
    source: Source | None = None


@dataclass(frozen=True)
class Predicted:
    """Predictions of rows: ``logits [n, outputs]`` as tasks.metrics.decisions reads them, spans, and what they cost.

    A class's logit is highest for the class that is predicted; of several labels those above 0 hold; a continuous
    label's single output is the value itself. ``spans`` is None where the system marks none in any row. ``cost`` may
    name tokens, money (in dollars) and seconds. ``is_cut [n]`` says which rows were read in part; None, of none.
    ``unanswered [n]`` says for which rows there is no class: they count as wrong, and the record lists them. ``notes``
    are what else a record says of how predictions came about, as JSON.
    """

    logits: NDArray[np.float32]
    spans: Sequence[Span] | None = None
    cost: Mapping[str, float] = field(default_factory=dict)
    is_cut: NDArray[np.bool_] | None = None
    unanswered: NDArray[np.bool_] | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


def counted_wrong(predicted: Predicted, labels: NDArray[Any]) -> NDArray[np.float32]:
    """The logits ``[n, classes]`` where every unanswered row has another class than its own: the next, in a circle.

    ``labels [n]`` are one class each; no other kind of label can be left unanswered.
    """
    logits = predicted.logits.astype(np.float32)
    if predicted.unanswered is None or not predicted.unanswered.any():
        return logits
    rows = np.flatnonzero(predicted.unanswered)
    logits[rows] = 0
    logits[rows, (labels[rows].astype(int) + 1) % logits.shape[1]] = 1
    return logits


class Leaving(NamedTuple):
    """What of a cell's rows would be sent to a server, at most: ids of rows, and tokens and dollars of every call.

    Calls stand under names that equal calls share; what is kept already is not among them. ``host`` is empty while
    nobody has named one; ``stays`` where it is this machine itself.
    """

    host: str
    stays: bool
    ids: frozenset[str]
    calls: Mapping[str, tuple[float, float]]


class Fitted(ABC):
    """A system that has learned. Trainings of several steps say how they went.

    ``history`` has one entry per step, each with ``epoch``, ``train_loss`` and ``validation`` (the score on the
    validation rows, or None), and ``best_epoch`` is the step whose weights were kept, from 1; None without steps.
    ``instruction`` is what a system asks by that reads one.
    """

    history: Sequence[Mapping[str, float | int | None]] = ()
    best_epoch: int | None = None
    instruction: Instruction | None = None

    @abstractmethod
    def predict(self, rows: Sequence[Example]) -> Predicted:
        """Predict rows by ``context`` and ``text`` alone; their labels and rationales are not to be looked at."""

    def leaked(self, rows: Sequence[Example], siblings: Mapping[str, Sequence[Example]]) -> Predicted:
        """Predict rows from their own rationales and those of the same rows of siblings, as some public code does.

        Only a cell whose configuration has a ``leak`` other than ``none`` comes here, and is flagged for it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no way to predict rows from their own answers")

    def asked_by(self, instruction: Instruction, classes: Sequence[int]) -> Fitted:
        """The same system, asked by other words, whose option i stands for the class ``classes[i]``.

        Its predictions have a logit per option, in the order of the options. Only systems that read an instruction come
        here (``empathy-transfer systems probe --options``); BadInput where these words cannot be asked by.
        """
        raise NotImplementedError(f"{type(self).__name__} answers by no options")

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything that ``load`` needs as safetensors and JSON: no pickle, and no text of a row."""


@dataclass(frozen=True)
class Settings:
    """Settings that are checked however they are made; fields are declared as in tasks.fields."""

    def __post_init__(self) -> None:
        """ValueError for the first value that does not fit its field."""
        check_record(self)


C = TypeVar("C", bound=Hashable)  # the settings of a kind, a frozen dataclass


class Kind(ABC, Generic[C]):
    """What a system declares: a subclass has ``config``, ``fit`` and ``load``, and whatever differs from the defaults.

    ``version`` enters every key, and is raised when the same settings give other numbers. ``reads`` is what it needs
    besides the rows of its task. ``config`` is a frozen dataclass of numbers, texts, switches and tuples of these,
    whose defaults are the paper's values. With a field ``window``, a pair of whole numbers, it reads turns around the
    text: ``(3, 2)`` asks for the last three earlier turns and the first two later ones. Rows then come cut to these,
    everywhere; without the field they have every earlier turn that the task reads, and never a later one. Later turns
    enter keys only where they are asked for.

    ``packages`` are those whose versions decide its numbers: a record names them. Checkpoints take ``kept_bytes`` so
    many times as ``checkpoint_copies`` says, while one replaces another. ``local`` are the settings that decide no
    prediction (an address, a cap) or do so by a file's content, which ``identity`` tells: they are in no key. ``added``
    are those that it has got since it was first used: in keys only where they are not the defaults. ``smoke`` are the
    settings with which it trains on the few rows of a smoke run, where its own may ask for more of them.
    """

    version: int = 1
    reads: Reads = Reads()
    config: type[C]
    packages: tuple[str, ...] = ("numpy",)
    checkpoint_copies: int = 6  # weights and two moments, in the checkpoint before and the new one
    local: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    smoke: Mapping[str, Any] = NOTHING

    def __init__(self, name: str, file_sha256: str = "") -> None:
        """``name`` is what studies call it; the sha256 of a user's own file enters the keys of its cells."""
        self.name, self.file_sha256 = name, file_sha256

    @abstractmethod
    def fit(self, fit: Fit) -> Fitted:
        """Learn from training and validation rows; no test row is among them."""

    @abstractmethod
    def load(self, folder: Path, place: Place) -> Fitted:
        """Read what ``Fitted.save`` has written."""

    def passes(self, config: C) -> float | None:
        """Forward passes of the study's backbone that a training token costs, for the plan's hours; None if unknown.

        A trained encoder's backward pass costs two.
        """
        return None

    def kept_bytes(self, config: C, outputs: int, backbone: Backbone) -> int:
        """Bytes of what ``save`` writes where weights are large, for the plan; 0 where they are not, or unknown."""
        return 0

    def identity(self, config: C) -> Mapping[str, Any]:
        """What tells the content of files that settings name from any other, for the keys."""
        return NOTHING

    def check(self, config: C, name: str, task: Task) -> None:
        """BadStudy where a task may not be given to the system that a study calls ``name``."""

    def leaving(
        self, config: C, instruction: Instruction, parts: Mapping[str, Sequence[Example]], seed: int, answers: Path
    ) -> Leaving | None:
        """What a cell would send to a server, of systems that read an instruction; None where nothing leaves.

        ``parts`` are its rows by split, ``answers`` the folder of what was paid for.
        """
        return None

    @property
    def is_installed(self) -> bool:
        """Whether the optional package that it needs can be imported, if it needs any."""
        return not self.reads.package or find_spec(self.reads.package) is not None

    def configured(self, values: Mapping[str, Any], where: str) -> C:
        """Its settings with these ``values`` over the defaults; BadStudy, naming ``where``, for one that does not fit.

        Lists become tuples, and whole numbers may stand for others. What goes together is checked by the settings
        themselves, which raise ValueError.
        """
        check_table(values, fields_of(self.config), BadStudy, where)
        try:
            config = record_of(self.config, values, floats=True)
            for misfit in misfits(getattr(config, WINDOW, (0, 0)), tuple[Count, Count], WINDOW):
                raise ValueError(misfit)
        except ValueError as problem:
            raise BadStudy(f"{where}: {problem}") from None
        return config


OURS = ("configured", "is_installed")  # what no file declares
MEANT = {name for name in (*Kind.__annotations__, *vars(Kind)) if not name.startswith("_") and name not in OURS}


def classes_in(module: ModuleType, base: type) -> list[Any]:
    """The subclasses of a class that stand in a module, imported ones left out."""
    values = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    return [value for value in values if isinstance(value, type) and issubclass(value, base)]


def kind_in(module: ModuleType, name: str, file_sha256: str = "") -> Kind[Any]:
    """The kind that a module declares; BadStudy naming the first thing that it lacks or misspells."""
    kinds = classes_in(module, Kind)
    if len(kinds) != 1:
        raise BadStudy(
            f"system {name!r}: {module.__file__} has {len(kinds)} classes of Kind, and every system declares a single"
            " one (docs/systems-beside-adapters.md)"
        )
    kind: type[Kind[Any]] = kinds[0]
    _check_names(name, module, kind)
    if absent := sorted({*kind.__abstractmethods__, *(() if hasattr(kind, "config") else ("config",))}):
        raise BadStudy(f"system {name!r}: {module.__file__} has no {absent[0]}, which every system declares")
    config: Any = kind.config
    parameters = getattr(config, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise BadStudy(f"system {name!r}: config of {module.__file__} is no frozen dataclass")
    try:
        fields_of(config)
    except (NameError, TypeError) as problem:  # a type that is imported for type checkers alone
        raise BadStudy(f"system {name!r}: a type of config of {module.__file__} is not there: {problem}") from None
    return kind(name, file_sha256)


def _check_names(name: str, module: ModuleType, kind: type[Kind[Any]]) -> None:
    """BadStudy for a public name of a kind that is none of the contract, or one of its file that looks like one."""
    absent = sorted(MEANT - vars(kind).keys())

    def likeness(word: str, part: str) -> float:
        # alike, or begun alike and not made of it
        begins = word[:SAME_START] == part[:SAME_START] and len(part) <= SHORT and not word.startswith(f"{part}_")
        return max(SequenceMatcher(None, word, part).ratio(), ALIKE if begins else 0)

    of_kind = vars(kind).keys() - MEANT
    of_file = [key for key, value in vars(module).items() if getattr(value, "__module__", "") in ("", module.__name__)]
    for declared in sorted({*of_kind, *of_file} - {kind.__name__}):
        part = max(absent, key=lambda part: likeness(declared.casefold(), part), default="")
        is_meant = declared in of_kind or likeness(declared.casefold(), part) >= ALIKE
        if is_meant and not declared.startswith("_"):
            raise BadStudy(
                f"system {name!r}: {module.__file__} declares {declared}, which nothing reads; did you mean {part}?"
                f" If not, call it _{declared}"
            )


# Turns around a row's text, as a system asks for them.


def turns_after(config: Any) -> int:  # noqa: ANN401 - the kind's settings
    """How many later turns a system with these settings is handed at most."""
    return int(getattr(config, WINDOW, (0, 0))[1])


def in_window(rows: Sequence[Example], config: Any) -> tuple[Example, ...]:  # noqa: ANN401 - as above
    """The rows with the turns around the text that a system with these settings is to see, and no others.

    That is all earlier and no later ones where its settings have no ``window``.
    """
    window: tuple[int, int] | None = getattr(config, WINDOW, None)
    if window is None:
        return tuple([row._replace(after=()) if row.after else row for row in rows])
    earlier, later = window
    starts = [max(0, len(row.context) - earlier) for row in rows]
    cut = zip(rows, starts, strict=True)
    return tuple([row._replace(context=row.context[start:], after=row.after[:later]) for row, start in cut])


def kind_of(name: str) -> Kind[Any]:
    """The system of this name, shipped or of a file that was named on the command line; BadStudy if there is none."""
    if name in _own:
        return _own[name][1]
    if name not in SHIPPED:
        names = (*SHIPPED, *_own)
        raise BadStudy(
            f"no system {name!r} is known here{nearest(name, names)}; known: {', '.join(names)}; a file of your own is"
            " named with --system FILE.py"
        )
    return _load_shipped(name)


@cache
def _load_shipped(name: str) -> Kind[Any]:
    return kind_in(import_module(f"{ROOM}.{name.replace('-', '_')}"), name)


# Users' own files. Their code is run, so nothing names them but the command line (SECURITY.md).

_own: dict[str, tuple[Path, Kind[Any]]] = {}


def add_files(paths: Sequence[str | Path]) -> None:
    """Run these Python files, each a system called by its name; BadStudy for one that is none or has a taken name.

    A file that was added before is run again only if its content has changed.
    """
    for path in map(Path, paths):
        name = path.stem.replace("_", "-")
        if path.suffix != ".py" or not path.is_file():
            raise BadStudy(f"--system {path}: no such Python file")
        if name in SHIPPED:
            raise BadStudy(f"--system {path}: {name!r} is a system that is shipped; give the file another name")
        digest = sha256(path.read_bytes()).hexdigest()
        if name in _own and _own[name][1].file_sha256 == digest:
            continue
        spec = spec_from_file_location(f"own_system_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[spec.name] = module  # where dataclasses look for what their fields are annotated with
        try:
            spec.loader.exec_module(module)
        except Exception as problem:
            raise BadStudy(f"--system {path}: it cannot be run: {type(problem).__name__}: {problem}") from None
        _own[name] = path.resolve(), kind_in(module, name, digest)


def own_files() -> tuple[str, ...]:
    """The files that were added, as absolute paths: what a job has to add before it can run their cells."""
    return tuple(str(path) for path, _ in _own.values())


# What a study says of its systems, and whether they can read its tasks.


def leak_of(config: Mapping[str, Any]) -> str:
    """How a cell of this configuration predicts rows from their own answers; empty where it sees none of them."""
    leak = str(config.get(LEAK, NO_LEAK))
    return "" if leak == NO_LEAK else leak


def declared_kind(name: str, table: Mapping[str, Any]) -> Kind[Any]:
    """The kind of the system that a study calls ``name``: that of its name, where ``table`` declares no other."""
    return kind_of(str(table.get("kind", name)))


def kind_and_config(name: str, table: Mapping[str, Any], where: str) -> tuple[Kind[Any], Any]:
    """The kind and settings of the system that a study calls ``name``, whose ``[system.NAME]`` is ``table``."""
    kind = declared_kind(name, table)
    settings = {field: value for field, value in table.items() if field not in OF_STUDIES}
    return kind, kind.configured(settings, where)


def check_systems(
    names: Sequence[str], tables: Mapping[str, Mapping[str, Any]], own: Mapping[str, Sequence[Any]], where: str
) -> None:
    """BadStudy, naming ``where``, for a table of no system and what it does not know; ``own``: tasks and seeds."""
    for name in tables:
        if name not in names:
            raise BadStudy(f"{where}: [system.{name}] is not among the study's systems{nearest(name, names)}")
    for name in names:
        table = tables.get(name, {})
        kind_and_config(name, table, f"{where}: system.{name}")
        for named, all_of in own.items():
            some = table.get(named, [])
            if not isinstance(some, list | tuple) or not all(value in all_of for value in some):
                raise BadStudy(f"{where}: system.{name}.{named} {some!r} is not a list of the study's own {named}")


def check_installed(kind: Kind[Any], name: str) -> None:
    """BadInput, with the command that installs it, where the system's optional package is not here."""
    if not kind.is_installed:
        pip = f"'empathy-transfer[{kind.reads.extra}]'" if kind.reads.extra else kind.reads.package
        raise BadInput(f"system {name!r} needs an optional package; install it with: pip install {pip}")


def check_system(kind: Kind[Any], name: str, backbone: Backbone) -> None:
    """BadInput where its package is not installed, or the study's backbone has weights of another kind."""
    check_installed(kind, name)
    if kind.reads.weights not in ("", ENCODER):
        raise BadStudy(
            f"system {name!r} reads weights of the kind {kind.reads.weights!r}, and backbone {backbone.name!r} is an"
            f" {ENCODER}; leave the system out, or give a backbone of that kind"
        )


def check_settings(
    kind: Kind[Any],
    config: Any,  # noqa: ANN401 - the kind's settings
    name: str,
    label: Label,
    backbone: Backbone,
) -> None:
    """BadStudy where settings ask for more tokens than the study's backbone reads, or a loss that no such label has.

    Settings say so by fields ``tokens`` (and ``weights``, where another encoder reads them) and ``objective``.
    """
    tokens, objective = getattr(config, "tokens", 0), getattr(config, "objective", None)
    if kind.reads.weights and tokens > backbone.max_tokens and not getattr(config, "weights", ""):
        raise BadStudy(
            f"system.{name}.tokens {tokens} is longer than backbone {backbone.name!r} reads; set it to at most"
            f" {backbone.max_tokens}"
        )
    if objective is not None and objective.kind != "cross-entropy" and not objective.fits(label.kind):
        raise BadStudy(
            f"system.{name}.loss {objective.kind!r} is not defined for the {label.kind} label of its tasks; take"
            f' "cross-entropy", or name other tasks: system.{name}.tasks'
        )


def check_rows(kind: Kind[Any], name: str, rows: Splits, siblings: Mapping[str, Splits | None]) -> None:
    """BadStudy where a system cannot read the rows of a task: label, rationales, or those of its siblings."""
    task, only = rows.task, f"or name its tasks: system.{name}.tasks"
    if task.label.kind not in kind.reads.labels:
        why = ""
        if kind.reads.instructions and task.label.kind == "multilabel":
            count = len(task.label.classes)
            why = f" (that would be {count} questions of yes or no about every row, and an entry has the words of one)"
        raise BadStudy(f"system {name!r} predicts no {task.label.kind} label, and {task.id!r} has one{why}; {only}")
    if kind.reads.rationales and not task.columns.get("rationale"):
        raise BadStudy(f"system {name!r} needs rationales, and task {task.id!r} has no column of them; {only}")
    if kind.reads.instructions and task.instruction is None:
        raise BadStudy(
            f"system {name!r} asks by an instruction, and task {task.id!r} has none; write [instruction] in its entry"
            f" (docs/adding-a-task.md), {only}"
        )
    for other, of in siblings.items():
        if of is None:
            raise BadStudy(f"system {name!r}: sibling {other!r} is no task of the study with data here; add it")
        learned, label = kind.reads.sibling_labels, of.task.label.kind
        if learned and of.task.id == task.id:
            raise BadStudy(
                f"system {name!r}: {task.id!r} is named as its own sibling; name its tasks: system.{name}.tasks"
            )
        if learned and label not in learned:
            raise BadStudy(
                f"system {name!r} learns from no {label} label, and sibling {other!r} has one; name a task of another"
                f" kind: {', '.join(learned)}"
            )
        for part in ("train", "validation", "test"):
            ids, of_other = ({row.id for row in getattr(splits, part)} for splits in (rows, of))
            if ids != of_other:
                raise BadStudy(
                    f"system {name!r}: {other!r} is no sibling of {task.id!r}: {len(ids ^ of_other)} ids of their"
                    f" {part} rows differ; siblings are cut alike (docs/systems-beside-adapters.md)"
                )
