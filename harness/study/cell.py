"""A cell: one training, named by everything that decides its numbers."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adapters_store import key_of, stands_on
from adapters_store.roles import BASELINE, MERGED, OF_SHUFFLED, RANDOM, SYSTEM, SYSTEMS, TRANSFER, WHOLE_MODELS
from harness.study.backbone import Backbone
from harness.study.config import StudyConfig
from harness.study.device import kind_of
from harness.study.methods import check_layers, check_stack, check_width, library_config, serves_lanes, settings_of
from harness.study.systems import WINDOW, check_rows, check_settings, check_system, kind_and_config, turns_after
from tasks.errors import BadStudy
from tasks.splits.loading import Splits, after_hash, rationale_hash
from tasks.task import Task

SCHEMA = 2  # 1 named a backbone by its kind and weights alone, and nothing of the library's
TRAINING_VERSIONS = {"fp32": 4, "bf16": 5}  # by precision: raised when its masks, batching or initialisation change


@dataclass(frozen=True)
class Cell:
    """One training: ``target`` alone (a baseline) or on a frozen ``intermediate``, for one seed and setting.

    ``role`` says what a study has the cell for: ``baseline`` or ``transfer``, a control (harness.study.plan) or a
    reference. ``spec`` holds every input that decides the result and nothing else, so two roles may share a cell;
    ``key`` is the sha256 of its canonical JSON. ``system`` is what the study calls the system that solves the task;
    empty for adapters and whole models. ``local`` holds its settings that decide no prediction and are in no key.
    """

    target: str
    intermediate: str | None
    seed: int
    setting: str
    role: str
    spec: Mapping[str, Any]
    key: str
    system: str = ""
    local: Mapping[str, Any] = field(default_factory=dict)

    @property
    def intermediate_key(self) -> str | None:
        """The key of the cell that this one stands on; None for a baseline, and where no record holds it."""
        key: str | None = self.spec["intermediate_key"]
        return key

    @property
    def stands_on(self) -> tuple[str, ...]:
        """The keys of all cells that have to be trained before this one."""
        return stands_on(self.spec)

    @property
    def merge(self) -> Mapping[str, Any] | None:
        """The recipe of a merged intermediate, with the keys of its parents; None for any other cell."""
        merge: Mapping[str, Any] | None = self.spec.get("merge")
        return merge

    @property
    def rule(self) -> str | None:
        """The rule of a merged intermediate; None for any other cell."""
        return None if self.merge is None else str(self.merge["rule"])

    @property
    def composition(self) -> str | None:
        """How the adapters of target and intermediate are put together; None where there is no intermediate."""
        composition: str | None = self.spec.get("composition")
        return composition

    def keeps_weights(self, keep: str) -> bool:
        """Whether its record holds what it has learned, where a study says ``keep``, one of harness.study.file.KEPT."""
        if keep == "all":
            return True
        return self.role not in SYSTEMS and (keep == "adapters" or self.intermediate is None)

    @property
    def is_stacked(self) -> bool:
        """True where the target's adapter stands on another one, frozen or trained with it."""
        return self.composition in ("stack", "stack-trainable")

    @property
    def noise(self) -> str:
        """The name of the cell's own stream of dropout, for a study whose cells do not share theirs."""
        return f"{self.spec['role']}/{self.intermediate or ''}"

    @property
    def label(self) -> str:
        """The cell in words, for progress and messages, as in ``news_empathy -> emotion (control), seed 1, full``."""
        pair = f"{self.intermediate} -> {self.target}" if self.intermediate else self.target
        role = "" if self.role == TRANSFER else f" ({self.system or self.role})"
        return f"{pair}{role}, seed {self.seed}, {self.setting}"


def make_cell(
    study: StudyConfig,
    backbone: Backbone,
    splits: Splits,
    *,
    seed: int,
    setting: str,
    intermediate: Cell | None = None,
    role: str = "",
) -> Cell:
    """The cell of a target (given by its ``splits``) in a study, stacked on ``intermediate`` if there is one.

    ``role`` names a training that is neither a plain baseline nor a plain transfer: ``random`` stands on an untrained
    intermediate, ``shuffled-intermediate`` learns permuted labels, ``merged`` gets its recipe from
    harness.study.intermediates. BadStudy if the adapter does not fit the backbone.
    """
    task = splits.task
    stacked_on = intermediate.target if intermediate else None
    training, _ = study.training_for(task, stacked_on)
    study = dataclasses.replace(study, adapter=study.adapter_for(task.id, stacked_on))
    role = role or (TRANSFER if intermediate else BASELINE)
    # of a whole model, for which adapters' rates are far too high
    rate = {"learning_rate": study.finetune_learning_rate} if role in WHOLE_MODELS else {}
    label: dict[str, Any] = {"kind": task.label.kind, "classes": list(task.label.classes)}
    if role == OF_SHUFFLED:  # the seeds by which labels are permuted; the test keeps its own
        parts = ("train", "validation")
        label["permutations"] = {name: seed_of("shuffled", task.id, seed, name) for name in parts}
    adapter = _adapter(study, role, intermediate)
    check_width(adapter or {}, backbone.width)
    check_layers(adapter or {}, backbone.shape[0])
    intermediate_name = intermediate.target if intermediate else RANDOM if role == RANDOM else None
    trainer = trainer_of(study, role, intermediate)
    spec: dict[str, Any] = {
        "schema": SCHEMA,
        "training_version": TRAINING_VERSIONS[study.precision],
        "role": role,
        "target": task.id,
        "intermediate": intermediate_name,
        "intermediate_key": intermediate.key if intermediate else None,
        "seed": seed,
        "setting": setting,
        "backbone": backbone.identity(),
        "adapter": adapter,
        "training": {**dataclasses.asdict(training), **rate},
        "input_format": study.input_format,
        "max_tokens": study.max_tokens,
        "caps": {"train": study.max_train, "validation": study.max_val, "test": study.max_test},
        "splits": _cut_of(study, task),
        "splits_hash": splits.content_hash,
        "label": label,
        "metric": task.metric,
        "class_weights": task.class_weights,
        **({"loss": loss.as_json()} if (loss := study.loss_for(task)).kind != "cross-entropy" else {}),
        "history": task.history,
        **_later(study, splits),
        "truncation": task.truncation,
        "tags": task.tags if study.input_format == "tags" else None,
        "composition": study.composition if intermediate_name or role == MERGED else None,
        **({"start": study.start} if study.start != "task" and adapter else {}),
        "retry_collapsed": study.retry_collapsed,
        "trainer": trainer,
        "library": library_facts(adapter, study) if trainer == "library" else None,
        "precision": study.precision,
        "shared_noise": study.shared_noise,
    }
    return Cell(task.id, intermediate_name, seed, setting, role, spec, key_of(spec))


def make_system_cell(
    study: StudyConfig,
    backbone: Backbone,
    splits: Mapping[str, Splits],
    *,
    target: str,
    name: str,
    seed: int,
    setting: str,
) -> Cell:
    """The cell of a target that the study's system ``name`` solves; ``splits`` are those of all its tasks.

    What it names follows from what its kind reads: the backbone, rationales, an instruction, the rows of sibling tasks,
    and later turns as far as its settings ask for them. BadStudy where the system cannot read this task.
    """
    kind, config = kind_and_config(name, study.system.get(name, {}), f"system.{name}")
    rows, task = splits[target], splits[target].task
    check_system(kind, name, backbone)
    check_settings(kind, config, name, splits[target].task.label, backbone)
    if study.data != "synthetic":  # made-up texts are nobody's
        kind.check(config, name, task)
    settings = json.loads(json.dumps(dataclasses.asdict(config)))  # lists for tuples, as a record has them
    local = {field: settings.pop(field) for field in kind.local}
    unset = {field for field in kind.added if getattr(config, field) == getattr(kind.config(), field)}
    siblings = {sibling: splits.get(sibling) for sibling in getattr(config, "siblings", ())}
    check_rows(kind, name, rows, siblings)
    others, later = {other: of for other, of in siblings.items() if of}, turns_after(config)
    marks = {other: rationale_hash(of) for other, of in others.items()} if kind.reads.rationales else {}
    follows = {other: after_hash(of, later) for other, of in others.items()} if later else {}
    spec: dict[str, Any] = {
        "schema": SCHEMA,
        "system": kind.name,
        "version": kind.version,
        "config": {field: value for field, value in settings.items() if field not in unset},
        "role": SYSTEM,
        "target": target,
        "intermediate": None,
        "intermediate_key": None,
        "seed": seed,
        "setting": setting,
        "caps": {"train": study.max_train, "validation": study.max_val, "test": study.max_test},
        "splits": _cut_of(study, task),
        "splits_hash": rows.content_hash,
        "label": {"kind": task.label.kind, "classes": list(task.label.classes)},
        "metric": task.metric,
        "history": task.history,
        **({"file_sha256": kind.file_sha256} if kind.file_sha256 else {}),
        **({"backbone": backbone.identity()} if kind.reads.weights else {}),
        **({"rationale_hash": rationale_hash(rows)} if kind.reads.rationales else {}),
        **({"instruction_hash": task.instruction.content_hash} if kind.reads.instructions and task.instruction else {}),
        **({"siblings": {other: of.content_hash for other, of in others.items()}} if others else {}),
        **({"sibling_rationales": marks} if marks else {}),
        **({"after_hash": after_hash(rows, later)} if later else {}),
        **({"sibling_after": follows} if follows else {}),
        **({"identity": identity} if (identity := dict(kind.identity(config))) else {}),
    }
    return Cell(target, None, seed, setting, SYSTEM, spec, key_of(spec), name, local)


def _later(study: StudyConfig, splits: Splits) -> dict[str, Any]:
    """How many later turns a task reads, and their hash; BadStudy where no row has any, or the format has no place."""
    task = splits.task
    if not task.later:
        return {}
    if study.input_format != "pair":
        raise BadStudy(
            f"task {task.id!r} reads later turns, for which input_format = {study.input_format!r} has no place;"
            " say 'pair'"
        )
    if not any(row.after for row in splits.train):
        raise BadStudy(
            f"task {task.id!r} reads later turns, and its reader {task.reader!r} finds none in its files;"
            " remove `later`"
        )
    return {"later": task.later, "after_hash": after_hash(splits, task.later)}


def later_turns(spec: Mapping[str, Any]) -> int:
    """How many turns after its texts a cell reads, an adapter's as its task says and a system's by its window."""
    later: int = spec["later"] if "later" in spec else spec.get("config", {}).get(WINDOW, (0, 0))[1]
    return later


def _cut_of(study: StudyConfig, task: Task) -> str:
    """How the rows are cut: by the study's protocol, by the folds of the entry, or as the study says."""
    return task.split if task.folds and not study.protocol else study.splits


def trainer_of(study: StudyConfig, role: str, intermediate: Cell | None = None) -> str:
    """How a study's cells of this role are trained: as it says, or through the library what lanes do not serve.

    Lanes have neither other adapters than theirs, nor two shapes in one stack, nor whole models.
    """
    adapter = _adapter(study, role, intermediate)
    is_served = adapter is not None and serves_lanes(adapter)
    is_even = intermediate is None or intermediate.spec["adapter"] == adapter
    return study.trainer if is_served and is_even else "library"


def _adapter(study: StudyConfig, role: str, intermediate: Cell | None) -> dict[str, Any] | None:
    """The adapter that a cell trains: none with a whole model, the intermediate's own where that goes on training.

    BadStudy if it, or what it stands on, makes no stack.
    """
    if role in WHOLE_MODELS:
        return None
    if intermediate is None:
        return settings_of(study.adapter)
    if study.composition == "sequential":
        return dict(intermediate.spec["adapter"])
    for method in (study.adapter.method, intermediate.spec["adapter"]["method"]):
        check_stack(method)
    return settings_of(study.adapter)


def library_facts(adapter: Mapping[str, Any] | None, study: StudyConfig) -> dict[str, Any]:
    """What decides a training through the adapters library alone: its own defaults, and whose dropout is drawn."""
    return {"adapter": library_config(adapter) if adapter else None, "device": kind_of(study.device)}


def seed_of(*parts: object) -> int:
    """A 63-bit seed: the first 8 bytes of the sha256 of the parts joined with ``/``, shifted right by one bit.

    All randomness of a cell comes from such seeds (docs/training.md), for instance
    ``seed_of("shuffled", target, seed, "train")`` for the permutation of its training labels.
    """
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big") >> 1
