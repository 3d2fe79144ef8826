"""What scores new texts: the baselines of a study's tasks and imported adapters; no model is loaded here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapters_store import Record, Store
from adapters_store.record import imports_of, is_imported
from adapters_store.roles import SCORING
from harness.study.imported import imported_as
from tasks.errors import BadInput
from tasks.plain_text import nearest
from tasks.task import METRICS, Task

FORM = ("input_format", "tags", "max_tokens", "truncation", "history")


class NothingTrained(BadInput):
    """The store has no trained cell of what is to be scored."""


@dataclass(frozen=True)
class Chosen:
    """A task as it scores: its record, and the names of its classes in the order of the outputs (none for numbers).

    ``form`` is how it reads a text: the values of ``FORM``.
    """

    task: str
    title: str
    record: Record
    names: tuple[str, ...]
    form: Mapping[str, Any]

    @property
    def is_imported(self) -> bool:
        """Whether others have trained it, in a way and on texts that nothing here is known of."""
        return is_imported(self.record.spec)

    @property
    def metric(self) -> str:
        """The metric by which its logits become answers."""
        return METRICS[self.kind] if self.is_imported else str(self.record.spec["metric"])

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

    Imported adapters with a head are among them: all those of the study, or any in the store that is named.
    BadInput for a name that is neither, or has no head; NothingTrained where the store lacks what is asked for.
    """
    known = list(manifest["tasks"])
    found = {
        name: _of_task(store, manifest, name, seed) if name in known else _brought(store, manifest, name)
        for name in tasks or [*known, *imports_of(manifest)]
    }
    lacking = [name for name in tasks if found[name] is None]
    for name in lacking:
        if name not in known:
            raise BadInput(f"{name}: imported without a head, so it gives no answers and is an intermediate only")
    if lacking:
        raise NothingTrained(_lacking(store, manifest, ", ".join(lacking), seed))
    every = [one for one in found.values() if one is not None]
    if not every:
        raise NothingTrained(_lacking(store, manifest, "any task", seed))
    return every


def _brought(store: Store, manifest: Mapping[str, Any], name: str) -> Chosen | None:
    """An imported adapter, of the study or by its name alone; None if it has no head.

    It reads texts as the study's tasks do, for how it once did is not known.
    """
    known = imports_of(manifest)
    records = [store.get(known[name])] if name in known else imported_as(store, name)
    if not records:
        tasks = list(manifest["tasks"])
        raise BadInput(f"task {name!r} is not one of study {manifest['name']!r}{nearest(name, tasks)}")
    if len(records) > 1:
        keys = ", ".join(record.key[:12] for record in records)
        raise BadInput(f"{name}: {len(records)} imported adapters have this name ({keys}); name one in [imported]")
    (record,) = records
    if record.spec["label"] is None:
        return None
    study = manifest["study"]
    form = {"tags": None, "truncation": Task.truncation, "history": Task.history}
    form |= {name: study[name] for name in ("input_format", "max_tokens")}
    title = f"imported: {record.spec['origin']['name']}"
    return Chosen(name, title, record, tuple(record.spec["label"]["classes"]), form)


def _lacking(store: Store, manifest: Mapping[str, Any], what: str, seed: int | None) -> str:
    which = "" if seed is None else f" with seed {seed}"
    command = f"empathy-transfer run {manifest['name']}"
    return f"store {store.root} has no trained cell{which} of {what}; train it with: {command}"


def _of_task(store: Store, manifest: Mapping[str, Any], task: str, seed: int | None) -> Chosen | None:
    cells = [
        cell
        for cell in manifest["cells"]
        if cell["target"] == task and cell["role"] in SCORING and cell["setting"] == "full" and cell["key"] in store
    ]
    of_seed = [cell for cell in cells if seed in (None, cell["seed"])]
    if not of_seed:
        return None
    record, facts = store.get(min(of_seed, key=lambda cell: cell["seed"])["key"]), manifest["tasks"][task]
    classes = tuple(record.spec["label"]["classes"])
    names = tuple(facts["classes"]) if len(facts["classes"]) == len(classes) else classes
    return Chosen(task, facts["title"], record, names, {name: record.spec[name] for name in FORM})
