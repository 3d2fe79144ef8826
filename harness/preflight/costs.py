"""What a plan will cost, in words and as JSON: device hours, memory and disk."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store.roles import FLOOR

if TYPE_CHECKING:
    from adapters_store import Record, Store
    from harness.preflight.estimate import Disk, Rates, Sent, Todo
    from harness.study.plan import Plan
    from harness.training.tokens.lengths import RowTokens

SHORT = {"a processor core": "a core", "a GPU": "a GPU"}  # headings for devices whose rates are assumed


class Costs:
    """Hours, memory and disk of what a plan still has to train."""

    def __init__(self, plan: Plan, store: Store, records: Sequence[Record]) -> None:
        """Read some rows of every task with the backbone's tokenizer, and the costs of ``records``."""
        from harness.preflight.estimate import assumed_rates, disk_of, measured_rates, sent, to_do

        self.plan, self.store = plan, store
        names = dict.fromkeys(cell.target for cell in plan.cells)
        is_left = any(cell.key not in store for cell in plan.cells)
        self.tokens = {name: _tokens(plan, name) for name in names} if is_left else {}
        means = {name: lengths.mean for name, lengths in self.tokens.items()}
        todo = to_do(plan, store, means) if is_left else []
        self.todo: list[Todo] = [left for left in todo if left.cell.role != FLOOR]  # these take seconds
        measured = measured_rates(records, plan, self.todo, means)
        known = {way for rates in measured for way in rates.ways}
        is_unknown = [todo.passes is None and todo.way not in known for todo in self.todo]
        self.unknown = [todo for todo, is_so in zip(self.todo, is_unknown, strict=True) if is_so]
        self.todo = [todo for todo, is_so in zip(self.todo, is_unknown, strict=True) if not is_so]
        self.rates: list[Rates] = measured or (assumed_rates(plan.backbone) if self.todo else [])
        self.disk: Disk = disk_of(plan, store, records)
        self.sent: list[Sent] = sent(plan, store)

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
            " what it buys is said by: empathy-transfer study power"
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
                tokens = self.tokens[pack.target]
                import numpy as np

                from harness.training.trained import Part

                shape = shape_of(
                    recipe, self.plan.backbone, {"longest": Part(tokens.longest, np.zeros(len(tokens.longest)))}, family
                )
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
