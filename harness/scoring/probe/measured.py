"""What trained cells answer to their own test rows with another context, or with other options, kept in the store.

A probe is a measure named by the record that answers and by the operation. It holds places of rows, decisions and
probabilities, never a text. What the store has is not asked again.

Every operation is a function of rows and a seed. Labels, ids and groups stay, so that a metric can be computed as if
nothing had changed. A context that is swapped comes from a row of another group and is never equal to the row's own;
where none is left for a row, the row is counted as left out. Rows without a context take no part.

Systems that read an instruction choose among options (``tasks.task.Instruction``). They are asked again about the same
test rows with the order reversed, with letters in the place of names, and with these letters reversed; a server is
asked through the folder of answers, up to the cap of the study.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import expit, softmax

from adapters_store import Store, StoreError
from adapters_store.measures import (
    ARRANGEMENTS,
    AS_ASKED,
    BAD_NEWS,
    GOOD_NEWS,
    IN_CLASS,
    LETTERS,
    LETTERS_REVERSED,
    OPTIONS,
    OPTIONS_ROWS,
    OTHER_REPLY,
    OTHER_TASK,
    PROBE,
    PROBE_SEED,
    PROBES,
    REMOVED,
    SWAPPED,
    UNCHANGED,
    donors_of,
    options_inputs,
    probe_inputs,
)
from harness.scoring import scorer_of
from harness.scoring.system_scorer import SystemScorer
from harness.study.cell import later_turns
from harness.study.systems import kind_and_config
from tasks import metrics
from tasks.errors import BadInput
from tasks.readers.rows import kept_turns
from tasks.splits.loading import Splits, after_hash
from tasks.task import Example, Instruction, Turn

Context = tuple[Turn, ...]
Places = NDArray[np.int64]
THIRDS = (1 / 3, 2 / 3)  # of the labels of a continuous task, which has no classes
PAIRS = "news_pairs.tsv"
NOBODY = -1


@dataclass(frozen=True)
class Changed:
    """Rows that were changed, and at which ``places`` of all rows they stand; ``left_out`` is how many could not be.

    Rows without a context are counted in neither.
    """

    places: Places
    rows: list[Example]
    left_out: int = 0


@cache
def news_pairs() -> tuple[tuple[str, str], ...]:
    """Pairs of statements, good news and the bad news that it could have been; written for this project."""
    lines = files(__package__).joinpath(PAIRS).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return tuple((good, bad) for good, bad in pairs[1:])


@dataclass(frozen=True)
class Material:
    """What operations need beside the rows: a seed, and contexts of other tasks (none: no such task)."""

    seed: int
    foreign: Sequence[Context] = ()
    pairs: Sequence[tuple[str, str]] = field(default_factory=news_pairs)


def with_context(rows: Sequence[Example]) -> Places:
    """The places of rows that have a context."""
    return np.array([index for index, row in enumerate(rows) if row.context], dtype=np.int64)


def derangement(groups: Sequence[object], contents: Sequence[object], rng: np.random.Generator) -> Places:
    """For every row the place of another that gives it its content, each place given away once; -1 where there is none.

    Giver and taker are of different groups and differ in content. Rows in a random order, groups together, are turned
    by the size of the largest group, which parts all of a group from it unless it has more than half of the rows; who
    still has what it must not have exchanges givers with another at random.
    """
    group, content = _codes(groups), _codes(contents)
    count = len(group)
    if count == 0:
        return np.empty(0, np.int64)
    order = np.lexsort((rng.random(count), rng.permutation(group.max() + 1)[group]))
    givers = np.empty(count, np.int64)
    givers[order] = np.roll(order, -int(np.bincount(group).max()))

    def fits(taker: Places | int, giver: Places | int) -> NDArray[np.bool_]:
        return np.asarray((group[taker] != group[giver]) & (content[taker] != content[giver]))

    everyone = np.arange(count)
    for taker in np.flatnonzero(~fits(everyone, givers)).tolist():
        partners = np.flatnonzero(fits(taker, givers) & fits(everyone, givers[taker]))
        if not fits(taker, givers[taker]) and len(partners):
            partner = rng.choice(partners)
            givers[[taker, partner]] = givers[[partner, taker]]
    return np.where(fits(everyone, givers), givers, NOBODY)


def _codes(names: Sequence[object]) -> Places:
    """Equal names as equal numbers from 0."""
    codes: dict[object, int] = {}
    return np.array([codes.setdefault(name, len(codes)) for name in names], dtype=np.int64)


# The operations. Each takes all rows of a test set and returns those that it has changed.


def unchanged(rows: Sequence[Example], material: Material) -> Changed:
    """The rows as they are, for what all others are held against."""
    places = with_context(rows)
    return Changed(places, [rows[index] for index in places])


def removed(rows: Sequence[Example], material: Material) -> Changed:
    """Without any context."""
    places = with_context(rows)
    return Changed(places, [rows[index]._replace(context=()) for index in places])


def swapped(rows: Sequence[Example], material: Material) -> Changed:
    """The context of a row of another group."""
    return _exchange(rows, [with_context(rows)], "context", material.seed)


def swapped_in_class(rows: Sequence[Example], material: Material) -> Changed:
    """The context of a row of another group with the same label, of a number in the same third of the labels."""
    places = with_context(rows)
    classes = classes_of([rows[index].label for index in places])
    return _exchange(rows, [places[classes == number] for number in np.unique(classes)], "context", material.seed)


def from_other_tasks(rows: Sequence[Example], material: Material) -> Changed:
    """A context of another task, drawn without return as long as there are enough."""
    places, foreign = with_context(rows), material.foreign
    if not foreign:
        return Changed(np.empty(0, np.int64), [], len(places))
    rng = np.random.default_rng(material.seed)
    drawn = rng.choice(len(foreign), size=len(places), replace=len(places) > len(foreign))
    is_other = np.array([foreign[number] != rows[index].context for index, number in zip(places, drawn, strict=True)])
    chosen = [
        rows[index]._replace(context=foreign[number])
        for index, number in zip(places[is_other], drawn[is_other], strict=True)
    ]
    return Changed(places[is_other], chosen, int((~is_other).sum()))


def contradicted(rows: Sequence[Example], material: Material, *, half: int) -> Changed:
    """One half of a pair of news: 0 the good, 1 the bad one. With the same seed a row gets halves of the same pair."""
    places = with_context(rows)
    drawn = np.random.default_rng(material.seed).integers(len(material.pairs), size=len(places))
    chosen = [
        rows[index]._replace(context=(Turn(rows[index].context[-1].speaker, material.pairs[number][half]),))
        for index, number in zip(places, drawn, strict=True)
    ]
    return Changed(places, chosen)


Operation = Callable[[Sequence[Example], Material], Changed]
OPERATIONS: Mapping[str, Operation] = {
    UNCHANGED: unchanged,
    REMOVED: removed,
    SWAPPED: swapped,
    IN_CLASS: swapped_in_class,
    OTHER_TASK: from_other_tasks,
    GOOD_NEWS: partial(contradicted, half=0),
    BAD_NEWS: partial(contradicted, half=1),
    # the positive control: the reply of a row of another group, on its own context
    OTHER_REPLY: lambda rows, material: _exchange(rows, [with_context(rows)], "text", material.seed),
}


def classes_of(labels: Sequence[object]) -> Places:
    """The class of every label as a number: equal labels, or thirds of labels that are numbers with a fraction."""
    if any(isinstance(label, float) for label in labels):
        values = np.asarray(labels, dtype=np.float64)
        return np.searchsorted(np.quantile(values, THIRDS), values, side="right").astype(np.int64)
    return _codes(labels)


def _exchange(rows: Sequence[Example], parts: Sequence[Places], field: str, seed: int) -> Changed:
    """Rows that were given the ``field`` of another row of their part, which is at least of another group."""
    rng = np.random.default_rng(seed)
    takers, givers = [], []
    for places in parts:
        contents = [getattr(rows[index], field) for index in places]
        chosen = derangement([rows[index].group for index in places], contents, rng)
        takers.append(places[chosen != NOBODY])
        givers.append(places[chosen[chosen != NOBODY]])
    taker = np.concatenate([*takers, np.empty(0, np.int64)])
    giver = np.concatenate([*givers, np.empty(0, np.int64)])
    order = np.argsort(taker, kind="stable")
    pairs = list(zip(taker[order], giver[order], strict=True))
    left_out = sum(map(len, parts)) - len(pairs)
    return Changed(taker[order], [rows[a]._replace(**{field: getattr(rows[b], field)}) for a, b in pairs], left_out)


DIGITS = 6  # of a probability
Logits = NDArray[np.float32]
Watch = Callable[[str, int, int], None]


class ProbedCell(NamedTuple):
    """A finished cell that is to be probed: its key, its task, and what the study calls its system (none: adapters)."""

    key: str
    task: str
    system: str = ""


@dataclass
class Probe:
    """A probe of a stored study: ``splits_of`` gives a task's rows, ``missing`` says by name what was not probed."""

    store: Store
    manifest: Mapping[str, Any]
    splits_of: Callable[[str], Splits]
    device: str = "auto"
    missing: dict[str, str] = field(default_factory=dict)

    def run(self, cells: Sequence[ProbedCell], watch: Watch) -> None:
        """Put into the store what these cells answer; a task without context is named and left out."""
        done = 0
        for task in dict.fromkeys(cell.task for cell in cells):
            of_task = [cell for cell in cells if cell.task == task]
            try:
                self._task(task, of_task, lambda before=done: watch("probes", before, len(cells)))  # type: ignore[misc]
            except BadInput as reason:
                self.missing[task] = str(reason)
            done += len(of_task)
            watch("probes", done, len(cells))

    def _task(self, task: str, cells: Sequence[ProbedCell], tick: Callable[[], None]) -> None:
        splits = self.splits_of(task)
        turns = kept_turns(splits.task.history)
        if not any(row.context[turns] for row in tested(splits)):
            raise BadInput("its rows have no context that it reads")
        material = Material(PROBE_SEED, self._foreign(task, splits))
        for cell in cells:
            tick()
            rows = tested_rows(self.store, cell.key, splits)
            try:
                check_later_turns(self.store, cell.key, splits)
                self._cell(cell, rows, material)
            except (BadInput, StoreError) as reason:
                self.missing[f"{task} by {cell.system or 'adapter'}, {cell.key[:12]}"] = str(reason)

    def _foreign(self, task: str, splits: Splits) -> list[Context]:
        """Contexts of test rows of other families' tasks, cut as the task cuts its own."""
        turns = kept_turns(splits.task.history)
        contexts: list[Context] = []
        try:
            for donor in donors_of(self.manifest, task):
                contexts += [row.context[turns] for row in tested(self.splits_of(donor)) if row.context[turns]]
        except BadInput as reason:
            self.missing[f"{task}, {OTHER_TASK}"] = str(reason)
            return []
        if not contexts:
            self.missing[f"{task}, {OTHER_TASK}"] = "the study has no task of another family with a context"
        return contexts

    def _cell(self, cell: ProbedCell, rows: Sequence[Example], material: Material) -> None:
        donors = donors_of(self.manifest, cell.task)
        names = [name for name in PROBES if name != OTHER_TASK or material.foreign]
        wanted = [name for name in names if not self.store.find_measure(PROBE, probe_inputs(cell.key, name, donors))]
        if not wanted:
            return
        scorer = scorer_of(self.store, self.manifest, cell.system, cells=[cell.key], device=self.device)

        def logits_of(changed: Sequence[Example]) -> Logits:
            return scorer.answers(changed)[0].logits

        metric = scorer.tasks[0].metric
        unchanged = OPERATIONS[UNCHANGED](rows, material)
        base = logits_of(unchanged.rows)
        decided = metrics.decisions(metric, base)
        for name in wanted:
            started = time.perf_counter()
            changed = OPERATIONS[name](rows, material)
            logits = base if name == UNCHANGED else logits_of(changed.rows) if changed.rows else base[:0]
            chosen = decided[np.searchsorted(unchanged.places, changed.places)]
            result = {
                "places": changed.places.tolist(),
                "left_out": changed.left_out,
                "answers": metrics.decisions(metric, logits).tolist(),
                "probability": probability_of(metric, logits, chosen),
            }
            inputs = probe_inputs(cell.key, name, donors)
            self.store.put_measure(PROBE, inputs, result, time.perf_counter() - started)


def tested(splits: Splits) -> Sequence[Example]:
    """The test rows of a task's own weights: with folds or repeats those of the first, whose weights are kept."""
    return splits.folds[0].test if splits.folds else splits.test


def tested_rows(store: Store, key: str, splits: Splits) -> list[Example]:
    """The rows that a record was tested on, as its weights are those of the first fold; contexts as far as read."""
    table = pq.ParquetFile(store.open(key, "test.parquet")).read(use_threads=False)
    ids = table["id"].to_pylist()
    if "fold" in table.column_names:
        ids = [id for id, fold in zip(ids, table["fold"].to_pylist(), strict=True) if fold == 1]
    by_id = {row.id: row for row in tested(splits)}
    if absent := [id for id in ids if id not in by_id]:
        raise BadInput(f"{len(absent)} test rows of record {key[:12]} are not in the raw files")
    turns = kept_turns(splits.task.history)
    return [by_id[id]._replace(context=by_id[id].context[turns]) for id in ids]


def check_later_turns(store: Store, key: str, splits: Splits) -> None:
    """BadInput where a system asked for later turns, which are not in the content hash, and these differ here."""
    spec = store.get(key).spec
    if "after_hash" in spec and after_hash(splits, later_turns(spec)) != spec["after_hash"]:
        raise BadInput("the turns that follow its rows are others in the raw files than in its training")


def probability_of(metric: str, logits: Logits, chosen: NDArray[Any]) -> list[float] | None:
    """The probability of what was ``chosen`` on unchanged rows; of several labels its mean over these; None of numbers.

    For example logits of 0 and log 3 give the second of two classes a probability of .75.
    """
    values = logits.astype(np.float64)
    if metric == "pearson_r":
        return None
    if metric == "multilabel_f1":
        shares = expit(values)
        probability: NDArray[np.float64] = np.where(chosen == 1, shares, 1 - shares).mean(axis=1)
    else:
        probability = softmax(values, axis=1)[np.arange(len(values)), chosen]
    return [round(float(share), DIGITS) for share in probability]


NAMES = "BCDEFGHJKLMNOPQRSTUVWXYZ"  # letters that are no English word: an answer may say "a" and "I"
NO_ANSWER = -1


class Arranged(NamedTuple):
    """An instruction, and the class that each of its options stands for."""

    instruction: Instruction
    classes: tuple[int, ...]


def arranged(instruction: Instruction, arrangement: str) -> Arranged:
    """The instruction with its options arranged so; letters are explained behind the question.

    Reversed letters are given anew, from the last option on: what changes against letters is what each stands for.
    BadInput where there are more options than letters.
    """
    classes = tuple(range(len(instruction.options)))
    classes = classes if arrangement in (AS_ASKED, LETTERS) else classes[::-1]
    options = tuple(instruction.options[index] for index in classes)
    if arrangement in (LETTERS, LETTERS_REVERSED):
        if len(options) > len(NAMES):
            raise BadInput(f"{len(options)} options are more than there are letters ({len(NAMES)})")
        meaning = ", ".join(f'{letter} for "{option}"' for letter, option in zip(NAMES, options, strict=False))
        question = f"{instruction.question} Say {meaning}."
        return Arranged(replace(instruction, question=question, options=tuple(NAMES[: len(options)])), classes)
    return Arranged(replace(instruction, options=options), classes)


@dataclass
class OptionsProbe:
    """A probe of options of a stored study: ``splits_of`` gives a task's rows, ``missing`` says what was not asked.

    ``rows`` is how many test rows are asked about at most. ``allow`` are tasks whose texts may be sent to a server
    though nobody else may have them, and ``most_cost`` a cap in dollars instead of the study's.
    """

    store: Store
    manifest: Mapping[str, Any]
    splits_of: Callable[[str], Splits]
    rows: int = OPTIONS_ROWS
    device: str = "auto"
    allow: Sequence[str] = ()
    most_cost: float | None = None
    missing: dict[str, str] = field(default_factory=dict)

    def run(self, cells: Sequence[ProbedCell], watch: Watch) -> None:
        """Put into the store what these cells answer; one that cannot be asked is named and left out."""
        for done, cell in enumerate(cells):
            watch("options", done, len(cells))
            try:
                self._cell(cell)
            except (BadInput, StoreError) as reason:
                self.missing[f"{cell.task} by {cell.system}, {cell.key[:12]}"] = str(reason)
        watch("options", len(cells), len(cells))

    def _cell(self, cell: ProbedCell) -> None:
        inputs = {name: options_inputs(cell.key, name, self.rows) for name in ARRANGEMENTS}
        wanted = [name for name in ARRANGEMENTS if not self.store.find_measure(OPTIONS, inputs[name])]
        if not wanted:
            return
        splits = self.splits_of(cell.task)
        # prices, cap and the like as the study has them; never its address, which others could have written. BadInput
        # where the texts of the task may not leave the machine
        table = self.manifest["study"].get("system", {}).get(cell.system, {})
        kind, config = kind_and_config(cell.system, table, f"system.{cell.system}")
        if not self.manifest["synthetic"]:
            allowed = {"allow": tuple(self.allow)} if "allow" in kind.local else {}
            kind.check(replace(config, **allowed), cell.system, splits.task)
        values = {name: getattr(config, name) for name in kind.local}
        local = {name: value for name, value in values.items() if isinstance(value, int | float)}
        if self.most_cost is not None and "most_cost" in local:
            local["most_cost"] = self.most_cost
        check_later_turns(self.store, cell.key, splits)
        every = tested_rows(self.store, cell.key, splits)
        places = drawn(len(every), self.rows)
        scorer = SystemScorer(self.store, self.manifest, cell.system, cells=[cell.key], device=self.device, local=local)
        rows = scorer.read(scorer.tasks[0], [every[index] for index in places])
        for name in wanted:
            started = time.perf_counter()
            (fitted,) = scorer.fitted
            if fitted.instruction is None:
                raise BadInput("it answers by no options")
            instruction, classes = arranged(fitted.instruction, name)
            predicted = fitted.asked_by(instruction, classes).predict(rows)
            answers = np.array(classes)[predicted.logits.argmax(axis=1)]
            if predicted.unanswered is not None:
                answers[predicted.unanswered] = NO_ANSWER
            result = {"places": places, "answers": answers.tolist(), "cost": dict(predicted.cost)}
            self.store.put_measure(OPTIONS, inputs[name], result, time.perf_counter() - started)


def drawn(count: int, most: int) -> list[int]:
    """The places of at most so many rows among ``count``, in their order; equal for equal numbers."""
    order = np.random.default_rng(PROBE_SEED).permutation(count)[:most]
    return [int(index) for index in np.sort(order)]
