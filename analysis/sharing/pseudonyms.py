"""What private tasks are called in a copy for others, and a study's manifest in those names.

Private are tasks whose entry says ``private = true``, and all that this project does not ship. Their names, titles,
classes, versions and warnings are replaced, and so are data set, family, source and language setting that no public
task of the study shares; adapters that were imported; and raters whose ratings lie beside one's own entries. Paths, and
the options of schedulers and searches, are left out of the manifest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from adapters_store.key import key_of
from adapters_store.roles import IMPORTED, MERGED
from analysis.gains.cells import Manifest
from tasks.ratings import Rating, rating_files, ratings
from tasks.registry import Registry

UNSHOWN = "not shown"
PATH = re.compile(r"\S*[/\\]\S*")
LEFT_OUT = ("slurm", "ray", "best", "imported", "merged", "registry")  # of a study: places, accounts, what is by task
KEPT = ("schema", "created", "declared", "synthetic")  # of a manifest, as it is
KEPT_OF_TASK = ("theme", "kind", "metric", "language", "n_train", "n_validation", "n_test", "has_ratings")
SHORTEST = 4  # letters of a word that is looked for in the copy: shorter ones are everywhere


@dataclass(frozen=True)
class Names:
    """Pseudonyms: of tasks (and imported adapters) by their ids, of each private task's classes, of raters, of places.

    ``facts`` are those of a private task's dataset, family, source and setting by field and value; ``study`` is the
    name that the study goes by.
    """

    tasks: Mapping[str, str]
    classes: Mapping[str, Mapping[str, str]]
    facts: Mapping[str, Mapping[str, str]]
    raters: Mapping[str, str]
    study: str
    words: tuple[str, ...]

    def task(self, name: Any) -> Any:  # noqa: ANN401 - an id, or None where there is no intermediate
        """What a task is called; a public one, and what is none, by its own name."""
        return self.tasks.get(name, name) if isinstance(name, str) else name

    def flags(self, flags: Iterable[str], target: str) -> list[str]:
        """The flags of a cell of a target without the names of its classes."""
        known = self.classes.get(target)
        parts = (flag.partition(":") for flag in flags)
        if known is None:
            return list(flags)
        return [f"{what}{colon}{known.get(value, 'a class')}" if colon else what for what, colon, value in parts]


def names_of(manifest: Manifest) -> Names:
    """The pseudonyms for a study, the same for the same study; their letters follow the keys of its cells."""
    shipped = Registry.load().tasks
    rows: Mapping[str, Any] = manifest["tasks"]
    hidden = [name for name, task in rows.items() if task.get("private") or name not in shipped]
    hidden += [name for name in manifest["missing"] if name not in shipped or shipped[name].dataset.private]
    private, public = {name: rows[name] for name in hidden if name in rows}, set(rows) - set(hidden)
    imported = dict.fromkeys(cell["intermediate"] for cell in manifest["cells"] if cell.get("role") == IMPORTED)
    tasks = _lettered(hidden, "task", lambda name: _keys(manifest, name))
    tasks |= _lettered(list(imported), "adapter", lambda name: _keys(manifest, name))
    if hidden:  # a row's name may say what its parents are
        merged = dict.fromkeys(cell["intermediate"] for cell in manifest["cells"] if cell.get("role") == MERGED)
        tasks |= _lettered(list(merged), "merge", lambda name: _keys(manifest, name))
    facts = {}
    for field, prefix in {"dataset": "data", "family": "family", "data_source": "source", "setting": "setting"}.items():
        known = {rows[name].get(field, "") for name in public} | {""}
        own = dict.fromkeys(task.get(field, "") for task in private.values() if task.get(field, "") not in known)
        facts[field] = _lettered(list(own), prefix, lambda value: key_of({"value": value, "of": _keys(manifest, "")}))
    raters = _lettered(_own_raters(manifest), "rater", lambda name: name)
    classes = {name: _numbered(task["classes"]) for name, task in private.items()}
    words = [*hidden, *imported, *(task["title"] for task in private.values()), *raters]
    words += [word for part in (*facts.values(), *classes.values()) for word in part]
    title = f"{manifest['name']} {manifest['study'].get('title') or ''}".casefold()
    study = "study" if any(word.casefold() in title for word in words if len(word) >= SHORTEST) else manifest["name"]
    return Names(tasks, classes, facts, raters, study, tuple(dict.fromkeys(words)))


def hidden_manifest(manifest: Manifest, names: Names, keys: Mapping[str, str], ratings_folder: Path) -> dict[str, Any]:
    """The manifest in pseudonyms, with other ``keys`` for cells and the folder that has ``hidden_ratings``."""
    study = {name: value for name, value in manifest["study"].items() if name not in LEFT_OUT}
    is_renamed = names.study != manifest["name"]
    study |= {
        "name": names.study,
        "title": "" if is_renamed else study.get("title", ""),
        "tasks": [names.task(name) for name in study["tasks"]],
        "task": {names.task(name): settings for name, settings in (study.get("task") or {}).items()},
        "backbone": _without_folder(str(study["backbone"])),
        "registry": [str(ratings_folder)],
    }
    if analysis := study.get("analysis"):
        rater = analysis.get("without_rater", "")
        study["analysis"] = {**analysis, "without_rater": names.raters.get(rater, rater)}
    return {
        **{name: manifest[name] for name in KEPT if name in manifest},
        "name": names.study,
        "study": study,
        "tasks": {names.task(name): _task(name, task, names) for name, task in manifest["tasks"].items()},
        "missing": {names.task(name): "its data are not there" for name in manifest["missing"]},
        "cells": [_cell(cell, names, keys) for cell in manifest["cells"]],
    }


def hidden_hash(splits_hash: str, pseudonym: str) -> str:
    """What stands for the hash of a private task's rows, with which a copy of them could be recognised."""
    return key_of({"splits of": pseudonym}) if splits_hash else ""


def hidden_ratings(manifest: Manifest, names: Names) -> list[Rating]:
    """The ratings that lie beside one's own entries, and the shipped ones of private tasks, in pseudonyms."""
    own = _own_ratings(manifest) + [rating for rating in ratings() if rating.task in names.classes]
    return [
        rating._replace(task=names.task(rating.task), rater=names.raters.get(rating.rater, rating.rater))
        for rating in own
    ]


def _task(name: str, task: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """A task's row of the manifest: of a public one without paths in its warnings, of a private one in pseudonyms."""
    if name not in names.tasks:
        return {**task, "warnings": [PATH.sub("(path)", text) for text in task["warnings"]]}
    facts = {field: known.get(task[field], task[field]) for field, known in names.facts.items() if field in task}
    hidden = {
        "title": names.tasks[name],
        "classes": list(names.classes[name].values()),
        "version": UNSHOWN,
        "licence": UNSHOWN,
        "private": True,
        "warnings": [f"{len(task['warnings'])}, {UNSHOWN}"] if task["warnings"] else [],
    }
    for field in ("splits_hash", "marks_hash"):
        if field in task:
            hidden[field] = hidden_hash(task[field], names.tasks[name])
    return {**{name: task[name] for name in KEPT_OF_TASK if name in task}, **facts, **hidden}


def _cell(cell: Mapping[str, Any], names: Names, keys: Mapping[str, str]) -> dict[str, Any]:
    roles = {role: names.task(cell[role]) for role in ("intermediate", "target")}
    intermediate = cell.get("intermediate_key")
    return {
        **cell,
        **roles,
        "key": keys[cell["key"]],
        "intermediate_key": keys.get(intermediate) if intermediate else None,
        **({"merge": hidden_merge(cell["merge"], names, keys.get)} if "merge" in cell else {}),
    }


def hidden_merge(merge: Mapping[str, Any], names: Names, key_of_copy: Callable[[str], str | None]) -> dict[str, Any]:
    """A merged row's recipe in pseudonyms, with the keys that records have in the copy; measures are not named."""
    recipe = dict(merge)
    for field in ("parents", "transfers"):
        if field in merge:
            keys = {names.task(name): key_of_copy(key) for name, key in merge[field].items()}
            recipe[field] = {name: key for name, key in sorted(keys.items()) if key}
    for field in ("weights", "by"):
        if isinstance(merge.get(field), Mapping):
            recipe[field] = {"similarity": merge[field]["similarity"]}
    return recipe


def _keys(manifest: Manifest, name: str) -> str:
    """A hash that follows from all cells of a task, and so from its rows; no name can be read or guessed from it."""
    own = sorted(cell["key"] for cell in manifest["cells"] if name in ("", cell["target"], cell["intermediate"]))
    return key_of({"name": name, "cells": own})


def _lettered(names: list[str], prefix: str, order: Callable[[str], str]) -> dict[str, str]:
    """``prefix-a``, ``prefix-b``, ... in an order that is none of the names'; the given order is kept."""
    letters = {name: f"{prefix}-{_letter(number)}" for number, name in enumerate(sorted(names, key=order))}
    return {name: letters[name] for name in names}


def _letter(number: int) -> str:
    """A, b, ..., z, aa, ab, ..."""
    rest, last = divmod(number, len(ascii_lowercase))
    return (_letter(rest - 1) if rest else "") + ascii_lowercase[last]


def _numbered(classes: Iterable[str]) -> dict[str, str]:
    return {str(name): f"class {number}" for number, name in enumerate(classes, start=1)}


def _own_ratings(manifest: Manifest) -> list[Rating]:
    """The ratings that the project does not ship, of the tasks of a study."""
    everything = ratings(rating_files(manifest["study"].get("registry", ())))
    return [rating for rating in everything[len(ratings()) :] if rating.task in manifest["tasks"]]


def _own_raters(manifest: Manifest) -> list[str]:
    return sorted({rating.rater for rating in _own_ratings(manifest)} - {rating.rater for rating in ratings()})


def _without_folder(backbone: str) -> str:
    """The name of a backbone; of a local folder its last part, so that no path is shown."""
    parts = [part for part in re.split(r"[/\\]", backbone) if part]
    is_folder = backbone.startswith(("/", ".", "~")) or len(parts) > 2 or "\\" in backbone or Path(backbone).is_dir()
    return f"{parts[-1]} (a folder)" if is_folder and parts else backbone
