"""Measures how alike a plan's tasks are, and keeps in the store what it does not have yet."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple

from adapters_store import MissingRecord, Store
from adapters_store.measures import (
    DATA_EMBEDDING,
    EMBEDDED_ROWS,
    FISHER_ROWS,
    LOGME,
    LOGME_ROWS,
    POOLED,
    SAMPLED,
    TASK_EMBEDDING,
    VOCABULARY,
    VU,
    WEIGHTS,
    baseline_keys,
    data_embedding_inputs,
    encoders,
    logme_inputs,
    splits_hashes,
    task_embedding_inputs,
    vocabulary_inputs,
    weights_inputs,
)
from adapters_store.store import open_weights
from harness.similarity.embeddings import NoBottleneck, fisher, logme, nearness, projections
from harness.similarity.encoders import Encoder, encoder_of
from harness.similarity.samples import Adapted, Sample, overlap, sample_of, thinned, words_of
from harness.study.device import ANY_DEVICE, Device
from harness.study.manifest import manifest_of
from harness.study.plan import Plan
from tasks.errors import BadInput
from tasks.plain_text import nearest

Watch = Callable[[str, int, int], None]  # what is measured, how many are done, of how many
NOT_TRAINED = "its baseline is not in the store; run the study first"


class Job(NamedTuple):
    """One measure to be made, if the store does not have it."""

    kind: str
    inputs: Mapping[str, Any]
    result: Callable[[], Mapping[str, Any]]


@dataclass
class Filled:
    """How many measures of a kind were in the store and how many were made, and why a task has none.

    ``seconds`` is what all of them took, those too that were made earlier, without the time to load weights.
    """

    measure: str
    stored: int = 0
    made: int = 0
    seconds: float = 0.0
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Filler:
    """The measures of a plan's tasks; ``targets`` limits those of pairs and the tasks that are asked for."""

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
        """Mean embeddings by the texts that they are of: tasks of one data set often share them."""
        return {}

    @cached_property
    def trained(self) -> dict[str, str]:
        """Keys of the baselines that are stored, by task."""
        return {name: key for name, key in baseline_keys(self.manifest).items() if key in self.store}

    def data(self) -> Iterator[Job]:
        """Mean sentence embeddings of training texts."""
        backbone = self.plan.study.backbone
        for name, one in splits_hashes(self.manifest).items():
            inputs = data_embedding_inputs(one, self.encoder_name, backbone)
            if self.encoder_name == POOLED:
                self._check_backbone(inputs)
            yield Job(DATA_EMBEDDING, inputs, lambda name=name: self._embedded(name))  # type: ignore[misc]

    def fisher(self, mode: str) -> Iterator[Job]:
        """Task embeddings of trained adapters."""
        for name, key in self.trained.items():
            kind = self.plan.splits[name].task.label.kind

            def result(name: str = name, key: str = key, kind: str = kind) -> dict[str, Any]:
                sample = self._sample(name, FISHER_ROWS)
                components = fisher(self.adapted, key, sample, kind, mode)
                return {"components": components, "n_rows": len(sample.rows)}

            yield Job(TASK_EMBEDDING, task_embedding_inputs(key, mode), result)

    def logme(self) -> Iterator[Job]:
        """Evidence of targets' labels under every other task's adapter."""
        keys = baseline_keys(self.manifest)
        sample = cache(lambda name: self._sample(name, LOGME_ROWS))
        for below, key in self.trained.items():
            for target in self._targets(below, keys):

                def result(key: str = key, target: str = target) -> dict[str, Any]:
                    self.adapted.switch_on(key, with_head=False)
                    found = logme(self.adapted.first_tokens(sample(target).rows), sample(target).labels)
                    return {"logme": _finite(found), "n_rows": len(sample(target).rows)}

                yield Job(LOGME, logme_inputs(key, keys[target]), result)

    def vocabulary(self) -> Iterator[Job]:
        """Overlap of the words of training texts."""
        hashes = splits_hashes(self.manifest)
        words = cache(lambda name: words_of(self.plan.splits[name].train))
        for below, one in hashes.items():
            for target in self._targets(below, hashes):
                inputs = vocabulary_inputs(one, hashes[target])
                yield Job(VOCABULARY, inputs, lambda a=below, b=target: overlap(words(a), words(b)))  # type: ignore[misc]

    def weights(self) -> Iterator[Job]:
        """Distance of trained adapters."""
        maps = cache(lambda key: projections(open_weights(self.store, key, "adapter/adapter.safetensors")))
        for below, key in self.trained.items():
            for target in self._targets(below, self.trained):

                def result(one: str = key, other: str = self.trained[target]) -> dict[str, Any]:
                    return {name: _finite(value) for name, value in nearness(maps(one), maps(other)).items()}

                yield Job(WEIGHTS, weights_inputs(key, self.trained[target]), result)

    def _targets(self, below: str, tasks: Collection[str]) -> list[str]:
        return [name for name in tasks if name != below and name in self.targets]

    def _sample(self, name: str, most: int) -> Sample:
        key = baseline_keys(self.manifest)[name]
        cell = next(cell for cell in self.plan.cells if cell.key == key)
        return sample_of(cell, self.plan.backbone, self.plan.splits[name], most)

    def load(self, measure: str) -> None:
        """Load the weights that a measure needs, before its time is taken."""
        if measure == "data":
            self.encoder.load()
        elif measure in OF_NETWORK:
            self.adapted.load()

    def _embedded(self, name: str) -> dict[str, Any]:
        rows = thinned(self.plan.splits[name].train, EMBEDDED_ROWS)
        texts = tuple((row.context, row.text) for row in rows)
        if texts not in self.vectors:
            self.vectors[texts] = [float(f"{one:.7g}") for one in self.encoder(rows).mean(axis=0).tolist()]
        return {"weights_sha256": self.encoder.weights_sha256, "vector": self.vectors[texts], "n_rows": len(rows)}

    def _check_backbone(self, inputs: Mapping[str, Any]) -> None:
        """BadInput if an embedding was made by another backbone of this name."""
        try:
            found = self.store.measure(DATA_EMBEDDING, inputs).result["weights_sha256"]
        except MissingRecord:
            return
        if found != self.plan.backbone.weights_sha256:
            raise BadInput(
                f"backbone {inputs['backbone']!r}: the store has embeddings by other weights; rename its folder"
            )


MEASURES: dict[str, Callable[[Filler], Iterator[Job]]] = {
    "data": Filler.data,
    "vocabulary": Filler.vocabulary,
    "weights": Filler.weights,
    "task": lambda filler: filler.fisher(SAMPLED),
    "task-vu": lambda filler: filler.fisher(VU),
    "logme": Filler.logme,
}
OF_NETWORK = ("task", "task-vu", "logme")
OF_ADAPTERS = (*OF_NETWORK, "weights")
USUAL = tuple(name for name in MEASURES if name != "task-vu")


def fill(
    plan: Plan,
    store: Store,
    measures: Sequence[str] = USUAL,
    *,
    encoder: str | None = None,
    targets: Collection[str] | None = None,
    device: Device = ANY_DEVICE,
    watch: Watch = lambda what, done, of: None,
) -> list[Filled]:
    """Make the measures of these names that the store does not have; ``encoder`` is by default the study's own.

    ``targets`` limits measures of pairs to these targets. BadInput for an unknown measure, BadBackbone for an encoder
    that is not to be had; tasks that cannot be measured are named with the reason.
    """
    for name in measures:
        if name not in MEASURES:
            raise BadInput(f"measure {name!r} is not one of {', '.join(MEASURES)}{nearest(name, list(MEASURES))}")
    own = encoder or encoders(plan.study.backbone)[0]
    filler = Filler(plan, store, own, plan.splits if targets is None else targets, device)
    return [_filled(filler, name, watch) for name in dict.fromkeys(measures)]


def _filled(filler: Filler, name: str, watch: Watch) -> Filled:
    found = Filled(name)
    if name in OF_ADAPTERS:
        untrained = baseline_keys(filler.manifest).keys() - filler.trained.keys()
        if name == "logme":  # which needs the adapter of an intermediate, not that of the target
            untrained = {one for one in untrained if set(filler.targets) - {one}}
        found.missing = dict.fromkeys(sorted(untrained), NOT_TRAINED)
    jobs = list({str(job.inputs): job for job in MEASURES[name](filler)}.values())
    for done, job in enumerate(jobs):
        watch(name, done, len(jobs))
        try:
            found.seconds += filler.store.measure(job.kind, job.inputs).cost_seconds
            found.stored += 1
            continue
        except MissingRecord:
            filler.load(name)
            started = time.perf_counter()
        try:
            result = job.result()
        except NoBottleneck as reason:
            found.missing = dict.fromkeys(filler.plan.splits, str(reason))
            break
        spent = time.perf_counter() - started
        filler.store.put_measure(job.kind, job.inputs, result, spent)
        found.made, found.seconds = found.made + 1, found.seconds + spent
    watch(name, len(jobs), len(jobs))
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
