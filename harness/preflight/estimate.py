"""What a plan will cost, from what the store's records have cost, and what of its texts would leave the machine.

docs/cluster.md has the formulas. Work is counted in row-epoch tokens: a training row's tokens once per epoch, a
row's that is only evaluated half as much (a frozen encoder's backward pass costs about what its forward pass costs).
Nothing here loads a model.

Only systems that say so (``leaving``, harness.study.systems) send texts. Nothing is connected to here: prompts are
made, counted and thrown away. Tokens are estimated from bytes, so prices are estimates, too; what a model may cost at
most is said by the setting ``most_cost``, which holds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from adapters_store import Record, Store
from adapters_store.roles import SYSTEM
from adapters_store.store import LEFT_OUT
from harness.study.backbones.backbone import Backbone
from harness.study.cell import Cell, seed_of
from harness.study.config import share_of
from harness.study.intermediates.weights import weightless
from harness.study.plan import Pack, Plan
from harness.study.systems import Leaving, in_window, kind_of
from harness.systems import system_of
from harness.systems.fitted import OF_SYSTEM, answers_beside
from harness.systems.system import ADAPTER_PASSES
from tasks.splits.loading import Splits

EVALUATED = 0.5  # of a training token's cost
SHORTEST = 0.1  # of the median planned work: a shorter record is mostly start-up, and its rate tells nothing
ASSUMED = {"a processor core": 0.1e12, "a GPU": 10e12}  # floating-point operations a second, where nothing is measured
START = 10.0  # seconds until a pack trains, where nothing is measured; measured rates have it in them
ROW_BYTES, LOGIT_BYTES = 30, 8  # of a stored prediction, where nothing is measured
RECORD_BYTES = 6_000  # of what else stands in a record


@dataclass(frozen=True)
class Rows:
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

    ``start`` is what a pack costs besides, in seconds.
    """

    device: str
    ways: Mapping[str, Rate]
    whole: Rate
    start: float = 0.0

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


def planned_rows(cell: Cell, splits: Splits) -> Rows:
    """Rows of a cell after caps and setting; rounding inside strata aside."""
    counts = dict.fromkeys(("train", "validation", "test"), 0)
    for fold in splits.folds or (splits,):
        for part in counts:
            size, cap = len(getattr(fold, part)), cell.spec["caps"][part]
            size = size if cap is None else min(size, cap)
            counts[part] += max(1, round(size * share_of(cell.setting))) if part == "train" else size
    return Rows(**counts)


def stored_rows(results: Mapping[str, Any]) -> Rows:
    """Rows that a record says it was trained and tested on."""
    folds = results.get("folds") or [results]
    train, validation = (sum(int(fold[name]) for fold in folds) for name in ("n_train", "n_validation"))
    return Rows(train, validation, int(results["n_test"]))


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
            work = attempts * stored_rows(record.results).work(system.steps(spec), tokens[spec["target"]])
            if work >= least[way]:
                way = way or system.way(spec, int(provenance.get("lanes", 1)))
                timings[str(provenance["device"])][way].append((float(provenance["wall_seconds"]), work))
    rates = []
    for device, ways in timings.items():
        has_adapter = any(not way.startswith(OF_SYSTEM) for way in ways)
        if has_adapter or all(cell.way in ways for cell in todo if cell.passes is not None):
            rates.append(_rates(device, ways))
    return sorted(rates, key=lambda rates: -rates.whole.records)


def _rates(device: str, ways: Mapping[str, list[tuple[float, float]]]) -> Rates:
    of_adapters = {way: pairs for way, pairs in ways.items() if not way.startswith(OF_SYSTEM)}
    every = [pair for pairs in (of_adapters or ways).values() for pair in pairs]
    return Rates(device, {way: _rate(pairs) for way, pairs in ways.items()}, _rate(every))


def _rate(pairs: list[tuple[float, float]]) -> Rate:
    """The rate of pairs of seconds and work: all seconds by all work, so that long trainings count more."""
    each = [seconds / work for seconds, work in pairs]
    return Rate(sum(s for s, _ in pairs) / sum(w for _, w in pairs), min(each), max(each), len(pairs))


def assumed_rates(backbone: Backbone) -> list[Rates]:
    """Rates that nothing was measured for: the encoder's products at an assumed speed of a core and of a GPU."""
    rates = []
    for device, speed in ASSUMED.items():
        seconds = ADAPTER_PASSES * 2 * encoder_weights(backbone) / speed
        rates.append(Rates(device, {}, Rate(seconds, seconds, seconds, 0), START))
    return rates


def encoder_weights(backbone: Backbone) -> int:
    """Weights of the encoder's matrices, each of which multiplies every token once."""
    layers, width, inner = backbone.shape
    # A layer has query, key, value and output of attention (width x width), and two matrices (width x inner) after it.
    return layers * (4 * width * width + 2 * width * inner)


def weight_bytes(cell: Cell, backbone: Backbone) -> int:
    """Bytes of what the record keeps of a cell's weights; 0 where its system does not know beforehand."""
    return system_of(cell.spec).kept_bytes(cell.spec, backbone)


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
        known = sizes.get(_like(cell.spec), []) if cell.keeps_weights(plan.study.keep) else []
        measured += bool(known)
        whole += round(sum(known) / len(known)) if known else _record_bytes(cell, plan)
    checkpoints = [
        sum(system_of(cell.spec).checkpoint_copies * weight_bytes(cell, plan.backbone) for cell in pack.cells)
        for pack in packs
    ]
    return Disk(whole, measured, max(checkpoints, default=0))


def _like(spec: Mapping[str, Any]) -> str:
    names = ("target", "setting", "backbone", "adapter", "caps", "composition", "system", "config")
    return json.dumps([spec.get(name) for name in names], sort_keys=True)


def _record_bytes(cell: Cell, plan: Plan) -> int:
    rows = planned_rows(cell, plan.splits[cell.target])
    weights = weight_bytes(cell, plan.backbone) if cell.keeps_weights(plan.study.keep) else 0
    outputs = len(cell.spec["label"]["classes"]) or 1
    return weights + (ROW_BYTES + LOGIT_BYTES * outputs) * (rows.validation + rows.test) + RECORD_BYTES


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

    def as_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


def whom(host: str, *, stays: bool) -> str:
    """Where what is sent goes, in words; that it leaves the machine is not to be overlooked."""
    name = host or NOBODY
    return f"{name}, which is this machine" if stays else f"{name}: THEY LEAVE THIS MACHINE"


def price(dollars: float, most_cost: float) -> str:
    """What that costs, as far as prices are set, and the cap, in words."""
    said = f"about {dollars:.2g} dollars" if dollars else "at a price that is not set (price_in, price_out)"
    return said + (f", most_cost {most_cost:g}" if most_cost else ", no most_cost" if dollars else "")


def sent(plan: Plan, store: Store) -> list[Sent]:
    """What every system of the plan that asks a server would send, in the order of the study."""
    cells: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        if cell.role == SYSTEM and cell.key not in store and kind_of(cell.spec["system"]).leaving:
            cells.setdefault(cell.system, []).append(cell)
    return [of for name, own in cells.items() if (of := _of_system(name, own, plan, store))]


def _of_system(name: str, cells: Sequence[Cell], plan: Plan, store: Store) -> Sent | None:
    parts = [(cell, leaving) for cell in cells for leaving in _of_cell(cell, plan, store)]
    if not parts:
        return None
    calls = {key: call for _, leaving in parts for key, call in leaving.calls.items()}
    texts = {(plan.splits[cell.target].task.dataset.id, id) for cell, leaving in parts for id in leaving.ids}
    first = parts[0][1]
    tokens, dollars = (sum(call[place] for call in calls.values()) for place in (0, 1))
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
    assert kind.leaving is not None
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
