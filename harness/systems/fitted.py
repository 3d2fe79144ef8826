"""Cells of systems that are no adapters: how a kind's ``fit`` and ``predict`` become what a record holds.

A system is handed training and validation rows. Test rows come only to ``predict``, without labels and rationales. The
only door to these is ``leaked``, for cells whose settings name a ``leak``; they are flagged and never ranked. All rows
have the turns around their text that the settings ask for by a ``window``, and no others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.study.backbone import Backbone
from harness.study.cell import seed_of
from harness.study.systems import (
    NOTHING,
    Fit,
    Kind,
    Place,
    Predicted,
    Sibling,
    Span,
    counted_wrong,
    in_window,
    leak_of,
)
from harness.study.systems import Fitted as FittedKind
from harness.systems.system import System
from tasks import metrics
from tasks.errors import BadInput

if TYPE_CHECKING:
    from harness.training.inputs import Rows
    from harness.training.recipe import Attempt, Trained
    from tasks.rationales import Marks
    from tasks.splits.loading import Splits
    from tasks.task import Example

OF_SYSTEM = "system "  # how the ways of systems begin


class FittedSystem(System):
    """The system of cells whose spec names a kind of harness.study.systems."""

    def __init__(self, kind: Kind[Any]) -> None:
        """What the kind declares."""
        self.kind, self.packages, self.checkpoint_copies = kind, kind.packages, kind.checkpoint_copies

    def steps(self, spec: Mapping[str, Any]) -> int:
        """The epochs of its configuration, or one step where it has none."""
        return int(spec["config"].get("epochs", 1))

    def way(self, spec: Mapping[str, Any], lanes: int) -> str:
        """The kind: each costs what only its own records tell."""
        return OF_SYSTEM + self.kind.name

    def passes(self, spec: Mapping[str, Any]) -> float | None:
        """What the kind says of its configuration; None where it says nothing."""
        return self.kind.passes(self._config(spec))

    def kept_bytes(self, spec: Mapping[str, Any], backbone: Backbone) -> int:
        """What the kind says of its configuration; 0 where it says nothing."""
        return self.kind.kept_bytes(self._config(spec), len(spec["label"]["classes"]) or 1, backbone)

    def train(self, attempt: Attempt) -> list[Trained]:
        """Fit the attempt's only cell, then predict its validation and test rows."""
        from harness.training.inputs import rows_of
        from harness.training.recipe import Fitted, Trained

        (cell,), spec = attempt.cells, attempt.cells[0].spec
        rows, task, config = rows_of(cell, attempt.splits), attempt.splits.task, self._config(spec, cell.local)
        backbone = attempt.backbone if self.kind.reads.weights else None
        place = Place(attempt.device, backbone, answers_beside(attempt.store.root))
        siblings = {}  # with no test row
        for name, splits in attempt.siblings.items():
            parts = (_same_rows(splits, part, getattr(rows, part), config) for part in ("train", "validation"))
            siblings[name] = Sibling(splits.task.label, *parts)
        fitted = self.kind.fit(
            Fit(
                train=in_window(rows.train, config),
                validation=in_window(rows.validation, config),
                label=task.label,
                metric=spec["metric"],
                seed=seed_of(self.kind.name, cell.target, cell.seed),
                config=config,
                checkpoint=attempt.store.pack_folder(cell.key) / attempt.run,
                place=place,
                siblings=siblings,
                watch=lambda step, steps: attempt.watch(attempt.label, step, steps),
                instruction=task.instruction if self.kind.reads.instructions else None,
            )
        )
        predicted = self._predicted(fitted, rows, attempt)
        logits = {}
        for name, part in predicted.items():
            logits[name] = counted_wrong(part, np.array([row.label for row in getattr(rows, name)]))
        test = predicted["test"]
        proofs = {"cost": dict(test.cost), **({"answers": dict(test.notes)} if test.notes else {})}
        score = metrics.score(spec["metric"], [row.label for row in rows.validation], logits["validation"])
        history = [dict(step) for step in fitted.history]
        marks_rationales = bool(task.columns.get("rationale")) and test.spans is not None
        return [
            Trained(
                fitted.save,
                rows,
                logits,
                Fitted(fitted.best_epoch, score, history),
                proofs=proofs,
                unanswered={name: unanswered_of(getattr(rows, name), part) for name, part in predicted.items()},
                spans={name: part.spans or () for name, part in predicted.items()},
                marks=_marks(rows.test, test.spans, attempt.backbone) if marks_rationales else (),
            )
        ]

    def _predicted(self, fitted: FittedKind, rows: Rows, attempt: Attempt) -> dict[str, Predicted]:
        """Predictions of validation and test rows, which are shown blank unless the cell's configuration leaks."""
        predicted, outputs = {}, attempt.splits.task.label.n_outputs
        config = self._config(attempt.cells[0].spec)
        for name in ("validation", "test"):
            shown = in_window(getattr(rows, name), config)
            if leak_of(attempt.cells[0].spec["config"]):
                others = {other: _same_rows(of, name, shown, config) for other, of in attempt.siblings.items()}
                part = fitted.leaked(shown, others)
            else:
                label = shown[0].label if shown else 0  # whose kind stays
                nothing: Any = (0,) * len(label) if isinstance(label, tuple) else type(label)(0)
                part = fitted.predict(tuple(row._replace(label=nothing, rationale=()) for row in shown))
            if part.logits.shape != (len(shown), outputs):
                raise BadInput(
                    f"system {self.kind.name!r} predicts {part.logits.shape} logits for {len(shown)} {name} rows"
                    f" of {outputs} outputs; mend its predict"
                )
            predicted[name] = part
        return predicted

    def _config(self, spec: Mapping[str, Any], local: Mapping[str, Any] = NOTHING) -> Any:  # noqa: ANN401 - the kind's
        return self.kind.configured({**spec["config"], **local}, f"system {self.kind.name!r}")


def answers_beside(store: Path) -> Path:
    """Where systems keep what cells of a store have paid for: ``runs-answers`` beside ``runs``, in no archive of it."""
    return store.absolute().with_name(f"{store.absolute().name}-answers")


def unanswered_of(rows: Sequence[Example], predicted: Predicted) -> tuple[str, ...]:
    """The ids of rows for which a system has no class."""
    if predicted.unanswered is None:
        return ()
    return tuple(rows[place].id for place in np.flatnonzero(predicted.unanswered).tolist())


def _marks(rows: Sequence[Example], spans: Sequence[Span] | None, backbone: Backbone) -> list[tuple[Marks, Marks]]:
    """Of every row which tokens of the backbone people marked, and which a system: equal tokens for all systems."""
    from harness.training.tokenizer import load_tokenizer
    from tasks.rationales import marked, placed

    tokenizer = load_tokenizer(backbone)
    of_system = defaultdict(list)
    for span in spans or ():
        of_system[span.row].append((span.start, span.end))
    tokens = [[place for _, place in tokenizer.pieces(row.text)] for row in rows]
    return [
        (marked(each, placed(row.text, row.rationale).spans), marked(each, of_system[number]))
        for number, (row, each) in enumerate(zip(rows, tokens, strict=True))
    ]


def _same_rows(splits: Splits, part: str, rows: Sequence[Example], config: Any) -> tuple[Example, ...]:  # noqa: ANN401
    """A sibling's rows with the ids of these, in their order, with the turns that the settings ask for."""
    by_id = {row.id: row for row in getattr(splits, part)}
    return in_window([by_id[row.id] for row in rows], config)
