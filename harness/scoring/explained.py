"""Stored test rows as a system sees them: what each token adds to its answer, and how near rows come to each other.

Texts come from the raw files and all else from the stored weights, each time anew: nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adapters_store import Store
from harness.scoring.answers import ScoringTask
from harness.scoring.probe.measured import check_later_turns, tested_rows
from harness.scoring.system_scorer import SystemScorer
from harness.study.systems import in_window
from tasks.errors import BadInput
from tasks.plain_text import nearest
from tasks.splits.loading import Splits
from tasks.task import Example

if TYPE_CHECKING:
    import pandas as pd

    from harness.systems.attributions import Attribution, Readable


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
    if find_spec("captum") is None:
        raise BadInput("explain needs an optional package; install it with: pip install 'empathy-transfer[explain]'")
    seen = _seen(store, manifest, splits, system, seed, device)
    by_id = {row.id: row for row in seen.rows}
    for id in ids:
        if id not in by_id:
            raise BadInput(
                f"--row {id}: not one of the {len(seen.rows)} stored test rows of {seen.task.name}{nearest(id, by_id)}"
            )
    return _each(seen, [by_id[id] for id in ids] or seen.rows[:count])


class _Seen(NamedTuple):
    """What a system has learned of a task, and the record's test rows as it reads them."""

    task: ScoringTask
    fitted: Readable
    rows: Sequence[Example]


def _seen(
    store: Store, manifest: Mapping[str, Any], splits: Splits, system: str, seed: int | None, device: str
) -> _Seen:
    """Load what the study calls ``system``; BadInput where it has no tokens and classes. Torch is loaded here."""
    from harness.systems.attributions import Readable

    scorer = SystemScorer(store, manifest, system, tasks=[splits.task.id], seed=seed, device=device)
    (task,) = scorer.tasks
    check_later_turns(store, task.record.key, splits)
    if task.metric in ("pearson_r", "multilabel_f1"):
        raise BadInput(f"a class is held against the others, and the label of {task.name} is {task.kind}")
    (fitted,) = scorer.fitted
    if not isinstance(fitted, Readable):
        raise BadInput(
            f"system {system!r} is of the kind {scorer.kind.name!r}, which has no embeddings of tokens to go by;"
            " take a clsn, an encoder or a bi-encoder"
        )
    config = scorer.kind.configured(task.record.spec["config"], f"system {system!r}")
    return _Seen(task, fitted, in_window(tested_rows(store, task.record.key, splits), config))


def _each(seen: _Seen, rows: Sequence[Example]) -> Iterator[ExplainedRow]:
    from harness.systems.attributions import attribution

    for row in rows:
        reading = seen.fitted.reading(row)
        made = attribution(reading)
        assert isinstance(row.label, int)
        gold, predicted = seen.task.names[row.label], seen.task.names[made.predicted]
        yield ExplainedRow(row.id, row.text, gold, predicted, reading.text.is_cut, made)


MAP_SEED = 20_241
PERPLEXITY = 30.0  # of t-SNE; a third of the rows where there are fewer than three times as many
FEWEST = 10  # rows of a map


class RowsMap(NamedTuple):
    """Test rows in a plane, with the columns ``x``, ``y``, ``gold`` and ``predicted`` and without ids.

    ``silhouette`` is that of the gold classes among the vectors themselves, which a plane distorts: from -1 to 1, 0
    where classes lie across each other; NaN where there are none to part.
    """

    frame: pd.DataFrame
    silhouette: float


def rows_map(
    store: Store,
    manifest: Mapping[str, Any],
    splits: Splits,
    system: str,
    *,
    seed: int | None = None,
    device: str = "auto",
    watch: Callable[[int, int], None] = lambda done, of: None,
) -> RowsMap:
    """All stored test rows of a task by the vector from which a system classifies each, laid out by t-SNE.

    Van der Maaten and Hinton 2008, by scikit-learn. ``watch(done, of)`` hears of rows. BadInput as ``explained_rows``,
    and for fewer than FEWEST rows.
    """
    import pandas as pd
    from sklearn.manifold import TSNE
    from sklearn.metrics import silhouette_score

    from harness.systems.attributions import vector_of

    seen = _seen(store, manifest, splits, system, seed, device)
    if len(seen.rows) < FEWEST:
        raise BadInput(f"{seen.task.name}: {len(seen.rows)} stored test rows make no map; it takes {FEWEST}")
    vectors, answers = [], []
    for number, row in enumerate(seen.rows, start=1):
        vector, answer = vector_of(seen.fitted, row)
        vectors.append(vector)
        answers.append(answer)
        watch(number, len(seen.rows))
    stacked, gold = np.stack(vectors), [int(row.label) for row in seen.rows]  # type: ignore[arg-type]
    perplexity = min(PERPLEXITY, (len(stacked) - 1) / 3)
    places = TSNE(perplexity=perplexity, init="pca", random_state=MAP_SEED).fit_transform(stacked)
    can_part = 1 < len(set(gold)) < len(gold)
    silhouette = float(silhouette_score(stacked, gold)) if can_part else float("nan")
    columns = {"x": places[:, 0].astype(float), "y": places[:, 1].astype(float)}
    named = {name: [seen.task.names[of] for of in part] for name, part in (("gold", gold), ("predicted", answers))}
    return RowsMap(pd.DataFrame(columns | named), silhouette)
