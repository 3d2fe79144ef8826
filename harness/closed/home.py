"""What goes to a closed node and what comes back: the folder of what it needs, and its outcomes made into records.

Carried are cells that the store lacks and that are trained as lanes. What needs the adapters library, texts or other
people's packages stays here, and is trained here: systems, merges, folds, second attempts. Scores of what comes back
are computed here, from rows that are read and encoded again.
"""

import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

import harness
from adapters_store import Store
from harness.closed import there
from harness.closed.there import (
    ACTIVATIONS,
    CONFIG,
    FIELDS,
    MEGABYTE,
    PARTS,
    PLAN,
    SCHEMA,
    SOURCE,
    digest,
    part_of,
    tensors_of,
    write_tensors,
)
from harness.run.grid import GridReport, Outcome, steps_of
from harness.run.pack import CellResult, code_version, versions
from harness.study.backbone import BadBackbone
from harness.study.cell import Cell
from harness.study.plan import Plan
from harness.systems import name_of_system, system_of
from harness.training import model
from harness.training.inputs import Rows
from harness.training.lanes.state import fresh
from harness.training.lanes.train import parent_adapter, random_adapter, with_target
from harness.training.recipe import KeptEpoch, Part, Recipe, Trained, cuts_of, encoded
from tasks import metrics
from tasks.errors import BadInput

PACKAGES = ("harness", "tasks", "adapters_store")
OURS = 2 * MEGABYTE  # room in part-1 for the plan and the source
STARTER = """# python train.py --minutes 10
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here / "source.zip"))
from harness.closed.there import main

sys.exit(main(here.parent))
"""


@dataclass
class Packed:
    """What was packed: cells that go, why others stay, by what they are called, and the bytes of every part."""

    cells: list[Cell] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    parts: list[int] = field(default_factory=list)


def pack(plan: Plan, store: Store, folder: Path, megabytes: int) -> Packed:
    """Write the folder, in parts of at most ``megabytes``; BadInput where it is not empty or nothing is to be carried.

    An adapter that is stored goes along as tensors, one that is not is trained there first.
    """
    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"--folder {folder}: is not empty; name a new one")
    if megabytes * MEGABYTE <= OURS:
        raise BadInput(f"--megabytes {megabytes}: part-1 alone has some {OURS // MEGABYTE}; say more, such as 60")
    network = model.load_backbone(plan.backbone)
    if network.config.hidden_act not in ACTIVATIONS:
        raise BadBackbone(
            f"backbone {plan.backbone.name!r}: its activation {network.config.hidden_act!r} is none of "
            f"{', '.join(ACTIVATIONS)}, which a closed node computes; train it where the library is"
        )
    config = {name: getattr(network.config, name, None) for name in FIELDS}
    state = network.base_model.state_dict()
    tensors = {f"backbone/{name}": value for name, value in state.items() if name.startswith(PARTS)}
    packed, packs, writer = Packed(), [], _Packs(plan, store, tensors)
    for step in steps_of(plan, store, GridReport()):
        going = []
        for cell in step.pack.cells:
            if reason := writer.why_left(cell):
                packed.left[cell.label] = reason
            else:
                going.append(cell)
        if going:
            packs.append(writer.pack(going))
            packed.cells += going
    if not packs:
        why = next(iter(packed.left.values()), "the store has every cell")
        raise BadInput(f"study {plan.study.name!r}: nothing is to be trained on a closed node ({why})")
    parts = write_tensors(folder, tensors, megabytes * MEGABYTE - OURS)
    about = {
        "schema": SCHEMA,
        "study": plan.study.name,
        "backbone": {name: value for name, value in asdict(plan.backbone).items() if name != "folder"},
        "weight_bytes": plan.backbone.weight_bytes,
        "code": code_version(),
        "versions": versions(system_of(packed.cells[0].spec).packages),
        "parts": parts,
        "packs": packs,
    }
    first = part_of(folder, 1)
    (first / PLAN).write_text(json.dumps(about, allow_nan=False), encoding="utf-8")
    (first / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    (first / "train.py").write_text(STARTER, encoding="utf-8")
    root = Path(harness.__file__).resolve().parents[1]
    with zipfile.ZipFile(first / SOURCE, "w", zipfile.ZIP_DEFLATED) as file:  # from which Python can import
        for source in (path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))):
            file.write(source, source.relative_to(root).as_posix())
    folders = [part_of(folder, number) for number in range(1, parts + 1)]
    packed.parts = [sum(path.stat().st_size for path in part.iterdir()) for part in folders]
    return packed


@dataclass
class _Packs:
    """Packs as plain JSON; what they need goes into ``tensors``, the same once; ``carried``: their cells."""

    plan: Plan
    store: Store
    tensors: dict[str, Tensor]
    carried: set[str] = field(default_factory=set)
    _starts: dict[str, tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=dict)

    def why_left(self, cell: Cell) -> str:
        """Why a cell is trained here; empty for one that can go."""
        if (name := name_of_system(cell.spec)) != "lanes":
            return f"it is trained by {name!r}"
        if cell.merge:
            return "its intermediate is a merge"
        if self.plan.splits[cell.target].folds:
            return "its task has folds"
        if cell.spec["retry_collapsed"]:
            return "it may ask for a second attempt (retry_collapsed)"
        if absent := [key for key in cell.stands_on if key not in self.carried and key not in self.store]:
            return f"it stands on a cell that stays ({absent[0][:12]})"
        return ""

    def pack(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """One pack: its cells, and the names of its rows, of where its lanes start and of what they stand on."""
        self.carried.update(cell.key for cell in cells)
        recipe = Recipe.of(cells)
        _, parts, tokenizer = encoded(cells[0], self.plan.backbone, self.plan.splits[cells[0].target])
        rows = {name: self._keep("rows", tensors_of(part, has_labels=name != "test")) for name, part in parts.items()}
        start, random = self._start(recipe)
        names = ("target", "intermediate", "seed", "setting", "role", "key")
        return {
            "cells": [{**{n: getattr(cell, n) for n in names}, "spec": dict(cell.spec)} for cell in cells],
            "rows": rows,
            "padding": tokenizer.padding,
            "start": start,
            "stands_on": {cell.key: self._stands_on(cell, random) for cell in cells if cell.intermediate},
        }

    def _start(self, recipe: Recipe) -> tuple[dict[str, Any], dict[str, Any]]:
        """The target's fresh adapter and head, and the untrained one of the control ``random``."""
        drawn = (recipe.target, recipe.seed, recipe.adapter, recipe.start, recipe.composition, recipe.outputs)
        name = json.dumps(drawn, sort_keys=True)
        if name not in self._starts:
            network = with_target(recipe, self.plan.backbone)
            pair = fresh(network, recipe.target), random_adapter(network, recipe)
            first, second = ({"tensors": self._keep("start", weights), "names": list(weights)} for weights in pair)
            self._starts[name] = first, second
        return self._starts[name]

    def _stands_on(self, cell: Cell, random: Mapping[str, Any]) -> dict[str, Any]:
        """The key of a cell of this parcel, or the tensors that stand under this cell."""
        key = cell.intermediate_key
        if key is None:
            return dict(random)
        if key in self.carried:
            return {"cell": key}
        weights = parent_adapter(self.store, key, str(cell.intermediate))
        return {"tensors": self._keep("adapter", weights), "names": list(weights)}

    def _keep(self, kind: str, tensors: Mapping[str, Tensor]) -> str:
        prefix = f"{kind}/{digest(tensors)}"
        self.tensors.update({f"{prefix}/{name}": value for name, value in tensors.items()})
        return prefix


EQUAL = 1e-6  # of validation scores, here and there

Arrival = tuple[Path, there.TrainedCell]


def arrive(plan: Plan, store: Store, folder: Path) -> Iterator[Outcome]:
    """Store every outcome in a folder's files that is of a cell of the plan; what became of each cell of the plan.

    BadInput at once for a folder without outcomes of the plan and a file that was altered, and later for outcomes of
    other rows or other scores than this plan's: then nothing of that cell is stored.
    """
    files = sorted(folder.rglob("*.safetensors")) if folder.is_dir() else []
    if not files:
        raise BadInput(f"--trained {folder}: no outcomes (*.safetensors) lie there; name the folder `out` of the node")
    arrived = {key: (path, outcome) for path, key, outcome in there.read_outcomes(files)}
    if not arrived.keys() & {cell.key for cell in plan.cells}:
        raise BadInput(
            f"--trained {folder}: none of its {len(arrived)} outcomes is of a cell of study {plan.study.name!r}; "
            "give the changes (--set, --seeds, --limit) with which it was packed"
        )
    return _stored(plan, store, folder, arrived)


def _stored(plan: Plan, store: Store, folder: Path, arrived: Mapping[str, Arrival]) -> Iterator[Outcome]:
    for pack in (*plan.baselines, *plan.transfers):
        cells = [cell for cell in pack.cells if cell.key not in store and cell.key in arrived]
        if cells:
            rows, parts, _ = encoded(cells[0], plan.backbone, plan.splits[cells[0].target])
            for cell in cells:
                _store(plan, store, cell, arrived[cell.key], rows, parts)
        for cell in pack.cells:
            is_known = cell.key in store
            reason = None if is_known else f"it is not among the outcomes in {folder}"
            yield Outcome(cell, reason, was_run=cell in cells)


def _store(plan: Plan, store: Store, cell: Cell, arrival: Arrival, rows: Rows, parts: Mapping[str, Part]) -> None:
    path, outcome = arrival
    facts = outcome.facts
    for name, part in parts.items():
        rows_here = digest(tensors_of(part, has_labels=name != "test"))
        if facts["rows"][name] != f"rows/{rows_here}":
            raise BadInput(f"{path}: {cell.label}: its {name} rows were others than those here; pack the study again")
    recipe = Recipe.of([cell])
    logits = {name: value.numpy() for name, value in outcome.logits.items()}
    for name in ("validation", "test"):
        expected = (len(parts[name].rows), recipe.outputs)
        if name not in logits or logits[name].shape != expected:
            raise BadInput(f"{path}: {cell.label}: its {name} logits are not {expected}; train it again")
    claim, score = facts["validation"], metrics.score(recipe.metric, parts["validation"].labels, logits["validation"])
    if not (abs(score - claim) <= EQUAL if isinstance(claim, float) else math.isnan(score)):
        raise BadInput(f"{path}: {cell.label}: validation {claim} there, {score:.6f} from its logits; train it again")
    fitted = KeptEpoch(facts["best_epoch"], math.nan if claim is None else claim, facts["history"])
    chunk = facts["provenance"]["chunk"]
    trained = Trained(None, rows, logits, fitted, cut=cuts_of(parts), proofs=facts["proofs"], lanes=chunk)
    result = CellResult(cell, recipe, plan.splits[cell.target].task, [trained])
    backbone = plan.backbone
    origin = {
        **facts["provenance"],
        "backbone": backbone.name,
        "config_sha256": backbone.config_sha256,
        "tokenizer_sha256": backbone.tokenizer_sha256,
        **({"commit": backbone.commit} if backbone.commit else {}),
        "closed_node": True,
    }
    with store.staging() as staged:
        result.write_files(staged, with_weights=False)
        store.put(cell.key, spec=dict(cell.spec), results=result.numbers_and_flags(), provenance=origin, folder=staged)
