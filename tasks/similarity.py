"""Names and inputs of the stored measures of how alike tasks are: who measures and who reads must agree on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VERSION = 1  # raised when what is measured changes
EMBEDDED_ROWS = 1000  # training rows of a task behind a data embedding, at most; spread evenly
FISHER_ROWS = 500  # training rows behind a task embedding, at most
LOGME_ROWS = 500  # training rows behind a LogME score, at most

DATA_EMBEDDING = "data-embedding"
TASK_EMBEDDING = "task-embedding"
VOCABULARY = "vocabulary-overlap"
WEIGHTS = "adapter-weights"
LOGME = "logme"
SAMPLED, VU = "sampled", "vu"  # ways to estimate Fisher information

MPNET, MINILM, POOLED = "all-mpnet-base-v2", "minilm", "backbone"
_OWN = {"minilm": MINILM, "random-tiny": POOLED}


def encoders(backbone: str) -> tuple[str, ...]:
    """Names of the encoders of data embeddings for a study on this backbone, its own first.

    ``backbone`` among them stands for the mean of the frozen backbone's own token vectors.
    """
    return tuple(dict.fromkeys((_OWN.get(backbone, MPNET), MPNET, MINILM, POOLED)))


def data_embedding(splits_hash: str, encoder: str, backbone: str) -> dict[str, Any]:
    """Inputs of the mean sentence embedding of a task's training texts; ``backbone`` is the study's."""
    of_backbone = backbone.rstrip("/").rpartition("/")[2] if encoder == POOLED else None  # of a folder its name
    return {
        "version": VERSION,
        "splits_hash": splits_hash,
        "most_rows": EMBEDDED_ROWS,
        "encoder": encoder,
        "backbone": of_backbone,
    }


def task_embedding(baseline: str, mode: str) -> dict[str, Any]:
    """Inputs of the Fisher information of the adapter in the record ``baseline`` (a key), estimated in this mode."""
    return {"version": VERSION, "baseline": baseline, "mode": mode, "most_rows": FISHER_ROWS}


def vocabulary(intermediate: str, target: str) -> dict[str, Any]:
    """Inputs of the overlap of the words of two tasks, given by the hashes of their splits."""
    return {"version": VERSION, "intermediate": intermediate, "target": target}


def weights(one: str, other: str) -> dict[str, Any]:
    """Inputs of the distance between the adapters of two records (keys), the same in either order."""
    return {"version": VERSION, "baselines": sorted((one, other))}


def logme(intermediate: str, target: str) -> dict[str, Any]:
    """Inputs of the evidence that the adapter of one record gives for the training labels of another (keys)."""
    return {"version": VERSION, "intermediate": intermediate, "target": target, "most_rows": LOGME_ROWS}


def hashes(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The hash of every task's splits; without the tasks of a manifest from before hashes stood in it."""
    return {name: task["splits_hash"] for name, task in manifest["tasks"].items() if "splits_hash" in task}


def baselines(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The key of every task's baseline with all data and the first of the transfers' seeds."""
    seed = manifest["study"]["seeds"][0]
    return {
        cell["target"]: cell["key"]
        for cell in manifest["cells"]
        if (cell.get("role", "baseline"), cell["intermediate"]) == ("baseline", None)
        and (cell["setting"], cell["seed"]) == ("full", seed)
    }
