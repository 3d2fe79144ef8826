"""A report for others: the frames of a study under pseudonyms, from a store in which private tasks have no names.

Gains are computed from the study itself, so that every number of a pair is that of its own report; all that is written
comes from a copy of manifest, records and measures in pseudonyms, made before, which is thrown away afterwards.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.errors import MissingRecord
from adapters_store.key import key_of
from adapters_store.measures import ANNOTATORS, CONTAMINATION, RETENTION, STATISTICS, measures_of
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.gains.gains import SEED
from analysis.gains.significance import DRAWS
from analysis.report import write_report
from analysis.sections.answers import silent
from analysis.sections.blocks import Text
from analysis.sections.importance import Progress
from analysis.sections.question import of_stored
from analysis.sections.study_results import Frames, Snapshot, StudyResults, finished
from analysis.sharing.pseudonyms import (
    SHORTEST,
    UNSHOWN,
    Names,
    hidden_hash,
    hidden_manifest,
    hidden_merge,
    hidden_ratings,
    names_of,
)
from tasks.errors import BadInput
from tasks.plain_text import counted
from tasks.ratings import Rating

SPEC = (  # what a private cell's record keeps of its settings; nothing in them names a task
    *("schema", "training_version", "role", "seed", "setting", "backbone", "adapter", "training", "input_format"),
    *("max_tokens", "caps", "splits", "metric", "class_weights", "loss", "history", "truncation", "tags"),
    *("composition", "start", "retry_collapsed", "trainer", "precision", "shared_noise", "system", "version", "config"),
)
PROVENANCE = ("created", "device", "threads", "lanes", "wall_seconds", "cpu_seconds", "versions", "code")
FRAMES = ("cells", "gains", "baselines", "controls", "control_means", "merged", "merged_means", "others", "learned")
READABLE = (".md", ".csv", ".json", ".svg", ".html", ".txt", ".tex")


@dataclass(frozen=True)
class Shared:
    """The page of a shared report, its study's name there, and by words of private tasks the files that have them.

    ``notice`` says what is in the report and what is not.
    """

    page: Path
    study: str
    notice: str
    occurring: Mapping[str, list[str]]


def shared_report(
    store: Store,
    manifest: Manifest,
    out: Path,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
    progress: Progress = silent,
) -> Shared:
    """Write a study's report for others into ``out``, which must be empty.

    BadInput if something lies in ``out``: what is there might name a private task.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} is not an empty folder; a report for others needs one of its own: give it with --out")
    names = names_of(manifest)
    store, notice = Snapshot.of(store), notice_of(manifest, names)
    study = StudyResults.of(store, manifest, out, draws=draws, seed=seed).with_controls(store)
    with copied(store, manifest, names) as (copy, hidden, keys):
        frames = {name: _frame(getattr(study, name), names, keys) for name in FRAMES}
        marked = Frames.of(store, manifest, draws=draws, seed=seed).rationales()
        if marked is not None:
            frames["rationales"] = _frame(marked, names, keys)
        records, question = finished(copy, frames["cells"]), of_stored(copy, hidden, frames["gains"], out)
        shown = replace(study, manifest=hidden, records=records, question=question, shared=notice, **frames)
        page = write_report(copy, shown, out, progress).page
    return Shared(page, names.study, f"{notice.lead} {notice.text}", occurrences(out, names.words))


def notice_of(manifest: Manifest, names: Names) -> Text:
    """What is inside a shared report and what is not, in one paragraph."""
    hidden = [names.tasks[name] for name in manifest["tasks"] if name in names.tasks]
    who = f"Private tasks stand under pseudonyms ({', '.join(sorted(hidden))})" if hidden else "No task is private"
    brought = sorted(
        shown for name, shown in names.tasks.items() if name not in {*manifest["tasks"], *manifest["missing"]}
    )
    who += f". Imported adapters stand under pseudonyms ({', '.join(brought)})" if brought else ""
    return Text(
        f"Inside: scores, gains, counts and settings of {counted(len(manifest['tasks']), 'task')}. {who}."
        " Taken out: texts, ids of items and groups, names and paths of files, hosts and users, and where adapters came"
        " from; of private tasks also titles, class names, data sets, sources, versions, warnings and keys. Left in:"
        " sizes, shares of classes and scores, by which somebody who knows a data set may recognise it.",
        lead="A copy for others.",
    )


@contextmanager
def copied(store: Store, manifest: Manifest, names: Names) -> Iterator[tuple[Store, dict[str, Any], dict[str, str]]]:
    """A store in pseudonyms with the manifest that belongs to it, and its cells' keys by their own; gone afterwards."""
    root = Path(tempfile.mkdtemp(prefix="share-"))
    try:
        copy, keys = Store(root / "runs"), _Keys(store, names, {})
        for cell in manifest["cells"]:
            keys.add(cell)
        hidden = hidden_manifest(manifest, names, keys.shown, root / "ratings")
        _write_ratings(hidden_ratings(manifest, names), root / "ratings")
        for key in dict.fromkeys(cell["key"] for cell in manifest["cells"]):
            if key in store:
                _copy_record(store, copy, key, keys, names)
        rows = _Rows(store, manifest)
        _copy_measures(store, copy, zip(measures_of(manifest), measures_of(hidden), strict=True), names, rows)
        yield Snapshot(copy.root, keeps=False), hidden, keys.shown
    finally:
        shutil.rmtree(root, ignore_errors=True)


def occurrences(out: Path, words: Iterable[str]) -> dict[str, list[str]]:
    """By each word of private tasks that occurs, perhaps by chance, the files in which it stands readable."""
    texts = {file: file.read_text(encoding="utf-8").casefold() for file in out.rglob("*") if file.suffix in READABLE}
    occurring = {}
    for word in (word for word in words if len(word) >= SHORTEST):
        whole = re.compile(rf"(?<!\w){re.escape(word.casefold())}(?!\w)")
        if files := sorted(str(file.relative_to(out)) for file, text in texts.items() if whole.search(text)):
            occurring[word] = files
    return occurring


@dataclass(frozen=True)
class _Keys:
    """Keys of cells in the copy, ``shown`` by their own: those of public tasks stay, so that others may compare."""

    store: Store
    names: Names
    shown: dict[str, str]

    def add(self, cell: Mapping[str, Any]) -> None:
        """Find the key of a planned cell; of one without a record it follows from what it is planned for."""
        if cell["key"] in self.store:
            self.of(cell["key"])
        elif {cell["target"], cell["intermediate"]} & set(self.names.tasks):
            planned = {name: self.names.task(cell.get(name)) for name in ("role", "intermediate", "target")}
            planned |= {"system": cell["system"]} if "system" in cell else {}
            self.shown[cell["key"]] = key_of({**planned, "seed": cell["seed"], "setting": cell["setting"]})
        else:
            self.shown[cell["key"]] = cell["key"]

    def of(self, key: str) -> str:
        """The key of a stored record in the copy."""
        if key not in self.shown:
            self.shown[key] = key_of(self.spec(key))
        return self.shown[key]

    def spec(self, key: str) -> dict[str, Any]:
        """The spec of a stored record in pseudonyms; as it is where it names no private task."""
        spec, names = self.store.get(key).spec, self.names
        if not {spec["target"], spec["intermediate"]} & set(names.tasks):
            return dict(spec)
        target, intermediate, content = spec["target"], spec.get("intermediate_key"), spec.get("splits_hash", "")
        label = dict(spec.get("label") or {})
        if target in names.tasks:
            label["classes"] = list(names.classes.get(target, {}).values())
        return {
            **{name: spec[name] for name in SPEC if name in spec},
            "target": names.task(target),
            "intermediate": names.task(spec["intermediate"]),
            "intermediate_key": self.of(intermediate) if intermediate and intermediate in self.store else None,
            "splits_hash": hidden_hash(content, names.task(target)) if target in names.tasks else content,
            "label": label,
            **({"merge": hidden_merge(spec["merge"], names, self._of_stored)} if "merge" in spec else {}),
        }

    def _of_stored(self, key: str) -> str | None:
        return self.of(key) if key in self.store else None


def _copy_record(store: Store, copy: Store, key: str, keys: _Keys, names: Names) -> None:
    """Put a record into the copy: settings, numbers, curves and predictions without ids, host or weights."""
    record = store.get(key)
    results = {name: value for name, value in record.results.items() if name != "retried"}
    results["flags"] = names.flags(results["flags"], record.spec["target"])
    if "merge" in results:
        weights = results["merge"]["weights"]
        results["merge"] = {**results["merge"], "weights": {names.task(name): share for name, share in weights.items()}}
    made = {name: record.provenance[name] for name in PROVENANCE if name in record.provenance}
    with copy.staging() as folder:
        if "test.parquet" in record.files:
            test = pd.read_parquet(store.open(key, "test.parquet"))
            groups = np.unique(test["group"], return_inverse=True)[1].reshape(-1)
            test = test.assign(id=[str(row) for row in range(len(test))], group=[str(group) for group in groups])
            test.to_parquet(folder / "test.parquet", index=False)
        if "history.json" in record.files:
            shutil.copyfile(store.open(key, "history.json"), folder / "history.json")
        copy.put(keys.of(key), keys.spec(key), results, {**made, "host": ""}, folder)


@dataclass(frozen=True)
class _Rows:
    """Test rows of a study's tasks by the numbers that stand for their ids in the copy."""

    store: Store
    manifest: Manifest

    def of(self, target: str) -> list[Any]:
        """The ids of a task's test rows in the order of its records; none where it has no record yet."""
        keys = [cell["key"] for cell in self.manifest["cells"] if cell["target"] == target]
        key = next((key for key in keys if key in self.store and "test.parquet" in self.store.get(key).files), None)
        return [] if key is None else pd.read_parquet(self.store.open(key, "test.parquet"), columns=["id"]).id.tolist()

    def numbered(self, target: str, marks: Mapping[str, Any]) -> dict[str, Any]:
        """The marks of annotators with numbers for ids; those of rows that no record has are left out."""
        known = dict(zip(marks["ids"], marks["marks"], strict=True))
        own = {str(number): known[id] for number, id in enumerate(self.of(target)) if id in known}
        return {"ids": list(own), "marks": list(own.values())}


def _copy_measures(store: Store, copy: Store, pairs: Iterable[tuple[Any, Any]], names: Names, rows: _Rows) -> None:
    """Put the measures that the store has into the copy, under the inputs that they have there."""
    for (kind, inputs), (_, hidden) in pairs:
        try:
            measure = store.measure(kind, inputs)
        except MissingRecord:
            continue
        known: Mapping[str, str] = names.tasks if kind in (CONTAMINATION, RETENTION) else {}
        if kind == STATISTICS:
            known = names.classes.get(inputs["task"], {})
        if kind == ANNOTATORS:
            copy.put_measure(kind, hidden, rows.numbered(inputs["task"], measure.result), measure.cost_seconds)
            continue
        copy.put_measure(kind, hidden, _swapped(measure.result, known), measure.cost_seconds)


def _swapped(value: Any, known: Mapping[str, str]) -> Any:  # noqa: ANN401 - a piece of JSON
    """A piece of JSON in which every text, and name of a field, that is known is replaced."""
    if isinstance(value, Mapping):
        return {known.get(name, name): _swapped(part, known) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_swapped(part, known) for part in value]
    return known.get(value, value) if isinstance(value, str) else value


def _write_ratings(ratings: list[Rating], folder: Path) -> None:
    folder.mkdir()
    if ratings:
        pd.DataFrame(ratings, columns=list(Rating._fields)).to_csv(folder / "ratings.csv", index=False)


def _frame(frame: pd.DataFrame, names: Names, keys: Mapping[str, str]) -> pd.DataFrame:
    """A frame in pseudonyms, its numbers as they are."""
    columns: dict[str, Any] = {}
    for role, version in (("intermediate", "intermediate_version"), ("target", "version")):
        if role in frame:
            columns[role] = pd.Series([names.task(name) for name in frame[role]], frame.index, dtype=frame[role].dtype)
        if role in frame and version in frame:
            columns[version] = frame[version].mask(frame[role].isin(list(names.tasks)), UNSHOWN)
    for name in {"row", "chosen_single", "best_single"} & set(frame):  # of merged rows; the chosen by seed
        columns[name] = [", ".join(map(names.task, text.split(", "))) for text in frame[name].fillna("")]
    if "flags" in frame:
        texts = zip(frame["flags"], frame["target"], strict=True)
        columns["flags"] = [";".join(names.flags(flags.split(";"), target)) for flags, target in texts]
    columns |= {"key": frame["key"].map(keys)} if "key" in frame else {}
    columns |= {"host": frame["host"].mask(frame["host"].notna(), UNSHOWN)} if "host" in frame else {}
    renamed = frame.assign(**columns)
    return renamed.astype({name: kind for name, kind in frame.dtypes.items() if name in columns})
