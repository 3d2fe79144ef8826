"""What a plan will cost, from what the store's records have cost, and what of its texts would leave the machine.

docs/cluster.md has the formulas. Work is counted in row-epoch tokens: a training row's tokens once per epoch, a
row's that is only evaluated half as much (a frozen encoder's backward pass costs about what its forward pass costs).
Nothing here loads a model.

Only systems that say so (``leaving``, harness.study.systems) send texts. Nothing is connected to here: prompts are
made, counted and thrown away. Tokens are estimated from bytes, so prices are estimates, too; what a model may cost
at most is said by the setting ``most_cost``, which holds.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from adapters_store import Record, Store
from adapters_store.roles import FLOOR, SYSTEM
from adapters_store.store import LEFT_OUT
from harness.study.backbone import Backbone
from harness.study.cell import Cell, seed_of
from harness.study.config import share_of
from harness.study.plan import Pack, Plan, weightless
from harness.study.systems import Leaving, in_window, kind_of
from harness.systems import system_of
from harness.systems.system import ADAPTER_PASSES, OF_SYSTEM, answers_beside
from tasks.splits.loading import Splits

EVALUATED = 0.5  # of a training token's cost
SHORTEST = 0.1  # of the median planned work: a shorter record is mostly start-up, and its rate tells nothing
ASSUMED = {"a processor core": 0.1e12, "a GPU": 10e12}  # floating-point operations a second, where nothing is measured
# What ``benchmarks.steps.gpu`` measured on a card (docs/training.md, "Devices"): precision, width of twelve layers, and
# by number of lanes the tokens of all lanes a second: of nine columns, of the fastest and of the slowest.
MEASURED = {"NVIDIA H200": ("bf16", 768, {17: (290_974, 345_811, 276_492), 1: (133_756, 147_313, 69_243)})}
START = 10.0  # seconds until a pack trains, where nothing is measured; measured rates have it in them
ROW_BYTES, LOGIT_BYTES = 30, 8  # of a stored prediction, where nothing is measured
RECORD_BYTES = 6_000  # of what else stands in a record


@dataclass(frozen=True)
class RowCounts:
    """How many rows a cell trains on, selects on and is tested on, over all folds."""

    train: int
    validation: int
    test: int

    def work(self, epochs: int, tokens: float) -> float:
        """Row-epoch tokens of a cell whose rows have this mean length in tokens."""
        return tokens * (epochs * (self.train + EVALUATED * self.validation) + EVALUATED * self.test)


@dataclass(frozen=True)
class Rate:
    """Seconds of one device per row-epoch token, of all measured time by all measured work, and the extremes."""

    seconds: float
    least: float
    most: float
    records: int


@dataclass(frozen=True)
class Rates:
    """The rates of one device by way of training; ``whole`` is that of adapters, for a way that was not measured.

    ``start`` is what a pack costs besides, in seconds; ``source`` says whence rates are that no record has.
    """

    device: str
    ways: Mapping[str, Rate]
    whole: Rate
    start: float = 0.0
    source: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether records say so."""
        return self.whole.records > 0

    def of(self, todo: Todo) -> Rate:
        """The rate of a cell's way; of one that was not measured that of adapters, by the passes that it costs."""
        if todo.way in self.ways or todo.passes is None:
            return self.ways.get(todo.way, self.whole)
        share, whole = todo.passes / ADAPTER_PASSES, self.whole
        return Rate(share * whole.seconds, share * whole.least, share * whole.most, whole.records)


@dataclass(frozen=True)
class Todo:
    """A cell that must be trained: its way, its work, and how many lanes are trained beside it and with it.

    ``passes`` is how many forward passes of the backbone a training token costs, None where nobody says.
    """

    cell: Cell
    way: str
    work: float
    lanes: int = 1
    passes: float | None = None

    @property
    def is_of_system(self) -> bool:
        """Whether a system that is no adapter solves it, whose own records alone tell what it takes."""
        return self.way.startswith(OF_SYSTEM)

    def hours(self, rates: Rates) -> tuple[float, float, float]:
        """Device hours: expected, at the best measured rate and at the worst."""
        rate, start = rates.of(self), rates.start / self.lanes
        expected, least, most = (
            (start + self.work * seconds) / 3600 for seconds in (rate.seconds, rate.least, rate.most)
        )
        return expected, least, most


def planned_rows(cell: Cell, splits: Splits) -> RowCounts:
    """Rows of a cell after caps and setting; rounding inside strata aside."""
    counts = dict.fromkeys(("train", "validation", "test"), 0)
    for fold in splits.folds or (splits,):
        for part in counts:
            size, cap = len(getattr(fold, part)), cell.spec["caps"][part]
            size = size if cap is None else min(size, cap)
            counts[part] += max(1, round(size * share_of(cell.setting))) if part == "train" else size
    return RowCounts(**counts)


def to_do(plan: Plan, store: Store, tokens: Mapping[str, float]) -> list[Todo]:
    """Every cell that the store has not, with its work; ``tokens`` is the mean row length per task."""
    todo = []
    for pack in left_packs(plan, store):
        system = system_of(pack.first.spec)
        for group in system.groups(pack.cells):
            for cell in group:
                rows = planned_rows(cell, plan.splits[cell.target])
                work = rows.work(system.steps(cell.spec), tokens[cell.target])
                way, passes = system.way(cell.spec, len(group)), system.passes(cell.spec)
                todo.append(Todo(cell, way, work, len(group), passes))
    return todo


def left_packs(plan: Plan, store: Store) -> Iterator[Pack]:
    """The packs, without the cells that are stored, unless they must be trained again for their weights."""
    again = {cell.key for cell in weightless(plan, store)}
    for pack in (*plan.baselines, *plan.transfers):
        if left := tuple(cell for cell in pack.cells if cell.key not in store or cell.key in again):
            yield Pack(left)


def measured_rates(
    records: Iterable[Record], plan: Plan, todo: Iterable[Todo], tokens: Mapping[str, float]
) -> list[Rates]:
    """Rates per device, the one with most records first, from records of the planned backbone, precision and length.

    Records of other targets than ``tokens`` names tell nothing, nor those with far less work than what is to do, nor
    a device's without an adapter's where one has to be forecast.
    """
    todo = list(todo)
    if not todo:
        return []
    spec = next(cell.spec for cell in plan.cells if "system" not in cell.spec)
    like = {name: spec[name] for name in ("backbone", "precision", "max_tokens")}
    of_adapters = [cell.work for cell in todo if not cell.is_of_system]
    work_of = {cell.way: [other.work for other in todo if other.way == cell.way] for cell in todo if cell.is_of_system}
    least = {"": SHORTEST * median(of_adapters) if of_adapters else 0.0}
    least |= {way: SHORTEST * median(works) for way, works in work_of.items()}
    timings: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        spec, provenance = record.spec, record.provenance
        way = OF_SYSTEM + str(spec["system"]) if "system" in spec else ""
        is_like = way in work_of if way else like.items() <= spec.items()
        if spec["target"] in tokens and is_like:
            system, attempts = system_of(spec), 2 if "retried" in record.results else 1
            # rows that a record says it was trained and tested on
            folds = record.results.get("folds") or [record.results]
            train, validation = (sum(int(fold[name]) for fold in folds) for name in ("n_train", "n_validation"))
            work = attempts * RowCounts(train, validation, int(record.results["n_test"])).work(
                system.steps(spec), tokens[spec["target"]]
            )
            if work >= least[way]:
                way = way or system.way(spec, int(provenance.get("lanes", 1)))
                timings[str(provenance["device"])][way].append((float(provenance["wall_seconds"]), work))
    rates = []
    for device, ways in timings.items():
        adapters = {way: pairs for way, pairs in ways.items() if not way.startswith(OF_SYSTEM)}
        if adapters or all(cell.way in ways for cell in todo if cell.passes is not None):
            every = [pair for pairs in (adapters or ways).values() for pair in pairs]
            rates.append(Rates(device, {way: _rate(pairs) for way, pairs in ways.items()}, _rate(every)))
    return sorted(rates, key=lambda rates: -rates.whole.records)


def _rate(pairs: list[tuple[float, float]]) -> Rate:
    """The rate of pairs of seconds and work: all seconds by all work, so that long trainings count more."""
    each = [seconds / work for seconds, work in pairs]
    return Rate(sum(s for s, _ in pairs) / sum(w for _, w in pairs), min(each), max(each), len(pairs))


def assumed_rates(backbone: Backbone, precision: str = "") -> list[Rates]:
    """Without records: products at an assumed speed of a core and of a GPU, and cards measured in this precision."""
    rates = []
    for device, speed in ASSUMED.items():
        seconds = ADAPTER_PASSES * 2 * encoder_weights(backbone) / speed
        rates.append(Rates(device, {}, Rate(seconds, seconds, seconds, 0), START, "assumed"))
    for card, (own, width, by_lanes) in MEASURED.items():
        if own == precision:
            share = encoder_weights(backbone) / (12 * 12 * width**2)
            many, alone = (Rate(share / mean, share / fast, share / slow, 0) for mean, fast, slow in by_lanes.values())
            source = f"measured on it by {' and '.join(map(str, by_lanes))} lanes of width {width} in {own}"
            rates.append(Rates(card, {"lanes together": many, "one lane": alone}, many, START, source))
    return rates


def encoder_weights(backbone: Backbone) -> int:
    """Weights of the encoder's matrices, each of which multiplies every token once."""
    layers, width, inner = backbone.shape
    # A layer has query, key, value and output of attention (width x width), and two matrices (width x inner) after it.
    return layers * (4 * width * width + 2 * width * inner)


@dataclass(frozen=True)
class Disk:
    """Bytes of the records to come, how many cells' were measured, and most bytes of a running pack's checkpoints."""

    records: int
    measured: int
    checkpoints: int


def disk_of(plan: Plan, store: Store, stored: Iterable[Record]) -> Disk:
    """What the plan will write: as much as records of the same task, adapter and caps, or else by the formula."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for record in stored:
        if LEFT_OUT not in record.provenance:  # its weights are elsewhere
            sizes[_like(record.spec)].append(sum(stamp.bytes for stamp in record.files.values()))
    packs = list(left_packs(plan, store))
    whole = measured = 0
    for cell in (cell for pack in packs for cell in pack.cells):
        keeps = cell.keeps_weights(plan.study.keep)
        alike = sizes.get(_like(cell.spec), []) if keeps else []
        measured += bool(alike)
        if alike:
            whole += round(sum(alike) / len(alike))
        else:
            rows, outputs = planned_rows(cell, plan.splits[cell.target]), len(cell.spec["label"]["classes"]) or 1
            whole += system_of(cell.spec).kept_bytes(cell.spec, plan.backbone) if keeps else 0
            whole += (ROW_BYTES + LOGIT_BYTES * outputs) * (rows.validation + rows.test) + RECORD_BYTES
    checkpoints = [
        sum(own.checkpoint_copies * own.kept_bytes(cell.spec, plan.backbone) for cell, own in systems)
        for systems in ([(cell, system_of(cell.spec)) for cell in pack.cells] for pack in packs)
    ]
    return Disk(whole, measured, max(checkpoints, default=0))


def _like(spec: Mapping[str, Any]) -> str:
    names = ("target", "setting", "backbone", "adapter", "caps", "composition", "system", "config")
    return json.dumps([spec.get(name) for name in names], sort_keys=True)


NOBODY = "a server that is not named yet"


@dataclass(frozen=True)
class Sent:
    """What one system of a study would send, over all cells that are not stored; equal calls count once."""

    system: str
    host: str
    stays: bool
    texts: int
    calls: int
    tokens: int
    dollars: float
    most_cost: float
    unstated: tuple[str, ...]

    def lines(self) -> list[str]:
        """The same in words."""
        if not self.calls:
            return [f"system {self.system}: nothing is sent, every answer is kept"]
        lines = [
            f"system {self.system}: up to {self.texts:,} texts in {self.calls:,} calls, about {self.tokens:,} tokens,"
            f" go to {whom(self.host, stays=self.stays)}; {price(self.dollars, self.most_cost)}"
        ]
        if self.unstated and not self.stays:
            lines.append(f"  ask the authors first, their licence is unstated: {', '.join(self.unstated)}")
        return lines


def whom(host: str, *, stays: bool) -> str:
    """Where what is sent goes, in words; that it leaves the machine is not to be overlooked."""
    name = host or NOBODY
    return f"{name}, which is this machine" if stays else f"{name}: THEY LEAVE THIS MACHINE"


def price(dollars: float, most_cost: float) -> str:
    """What that costs, as far as prices are set, and the cap, in words."""
    text = f"about {dollars:.2g} dollars" if dollars else "at a price that is not set (price_in, price_out)"
    return text + (f", most_cost {most_cost:g}" if most_cost else ", no most_cost" if dollars else "")


def sent(plan: Plan, store: Store) -> list[Sent]:
    """What every system of the plan that asks a server would send, in the order of the study."""
    cells: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        if cell.role == SYSTEM and cell.key not in store and kind_of(cell.spec["system"]).reads.instructions:
            cells.setdefault(cell.system, []).append(cell)
    return [of for name, group in cells.items() if (of := _of_system(name, group, plan, store))]


def _of_system(name: str, cells: Sequence[Cell], plan: Plan, store: Store) -> Sent | None:
    parts = [(cell, leaving) for cell in cells for leaving in _of_cell(cell, plan, store)]
    if not parts:
        return None
    calls = {key: call for _, leaving in parts for key, call in leaving.calls.items()}
    texts = {(plan.splits[cell.target].task.dataset.id, id) for cell, leaving in parts for id in leaving.ids}
    first = parts[0][1]
    tokens, dollars = (sum(call[index] for call in calls.values()) for index in (0, 1))
    most = float(cells[0].local.get("most_cost", 0.0))
    unstated: dict[str, None] = {}
    for target in (cell.target for cell in cells if plan.study.data != "synthetic"):
        licence = plan.splits[target].task.dataset.licence.lower()
        if not licence or "unstated" in licence:
            unstated[target] = None
    return Sent(
        name, first.host, first.stays, len(texts), len(calls), round(tokens), float(dollars), most, tuple(unstated)
    )


def _of_cell(cell: Cell, plan: Plan, store: Store) -> list[Leaving]:
    """What a cell would send, fold by fold; nothing where it sends none."""
    from harness.training.inputs import rows_of

    kind, splits = kind_of(cell.spec["system"]), plan.splits[cell.target]
    assert splits.task.instruction is not None
    config = kind.configured({**cell.spec["config"], **cell.local}, f"system.{cell.system}")
    seed, answers = seed_of(kind.name, cell.target, cell.seed), answers_beside(store.root)
    each = []
    for fold in splits.folds or (splits,):
        of_fold = rows_of(cell, fold)
        rows = {name: in_window(getattr(of_fold, name), config) for name in ("train", "validation", "test")}
        leaving = kind.leaving(config, splits.task.instruction, rows, seed, answers)
        each += [leaving] if leaving is not None else []
    return each


SHORT = {"a processor core": "a core", "a GPU": "a GPU"}  # headings for devices whose rates are assumed


class Costs:
    """Hours, memory and disk of what a plan still has to train."""

    def __init__(self, plan: Plan, store: Store, records: Sequence[Record]) -> None:
        """Read some rows of every task with the backbone's tokenizer, and the costs of ``records``."""
        from harness.training.inputs import RowTokens, row_tokens

        self.plan, self.store = plan, store
        is_left = any(cell.key not in store for cell in plan.cells)
        self.tokens: dict[str, RowTokens] = {}
        for name in dict.fromkeys(cell.target for cell in plan.cells) if is_left else ():
            splits = plan.splits[name]
            rows = (*splits.train, *splits.validation, *splits.test)
            self.tokens[name] = row_tokens(splits.task, rows, plan.study, plan.backbone)
        means = {name: lengths.mean for name, lengths in self.tokens.items()}
        todo = to_do(plan, store, means) if is_left else []
        self.todo: list[Todo] = [left for left in todo if left.cell.role != FLOOR]  # these take seconds
        measured = measured_rates(records, plan, self.todo, means)
        ways = {way for rates in measured for way in rates.ways}
        is_unknown = [todo.passes is None and todo.way not in ways for todo in self.todo]
        self.unknown = [todo for todo, is_so in zip(self.todo, is_unknown, strict=True) if is_so]
        self.todo = [todo for todo, is_so in zip(self.todo, is_unknown, strict=True) if not is_so]
        self.rates: list[Rates] = measured or (assumed_rates(plan.backbone, plan.study.precision) if self.todo else [])
        self.disk: Disk = disk_of(plan, store, records)
        self.sent: list[Sent] = sent(plan, store)

    def column(self, target: str, *, as_json: bool) -> dict[str, object]:
        """Hours of one target's cells, by device; every target has the same fields."""
        columns: dict[str, object] = {}
        for rates in self.rates:
            hours = sum(todo.hours(rates)[0] for todo in self.todo if todo.cell.target == target)
            if as_json:
                columns[f"hours on {rates.device}{f' ({rates.source})' if rates.source else ''}"] = hours
            else:
                columns[SHORT.get(rates.device, rates.device)] = f"{'' if rates.is_measured else '~'}{_time(hours)}"
        return columns

    def as_json(self) -> dict[str, Any]:
        """Everything with its units in the names."""
        return {
            "hours": [self._total(rates) for rates in self.rates],
            "memory": self._memory(),
            "record_bytes": self.disk.records,
            "checkpoint_bytes": self.disk.checkpoints,
            "free_bytes": _free(self.store.root),
            "further_seed": self._further_seed(),
            "not_forecast": dict(Counter(todo.way for todo in self.unknown)),
            **({"sent": [asdict(system) for system in self.sent]} if self.sent else {}),
        }

    def lines(self) -> list[str]:
        """The same in words; nothing where nothing is left to train."""
        if not self.todo:
            return [*self._unknown_lines(), self._disk_line()] if self.unknown else []
        hours = [line for rates in self.rates for line in self._hours_lines(rates)]
        memory = "memory: not estimated, for these cells are trained through the adapters library, one at a time"
        if needs := self._memory():
            names = {"cpu": "a processor", "cuda": "a GPU"}
            of_families = (
                f"{_amount(need['bytes'])} on {names[family]} ({need['lanes']} lanes of {need['target']})"
                for family, need in needs.items()
            )
            memory = (
                f"peak memory of the largest pack: {', '.join(of_families)}; one that has no room is trained in parts"
            )
        further = "a further seed: not estimated, for no cell of the study's seeds is left"
        if seed := self._further_seed():
            of_devices = ", ".join(f"{_time(value)} on {device}" for device, value in seed["hours"].items())
            further = (
                f"a further seed: {seed['cells']} cells, {of_devices}, {_amount(seed['record_bytes'])} of records;"
                " what it buys is said by: empathy-transfer study power"
            )
        return [*hours, *self._unknown_lines(), memory, self._disk_line(), further]

    def _unknown_lines(self) -> list[str]:
        """How many cells of systems are in no forecast of hours."""
        ways = Counter(todo.way for todo in self.unknown)
        return [f"  {n} cells, {way}: hours not forecast, no record here tells" for way, n in ways.items()]

    def _total(self, rates: Rates) -> dict[str, Any]:
        expected, least, most = (sum(todo.hours(rates)[i] for todo in self.todo) for i in range(3))
        ways = {todo.way: rates.of(todo) for todo in self.todo}
        return {
            "device": rates.device,
            "is_measured": rates.is_measured,
            "expected": expected,
            "least": least,
            "most": most,
            "ways": {
                way: {
                    "cells": sum(todo.way == way for todo in self.todo),
                    "tokens_a_second": 1 / rate.seconds,
                    "slowest": 1 / rate.most,
                    "fastest": 1 / rate.least,
                    "records": rate.records,
                    "is_of_this_way": way in rates.ways,
                }
                for way, rate in ways.items()
            },
        }

    def _hours_lines(self, rates: Rates) -> list[str]:
        total = self._total(rates)
        if rates.source == "assumed":
            speed = next(iter(total["ways"].values()))["tokens_a_second"]
            return [
                f"device hours on {rates.device}: {_time(total['expected'])}, ASSUMED: {speed:,.0f} row-epoch tokens a "
                f"second and {rates.start:g} s to start a pack; no record here tells"
            ]
        spread = f"{_time(total['least'])} to {_time(total['most'])} at the best and worst measured rate"
        if rates.source:
            return [f"device hours on {rates.device}: {_time(total['expected'])} ({spread}), {rates.source}"]
        lines = [f"device hours on {rates.device}: {_time(total['expected'])} ({spread})"]
        for way, of_way in total["ways"].items():
            note = "" if of_way["is_of_this_way"] else ", of other ways: this one was not measured"
            lines.append(
                f"  {of_way['cells']} cells, {way}: {of_way['tokens_a_second']:,.0f} row-epoch tokens a second "
                f"({of_way['slowest']:,.0f} to {of_way['fastest']:,.0f}; {of_way['records']} records{note})"
            )
        return lines

    def _further_seed(self) -> dict[str, Any]:
        """What one more seed of the study's cells would cost: as much as the seed of which most is left."""
        if not self.todo:
            return {}
        counts = Counter(todo.cell.seed for todo in self.todo if todo.cell.seed in self.plan.study.seeds)
        seed, left = max(counts.items(), key=lambda pair: pair[1], default=(None, 0))
        if not left:
            return {}
        cells = sum(cell.seed == seed and cell.role != FLOOR for cell in self.plan.cells)
        of_seed = [todo for todo in self.todo if todo.cell.seed == seed]
        hours = {rates.device: cells / left * sum(todo.hours(rates)[0] for todo in of_seed) for rates in self.rates}
        return {"cells": cells, "hours": hours, "record_bytes": round(self.disk.records * cells / len(self.todo))}

    def _memory(self) -> dict[str, Any]:
        """Peak bytes of the largest pack left, by family of device; nothing for cells that lanes do not serve."""
        from harness.systems import name_of_system

        packs = [pack for pack in left_packs(self.plan, self.store) if name_of_system(pack.first.spec) == "lanes"]
        if not packs:
            return {}
        import numpy as np

        from harness.training.memory import shape_of
        from harness.training.recipe import Part, Recipe

        needs: dict[str, Any] = {}
        for pack in packs:
            recipe = Recipe.of(pack.cells)
            longest = self.tokens[pack.target].longest
            rows = {"longest": Part(longest, np.zeros(len(longest)))}
            for family in ("cpu", "cuda"):
                shape = shape_of(recipe, self.plan.backbone, rows, family)
                need = {"target": pack.target, "lanes": len(pack.cells), "lane_bytes": shape.lane_bytes()}
                need["bytes"] = shape.shared_bytes() + len(pack.cells) * shape.lane_bytes()
                needs[family] = max(needs.get(family, need), need, key=lambda candidate: int(candidate["bytes"]))
        return needs

    def _disk_line(self) -> str:
        left = len(self.todo) + len(self.unknown)
        how = f"{self.disk.measured} of {left} cells as measured, the rest by adapter and rows"
        kept, free = _amount(self.disk.checkpoints), _amount(_free(self.store.root))
        return (
            f"disk: {_amount(self.disk.records)} of records ({how}), {kept} of checkpoints a running pack; {free} free"
        )


def _time(hours: float) -> str:
    return f"{float(f'{hours:.2g}'):,g} h" if hours >= 0.1 else f"{60 * hours:.2g} min"


def _amount(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"


def _free(root: Path) -> int:
    """Bytes that the store's file system has left for us."""
    folder = next(folder for folder in (root.absolute(), *root.absolute().parents) if folder.is_dir())
    return shutil.disk_usage(folder).free
