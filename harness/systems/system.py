"""What those who run and cost cells ask of whatever trains them: one way from the rows of a task to trained cells.

Three exist: ``LaneSystem`` trains all cells of a pack in one loop, ``Library`` one cell at a time through the adapters
library, and ``FittedSystem`` those of a system that is no adapter. Whoever runs, costs or reports cells knows none of
them; it asks the one that a cell's spec names.

``System`` is not the contract of harness.study.systems, ``Kind``, and cannot be: a kind is asked while a study is
planned, below everything that trains, about settings of its own; a system is asked about specs of cells and handed a
pack's attempt, with its store and its lanes. ``FittedSystem`` is all that lies between the two. What it fits is handed
training and validation rows. Test rows come only to ``predict``, without labels and rationales. The only door to these
is ``leaked``, for cells whose settings name a ``leak``; they are flagged and never ranked. All rows have the turns
around their text that the settings ask for by a ``window``, and no others.

Nothing heavy is imported at the top: planning, costs and status load this without torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.study.backbone import Backbone
from harness.study.cell import Cell, seed_of
from harness.study.intermediates import FUSED, JOINT, most_parents
from harness.study.methods import fusion_parameters, layers_of
from harness.study.systems import (
    NOTHING,
    Fit,
    Fitted,
    Kind,
    Place,
    Predicted,
    Sibling,
    Span,
    counted_wrong,
    in_window,
    leak_of,
)
from tasks import metrics
from tasks.errors import BadInput

if TYPE_CHECKING:
    from harness.training.inputs import Rows
    from harness.training.recipe import Attempt, Trained
    from tasks.rationales import Marks
    from tasks.splits.loading import Splits
    from tasks.task import Example

ADAPTER_PACKAGES = ("adapters", "torch", "transformers", "tokenizers", "numpy")
ADAPTER_PASSES = 2.0  # forward passes that a training token costs: a frozen encoder's backward pass costs one
LANE_COPIES = 8  # weights, best ones and two moments, in the stage before and the new one
WHOLE_MODEL_PASSES = 3.0  # the same where a gradient is computed for every weight, too
OF_SYSTEM = "system "  # how the ways of systems begin
WHOLE_MODEL = "whole model"  # the way of training without adapters, whose backward pass goes through all weights


class System(ABC):
    """One way to solve a task. Specs are those of its own cells, planned or stored.

    ``packages`` are those that it needs and whose versions decide its numbers: a record names them. Its checkpoints
    take its kept bytes so many times as ``checkpoint_copies`` says, while one replaces another.
    """

    packages: tuple[str, ...] = ADAPTER_PACKAGES
    checkpoint_copies: int = LANE_COPIES

    def groups(self, cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
        """The cells of a pack that are trained together, in one attempt; a failure stops no other group."""
        return [(cell,) for cell in cells]

    def steps(self, spec: Mapping[str, Any]) -> int:
        """How many steps of progress a training has, each reported once it is over: epochs, for adapters."""
        return int(spec["training"]["epochs"])

    @abstractmethod
    def way(self, spec: Mapping[str, Any], lanes: int) -> str:
        """How a cell is trained beside ``lanes - 1`` others, in words, as far as that decides its costs."""

    @abstractmethod
    def passes(self, spec: Mapping[str, Any]) -> float | None:
        """Forward passes of the backbone that a training token costs; None where only its own records tell."""

    @abstractmethod
    def kept_bytes(self, spec: Mapping[str, Any], backbone: Backbone) -> int:
        """How many bytes of weights a record keeps; 0 where that is not known beforehand."""

    @abstractmethod
    def train(self, attempt: Attempt) -> list[Trained]:
        """Train every cell of an attempt and predict its validation and test rows, in the order of the cells.

        It tells ``attempt.watch`` of every step, and goes on from checkpoints where it keeps any. BadInput for what the
        user can mend; anything else that is raised is kept as the reason why the cells failed.
        """


def bottleneck_bytes(spec: Mapping[str, Any], backbone: Backbone) -> int:
    """Bytes in fp32 of adapter and head of a bottleneck cell; 0 where the adapter has no reduction factor."""
    if not spec["adapter"] or "reduction_factor" not in spec["adapter"]:
        return 0
    layers, width, _ = backbone.shape
    inner = max(1, width // int(spec["adapter"]["reduction_factor"]))
    outputs = len(spec["label"]["classes"]) or 1
    adapters = layers_of(spec["adapter"], layers) * (2 * width * inner + inner + width)
    return 4 * (adapters + (width + 1) * (width + outputs))


class LaneSystem(System):
    """All cells of a pack in one loop over the frozen backbone (harness.training.lanes): the default, the fast way."""

    def groups(self, cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
        """All cells of a pack at once."""
        return [tuple(cells)]

    def way(self, spec: Mapping[str, Any], lanes: int) -> str:
        """One lane costs more than a share of many."""
        return "lanes together" if lanes > 1 else "one lane"

    def passes(self, spec: Mapping[str, Any]) -> float | None:
        """As ADAPTER_PASSES says."""
        return ADAPTER_PASSES

    def kept_bytes(self, spec: Mapping[str, Any], backbone: Backbone) -> int:
        """Those of the target's adapter and head."""
        return bottleneck_bytes(spec, backbone)

    def train(self, attempt: Attempt) -> list[Trained]:
        """Train the cells as lanes; torch is loaded here."""
        from harness.training.lanes.train import train_lanes

        return train_lanes(attempt)


class Library(System):
    """One cell at a time through the adapters library's own forward pass: what lanes are held against.

    It trains what lanes do not serve, too: other methods than their bottleneck, and whole models.
    """

    def way(self, spec: Mapping[str, Any], lanes: int) -> str:
        """A whole model costs more than an adapter, and so does a trained peer of merges."""
        return WHOLE_MODEL if spec["adapter"] is None else _rule(spec) or "library"

    def passes(self, spec: Mapping[str, Any]) -> float | None:
        """A whole model's backward pass costs two; an adapter's as ADAPTER_PASSES says.

        A fusion has a matrix for the query and two for each parent, of twelve in a layer, and trains them all. A joint
        adapter is trained on the rows of all parents before, taken to be as many as the target's.
        """
        if spec["adapter"] is None:
            return WHOLE_MODEL_PASSES
        parents = most_parents(spec["merge"]) if "merge" in spec else 0
        further = {FUSED: 3 * (1 + 2 * parents) / 12, JOINT: ADAPTER_PASSES * parents}
        return ADAPTER_PASSES + further.get(_rule(spec), 0)

    def kept_bytes(self, spec: Mapping[str, Any], backbone: Backbone) -> int:
        """Those of the target's adapter and head, and of a fusion; nothing is kept of a whole model."""
        layers, width, _ = backbone.shape
        return bottleneck_bytes(spec, backbone) + (4 * fusion_parameters(layers, width) if _rule(spec) == FUSED else 0)

    def train(self, attempt: Attempt) -> list[Trained]:
        """Train the only cell of the attempt; torch is loaded here."""
        from harness.training.library import train_alone, train_on_joint

        return [train_on_joint(attempt) if attempt.recipe.rule == JOINT else train_alone(attempt)]


def _rule(spec: Mapping[str, Any]) -> str:
    return str(spec.get("merge", {}).get("rule", ""))


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
        from harness.training import recipe
        from harness.training.inputs import rows_of

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
            recipe.Trained(
                fitted.save,
                rows,
                logits,
                recipe.KeptEpoch(fitted.best_epoch, score, history),
                proofs=proofs,
                unanswered={name: unanswered_of(getattr(rows, name), part) for name, part in predicted.items()},
                spans={name: part.spans or () for name, part in predicted.items()},
                marks=_marks(rows.test, test.spans, attempt.backbone) if marks_rationales else (),
            )
        ]

    def _predicted(self, fitted: Fitted, rows: Rows, attempt: Attempt) -> dict[str, Predicted]:
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
