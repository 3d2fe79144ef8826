"""The reference way: one cell at a time through the adapters library's own forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adapters_store import Store
from harness.backbone import Backbone
from harness.cell import Cell
from harness.place import NoSuchDevice, Place
from harness.training import checks, model
from harness.training.fit import Part, Trainer, finite
from harness.training.trained import Trained, Watch, encoded
from harness.training.untrained import make_untrained
from tasks.loading import Splits


def train_one(
    cells: Sequence[Cell], backbone: Backbone, splits: Splits, store: Store, watch: Watch, place: Place
) -> list[Trained]:
    """Train the only cell of ``cells`` on the three splits of a task or of one of its folds."""
    (cell,) = cells
    _check_device(cell, place)
    rows, parts, tokenizer = encoded(cell, backbone, splits)
    trainer = Trainer(composed(cell, backbone, store).to(place.ready()), cell, tokenizer.pad_token_id)
    checked: dict[str, Any] = {"trainable_parameters": checks.check_trainable(trainer.model, cell)}
    before = checks.adapter_digest(trainer.model, model.INTERMEDIATE)
    watch(cell.label, 0, cell.spec["training"]["epochs"])
    fitted = trainer.fit(parts["train"], parts["validation"], lambda epoch, epochs: watch(cell.label, epoch, epochs))
    checked |= _proofs(trainer, cell, before, parts["validation"])
    logits = {name: trainer.predict(parts[name]) for name in ("validation", "test")}

    def save(folder: Path) -> None:
        model.save(trainer.model, cell, folder)

    return [Trained(None if cell.spec["adapter"] is None else save, rows, parts, logits, fitted, checked)]


def _check_device(cell: Cell, place: Place) -> None:
    """NoSuchDevice unless the cell is trained where it was planned for: torch draws other dropout on a GPU."""
    planned, here = cell.spec["library"]["device"], place.ready().type
    if planned != here:
        raise NoSuchDevice(
            f"{cell.label} is trained through the library and was planned for {planned}, but this process trains on "
            f"{here}; say --device {here} when you start the run"
        )


def composed(cell: Cell, backbone: Backbone, store: Store) -> Any:  # noqa: ANN401
    """The backbone with the cell's adapters and head, what it trains trainable and the rest frozen."""
    network = model.load_backbone(backbone)
    name = model.INTERMEDIATE if cell.is_stacked else cell.target
    if cell.spec["intermediate_key"] is not None:
        model.add_intermediate(network, model.stored_adapter(store, cell.spec["intermediate_key"]), name)
    elif cell.intermediate is not None:
        model.add_fresh(network, cell, name, "random")
        make_untrained(network, name, cell)
    model.add_target(network, cell)
    model.compose(network, cell)
    checks.check_composition(network, cell)
    return network


def _proofs(trainer: Trainer, cell: Cell, before: str, validation: Part) -> dict[str, Any]:
    """That the intermediate of a stack is alive, and as its cell says frozen or trained."""
    if not cell.is_stacked:
        return {"liveness": None, "intermediate_unchanged": None}
    unchanged = checks.adapter_digest(trainer.model, model.INTERMEDIATE) == before
    checks.check_intermediate(cell, unchanged=unchanged)
    rows = [windows[0] for windows in validation.rows[:16]]
    batch = trainer.batch(rows, range(len(rows)))
    return {"liveness": finite(checks.liveness(trainer.model, cell, batch)), "intermediate_unchanged": unchanged}
