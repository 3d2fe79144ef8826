"""Which stored cells score new texts: the baselines of a study's tasks; no model is loaded here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapters_store import Record, Store
from tasks.errors import BadInput
from tasks.toml_file import nearest

ROLES = ("baseline", "control-intermediate")


class NothingTrained(BadInput):
    """The store has no trained cell of what is to be scored."""


@dataclass(frozen=True)
class Chosen:
    """A task as it scores: its record, and the names of its classes in the order of the outputs (none for numbers)."""

    task: str
    title: str
    record: Record
    names: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The label's kind."""
        return str(self.record.spec["label"]["kind"])

    @property
    def outputs(self) -> int:
        """Logits per text."""
        return len(self.record.spec["label"]["classes"]) or 1


def chosen(
    store: Store, manifest: Mapping[str, Any], tasks: Sequence[str] = (), seed: int | None = None
) -> list[Chosen]:
    """A study's tasks (all, or those named) that are trained on their own in full data, by ``seed`` or the lowest.

    BadInput for a task that the study has not; NothingTrained where the store lacks what is asked for.
    """
    known = list(manifest["tasks"])
    for task in tasks:
        if task not in known:
            raise BadInput(f"task {task!r} is not one of study {manifest['name']!r}{nearest(task, known)}")
    found = {name: _of_task(store, manifest, name, seed) for name in tasks or known}
    if lacking := [name for name in tasks if found[name] is None]:
        raise NothingTrained(_lacking(store, manifest, ", ".join(lacking), seed))
    every = [one for one in found.values() if one is not None]
    if not every:
        raise NothingTrained(_lacking(store, manifest, "any task", seed))
    return every


def _lacking(store: Store, manifest: Mapping[str, Any], what: str, seed: int | None) -> str:
    which = "" if seed is None else f" with seed {seed}"
    command = f"empathy-transfer run {manifest['name']}"
    return f"store {store.root} has no trained cell{which} of {what}; train it with: {command}"


def _of_task(store: Store, manifest: Mapping[str, Any], task: str, seed: int | None) -> Chosen | None:
    cells = [
        cell
        for cell in manifest["cells"]
        if cell["target"] == task and cell["role"] in ROLES and cell["setting"] == "full" and cell["key"] in store
    ]
    of_seed = [cell for cell in cells if seed in (None, cell["seed"])]
    if not of_seed:
        return None
    record, facts = store.get(min(of_seed, key=lambda cell: cell["seed"])["key"]), manifest["tasks"][task]
    classes = tuple(record.spec["label"]["classes"])
    names = tuple(facts["classes"]) if len(facts["classes"]) == len(classes) else classes
    return Chosen(task, facts["title"], record, names)
