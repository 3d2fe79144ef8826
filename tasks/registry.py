"""The registry: every task that the built-in entries and the user's own describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.entry import tasks_of
from tasks.errors import BadEntry, UnknownTask
from tasks.plain_text import is_folder, nearest
from tasks.ratings import themes
from tasks.task import Task

BUILT_IN = Path(__file__).with_name("entries")


@dataclass(frozen=True)
class Registry:
    """All known tasks by id, sorted."""

    tasks: Mapping[str, Task]

    @classmethod
    def load(cls, extra: Sequence[Path] = ()) -> Registry:
        """Read the built-in entries and every ``*.toml`` of the extra folders; BadEntry when two entries clash."""
        by_id: dict[str, Task] = {}
        for file in _entry_files(extra):
            for task in tasks_of(file):
                _check_theme(task)
                if task.id in by_id:
                    raise BadEntry(
                        f"task {task.id!r} is in two entries, {by_id[task.id].entry_file} and {task.entry_file}; "
                        "rename one of them"
                    )
                by_id[task.id] = task
        return cls(_with_family_salts(dict(sorted(by_id.items()))))

    def task(self, id: str) -> Task:
        """Return the task with this id, or raise UnknownTask with the nearest name."""
        if id not in self.tasks:
            hint = nearest(id, self.tasks) or f"; known tasks: {', '.join(self.tasks)}"
            raise UnknownTask(f"no task {id!r}{hint}")
        return self.tasks[id]


def _entry_files(extra: Sequence[Path]) -> Iterable[Path]:
    """Built-in entries first, then each extra folder's, each by name."""
    for folder in (BUILT_IN, *extra):
        if not is_folder(folder):
            raise BadEntry(f"{folder}: not a folder; give the one that holds your .toml entries")
        yield from sorted(folder.glob("*.toml"))


def _check_theme(task: Task) -> None:
    """Refuse a theme that constructs.toml does not declare."""
    if task.theme and task.theme not in themes():
        raise BadEntry(f"{task.entry_file}: task {task.id}: theme {task.theme!r} is not one of {', '.join(themes())}")


def _with_family_salts(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Give the tasks of a family one split salt: the pinned one, else 0 when there is more than one task.

    Siblings share texts and people, so a block must fall in the same split for all of them; salts that are searched
    for by task would let one task's test rows into another's training.
    """
    families: dict[str, list[Task]] = {}
    for task in tasks.values():
        families.setdefault(task.dataset.family, []).append(task)
    for family in families.values():
        _check_repeats(family)
    return {id: replace(task, split_salt=_salt(families[task.dataset.family])) for id, task in tasks.items()}


def _check_repeats(family: Sequence[Task]) -> None:
    """Refuse siblings of which only some keep equal texts together: what these join, the others would divide."""
    by_rule = {task.repeats: task for task in family}
    if len(by_rule) > 1:
        together, other = by_rule["together"], by_rule["drop"]
        raise BadEntry(
            f'family {together.dataset.family!r}: `repeats` is "together" for {together.id} in {together.entry_file} '
            f"and not for {other.id} in {other.entry_file}; siblings must be split alike, so write it for all or none"
        )


def _salt(family: Sequence[Task]) -> int | None:
    """Salt of one family; BadEntry when two entries pin different ones."""
    pinned = {task.split_salt: task for task in family if task.split_salt is not None}
    if len(pinned) > 1:
        first, second = sorted(pinned.values(), key=lambda task: task.id)[:2]
        raise BadEntry(
            f"family {first.dataset.family!r} has two split salts: {first.split_salt} in {first.entry_file} and "
            f"{second.split_salt} in {second.entry_file}; siblings must be split alike, so keep one"
        )
    return next(iter(pinned), 0 if len(family) > 1 else None)
