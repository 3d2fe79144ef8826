"""Stored test rows and what each token of them adds to a system's answer, read at view time.

Texts come from the raw files and attributions from the stored weights, each time anew: nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from harness.scoring.probe.measured import check_later_turns, tested_rows
from harness.scoring.system_scorer import SystemScorer
from harness.study.systems import in_window
from tasks.errors import BadInput
from tasks.plain_text import nearest
from tasks.splits.loading import Splits
from tasks.task import Example

if TYPE_CHECKING:
    from harness.systems.encoders.attributions import Attribution, Readable


@dataclass(frozen=True)
class ExplainedRow:
    """A test row, the classes that people and the system give it, and what its tokens add to the system's."""

    id: str
    text: str
    gold: str
    predicted: str
    is_cut: bool
    attribution: Attribution


def explained_rows(
    store: Store,
    manifest: Mapping[str, Any],
    splits: Splits,
    system: str,
    *,
    ids: Sequence[str] = (),
    count: int = 5,
    seed: int | None = None,
    device: str = "auto",
) -> Iterator[ExplainedRow]:
    """Test rows of a task that what the study calls ``system`` solves, one after the other.

    Those with ``ids``, or else the first ``count`` of the record; of several trainings that of ``seed``, by default the
    lowest. BadInput, before the first row, for an unknown row, a system that reads no tokens, a label without classes
    to hold against each other, and where Captum is not installed.
    """
    from harness.systems.encoders.attributions import Readable

    if find_spec("captum") is None:
        raise BadInput("explain needs an optional package; install it with: pip install 'empathy-transfer[explain]'")
    scorer = SystemScorer(store, manifest, system, tasks=[splits.task.id], seed=seed, device=device)
    (task,) = scorer.tasks
    check_later_turns(store, task.record.key, splits)
    rows = _chosen(tested_rows(store, task.record.key, splits), ids, count, task.name)
    if task.metric in ("pearson_r", "multilabel_f1"):
        raise BadInput(f"explain holds one class against the others, and the label of {task.name} is {task.kind}")
    (fitted,) = scorer.fitted
    if not isinstance(fitted, Readable):
        raise BadInput(
            f"system {system!r} is of the kind {scorer.kind.name!r}, which has no embeddings of tokens to go by;"
            " explain a clsn, an encoder or a bi-encoder"
        )
    config = scorer.kind.configured(task.record.spec["config"], f"system {system!r}")
    return _each(fitted, in_window(rows, config), task.names)


def _chosen(rows: Sequence[Example], ids: Sequence[str], count: int, task: str) -> Sequence[Example]:
    by_id = {row.id: row for row in rows}
    for id in ids:
        if id not in by_id:
            raise BadInput(f"--row {id}: not one of the {len(rows)} stored test rows of {task}{nearest(id, by_id)}")
    return [by_id[id] for id in ids] or rows[:count]


def _each(fitted: Readable, rows: Sequence[Example], names: Sequence[str]) -> Iterator[ExplainedRow]:
    from harness.systems.encoders.attributions import attribution

    for row in rows:
        reading = fitted.reading(row)
        made = attribution(reading)
        assert isinstance(row.label, int)
        gold, predicted = names[row.label], names[made.predicted]
        yield ExplainedRow(row.id, row.text, gold, predicted, reading.text.is_cut, made)
