"""What of a study's texts would leave the machine: how many, to whom, and at what price, before anything is sent.

Only systems that say so (``leaving``, harness.study.systems) send any. Nothing is connected to here: prompts are made,
counted and thrown away. Tokens are estimated from bytes, so prices are estimates, too; what a model may cost at most is
said by the setting ``most_cost``, which holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from adapters_store import Store
from adapters_store.roles import SYSTEM
from harness.study.cell import Cell, seed_of
from harness.study.plan import Plan
from harness.study.systems import Leaving, in_window, kind_of
from harness.systems.fitted import answers_beside

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
    unstated = dict.fromkeys(cell.target for cell in cells if _is_unstated(plan, cell.target))
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
    parts = [rows_of(cell, fold) for fold in splits.folds or (splits,)]
    names = ("train", "validation", "test")
    each = [
        kind.leaving(
            config, splits.task.instruction, {n: in_window(getattr(rows, n), config) for n in names}, seed, answers
        )
        for rows in parts
    ]
    return [leaving for leaving in each if leaving is not None]


def _is_unstated(plan: Plan, target: str) -> bool:
    licence = plan.splits[target].task.dataset.licence.lower()
    return plan.study.data != "synthetic" and (not licence or "unstated" in licence)
