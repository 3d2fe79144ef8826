"""Names and inputs of the stored measures: whoever measures and whoever reads must agree on them.

A measure is found by its kind and its inputs (``Store.measure``), so both sides of the store make them here:

    store.put_measure(TASK_EMBEDDING, task_embedding_inputs(key, SAMPLED), {"components": components}, seconds)
    store.measure(TASK_EMBEDDING, task_embedding_inputs(key, SAMPLED)).result["components"]

Inputs name contents by hash: the splits of a task by ``splits_hash``, an adapter by the key of its record. Each kind
has a version, which is raised when what is measured changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import Any

from adapters_store.roles import BASELINE, MERGED_ROLES, SYSTEM, TRANSFER, planned_role

CONTAMINATION = "contamination"  # contacts of all pairs of a study's tasks
STATISTICS = "statistics"  # rows, labels and words of a task
WORDS = "words"  # what a linear model of words scores on a task
DATA_EMBEDDING = "data-embedding"
TASK_EMBEDDING = "task-embedding"
VOCABULARY = "vocabulary-overlap"
WEIGHTS = "adapter-weights"
LOGME = "logme"
ANNOTATORS = "annotators"  # what every annotator answered to a task's test rows
OPTIONS = "options"  # what a cell answers to its test rows where options are put otherwise
PROBE = "probe"  # what a cell answers to its test rows with another context
SENTENCES = "probe-sentences"  # what it answers to replies of everyday talk with a sentence put in
RETENTION = "retention"  # what a merge has kept of each parent
KEPT = "kept-result"  # of the analysis: computed from the store alone, and again wherever it is not there

CONTAMINATION_VERSION = 1
STATISTICS_VERSION = 2
WORDS_VERSION = 2
ANNOTATORS_VERSION = 1
OPTIONS_VERSION = 1
SIMILARITY_VERSION = 1  # of the five others
RETENTION_VERSION = 1
PROBE_VERSION = 1  # of probes; raised also when the pairs of news change
PROBE_SEED = 1  # of every swap and draw of a probe
NEAR_DUPLICATES = {"version": 1, "threshold": 0.8, "shortest": 40}  # as tasks.splits.contamination finds them

EMBEDDED_ROWS = 1000  # training rows of a task behind a data embedding, at most; spread evenly
FISHER_ROWS = 500  # training rows behind a task embedding, at most
LOGME_ROWS = 500  # training rows behind a LogME score, at most

SAMPLED, VU = "sampled", "vu"  # ways to estimate Fisher information
MPNET, MINILM, POOLED = "all-mpnet-base-v2", "minilm", "backbone"
_OWN_ENCODERS = {"minilm": MINILM, "random-tiny": POOLED}  # of backbones; MPNET for all others


# What a probe does to test rows (harness.scoring.probe.measured).
UNCHANGED, REMOVED, SWAPPED, IN_CLASS = "unchanged", "removed", "swapped", "swapped in class"
OTHER_TASK, GOOD_NEWS, BAD_NEWS, OTHER_REPLY = "from other task", "good news", "bad news", "other reply"
PROBES = (UNCHANGED, REMOVED, SWAPPED, IN_CLASS, OTHER_TASK, GOOD_NEWS, BAD_NEWS, OTHER_REPLY)
AS_ASKED, REVERSED, LETTERS, LETTERS_REVERSED = "as asked", "reversed", "letters", "letters reversed"
ARRANGEMENTS = (AS_ASKED, REVERSED, LETTERS, LETTERS_REVERSED)  # of options (harness.scoring.probe.measured)
OPTIONS_ROWS = 300  # test rows that are asked about again, unless more are wanted; drawn by PROBE_SEED
PROBED_ROLES = (BASELINE, TRANSFER, SYSTEM)


def splits_hashes(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The hash of every task's splits; tasks without one, from manifests of older versions, are left out."""
    return {name: task["splits_hash"] for name, task in manifest["tasks"].items() if "splits_hash" in task}


def baseline_keys(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The key of every task's baseline with all data and the first of the transfers' seeds."""
    seed = manifest["study"]["seeds"][0]
    return {
        cell["target"]: cell["key"]
        for cell in manifest["cells"]
        if planned_role(cell) == BASELINE and (cell["setting"], cell["seed"]) == ("full", seed)
    }


def merged_cells(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The cells of a study on merged intermediates with all data and the first of the transfers' seeds."""
    first = ("full", manifest["study"]["seeds"][0])
    of_merges = [cell for cell in manifest["cells"] if planned_role(cell) in MERGED_ROLES]
    return [cell for cell in of_merges if (cell["setting"], cell["seed"]) == first]


def contamination_inputs(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the stored contacts of all these tasks depend on, from the task rows of a manifest."""
    return {
        "version": CONTAMINATION_VERSION,
        "near": dict(NEAR_DUPLICATES),
        "tasks": {
            id: {name: task[name] for name in ("dataset", "family", "splits_hash")} for id, task in tasks.items()
        },
    }


def statistics_inputs(task: str, splits_hash: str, classes: Sequence[str]) -> dict[str, Any]:
    """What a task's stored statistics depend on: the content of its splits, and its classes' names."""
    return {"version": STATISTICS_VERSION, "task": task, "splits_hash": splits_hash, "classes": list(classes)}


def words_inputs(task: str, splits_hash: str, metric: str, system_version: int) -> dict[str, Any]:
    """What the stored score of words depends on: the content of a task's splits, and the system that fits them."""
    return {"version": WORDS_VERSION, "task": task, "splits_hash": splits_hash, "metric": metric, "of": system_version}


def annotators_inputs(task: str, splits_hash: str, marks_hash: str) -> dict[str, Any]:
    """What the stored marks of a task's annotators depend on: its test rows, and the marks themselves."""
    return {"version": ANNOTATORS_VERSION, "task": task, "splits_hash": splits_hash, "marks_hash": marks_hash}


def encoders(backbone: str) -> tuple[str, ...]:
    """Names of the encoders of data embeddings for a study on this backbone, its own first.

    ``backbone`` among them stands for the mean of the frozen backbone's own token vectors.
    """
    return tuple(dict.fromkeys((_OWN_ENCODERS.get(backbone, MPNET), MPNET, MINILM, POOLED)))


def data_embedding_inputs(splits_hash: str, encoder: str, backbone: str) -> dict[str, Any]:
    """Inputs of the mean sentence embedding of a task's training texts; ``backbone`` is the study's."""
    pooled = backbone.rstrip("/").rpartition("/")[2] if encoder == POOLED else None  # of a folder its name
    return {
        "version": SIMILARITY_VERSION,
        "splits_hash": splits_hash,
        "most_rows": EMBEDDED_ROWS,
        "encoder": encoder,
        "backbone": pooled,
    }


def task_embedding_inputs(baseline: str, mode: str) -> dict[str, Any]:
    """Inputs of the Fisher information of the adapter in the record ``baseline`` (a key), estimated in this mode."""
    return {"version": SIMILARITY_VERSION, "baseline": baseline, "mode": mode, "most_rows": FISHER_ROWS}


def vocabulary_inputs(intermediate: str, target: str) -> dict[str, Any]:
    """Inputs of the overlap of the words of two tasks, named by the hashes of their splits."""
    return {"version": SIMILARITY_VERSION, "intermediate": intermediate, "target": target}


def weights_inputs(first: str, second: str) -> dict[str, Any]:
    """Inputs of the distance between the adapters of two records (keys), the same in either order."""
    return {"version": SIMILARITY_VERSION, "baselines": sorted((first, second))}


def logme_inputs(intermediate: str, target: str) -> dict[str, Any]:
    """Inputs of the evidence that the adapter of one record gives for the training labels of another (keys)."""
    return {"version": SIMILARITY_VERSION, "intermediate": intermediate, "target": target, "most_rows": LOGME_ROWS}


def retention_inputs(cell: str) -> dict[str, Any]:
    """Inputs of what the merge of the planned cell ``cell`` (a key) has kept of each parent."""
    return {"version": RETENTION_VERSION, "cell": cell}


def probe_inputs(cell: str, operation: str, donors: Mapping[str, str]) -> dict[str, Any]:
    """Inputs of what the record ``cell`` (a key) answers after an operation on its own test rows.

    ``donors`` are the hashes of other tasks' splits by task, where contexts come from these.
    """
    of_others = dict(donors) if operation == OTHER_TASK else {}
    return {"version": PROBE_VERSION, "cell": cell, "operation": operation, "seed": PROBE_SEED, "donors": of_others}


def options_inputs(cell: str, arrangement: str, rows: int) -> dict[str, Any]:
    """Inputs of what the record ``cell`` answers to at most so many of its test rows, with its options arranged so."""
    return {"version": OPTIONS_VERSION, "cell": cell, "arrangement": arrangement, "rows": rows, "seed": PROBE_SEED}


def sentences_inputs(cell: str, corpus: str, content: str) -> dict[str, Any]:
    """Inputs of what the record ``cell`` answers to conversations of a corpus, named by the hash of their content."""
    return {"version": PROBE_VERSION, "cell": cell, "corpus": corpus, "content": content, "seed": PROBE_SEED}


def donors_of(manifest: Mapping[str, Any], task: str) -> dict[str, str]:
    """The tasks of a study whose contexts may stand in for those of ``task``: of other families, by their hashes."""
    family, tasks = manifest["tasks"][task]["family"], manifest["tasks"]
    return {name: hash for name, hash in splits_hashes(manifest).items() if tasks[name]["family"] != family}


def kept_inputs(version: str, content: str, subject: str, question: str) -> dict[str, Any]:
    """What a kept result of the analysis follows from: the analysis' version, the content of the study, and the rest.

    ``content`` is that of ``adapters_store.listing.content_of``; ``question`` is the hash of all that was asked beside.
    """
    return {"version": version, "content": content, "what": subject, "asked": question}


def measures_of(manifest: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and inputs of every measure that a study's report, figures and analysis look for."""
    tasks, backbone = manifest["tasks"], manifest["study"]["backbone"]
    hashes, keys = splits_hashes(manifest), baseline_keys(manifest)
    if len(hashes) == len(tasks):  # else the manifest is of an older version, without hashes
        yield CONTAMINATION, contamination_inputs(tasks)
    for name, splits_hash in hashes.items():
        yield STATISTICS, statistics_inputs(name, splits_hash, tasks[name]["classes"])
        if marks_hash := tasks[name].get("marks_hash"):
            yield ANNOTATORS, annotators_inputs(name, splits_hash, marks_hash)
    for splits_hash, encoder in product(hashes.values(), encoders(backbone)):
        yield DATA_EMBEDDING, data_embedding_inputs(splits_hash, encoder, backbone)
    for key in keys.values():
        for mode in (SAMPLED, VU):
            yield TASK_EMBEDDING, task_embedding_inputs(key, mode)
    yield from probes_of(manifest)
    for cell in merged_cells(manifest):
        yield RETENTION, retention_inputs(cell["key"])
    for intermediate, target in permutations(hashes.values(), 2):
        yield VOCABULARY, vocabulary_inputs(intermediate, target)
    for intermediate, target in permutations(keys.values(), 2):
        yield WEIGHTS, weights_inputs(intermediate, target)
        yield LOGME, logme_inputs(intermediate, target)


def probes_of(manifest: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and inputs of every probe that a study's cells may have, of contexts and of options."""
    donors = {name: donors_of(manifest, name) for name in manifest["tasks"]}
    for cell in manifest["cells"]:
        if cell["setting"] == "full" and planned_role(cell) in PROBED_ROLES:
            for operation in PROBES:
                yield PROBE, probe_inputs(cell["key"], operation, donors[cell["target"]])
        if cell["setting"] == "full" and planned_role(cell) == SYSTEM:
            for arrangement in ARRANGEMENTS:
                yield OPTIONS, options_inputs(cell["key"], arrangement, OPTIONS_ROWS)
