"""How many replies of everyday talk a cell calls empathetic, before and after a sentence was put into them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from adapters_store import MissingRecord, Store, StoreError
from adapters_store.measures import PROBE_SEED, SENTENCES, sentences_inputs
from harness.scoring import scorer_of
from harness.scoring.probe import conversations
from harness.scoring.probe.conversations import ALWAYS, CORPORA, exchanges, with_sentence
from harness.scoring.probe.measured import Asked
from tasks import metrics
from tasks.errors import BadInput
from tasks.task import Example

CONVERSATIONS = 1000  # of each corpus, as in the paper
WAYS = ("nothing", "one of three", "always the same")  # what is put into a reply
Counts = Mapping[str, Any]


def inserted(
    store: Store, manifest: Mapping[str, Any], cells: Sequence[Asked], folder: Path, device: str
) -> tuple[list[Counts], dict[str, str]]:
    """A row for every cell, corpus and way to put a sentence in, and by name what was left out and why.

    ``empathetic`` of ``n`` replies are decided to be of a level above the lowest.
    """
    rows: list[Counts] = []
    missing: dict[str, str] = {}
    served = [cell for cell in cells if cell.task in conversations.SENTENCES]
    for task in dict.fromkeys(cell.task for cell in cells if cell not in served):
        missing[f"{task}, sentences"] = "the paper's sentences are those of EPITOME's three mechanisms"
    for corpus in CORPORA if served else ():
        try:
            talk = exchanges(corpus, folder, CONVERSATIONS, PROBE_SEED)
        except BadInput as reason:
            missing[corpus] = str(reason)
            continue
        content = sha256(repr(talk).encode()).hexdigest()
        for cell in served:
            try:
                counts = _counts(store, manifest, cell, talk, sentences_inputs(cell.key, corpus, content), device)
            except (BadInput, StoreError) as reason:
                missing[f"{cell.task} by {cell.system or 'adapter'}, {cell.key[:12]}"] = str(reason)
                continue
            rows += [{"key": cell.key, "corpus": corpus, "n": len(talk), **own} for own in _rows(counts)]
    return rows, missing


def _rows(counts: Counts) -> Iterator[Counts]:
    for name, empathetic in counts.items():
        yield {"inserted": name, "empathetic": empathetic}


def _counts(
    store: Store,
    manifest: Mapping[str, Any],
    cell: Asked,
    talk: Sequence[Example],
    inputs: Mapping[str, Any],
    device: str,
) -> Counts:
    """Empathetic replies by what was put in: from the store, or counted and kept there."""
    try:
        kept = store.measure(SENTENCES, inputs).result
        return {name: kept[name] for name in WAYS if name in kept}
    except MissingRecord:
        started = time.perf_counter()
    scorer = scorer_of(store, manifest, cell.system, cells=[cell.key], device=device)

    def empathetic(rows: Sequence[Example]) -> int:
        return int((metrics.decisions(scorer.tasks[0].metric, scorer.answers(rows)[0].logits) > 0).sum())

    counts = {name: empathetic(rows) for name, rows in _ways(cell.task, talk)}
    store.put_measure(SENTENCES, inputs, counts, time.perf_counter() - started)
    return counts


def _ways(task: str, talk: Sequence[Example]) -> Iterator[tuple[str, Sequence[Example]]]:
    """The replies as they are, with one of the mechanism's sentences, and with its commonest where the paper has it."""
    yield WAYS[0], talk
    yield WAYS[1], with_sentence(talk, conversations.SENTENCES[task], PROBE_SEED)
    if task in ALWAYS:
        yield WAYS[2], with_sentence(talk, [ALWAYS[task]], PROBE_SEED)
