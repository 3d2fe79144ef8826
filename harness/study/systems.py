"""A system: a way to solve a task that is no adapter, as one file with a small contract.

A system's file (``harness/systems/kinds/NAME.py``, or a user's own: docs/systems-beside-adapters.md) is a module
with

- ``VERSION``, a whole number that enters every key; raised when the same settings give other numbers, - ``READS``,
what it needs besides the rows of its task (``Reads``), - ``Config``, a frozen dataclass of numbers, texts, switches
and tuples of these, whose defaults are the paper's values,   with a field ``window``, a pair of whole numbers, where
it reads turns around the text: ``(3, 2)`` asks for the last   three earlier turns and the first two later ones. Rows
then come cut to these, everywhere; without the field they have   every earlier turn that the task reads, and never a
later one. Later turns enter keys only where they are asked for, - ``fit(fit: Fit) -> Fitted``, which sees training
and validation rows and never a test row, - ``load(folder, place) -> Fitted``, which reads what ``Fitted.save`` has
written, - ``PACKAGES``, those whose versions decide its numbers, if they are more than numpy: a record names them, -
where it runs the study's backbone, ``passes(config)``: forward passes of it that a training token costs (a trained
encoder's backward pass costs two), for the plan's hours, - where weights are large, ``kept_bytes(config, outputs,
backbone)``: bytes of what ``save`` writes, for the plan, and   ``CHECKPOINT_COPIES``, how many times these its
checkpoints take while one replaces another, if not six, - where its settings name files, ``identity(config)``: what
tells their content from any other, for the keys, - ``LOCAL``, the settings that decide no prediction (an address, a
cap) or do so by a file's content, which ``identity``   tells: they are in no key, - ``ADDED``, the settings that it
has got since it was first used: in keys only where they are not the defaults, - ``SMOKE``, the settings with which
it trains on the few rows of a smoke run, where its own may ask for more of them, - ``check(config, name, task)``,
which refuses a task when a study is planned, - where it sends texts to a server, ``leaving(config, instruction,
parts, seed, answers)``: what, for the plan, or None.

Nothing heavy is imported at the top of such a file: studies are planned without torch.
"""

from __future__ import annotations

import dataclasses
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.study.backbone import Backbone
from harness.study.device import ANY_DEVICE, Device
from tasks.errors import BadInput, BadStudy
from tasks.plain_text import nearest
from tasks.splits.loading import Splits
from tasks.task import KINDS, Example, Instruction, Label, Task, Turn

ROOM = "harness.systems.kinds"
OF_STUDIES = ("kind", "tasks")  # fields of [system.NAME] that are no settings of the kind
ENCODER = "encoder"  # weights of a kind that every backbone of a study is
FURTHER = ("LOCAL", "ADDED", "SMOKE", "check", "leaving")  # what a file may declare and most do not
DECLARED = ("VERSION", "READS", "Config", "fit", "load")  # what every file declares
MEANT = (*DECLARED, "PACKAGES", "passes", "kept_bytes", "CHECKPOINT_COPIES", "identity", *FURTHER)
ALIKE, SAME_START, SHORT = 0.8, 4, 8  # likeness, or first letters of a short name, from which one is meant for another
LEAK, NO_LEAK = "leak", "none"  # a field of settings, and its value where predictions see no answer
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
    are values of the kind's ``LOCAL`` settings, which no record holds, for a system that is loaded.
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


def _no_step(step: int, steps: int) -> None:
    """Hear of a step and do nothing."""


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
    watch: Callable[[int, int], None] = _no_step
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


def check_fields(config: object, words: Mapping[str, Sequence[str]], ranges: Mapping[str, tuple[float, float]]) -> None:
    """ValueError for the first field of settings that is none of its ``words``, or not in its range, ends included."""
    for name, allowed in words.items():
        if getattr(config, name) not in allowed:
            raise ValueError(f"{name} {getattr(config, name)!r} is not one of {', '.join(allowed)}")
    for name, (least, most) in ranges.items():
        if not least <= getattr(config, name) <= most:
            raise ValueError(f"{name} {getattr(config, name)!r} is not between {least:g} and {most:g}")


@dataclass(frozen=True)
class Kind:
    """A system's file, read: see the head of this module."""

    name: str
    version: int
    reads: Reads
    config: type
    fit: Callable[[Fit], Fitted]
    load: Callable[[Path, Place], Fitted]
    kept_bytes: Callable[[Any, int, Backbone], int]
    identity: Callable[[Any], Mapping[str, Any]]
    passes: Callable[[Any], float | None]
    packages: tuple[str, ...] = ("numpy",)
    checkpoint_copies: int = 6  # weights and two moments, in the checkpoint before and the new one
    local: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    smoke: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Any, str, Task], None] = lambda config, name, task: None
    leaving: Callable[[Any, Instruction, Mapping[str, Sequence[Example]], int, Path], Leaving | None] | None = None
    file_sha256: str = ""  # of a user's own file, whose content then enters the keys of its cells

    @classmethod
    def of(cls, name: str, module: ModuleType) -> Kind:
        """The kind that a module declares; BadStudy naming the first thing that it lacks or misspells."""
        _check_names(name, module)
        for part in DECLARED:
            if not hasattr(module, part):
                raise BadStudy(f"system {name!r}: {module.__file__} has no {part}, which every system declares")
        parameters = getattr(module.Config, "__dataclass_params__", None)
        if parameters is None or not parameters.frozen:
            raise BadStudy(f"system {name!r}: Config of {module.__file__} is no frozen dataclass")
        kept = getattr(module, "kept_bytes", lambda config, outputs, backbone: 0)
        identity: Callable[[Any], Mapping[str, Any]] = getattr(module, "identity", lambda config: {})
        passes: Callable[[Any], float | None] = getattr(module, "passes", lambda config: None)
        packages = tuple(getattr(module, "PACKAGES", cls.packages))
        parts = module.VERSION, module.READS, module.Config, module.fit, module.load
        copies = int(getattr(module, "CHECKPOINT_COPIES", cls.checkpoint_copies))
        further = {part.lower(): getattr(module, part) for part in FURTHER if hasattr(module, part)}
        return cls(name, *parts, kept, identity, passes, packages, copies, **further)

    @property
    def is_installed(self) -> bool:
        """Whether the optional package that it needs can be imported, if it needs any."""
        return not self.reads.package or find_spec(self.reads.package) is not None

    def configured(self, values: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401 - the kind's own Config
        """Its Config with these ``values`` over the defaults; BadStudy, naming ``where``, for one that does not fit.

        Lists become tuples, and whole numbers may stand for others. Ranges are checked by the Config itself, which
        raises ValueError.
        """
        defaults = {item.name: getattr(self.config(), item.name) for item in dataclasses.fields(self.config)}
        for name, value in values.items():
            if name not in defaults:
                raise BadStudy(f"{where}: system {self.name!r} has no setting {name!r}{nearest(name, defaults)}")
            if not _is_like(value, defaults[name]):
                raise BadStudy(f"{where}: {name} {value!r} is not of the kind of its default, {defaults[name]!r}")
        given = {name: _as(value, defaults[name]) for name, value in values.items()}
        if WINDOW in defaults and (problem := _problem_of_window(given.get(WINDOW, defaults[WINDOW]))):
            raise BadStudy(f"{where}: {problem}")
        try:
            return self.config(**given)
        except ValueError as problem:
            raise BadStudy(f"{where}: {problem}") from None


def _check_names(name: str, module: ModuleType) -> None:
    """BadStudy for a public name that looks like one of the contract's, which the file does not declare."""
    absent = [part for part in MEANT if not hasattr(module, part)]
    for own, value in vars(module).items():
        if own.startswith("_") or own in MEANT or getattr(value, "__module__", module.__name__) != module.__name__:
            continue
        for part in absent:
            # whether a name may be meant for a part of the contract: alike, or begun alike and not made of it
            first, other = own.casefold(), part.casefold()
            begins = (
                first[:SAME_START] == other[:SAME_START] and len(other) <= SHORT and not first.startswith(f"{other}_")
            )
            if begins or SequenceMatcher(None, first, other).ratio() >= ALIKE:
                raise BadStudy(
                    f"system {name!r}: {module.__file__} declares {own}, which nothing reads; did you mean {part}? "
                    f"If not, call it _{own}"
                )


def _is_like(value: object, default: object) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    if isinstance(default, tuple):
        return isinstance(value, list | tuple) and all(_is_like(part, default[0] if default else "") for part in value)
    return isinstance(value, type(default))


def _as(value: Any, default: object) -> Any:  # noqa: ANN401 - any value of TOML
    if isinstance(default, tuple):
        return tuple(_as(part, default[0]) if default else part for part in value)
    return float(value) if isinstance(default, float) else value


# Turns around a row's text, as a system asks for them.


def _problem_of_window(window: object) -> str:
    """What is wrong with the value of a field ``window``, in words; empty where it is a pair of whole numbers."""
    if isinstance(window, tuple) and len(window) == 2 and all(type(turns) is int and turns >= 0 for turns in window):
        return ""
    shown = list(window) if isinstance(window, tuple) else window
    return f"{WINDOW} {shown!r} is no pair of whole numbers from 0, of earlier and of later turns, as in [3, 3]"


def turns_after(config: Any) -> int:  # noqa: ANN401 - the kind's own Config
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
    return tuple([row._replace(context=_last(row.context, earlier), after=row.after[:later]) for row in rows])


def _last(turns: tuple[Turn, ...], count: int) -> tuple[Turn, ...]:
    return turns[max(0, len(turns) - count) :]


def kind_names() -> tuple[str, ...]:
    """The names of the systems that are shipped, sorted; ``_`` of a file's name is ``-``."""
    paths = list(import_module(ROOM).__path__)
    return tuple(sorted(module.name.replace("_", "-") for module in iter_modules(paths)))


def kind_of(name: str) -> Kind:
    """The system of this name, shipped or of a file that was named on the command line; BadStudy if there is none."""
    if name in _own:
        return _own[name][1]
    known = (*kind_names(), *_own)
    if name not in known:
        raise BadStudy(
            f"no system {name!r} is known here{nearest(name, known)}; known: {', '.join(known)}; a file of your own is"
            " named with --system FILE.py"
        )
    return _shipped(name)


@cache
def _shipped(name: str) -> Kind:
    return Kind.of(name, import_module(f"{ROOM}.{name.replace('-', '_')}"))


# Users' own files. Their code is run, so nothing names them but the command line (SECURITY.md).

_own: dict[str, tuple[Path, Kind]] = {}


def add_files(paths: Sequence[str | Path]) -> None:
    """Run these Python files, each a system called by its name; BadStudy for one that is none or has a taken name.

    A file that was added before is run again only if its content has changed.
    """
    for path in map(Path, paths):
        name = path.stem.replace("_", "-")
        if path.suffix != ".py" or not path.is_file():
            raise BadStudy(f"--system {path}: no such Python file")
        if name in kind_names():
            raise BadStudy(f"--system {path}: {name!r} is a system that is shipped; give the file another name")
        digest = sha256(path.read_bytes()).hexdigest()
        if name not in _own or _own[name][1].file_sha256 != digest:
            _own[name] = path.resolve(), dataclasses.replace(Kind.of(name, _run(path)), file_sha256=digest)


def own_files() -> tuple[str, ...]:
    """The files that were added, as absolute paths: what a job has to add before it can run their cells."""
    return tuple(str(path) for path, _ in _own.values())


def _run(path: Path) -> ModuleType:
    """The module that a file makes; BadStudy, in one line, where it raises."""
    spec = spec_from_file_location(f"own_system_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for what their fields are annotated with
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        raise BadStudy(f"--system {path}: it cannot be run: {type(problem).__name__}: {problem}") from None
    return module


# What a study says of its systems; harness.study.systems says whether they can read its tasks.


def leak_of(config: Mapping[str, Any]) -> str:
    """How a cell of this configuration predicts rows from their own answers; empty where it sees none of them."""
    leak = str(config.get(LEAK, NO_LEAK))
    return "" if leak == NO_LEAK else leak


def declared_kind(name: str, table: Mapping[str, Any]) -> Kind:
    """The kind of the system that a study calls ``name``: that of its name, where ``table`` declares no other."""
    return kind_of(str(table.get("kind", name)))


def kind_and_config(name: str, table: Mapping[str, Any], where: str) -> tuple[Kind, Any]:
    """The kind and settings of the system that a study calls ``name``, whose ``[system.NAME]`` is ``table``."""
    kind = declared_kind(name, table)
    settings = {field: value for field, value in table.items() if field not in OF_STUDIES}
    return kind, kind.configured(settings, where)


def check_systems(
    names: Sequence[str], tables: Mapping[str, Mapping[str, Any]], tasks: Sequence[str], where: str
) -> None:
    """BadStudy, naming ``where``, for a table that no system is called by, an unknown kind, setting or task."""
    for name in tables:
        if name not in names:
            raise BadStudy(f"{where}: [system.{name}] is not among the study's systems{nearest(name, names)}")
    for name in names:
        table = tables.get(name, {})
        kind_and_config(name, table, f"{where}: system.{name}")
        listed = table.get("tasks", [])
        if not isinstance(listed, list | tuple) or not set(listed) <= set(tasks):
            raise BadStudy(f"{where}: system.{name}.tasks {listed!r} is not a list of the study's own tasks")


def check_installed(kind: Kind, name: str) -> None:
    """BadInput, with the command that installs it, where the system's optional package is not here."""
    if not kind.is_installed:
        pip = f"'empathy-transfer[{kind.reads.extra}]'" if kind.reads.extra else kind.reads.package
        raise BadInput(f"system {name!r} needs an optional package; install it with: pip install {pip}")


def check_system(kind: Kind, name: str, backbone: Backbone) -> None:
    """BadInput where its package is not installed, or the study's backbone has weights of another kind."""
    check_installed(kind, name)
    if kind.reads.weights not in ("", ENCODER):
        raise BadStudy(
            f"system {name!r} reads weights of the kind {kind.reads.weights!r}, and backbone {backbone.name!r} is an"
            f" {ENCODER}; leave the system out, or give a backbone of that kind"
        )


def check_settings(
    kind: Kind,
    config: Any,  # noqa: ANN401 - the kind's own Config
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


def check_rows(kind: Kind, name: str, rows: Splits, siblings: Mapping[str, Splits | None]) -> None:
    """BadStudy where a system cannot read the rows of a task: label, rationales, or those of its siblings."""
    task, only = rows.task, f"or name its tasks: system.{name}.tasks"
    if task.label.kind not in kind.reads.labels:
        raise BadStudy(f"system {name!r} predicts no {task.label.kind} label, and {task.id!r} has one; {only}")
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
        _check_sibling(kind, name, task, of.task)
        for part in ("train", "validation", "test"):
            ids, of_other = ({row.id for row in getattr(splits, part)} for splits in (rows, of))
            if ids != of_other:
                raise BadStudy(
                    f"system {name!r}: {other!r} is no sibling of {task.id!r}: {len(ids ^ of_other)} ids of their"
                    f" {part} rows differ; siblings are cut alike (docs/systems-beside-adapters.md)"
                )


def _check_sibling(kind: Kind, name: str, task: Task, other: Task) -> None:
    """BadStudy where a system that learns from a sibling's labels can learn nothing from these."""
    known = kind.reads.sibling_labels
    if known and other.id == task.id:
        raise BadStudy(f"system {name!r}: {task.id!r} is named as its own sibling; name its tasks: system.{name}.tasks")
    if known and other.label.kind not in known:
        raise BadStudy(
            f"system {name!r} learns from no {other.label.kind} label, and sibling {other.id!r} has one; name a task of"
            f" another kind: {', '.join(known)}"
        )
