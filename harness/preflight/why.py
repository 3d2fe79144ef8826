"""Why cells must be trained: what differs from the nearest stored record of the same cell, named at its root."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapters_store import Record, Store
from adapters_store.roles import ROLES, role_of
from harness.run.notes import failure
from harness.study.cell import Cell
from harness.study.plan import Plan, weightless

NEVER = "never trained"
NO_WEIGHTS = "stored without the weights that other cells must be trained with"
IDENTITY = ("role", "system", "target", "intermediate", "seed", "setting")  # two specs that agree are of one cell
OF_TASKS = (
    *("training", "adapter", "splits_hash", "label", "metric", "class_weights", "loss", "history", "truncation"),
    *("tags", "after_hash", "instruction_hash"),
)
USUAL = {"loss.kind": "cross-entropy"}  # of fields that a spec has only where they are set
CHANGED = {
    "splits_hash": "data of {of} changed (content hash)",
    "label": "label of {of} changed",
    "after_hash": "later turns of {of} changed",
    "instruction_hash": "instruction of {of} changed",
}
LONGEST = 40  # characters of a value that is printed
MOST_NAMES = 3

Change = tuple[str, str, str]  # a field, its stored value and the planned one


@dataclass(frozen=True)
class Cause:
    """What a cell lacks: ``changes`` of the spec of ``of`` (a task), or else a sentence; equal ones share a line."""

    sentence: str = ""
    of: str = ""
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Why:
    """One line: a cause in words, and the cells that must be trained for it, by what they are."""

    cause: str
    cells: int
    kinds: Mapping[str, int]

    def line(self, planned: int) -> str:
        """The line as it is printed, of ``planned`` cells in all."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items())
        return f"{self.cells} of {planned}: {self.cause}: {kinds}"


def why(plan: Plan, store: Store, records: Iterable[Record]) -> list[Why]:
    """The causes for which cells of the plan must be trained, the one of most cells first.

    ``records`` are those to compare with. A cell whose intermediate must be trained, or was trained anew, counts under
    its intermediate's cause.
    """
    stored = _StoredCells(plan, store, records)
    grouped: dict[object, list[tuple[Cause, Cell]]] = defaultdict(list)
    again = {cell.key for cell in weightless(plan, store)}
    for cell in plan.cells:
        if cell.key not in store or cell.key in again:
            cause = Cause(NO_WEIGHTS) if cell.key in again else stored.cause(cell)
            grouped[cause.sentence, cause.changes].append((cause, cell))
    return sorted((_line_of(members) for members in grouped.values()), key=lambda line: -line.cells)


class _StoredCells:
    """The stored cells that planned ones are compared with: specs by key, and those of the same cell, newest first."""

    def __init__(self, plan: Plan, store: Store, records: Iterable[Record]) -> None:
        self.planned = {cell.key: cell for cell in plan.cells}
        self.store = store
        self.specs: dict[str, Mapping[str, Any]] = {}
        self.same: dict[tuple[object, ...], list[Mapping[str, Any]]] = defaultdict(list)
        for record in sorted(records, key=lambda record: str(record.provenance.get("created", "")), reverse=True):
            self.specs[record.key] = record.spec
            self.same[_identity(record.spec)].append(record.spec)

    def cause(self, cell: Cell) -> Cause:
        """Why a planned cell that is not stored must be trained."""
        if note := failure(self.store, cell.key):
            return Cause(f"failed: {' '.join(note.reason.split())}", cell.label)
        # What is missing further down is the root: a cell is trained anew because its intermediate is.
        below = [self.planned[key] for key in cell.stands_on if key in self.planned]
        if absent := [other for other in below if other.key not in self.store]:
            return self.cause(absent[0])
        # The nearest record of the same cell is the one with the fewest changes, the newest of equals.
        earlier = min(self.same[_identity(cell.spec)], key=lambda spec: len(changes(spec, cell.spec)), default=None)
        return Cause(NEVER) if earlier is None else self._difference(earlier, cell)

    def _difference(self, earlier: Mapping[str, Any], cell: Cell) -> Cause:
        """What has changed since a record of the same cell, at its root."""
        intermediate = self.planned.get(str(cell.intermediate_key))
        if intermediate is not None and earlier["intermediate_key"] != intermediate.key:
            former = self.specs.get(str(earlier["intermediate_key"]))
            if former is not None and (differences := changes(former, intermediate.spec)):
                return Cause(of=intermediate.target, changes=differences)
        if sentence := _other_parents(earlier, cell.spec):
            return Cause(sentence)
        if differences := changes(earlier, cell.spec):
            return Cause(of=cell.target, changes=differences)
        if earlier["schema"] != cell.spec["schema"]:
            return Cause(f"stored with a key of schema {earlier['schema']}")
        return Cause(f"another {cell.intermediate} is stored than the one it stood on")


def _other_parents(earlier: Mapping[str, Any], planned: Mapping[str, Any]) -> str:
    """In words how the parents of a merged row differ from those that it was stored with; empty where they do not."""
    old, new = ((spec.get("merge") or {}).get("parents", {}) for spec in (earlier, planned))
    row = planned.get("intermediate")
    if gone := sorted(old.keys() - new.keys()):
        return f"merged row {row} has no longer the parent {', '.join(gone)}"
    if added := sorted(new.keys() - old.keys()):
        return f"merged row {row} has a new parent, {', '.join(added)}"
    if again := sorted(name for name, key in new.items() if old[name] != key):
        return f"merged row {row} stands on other adapters of {', '.join(again)} than it did"
    return ""


def changes(earlier: Mapping[str, Any], planned: Mapping[str, Any]) -> tuple[Change, ...]:
    """Fields in which two specs differ, tables field by field, but for the intermediate's key.

    Of specs of two schemas only fields that both have can differ.
    """
    old, new = _flat(earlier), _flat(planned)
    if earlier.get("schema") != planned.get("schema"):
        old, new = ({name: flat[name] for name in old.keys() & new.keys() - {"schema"}} for flat in (old, new))
    names = [name for name in dict.fromkeys((*new, *old)) if old.get(name) != new.get(name)]
    values = {name: [_short(flat.get(name, USUAL.get(name))) for flat in (old, new)] for name in names}
    return tuple((name, before, after) for name, (before, after) in values.items() if name != "intermediate_key")


def _flat(spec: Mapping[str, Any]) -> dict[str, Any]:
    whole = ("label",)  # compared as one: what changed in it is long, and means the same
    flat: dict[str, Any] = {}
    for name, value in spec.items():
        is_table = isinstance(value, Mapping) and name not in whole
        flat |= {f"{name}.{inner}": field for inner, field in value.items()} if is_table else {name: value}
    return flat


def _short(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _identity(spec: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(spec.get(name) for name in IDENTITY)


def _line_of(members: list[tuple[Cause, Cell]]) -> Why:
    cause = members[0][0]
    names = list(dict.fromkeys(cause.of for cause, _ in members))
    is_of_tasks = any(name.partition(".")[0] in OF_TASKS for name, _, _ in cause.changes)
    counts = Counter(_kind(cell, names if is_of_tasks else ()) for _, cell in members)
    # What stands on nothing comes first.
    roles = sorted(ROLES.values(), key=lambda role: not role.stands_alone)
    first = [*dict.fromkeys(role.noun for role in roles), "onto it", "onto them"]
    plurals = {role.noun: role.plural for role in roles}
    kinds = {}
    for kind in sorted(counts, key=lambda kind: first.index(kind) if kind in first else len(first)):
        kinds[kind if counts[kind] == 1 else plurals.get(kind, kind)] = counts[kind]
    of = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
    words = f"{cause.sentence} ({of})" if any(names) else cause.sentence
    if cause.changes:
        words = "; ".join(_change(*change, of) for change in cause.changes)
    return Why(words, len(members), kinds)


def _change(name: str, old: str, new: str, of: str) -> str:
    if name in CHANGED:
        return CHANGED[name].format(of=of)
    if name.startswith("backbone."):
        return f"{name.removeprefix('backbone.').removesuffix('_sha256')} of the backbone changed"
    whose = f" of {of}" if name.partition(".")[0] in OF_TASKS else ""
    words = name.removesuffix(".kind") if name == "loss.kind" else name.removeprefix("training.").removeprefix("loss.")
    return f"{words}{whose} {old} -> {new}"


def _kind(cell: Cell, of: Sequence[str]) -> str:
    """What a cell is to a cause of the tasks ``of``, or by itself if the cause is none of a task."""
    role = role_of(cell.role)
    if role.stands_alone or not of:
        return role.noun
    it = "it" if len(of) == 1 else "them"
    return f"onto {it}" if cell.target in of else f"stacked on {it}"
