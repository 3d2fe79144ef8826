"""What a plan will cost, in words and as JSON: device hours, memory and disk."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Record
from harness.api import Study
from harness.before.estimate import Disk, Rates, Todo, assumed_rates, disk_of, left_packs, measured_rates, to_do
from harness.plan import Plan

if TYPE_CHECKING:
    from harness.training.row_tokens import RowTokens


class Costs:
    """Hours, memory and disk of what a plan still has to train."""

    def __init__(self, study: Study, plan: Plan, records: Sequence[Record]) -> None:
        """Read some rows of every task with the backbone's tokenizer, and the costs of ``records``."""
        self.plan, self.store = plan, study.store
        names = dict.fromkeys(cell.target for cell in plan.cells)
        is_left = any(cell.key not in study.store for cell in plan.cells)
        self.tokens = {name: _tokens(plan, name) for name in names} if is_left else {}
        means = {name: found.mean for name, found in self.tokens.items()}
        self.todo: list[Todo] = to_do(plan, study.store, means) if is_left else []
        measured = measured_rates(records, self.todo, means)
        self.rates: list[Rates] = measured or (assumed_rates(plan.backbone) if is_left else [])
        self.disk: Disk = disk_of(plan, study.store, records)

    def column(self, target: str, *, as_json: bool) -> dict[str, object]:
        """Hours of one target's cells, by device; every target has the same fields."""
        found: dict[str, object] = {}
        for one in self.rates:
            hours = sum(todo.hours(one)[0] for todo in self.todo if todo.cell.target == target)
            name = f"on {one.device}{'' if one.is_measured else ' (assumed)'}"
            found |= {f"hours {name}": hours} if as_json else {name: _time(hours)}
        return found

    def as_json(self) -> dict[str, Any]:
        """Everything with its units in the names."""
        return {
            "hours": [self._total(rates) for rates in self.rates],
            "memory": self._memory(),
            "record_bytes": self.disk.records,
            "checkpoint_bytes": self.disk.checkpoints,
            "free_bytes": _free(self.store.root),
        }

    def lines(self) -> list[str]:
        """The same in words; nothing where nothing is left to train."""
        if not self.todo:
            return []
        hours = [line for rates in self.rates for line in self._told(rates)]
        return [*hours, self._memory_line(), self._disk_line()]

    def _total(self, rates: Rates) -> dict[str, Any]:
        expected, least, most = (sum(one.hours(rates)[i] for one in self.todo) for i in range(3))
        ways = {way: rates.of(way) for way in dict.fromkeys(one.way for one in self.todo)}
        return {
            "device": rates.device,
            "is_measured": rates.is_measured,
            "expected": expected,
            "least": least,
            "most": most,
            "ways": {
                way: {
                    "cells": sum(one.way == way for one in self.todo),
                    "tokens_a_second": 1 / rate.seconds,
                    "slowest": 1 / rate.most,
                    "fastest": 1 / rate.least,
                    "records": rate.records,
                    "is_of_this_way": way in rates.ways,
                }
                for way, rate in ways.items()
            },
        }

    def _told(self, rates: Rates) -> list[str]:
        total = self._total(rates)
        if not rates.is_measured:
            speed = next(iter(total["ways"].values()))["tokens_a_second"]
            return [
                f"device hours on {rates.device}: {_time(total['expected'])}, ASSUMED: {speed:,.0f} row-epoch tokens a "
                f"second and {rates.start:g} s to start a pack; no record here tells"
            ]
        spread = f"{_time(total['least'])} to {_time(total['most'])} at the best and worst measured rate"
        lines = [f"device hours on {rates.device}: {_time(total['expected'])} ({spread})"]
        for way, one in total["ways"].items():
            note = "" if one["is_of_this_way"] else ", of other ways: this one was not measured"
            lines.append(
                f"  {one['cells']} cells, {way}: {one['tokens_a_second']:,.0f} row-epoch tokens a second "
                f"({one['slowest']:,.0f} to {one['fastest']:,.0f}; {one['records']} records{note})"
            )
        return lines

    def _memory(self) -> dict[str, Any]:
        """Peak bytes of the largest pack left, by family of device; nothing for cells that lanes do not serve."""
        packs = [pack for pack in left_packs(self.plan, self.store) if pack.cells[0].spec["trainer"] == "lanes"]
        if not packs:
            return {}
        import torch

        from harness.training.memory import shape_of

        found: dict[str, Any] = {}
        for pack in packs:
            cell = pack.cells[0]
            for family in ("cpu", "cuda"):
                shape = shape_of(cell, self.plan.backbone, _longest(self.tokens[pack.target]), torch.device(family))
                need = {"target": pack.target, "lanes": len(pack.cells), "lane_bytes": shape.lane_bytes()}
                need["bytes"] = shape.shared_bytes() + len(pack.cells) * shape.lane_bytes()
                found[family] = max(found.get(family, need), need, key=lambda one: int(one["bytes"]))
        return found

    def _memory_line(self) -> str:
        found = self._memory()
        if not found:
            return "memory: not estimated, for these cells are trained through the adapters library, one at a time"
        names = {"cpu": "a processor", "cuda": "a GPU"}
        parts = [
            f"{_size(one['bytes'])} on {names[family]} ({one['lanes']} lanes of {one['target']})"
            for family, one in found.items()
        ]
        return f"peak memory of the largest pack: {', '.join(parts)}; one that has no room is trained in parts"

    def _disk_line(self) -> str:
        how = f"{self.disk.measured} of {len(self.todo)} cells as measured, the rest by adapter and rows"
        kept, free = _size(self.disk.checkpoints), _size(_free(self.store.root))
        return f"disk: {_size(self.disk.records)} of records ({how}), {kept} of checkpoints a running pack; {free} free"


def _tokens(plan: Plan, name: str) -> RowTokens:
    from harness.training.row_tokens import row_tokens

    splits = plan.splits[name]
    return row_tokens(splits.task, (*splits.train, *splits.validation, *splits.test), plan.study, plan.backbone)


def _longest(tokens: RowTokens) -> Mapping[str, Any]:
    import numpy as np

    from harness.training.fit import Part

    return {"longest": Part(tokens.longest, np.zeros(len(tokens.longest)))}


def _round(hours: float) -> float:
    return float(f"{hours:.2g}")


def _time(hours: float) -> str:
    return f"{_round(hours):,g} h" if hours >= 0.1 else f"{_round(60 * hours):g} min"


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"


def _free(root: Path) -> int:
    """Bytes that the store's file system has left for us."""
    place = next(one for one in (root.absolute(), *root.absolute().parents) if one.is_dir())
    return shutil.disk_usage(place).free
