"""The Python face of the project: everything that the command line does, in a few lines.

>>> from harness.api import Study
>>> study = Study("demo", epochs=3)
>>> study.run()                                                         # doctest: +SKIP
>>> study.gains()                                                       # doctest: +SKIP
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from harness.sharing.stored import NotRun, open_study, shipped_archive, stored_manifest
from tasks.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

    from analysis.gains.flips import Flips
    from analysis.importance.choosing import Advice
    from analysis.results.probes import Probed
    from analysis.results.study_results import StudyResults
    from harness.engines.remote import Launch
    from harness.engines.status import StudyStatus
    from harness.run.grid import Engine, GridReport, RunPack
    from harness.scoring.answers import TextScorer
    from harness.search.outcome import SearchResult, Trial
    from harness.study.config import StudyConfig
    from harness.study.plan import Plan
    from tasks.registry import Registry
    from tasks.splits.contamination import Contact
    from tasks.splits.loading import Splits


DRAWS_OF_ADVICE = 50  # of the gains, whose intervals nobody reads there


def _unwatched(*progress: object) -> None:
    """Watch nothing."""


class Study:
    """A study with its data and store: ``plan``, ``run``, then ``cells``, ``gains`` and ``report``.

    ``data`` and ``store`` default to ``EMPATHY_DATA`` and ``EMPATHY_STORE``, else ``./data`` and ``./runs``.
    ``splits`` is the folder of published split ids, by default ``splits`` in the data folder.
    """

    def __init__(
        self,
        name: str,
        *,
        data: str | Path | None = None,
        store: str | Path | None = None,
        splits: str | Path | None = None,
        overrides: Sequence[str] = (),
        best: bool = False,
        **changes: Any,  # noqa: ANN401 - any field of a study file
    ) -> None:
        """Read the study ``name`` (built-in or .toml file) with its fields changed; BadStudy if unusable.

        ``overrides`` are ``key=value`` as for ``--set``; ``changes`` are fields by name, and those of training, adapter
        and analysis without their table: ``Study("tiny", epochs=3, seeds=[1, 2])``. With ``best``, its tasks train as
        their searches in the store found best.
        """
        from harness.search.outcome import with_best
        from harness.study.file import load_study, overrides_of
        from harness.study.intermediates import with_imported

        overrides = [*overrides, *overrides_of(changes)]
        self.config: StudyConfig = load_study(name, overrides)
        self.data = Path(data or os.environ.get("EMPATHY_DATA") or "data")
        self.ids = Path(splits) if splits else None
        self.store = Store(Path(store or os.environ.get("EMPATHY_STORE") or "runs"))
        self._scorers: dict[tuple[tuple[str, ...], int | None, str, str], TextScorer] = {}
        self.config = with_imported(self.config, self.store)
        if best:
            self.config = with_best(self.config, self.store, overrides)

    @cached_property
    def registry(self) -> Registry:
        """The built-in entries and those of the study's registry folders."""
        from tasks.registry import Registry

        return Registry.load([Path(folder) for folder in self.config.registry])

    @cached_property
    def plan(self) -> Plan:
        """Cells and packs on the data that is there."""
        from harness.raw.holdings import data_folder
        from harness.study.plan import make_plan

        folder = data_folder(self.config, self.registry, self.data, self.store.root)
        return make_plan(self.config, self.registry, folder, self.ids, self.store)

    def on(self, device: str, engine: str = "local") -> Study:
        """The study itself, planned for runs on this device by this engine (both as for ``run``).

        Where the engine's jobs ask for a GPU, cells are planned for that, whatever is on this machine.
        """
        from harness.study.device import kind_of

        asks = {"slurm": "gpu" in str(self.config.slurm.get("gres", "")), "ray": bool(self.config.ray.get("gpus"))}
        device = "cuda" if device == "auto" and asks.get(engine) else device
        if device != self.config.device:
            if kind_of(device) != kind_of(self.config.device):
                self.__dict__.pop("plan", None)
            self.config = dataclasses.replace(self.config, device=device)
        return self

    def run(
        self,
        *,
        only_targets: Sequence[str] = (),
        only_keys: Collection[str] | None = None,
        workers: int = 1,
        threads: int | None = None,
        device: str = "auto",
        engine: str = "local",
        on_epoch: Callable[[str, int, int], None] = _unwatched,
        on_cell: Callable[[GridReport], None] = _unwatched,
    ) -> GridReport:
        """Train what the store does not have; torch is loaded only if something must be trained.

        ``only_targets`` are columns, ``only_keys`` cells; both with what they stand on.

        The ``local`` engine runs packs here: with several ``workers`` in as many processes with ``threads`` threads
        each (default: their share of the cores), one worker is this process. ``slurm`` and ``ray`` run them as jobs,
        as the study's tables of these names say. ``device`` is ``cpu``, ``cuda``, ``cuda:N``, or by default a GPU
        where there is one; NoSuchDevice if it is not here. BadInput for an engine that cannot be used.
        """
        from harness.run.grid import run_grid

        self.on(device, engine)
        plan = self.plan.only(only_targets) if only_targets else self.plan
        plan = plan if only_keys is None else plan.only_keys(only_keys)
        scheduler, function = self._engine(engine, workers, threads, device, on_epoch)
        self._write_manifest()
        return run_grid(plan, self.store, scheduler, function, on_cell)

    def take(self, folder: str | Path, *, device: str = "auto") -> GridReport:
        """Store what a closed node has trained of the study, as ``study prefetch --folder`` packed it; train nothing.

        ``folder`` has the node's files of outcomes. What is neither there nor stored is not run. BadInput for a folder
        without any, and for outcomes of other rows.
        """
        from harness.closed.home import arrive
        from harness.run.grid import GridReport

        self.on(device)
        outcomes, report = arrive(self.plan, self.store, Path(folder)), GridReport()
        self._write_manifest()
        for outcome in outcomes:
            report.add(outcome)
        return report

    def _write_manifest(self) -> None:
        """The study's manifest, and what its rows are measured by, before anything is stored."""
        from harness.study.manifest import declared_since, manifest_of
        from harness.study.measures import keep_measures

        since = declared_since(self.config, self.store)
        self.store.write_manifest(self.config.name, manifest_of(self.plan) | since)
        self.contamination()
        keep_measures(self.plan.splits, self.store)

    def _engine(
        self, name: str, workers: int, threads: int | None, device: str, on_epoch: Callable[[str, int, int], None]
    ) -> tuple[Engine, RunPack]:
        """The engine of this name and the function that it runs packs with."""
        from harness.engines.cluster import cluster_engine
        from harness.engines.local import Job, LocalEngine, Runner, WorkersEngine
        from harness.study.device import Device, cores
        from harness.study.systems import own_files

        if name != "local":
            return cluster_engine(name, self.config, self.store.root), self.launch(device, threads)
        runner = Runner(
            self.plan.backbone,
            self.plan.splits,
            self.store,
            on_epoch,
            Device(device),
            Job(self.config.name),
            self.config.keep,
            own_files(),
        )
        return LocalEngine() if workers == 1 else WorkersEngine(workers, threads or max(1, cores() // workers)), runner

    def launch(self, device: str = "auto", threads: int | None = None) -> Launch:
        """What the jobs of a scheduler have in common, with absolute paths."""
        from harness.engines.remote import Launch
        from harness.raw.holdings import data_folder

        data = data_folder(self.config, self.registry, self.data, self.store.root)
        return Launch.of(self.config, data, self.ids, self.store.root, device, threads)

    def search(
        self,
        task: str,
        *,
        intermediate: str | None = None,
        trials: int = 60,
        seed: int | None = None,
        methods: Sequence[str] = (),
        is_halving: bool = True,
        device: str = "auto",
        on_epoch: Callable[[str, int, int], None] = _unwatched,
        on_trial: Callable[[Sequence[Trial]], None] = _unwatched,
    ) -> SearchResult:
        """Search a task's training settings, alone or on a stored intermediate; what is found stays in the store.

        ``seed`` is by default the study's first, ``methods`` the study's own. A search goes on where it was stopped.
        """
        from harness.raw.holdings import data_folder
        from harness.search.search import search_for
        from harness.study.device import Device

        hardware = Device(device)
        folder = data_folder(self.config, self.registry, self.data, self.store.root)
        seeds = (self.config.seeds[0] if seed is None else seed,)
        config = dataclasses.replace(self.config, seeds=seeds, device=device)
        search = search_for(config, self.registry, folder, self.store, task, intermediate, ids=self.ids)
        search = dataclasses.replace(
            search, methods=tuple(methods) or search.methods, is_halving=is_halving, device=hardware
        )
        return search.run(trials, on_epoch, on_trial)

    def contamination(self) -> list[Contact]:
        """Which test items of each task are training material of each other one; measured once, kept in the store."""
        from harness.study.measures import contacts_of

        return contacts_of(self.plan.splits, self.store)

    def similarities(self, *measures: str) -> pd.DataFrame:
        """One row per (intermediate, target): how alike they are; ``measures`` that are named are made first.

        ``harness.similarity.fill.MEASURES`` has their names, the columns are
        ``analysis.results.similarity.SIMILARITIES``.
        """
        from analysis.results.similarity import stored_similarities

        if measures:
            from harness.similarity.fill import fill

            fill(self.plan, self.store, measures)
        return stored_similarities(*self.results())

    def manifest(self) -> dict[str, Any]:
        """What the last run of this study wrote; NotRun if there is none."""
        return stored_manifest(self.store, self.config.name)

    def results(self) -> tuple[Store, dict[str, Any]]:
        """The store with the study's results and its manifest: those of a run, or else those shipped; else NotRun."""
        return open_study(self.store, self.config.name)

    def cells(self) -> pd.DataFrame:
        """One row per cell of the study, from the store alone."""
        from analysis.gains.cells import cells

        return cells(*self.results())

    def gains(self, *, exact: bool = False) -> pd.DataFrame:
        """One row per (intermediate, target, setting), with significance, from the store alone.

        If ``exact``, more draws decide every correction and not only what is significant (``docs/significance.md``).
        """
        return self._results(exact=exact).gains

    def baselines(self) -> pd.DataFrame:
        """One row per (target, setting): the score of the target alone with its interval, from the store alone."""
        return self._results().baselines

    def controls(self) -> pd.DataFrame:
        """One row per (control, intermediate, target, setting), in the terms of ``gains``, from the store alone."""
        return self._results().controls

    def _results(self, *, exact: bool = False) -> StudyResults:
        from analysis.gains.cells import Snapshot
        from analysis.results.study_results import StudyResults

        store, manifest = self.results()
        return StudyResults(Snapshot.of(store, exact=exact), manifest)

    def flips(self, intermediate: str, target: str, *, setting: str = "full", seeds: Sequence[int] = ()) -> Flips:
        """The test items that an intermediate turned right or wrong, from the store alone.

        Errors are those of ``analysis.gains.flips``.
        """
        from analysis.gains.flips import flips

        return flips(*self.results(), intermediate, target, setting=setting, seeds=seeds)

    def status(self) -> StudyStatus:
        """What is stored, runs, waits and has failed, from the store alone."""
        from harness.engines.status import status_of

        return status_of(self.store, self.config.name, self.manifest())

    def power(self) -> pd.DataFrame:
        """One row per (target, setting): the smallest gain that its test would find in four of five repeats."""
        return self._results().visible

    def compare(self, other: Study | str) -> pd.DataFrame:
        """One row per gain that this study (a) and ``other`` (b), a name in the same store or a study, both have.

        The columns are ``analysis.sections.compare.COMPARED``.
        """
        from analysis.results.study_results import StudyResults
        from analysis.sections.compare import compared_gains, side_of_study

        its = other.results() if isinstance(other, Study) else open_study(self.store, other)
        return compared_gains(side_of_study(self._results()), side_of_study(StudyResults.of(*its)))

    def suggest(
        self,
        task: str,
        *,
        encoder: str | None = None,
        device: str = "auto",
        watch: Callable[[str, int, int], None] = _unwatched,
    ) -> Advice:
        """Which intermediates to try first for ``task``, of the study or of the registry, before it is trained.

        Similarities that are not stored are measured: ``encoder`` embeds the texts, by default the study's own. Of
        results that come with the package, those that they have are read, and no data are needed. BadInput if the
        task's files are not there, or if the study has no intermediate for it.
        """
        from analysis.importance.choosing import advice_for
        from analysis.results.results import Results
        from analysis.results.similarity import stored_similarities
        from harness.similarity.fill import fill, stored_measures
        from harness.study.device import Device
        from harness.study.manifest import manifest_of

        if shipped := self.shipped_results(task):
            store, manifest = shipped
            filled = stored_measures(store, manifest, encoder=encoder)
        else:
            hardware, study = Device(device), self
            if task not in self.config.tasks:
                study = copy.copy(self)
                study.config = dataclasses.replace(self.config, tasks=(*self.config.tasks, self.registry.task(task).id))
                study.__dict__.pop("plan", None)
            if task in study.plan.missing:
                raise BadInput(study.plan.missing[task])
            filled = fill(study.plan, study.store, encoder=encoder, targets=[task], device=hardware, watch=watch)
            store, manifest = study.store, manifest_of(study.plan)
        results = Results.of(store, manifest, draws=DRAWS_OF_ADVICE)
        missing = {measure.measure: measure.missing for measure in filled}
        advice = advice_for(task, results, stored_similarities(store, manifest), missing)
        if advice.intermediates.empty:
            raise BadInput(f"{task}: the study has no intermediate for it; its role may be that of an intermediate")
        return advice

    def shipped_results(self, task: str = "") -> tuple[Store, dict[str, Any]] | None:
        """The study's results that come with the package, if there are any and the store has no run of it.

        None of a study whose fields are changed, or of results without ``task``: what they say is of other rows.
        """
        from harness.study.file import load_study

        name = self.config.name
        if name in self.store.manifests() or not shipped_archive(name) or self.config != load_study(name):
            return None
        return self.results() if not task or task in self.config.tasks else None

    def score(
        self,
        texts: Sequence[str],
        contexts: Sequence[str | Sequence[str]] = (),
        *,
        tasks: Sequence[str] = (),
        seed: int | None = None,
        by: str = "",
        device: str = "auto",
    ) -> pd.DataFrame:
        """Predictions of the trained ``tasks`` (by default all) for texts: a row per text and task.

        ``contexts`` are earlier turns, one or a list for each text; ``seed`` is by default the study's first. ``by``
        names a system of the study that answers instead of its adapters. What was loaded stays for the next call.
        Columns and errors are those of ``harness.scoring.answers.TextScorer.score``.
        """
        from harness.scoring import scorer_of

        chosen = (tuple(tasks), seed, by, device)
        if chosen not in self._scorers:
            options = {"tasks": tasks, "seed": seed, "device": device}
            self._scorers[chosen] = scorer_of(self.store, self.manifest(), by, **options)
        return self._scorers[chosen].score(texts, contexts)

    def probe(
        self,
        *,
        systems: Sequence[str] = (),
        tasks: Sequence[str] = (),
        conversations: str | Path | None = None,
        device: str = "auto",
        watch: Callable[[str, int, int], None] = _unwatched,
    ) -> Probed:
        """Show finished cells their test rows with other contexts, and say what changes in their answers.

        By default every system, every task's adapter alone and the transfer that validation picks. What is stored is
        not asked again. ``conversations`` is a folder of everyday talk whose replies get the sentences of a paper.
        BadInput for a system or task that the study has not, or has not finished.
        """
        return probe_stored(
            self.store,
            self.manifest(),
            self.data,
            systems,
            tasks,
            ids=self.ids,
            registry=self.config.registry,
            conversations=Path(conversations) if conversations else None,
            device=device,
            watch=watch,
        )

    def report(self, out: str | Path, *, public: bool = False) -> Path:
        """Write frames, figures and ``report.md`` into ``out`` and return the report's path.

        If ``public``, private tasks are left out, and ``out`` must be empty.
        """
        from analysis.report import report

        return report(*self.results(), Path(out), public=public).page

    def __repr__(self) -> str:
        """The study's name and where its cells are kept."""
        return f"Study({self.config.name!r}, store={str(self.store.root)!r})"

    def _repr_html_(self) -> str:
        """The cells by state and the uncertainty map, for a notebook; what to do first where nothing was run."""
        from html import escape

        from analysis.page.parts import study_html

        try:
            manifest = self.manifest()
        except NotRun as error:
            return f"<p>{escape(repr(self))}: {escape(str(error))}</p>"
        return study_html(self.config.name, self.status().counts, self.gains(), manifest)


# A short training on few rows of one task, to show that it trains before anybody waits for a study.

DRY_ROWS, DRY_EPOCHS, DRY_TOKENS = 240, 4, 128  # under 30 seconds on two cores with a random tiny backbone, or MiniLM


class DryRunFailed(BadInput):
    """The task does not train."""


def dry_run(task: str, registry: Sequence[Path], data: Path, backbone: str) -> dict[str, Any]:
    """Train the task alone on at most ``DRY_ROWS`` rows of each split in a store that is then thrown away.

    What came of it: ``n_train``, ``epochs``, ``seconds``, and a ``score`` by the ``metric`` with its ``floor`` and
    ``flags``, which say nothing about the task, because the training is far too short. DryRunFailed when a cell fails.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        fields: dict[str, object] = {"tasks": [task], "registry": [str(folder) for folder in registry]}
        fields |= {"backbone": backbone, "max_tokens": DRY_TOKENS}
        fields |= dict.fromkeys(("max_train", "max_val", "max_test"), DRY_ROWS)
        lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
        training = ["[training]", f"epochs = {DRY_EPOCHS}", "batch_size = 16", "learning_rate = 2e-3"]
        file = Path(folder) / "dry-run.toml"
        file.write_text("\n".join([*lines, *training]) + "\n", encoding="utf-8")
        study = Study(str(file), data=data, store=Path(folder) / "runs")
        report = study.run()
        for cell, reason in (*report.failed, *report.not_run):
            raise DryRunFailed(f"{cell.label} does not train: {reason}")
        results = study.store.get(report.done[-1].key).results
    facts = {"n_train": results["n_train"], "epochs": DRY_EPOCHS, "score": results["test"]}
    facts |= {name: results[name] for name in ("floor", "metric", "flags")}
    return facts | {"seconds": time.perf_counter() - started}


def probe_stored(
    store: Store,
    manifest: Mapping[str, Any],
    data: Path,
    systems: Sequence[str] = (),
    tasks: Sequence[str] = (),
    *,
    ids: Path | None = None,
    registry: Sequence[str] = (),
    conversations: Path | None = None,
    device: str = "auto",
    watch: Callable[[str, int, int], None] = _unwatched,
) -> Probed:
    """As ``Study.probe``, of a study that the store has; its rows are read from the raw files below ``data``."""
    from analysis.results.probes import Probed, asked_of, inserted_frame, not_asked, probes
    from harness.raw.holdings import stored_splits
    from harness.scoring.probe.inserted import inserted
    from harness.scoring.probe.measured import Probe, ProbedCell

    @cache
    def splits_of(task: str) -> Splits:
        return stored_splits(store, manifest, task, data, ids=ids, registry=registry)

    by_task = asked_of(store, manifest, systems, tasks)
    cells = [cell for contestants in by_task.values() for contestant in contestants for cell in contestant.cells]
    probe = Probe(store, manifest, splits_of, device)
    every = [ProbedCell(cell.key, cell.target, cell.system) for cell in cells]
    probe.run(every, watch)
    counts, missing = inserted(store, manifest, every, conversations, device) if conversations else ([], {})
    left_out = not_asked(store, manifest) | probe.missing | missing
    return Probed(probes(store, manifest, by_task), inserted_frame(counts, by_task), left_out)
