"""Measures how similar the tasks of a plan are; the store keeps the results, and only what it lacks is measured."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, NamedTuple

from adapters_store import Store
from adapters_store.measures import (
    DATA_EMBEDDING,
    EMBEDDED_ROWS,
    FISHER_ROWS,
    LOGME,
    LOGME_ROWS,
    POOLED,
    RETENTION,
    SAMPLED,
    TASK_EMBEDDING,
    VOCABULARY,
    VU,
    WEIGHTS,
    baseline_keys,
    data_embedding_inputs,
    encoders,
    logme_inputs,
    measures_of,
    retention_inputs,
    splits_hashes,
    task_embedding_inputs,
    vocabulary_inputs,
    weights_inputs,
)
from adapters_store.store import open_weights
from harness.similarity.embeddings import NoBottleneck, fisher, logme, nearness, projections
from harness.similarity.encoders import (
    Adapted,
    Encoder,
    Sample,
    encoder_of,
    evenly_spaced,
    overlap,
    sample_of,
    words_of,
)
from harness.similarity.retention import Parents, measurable, retention
from harness.study.cell import Cell
from harness.study.device import ANY_DEVICE, Device
from harness.study.manifest import manifest_of
from harness.study.plan import Plan
from tasks.errors import BadInput
from tasks.plain_text import nearest

Watch = Callable[[str, int, int], None]  # what is measured, how many are done, of how many
NOT_TRAINED = "its baseline is not in the store; run the study first"


class MissingMeasure(NamedTuple):
    """A measure to be made unless the store has it."""

    kind: str
    inputs: Mapping[str, Any]
    result: Callable[[], Mapping[str, Any]]


@dataclass
class FillReport:
    """How many measures of a kind were in the store, how many were made, and why tasks are missing, by task.

    ``seconds`` is what all of them took, also those that were made earlier, without the time to load weights.
    """

    measure: str
    stored: int = 0
    made: int = 0
    seconds: float = 0.0
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Filler:
    """The measures of a plan's tasks; ``targets`` limits the targets of pairs."""

    plan: Plan
    store: Store
    encoder_name: str
    targets: Collection[str]
    device: Device = ANY_DEVICE

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What a run of the plan would write."""
        return manifest_of(self.plan)

    @cached_property
    def adapted(self) -> Adapted:
        """The backbone, loaded when it is first needed."""
        return Adapted(self.plan.backbone, self.store, self.device)

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder of texts, loaded when it is first needed."""
        return encoder_of(self.encoder_name, self.adapted, self.plan.study.max_tokens)

    @cached_property
    def vectors(self) -> dict[tuple[object, ...], list[float]]:
        """Mean embeddings by their texts, which tasks of the same data set often share."""
        return {}

    @cached_property
    def mergeable(self) -> tuple[list[Cell], dict[str, str]]:
        """The cells whose merges can be measured, and why others cannot."""
        return measurable(self.plan, self.store)

    @cached_property
    def retained(self) -> dict[str, Parents]:
        """What these merges have kept of their parents, by key."""
        return retention(self.plan, self.store, self.device)

    @cached_property
    def trained(self) -> dict[str, str]:
        """Keys of the baselines that are stored, by task."""
        return {name: key for name, key in baseline_keys(self.manifest).items() if key in self.store}

    def data(self) -> Iterator[MissingMeasure]:
        """Mean sentence embeddings of training texts."""
        backbone = self.plan.study.backbone
        for name, splits_hash in splits_hashes(self.manifest).items():
            inputs = data_embedding_inputs(splits_hash, self.encoder_name, backbone)
            if self.encoder_name == POOLED:
                stored = self.store.find_measure(DATA_EMBEDDING, inputs)
                # another backbone of this name
                if stored and stored.result["weights_sha256"] != self.plan.backbone.weights_sha256:
                    raise BadInput(
                        f"backbone {inputs['backbone']!r}: the store has embeddings by other weights; rename its folder"
                    )

            def result(name: str = name) -> dict[str, Any]:
                rows = evenly_spaced(self.plan.splits[name].train, EMBEDDED_ROWS)
                texts = tuple((row.context, row.text) for row in rows)
                if texts not in self.vectors:
                    mean = self.encoder(rows).mean(axis=0).tolist()
                    self.vectors[texts] = [float(f"{number:.7g}") for number in mean]
                sha256 = self.encoder.weights_sha256
                return {"weights_sha256": sha256, "vector": self.vectors[texts], "n_rows": len(rows)}

            yield MissingMeasure(DATA_EMBEDDING, inputs, result)

    def fisher(self, mode: str) -> Iterator[MissingMeasure]:
        """Task embeddings of trained adapters."""
        for name, key in self.trained.items():
            kind = self.plan.splits[name].task.label.kind

            def result(name: str = name, key: str = key, kind: str = kind) -> dict[str, Any]:
                sample = self._sample(name, FISHER_ROWS)
                components = fisher(self.adapted, key, sample, kind, mode)
                return {"components": components, "n_rows": len(sample.rows)}

            yield MissingMeasure(TASK_EMBEDDING, task_embedding_inputs(key, mode), result)

    def logme(self) -> Iterator[MissingMeasure]:
        """Evidence of targets' labels under every other task's adapter."""
        keys = baseline_keys(self.manifest)
        sample = cache(lambda name: self._sample(name, LOGME_ROWS))
        for intermediate, key in self.trained.items():
            for target in self._targets(intermediate, keys):

                def result(key: str = key, target: str = target) -> dict[str, Any]:
                    self.adapted.switch_on(key, with_head=False)
                    evidence = logme(self.adapted.first_tokens(sample(target).rows), sample(target).labels)
                    return {"logme": _finite(evidence), "n_rows": len(sample(target).rows)}

                yield MissingMeasure(LOGME, logme_inputs(key, keys[target]), result)

    def vocabulary(self) -> Iterator[MissingMeasure]:
        """Overlap of the words of training texts."""
        hashes = splits_hashes(self.manifest)
        words = cache(lambda name: words_of(self.plan.splits[name].train))
        for intermediate, splits_hash in hashes.items():
            for target in self._targets(intermediate, hashes):
                inputs = vocabulary_inputs(splits_hash, hashes[target])
                yield MissingMeasure(VOCABULARY, inputs, lambda a=intermediate, b=target: overlap(words(a), words(b)))  # type: ignore[misc]

    def weights(self) -> Iterator[MissingMeasure]:
        """Distance of trained adapters."""
        maps = cache(lambda key: projections(open_weights(self.store, key, "adapter/adapter.safetensors")))
        for intermediate, key in self.trained.items():
            for target in self._targets(intermediate, self.trained):

                def result(first: str = key, second: str = self.trained[target]) -> dict[str, Any]:
                    return {name: _finite(number) for name, number in nearness(maps(first), maps(second)).items()}

                yield MissingMeasure(WEIGHTS, weights_inputs(key, self.trained[target]), result)

    def retention(self) -> Iterator[MissingMeasure]:
        """What every merge has kept of its parents; those that are not stored are measured together."""
        for cell in self.mergeable[0]:

            def result(key: str = cell.key) -> dict[str, Any]:
                return {"parents": self.retained[key]}

            yield MissingMeasure(RETENTION, retention_inputs(cell.key), result)

    def _targets(self, intermediate: str, tasks: Collection[str]) -> list[str]:
        return [name for name in tasks if name != intermediate and name in self.targets]

    def _sample(self, name: str, most: int) -> Sample:
        key = baseline_keys(self.manifest)[name]
        cell = next(cell for cell in self.plan.cells if cell.key == key)
        return sample_of(cell, self.plan.backbone, self.plan.splits[name], most)

    def load(self, measure: str) -> None:
        """Load the weights that a measure needs, so that its time does not include this."""
        if measure == "data":
            self.encoder.load()
        elif measure in OF_NETWORK:
            _ = self.adapted.network


MEASURES: dict[str, Callable[[Filler], Iterator[MissingMeasure]]] = {
    "data": Filler.data,
    "vocabulary": Filler.vocabulary,
    "weights": Filler.weights,
    "task": lambda filler: filler.fisher(SAMPLED),
    "task-vu": lambda filler: filler.fisher(VU),
    "logme": Filler.logme,
    "retention": Filler.retention,
}
OF_NETWORK = ("task", "task-vu", "logme")
OF_ADAPTERS = (*OF_NETWORK, "weights")
USUAL = ("data", "vocabulary", "weights", "task", "logme")


def fill(
    plan: Plan,
    store: Store,
    measures: Sequence[str] = USUAL,
    *,
    encoder: str | None = None,
    targets: Collection[str] | None = None,
    device: Device = ANY_DEVICE,
    watch: Watch = lambda stage, done, of: None,
) -> list[FillReport]:
    """Make the measures of these names that the store does not have; ``encoder`` is by default the study's own.

    ``targets`` limits measures of pairs to these targets. Tasks that cannot be measured are in the reports with the
    reason. BadInput for an unknown measure, BadBackbone for an encoder that cannot be had.
    """
    for name in measures:
        if name not in MEASURES:
            raise BadInput(f"measure {name!r} is not one of {', '.join(MEASURES)}{nearest(name, list(MEASURES))}")
    name = encoder or encoders(plan.study.backbone)[0]
    filler = Filler(plan, store, name, plan.splits if targets is None else targets, device)
    return [_fill_measure(filler, name, watch) for name in dict.fromkeys(measures)]


def stored_measures(
    store: Store, manifest: Mapping[str, Any], measures: Sequence[str] = USUAL, *, encoder: str | None = None
) -> list[FillReport]:
    """What the store has of these measures of a finished study; nothing is made, so neither data nor plan is needed.

    Without ``encoder`` the embeddings are those of the encoder that embedded most tasks.
    """
    kinds: dict[str, tuple[str, dict[str, str]]] = {
        "data": (DATA_EMBEDDING, {"encoder": encoder} if encoder else {}),
        "vocabulary": (VOCABULARY, {}),
        "weights": (WEIGHTS, {}),
        "task": (TASK_EMBEDDING, {"mode": SAMPLED}),
        "task-vu": (TASK_EMBEDDING, {"mode": VU}),
        "logme": (LOGME, {}),
    }
    reports = []
    for name in dict.fromkeys(measures):
        kind, marks = kinds[name]
        wanted = [inputs for form, inputs in measures_of(manifest) if form == kind and marks.items() <= inputs.items()]
        names = list(dict.fromkeys(inputs.get("encoder") for inputs in wanted)) or [None]  # None: no encoder's
        by_encoder = [[inputs for inputs in wanted if inputs.get("encoder") == choice] for choice in names]
        reports.append(
            max((_read_measure(store, manifest, name, kind, inputs) for inputs in by_encoder), key=attrgetter("stored"))
        )
    return reports


def _read_measure(
    store: Store, manifest: Mapping[str, Any], name: str, kind: str, inputs: Sequence[Mapping[str, Any]]
) -> FillReport:
    """How many measures with these inputs are stored, and which tasks lack one."""
    report, lacking = FillReport(name), ""
    for fields in {str(fields): fields for fields in inputs}.values():
        if stored := store.find_measure(kind, fields):
            report.seconds, report.stored = report.seconds + stored.cost_seconds, report.stored + 1
        else:
            lacking += str(fields)
    hashes, keys = splits_hashes(manifest), baseline_keys(manifest)
    tasks = [task for task in manifest["tasks"] if hashes[task] in lacking or keys.get(task, kind) in lacking]
    reason = f"not in these results; for your own: empathy-transfer run {manifest['name']} --data DIR"
    report.missing = dict.fromkeys(tasks, reason)
    return report


def _fill_measure(filler: Filler, name: str, watch: Watch) -> FillReport:
    report = FillReport(name)
    if name in OF_ADAPTERS:
        untrained = baseline_keys(filler.manifest).keys() - filler.trained.keys()
        if name == "logme":  # which needs the adapter of an intermediate, not that of the target
            untrained = {task for task in untrained if set(filler.targets) - {task}}
        report.missing = dict.fromkeys(sorted(untrained), NOT_TRAINED)
    if name == "retention":
        report.missing = filler.mergeable[1]
    jobs = list({str(job.inputs): job for job in MEASURES[name](filler)}.values())
    for done, job in enumerate(jobs):
        watch(name, done, len(jobs))
        if stored := filler.store.find_measure(job.kind, job.inputs):
            report.seconds, report.stored = report.seconds + stored.cost_seconds, report.stored + 1
            continue
        filler.load(name)
        started = time.perf_counter()
        try:
            result = job.result()
        except NoBottleneck as reason:
            report.missing = dict.fromkeys(filler.plan.splits, str(reason))
            break
        spent = time.perf_counter() - started
        filler.store.put_measure(job.kind, job.inputs, result, spent)
        report.made, report.seconds = report.made + 1, report.seconds + spent
    watch(name, len(jobs), len(jobs))
    return report


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
