"""``plan``: which cells a study has, and which of them the store has."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store.roles import BASELINE, FLOOR, ROLES, TRANSFER, role_of
from harness.api import Study
from harness.cli.options import changes, leaf_options, places, plan_options, print_next
from harness.cli.study import study_of
from harness.cli.terminal import print_json, print_rows
from harness.preflight.smoke import records

if TYPE_CHECKING:
    from adapters_store import Record
    from harness.preflight.estimate import Disk, Rates, Sent, Todo
    from harness.preflight.why import Why
    from harness.study.cell import Cell
    from harness.study.plan import Plan
    from harness.training.tokens.lengths import RowTokens
    from tasks.splits.loading import Splits


def add_plan(plan: argparse.ArgumentParser) -> None:
    """Add the options of ``plan``."""
    leaf_options(plan, "plan demo", show_plan)
    plan_options(plan)
    plan.add_argument("--why", action="store_true", help="print also why cells must be trained, a line for a cause")


# What a plan will cost, in words and as JSON: device hours, memory and disk.


SHORT = {"a processor core": "a core", "a GPU": "a GPU"}  # headings for devices whose rates are assumed


class Costs:
    """Hours, memory and disk of what a plan still has to train."""

    def __init__(self, study: Study, plan: Plan, records: Sequence[Record]) -> None:
        """Read some rows of every task with the backbone's tokenizer, and the costs of ``records``."""
        from harness.preflight.estimate import assumed_rates, disk_of, measured_rates, sent, to_do

        self.plan, self.store = plan, study.store
        names = dict.fromkeys(cell.target for cell in plan.cells)
        is_left = any(cell.key not in study.store for cell in plan.cells)
        self.tokens = {name: _tokens(plan, name) for name in names} if is_left else {}
        means = {name: lengths.mean for name, lengths in self.tokens.items()}
        todo = to_do(plan, study.store, means) if is_left else []
        self.todo: list[Todo] = [left for left in todo if left.cell.role != FLOOR]  # these take seconds
        measured = measured_rates(records, plan, self.todo, means)
        known = {way for rates in measured for way in rates.ways}
        is_unknown = [todo.passes is None and todo.way not in known for todo in self.todo]
        self.unknown = [todo for todo, is_so in zip(self.todo, is_unknown, strict=True) if is_so]
        self.todo = [todo for todo, is_so in zip(self.todo, is_unknown, strict=True) if not is_so]
        self.rates: list[Rates] = measured or (assumed_rates(plan.backbone) if self.todo else [])
        self.disk: Disk = disk_of(plan, study.store, records)
        self.sent: list[Sent] = sent(plan, study.store)

    def column(self, target: str, *, as_json: bool) -> dict[str, object]:
        """Hours of one target's cells, by device; every target has the same fields."""
        columns: dict[str, object] = {}
        for rates in self.rates:
            hours = sum(todo.hours(rates)[0] for todo in self.todo if todo.cell.target == target)
            if as_json:
                columns[f"hours on {rates.device}{'' if rates.is_measured else ' (assumed)'}"] = hours
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
            **({"sent": [system.as_json() for system in self.sent]} if self.sent else {}),
        }

    def lines(self) -> list[str]:
        """The same in words; nothing where nothing is left to train."""
        if not self.todo:
            return [*self._unknown_lines(), self._disk_line()] if self.unknown else []
        hours = [line for rates in self.rates for line in self._hours_lines(rates)]
        return [*hours, *self._unknown_lines(), self._memory_line(), self._disk_line(), self._seed_line()]

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
        if not rates.is_measured:
            speed = next(iter(total["ways"].values()))["tokens_a_second"]
            return [
                f"device hours on {rates.device}: {_time(total['expected'])}, ASSUMED: {speed:,.0f} row-epoch tokens a "
                f"second and {rates.start:g} s to start a pack; no record here tells"
            ]
        spread = f"{_time(total['least'])} to {_time(total['most'])} at the best and worst measured rate"
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
        own = [todo for todo in self.todo if todo.cell.seed == seed]
        hours = {rates.device: cells / left * sum(todo.hours(rates)[0] for todo in own) for rates in self.rates}
        return {"cells": cells, "hours": hours, "record_bytes": round(self.disk.records * cells / len(self.todo))}

    def _seed_line(self) -> str:
        seed = self._further_seed()
        if not seed:
            return "a further seed: not estimated, for no cell of the study's seeds is left"
        hours = ", ".join(f"{_time(value)} on {device}" for device, value in seed["hours"].items())
        return (
            f"a further seed: {seed['cells']} cells, {hours}, {_amount(seed['record_bytes'])} of records;"
            " what it buys is said by: empathy-transfer power"
        )

    def _memory(self) -> dict[str, Any]:
        """Peak bytes of the largest pack left, by family of device; nothing for cells that lanes do not serve."""
        from harness.preflight.estimate import left_packs
        from harness.systems import name_of_system

        packs = [pack for pack in left_packs(self.plan, self.store) if name_of_system(pack.first.spec) == "lanes"]
        if not packs:
            return {}
        from harness.training.memory import shape_of
        from harness.training.recipe import Recipe

        needs: dict[str, Any] = {}
        for pack in packs:
            recipe = Recipe.of(pack.cells)
            for family in ("cpu", "cuda"):
                shape = shape_of(recipe, self.plan.backbone, _longest(self.tokens[pack.target]), family)
                need = {"target": pack.target, "lanes": len(pack.cells), "lane_bytes": shape.lane_bytes()}
                need["bytes"] = shape.shared_bytes() + len(pack.cells) * shape.lane_bytes()
                needs[family] = max(needs.get(family, need), need, key=lambda candidate: int(candidate["bytes"]))
        return needs

    def _memory_line(self) -> str:
        needs = self._memory()
        if not needs:
            return "memory: not estimated, for these cells are trained through the adapters library, one at a time"
        names = {"cpu": "a processor", "cuda": "a GPU"}
        parts = [
            f"{_amount(need['bytes'])} on {names[family]} ({need['lanes']} lanes of {need['target']})"
            for family, need in needs.items()
        ]
        return f"peak memory of the largest pack: {', '.join(parts)}; one that has no room is trained in parts"

    def _disk_line(self) -> str:
        left = len(self.todo) + len(self.unknown)
        how = f"{self.disk.measured} of {left} cells as measured, the rest by adapter and rows"
        kept, free = _amount(self.disk.checkpoints), _amount(_free(self.store.root))
        return (
            f"disk: {_amount(self.disk.records)} of records ({how}), {kept} of checkpoints a running pack; {free} free"
        )


def _tokens(plan: Plan, name: str) -> RowTokens:
    from harness.training.tokens.lengths import row_tokens

    splits = plan.splits[name]
    return row_tokens(splits.task, (*splits.train, *splits.validation, *splits.test), plan.study, plan.backbone)


def _longest(tokens: RowTokens) -> Mapping[str, Any]:
    import numpy as np

    from harness.training.trained import Part

    return {"longest": Part(tokens.longest, np.zeros(len(tokens.longest)))}


def _round(hours: float) -> float:
    return float(f"{hours:.2g}")


def _time(hours: float) -> str:
    return f"{_round(hours):,g} h" if hours >= 0.1 else f"{_round(60 * hours):g} min"


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


def show_plan(options: argparse.Namespace) -> int:
    """Print one row per target: its rows, cells, how many of them the store has, and what the others will cost."""
    from harness.preflight.why import why
    from harness.study.intermediates.weights import again_line, weightless

    study = study_of(options)
    plan = study.plan.only(options.only_target) if options.only_target else study.plan
    again = weightless(plan, study.store)
    stored = {cell.key for cell in plan.cells if cell.key in study.store} - {cell.key for cell in again}
    stored_records = list(records(study.store)) if len(stored) < len({cell.key for cell in plan.cells}) else []
    causes = why(plan, study.store, stored_records) if options.why else None
    _load_tokenizer(plan)
    costs = Costs(study, plan, stored_records)
    targets = dict.fromkeys(cell.target for cell in plan.cells)
    cells = [_plan_row(name, plan.cells, stored) for name in targets]
    texts = [_sizes(study, name) | _cuts(study, name) for name in targets]
    hours = [costs.column(name, as_json=options.json) for name in targets]
    roles = Counter(cell.role for cell in plan.cells)
    counts = {"cells": len(plan.cells), "stored": len(stored), "packs": len(plan.baselines) + len(plan.transfers)}
    counts["trained_again"] = len(again)
    if options.json:
        rows = [whole | text | time for whole, text, time in zip(cells, texts, hours, strict=True)]
        summary = {"columns": rows, "missing": plan.missing, "warnings": warnings_of(plan)}
        summary |= {"shared": _sharing(plan)}
        summary |= {"left_out": dict(plan.left_out)} if plan.left_out else {}
        reasons = {} if causes is None else {"why": [dataclasses.asdict(cause) for cause in causes]}
        print_json({**summary, **counts, "roles": roles, "costs": costs.as_json(), **reasons})
        return 0
    table = [{**row, **time} for row, time in zip(cells, hours, strict=True)]
    print_rows(table, as_json=False, spare=("their intermediates", "controls"))
    print("\nrows of each target, and the share of them whose history or text is cut")
    print_rows([{"target": name, **row} for name, row in zip(targets, texts, strict=True)], as_json=False)
    left = len(plan.cells) - len(stored)
    print(f"\n{len(plan.cells)} cells in {counts['packs']} packs; {len(stored)} stored, {left} to train")
    if again:
        print(f"of these {again_line(again)}")
    print(", ".join(f"{role} {count}" for role, count in roles.items()))
    for line in (*costs.lines(), *(line for system in costs.sent for line in system.lines())):
        print(line)
    print_warnings(plan)
    for line in _sharing(plan):
        print(f"warning: {line}")
    print_missing(plan.missing)
    _print_merged(plan)
    if causes is not None:
        _print_why(plan, causes)
    if left:
        print_next("run", options.study, *changes(options), *places(options))
    else:
        print_next("report", options.study, *places(options))
    return 0


def _sharing(plan: Plan) -> list[str]:
    """What would split the study's tasks alike that share texts."""
    from tasks.splits.contamination import joined_families, sharing_texts

    return joined_families(sharing_texts(plan.splits), plan.splits)


def _load_tokenizer(plan: Plan) -> None:
    """BadBackbone, now and not in the first cell, if no tokenizer can be made of its files."""
    from harness.training.tokens.tokenizer import load_tokenizer

    load_tokenizer(plan.backbone)


def _print_why(plan: Plan, causes: list[Why]) -> None:
    """Print a line for each cause of training."""
    print("\nwhy cells must be trained:")
    for cause in causes:
        print(cause.line(len(plan.cells)))
    if not causes:
        print(f"nothing: all {len(plan.cells)} cells are stored")


def _print_merged(plan: Plan) -> None:
    """Print which merged rows have no cell, and which would be trained anew with a further task."""
    from harness.study.intermediates.merged import recipes_of

    for name, reason in plan.left_out.items():
        print(f"merged row left out: {name}: {reason}")
    if names := [recipe.name for recipe in recipes_of(plan.study) if recipe.is_open]:
        rows = f"{'row' if len(names) == 1 else 'rows'} {', '.join(names)}"
        print(f"a further task in the study may be a parent of merged {rows}, whose cells are then trained anew")


def print_missing(missing: dict[str, str]) -> None:
    """Print which tasks have no data here, and why."""
    if missing:
        print(f"data missing for {len(missing)} tasks, which are left out:")
        for name, reason in missing.items():
            print(f"  {name}: {reason}")


def warnings_of(plan: Plan) -> dict[str, list[str]]:
    """What each task's splits warn of."""
    return {name: list(splits.warnings) for name, splits in plan.splits.items() if splits.warnings}


def print_warnings(plan: Plan) -> None:
    """Print a line for each warning of a task's splits."""
    for name, warnings in warnings_of(plan).items():
        for warning in warnings:
            print(f"warning: {name}: {warning}")


def _plan_row(target: str, cells: list[Cell], stored: set[str]) -> dict[str, object]:
    own = [cell for cell in cells if cell.target == target]
    planned = {BASELINE, TRANSFER, *(cell.role for cell in cells)}
    groups = dict.fromkeys(role.group for role in ROLES.values() if role.name in planned)
    return {
        "target": target,
        **{group: sum(role_of(cell.role).group == group for cell in own) for group in groups},
        "stored": sum(c.key in stored for c in own),
    }


def _sizes(study: Study, name: str) -> dict[str, object]:
    splits, config = study.plan.splits[name], study.config
    caps = {"train": config.max_train, "validation": config.max_val, "test": config.max_test}
    return {part: _size(splits, part, cap) for part, cap in caps.items()}


def _size(splits: Splits, part: str, cap: int | None) -> int:
    """Rows of a split after its cap, which counts for the test of every fold; of repeats those of the first."""
    each = splits.folds if splits.folds and not splits.is_repeated and part == "test" else (splits,)
    sizes = [len(getattr(split, part)) for split in each]
    return sum(size if cap is None else min(size, cap) for size in sizes)


def _cuts(study: Study, name: str) -> dict[str, object]:
    """Shares of a task's rows that are too long, and the rule by which their texts are cut."""
    from harness.training.tokens.lengths import cut_shares

    splits = study.plan.splits[name]
    rows = [row for part in splits.names for row in getattr(splits, part)]
    shares = cut_shares(splits.task, rows, study.config, study.plan.backbone)
    names = {"history": "history cut", "target": "text cut"}
    shown: dict[str, object] = {names[part]: f"{100 * share:.1f} %" for part, share in shares.items()}
    return shown | {"long texts": splits.task.truncation}
