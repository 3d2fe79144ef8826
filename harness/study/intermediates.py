"""What cells stand on that no cell of a study trained as it is: adapters of others, and merges.

No model is loaded here. A table ``[merged.NAME]`` names a recipe. For every target, seed and setting the plan makes a
cell of it, whose spec holds the recipe with the keys of its parents and of whatever decides about them, so that the
cell has its key before anything is trained. Nothing is merged here: `weights_of` says which parents count how much once
these are trained, and harness.training.lanes.train computes.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from adapters_store import MissingRecord, Record, Store, StoreError, key_of
from adapters_store.measures import (
    DATA_EMBEDDING,
    LOGME,
    VOCABULARY,
    WEIGHTS,
    data_embedding_inputs,
    encoders,
    logme_inputs,
    vocabulary_inputs,
    weights_inputs,
)
from adapters_store.record import is_imported
from adapters_store.roles import IMPORTED, MERGED, ROLES
from adapters_store.store import left_out
from harness.study.backbone import Backbone
from harness.study.cell import Cell, library_facts, make_cell
from harness.study.config import StudyConfig
from harness.study.measures import contacts_of
from harness.study.methods import FUSION, serves_lanes, settings_of
from tasks.errors import BadInput, BadStudy
from tasks.fields import Number, OneOf, Range, check_table, distinct, record_of, written_fields
from tasks.plain_text import nearest
from tasks.registry import Registry
from tasks.splits.contamination import contacts
from tasks.splits.loading import Splits
from tasks.task import ID_PATTERN, why_taken


def check_name(name: str, registry: Registry) -> None:
    """BadInput unless the name could be a task's, and is none that the registry has."""
    if not ID_PATTERN.fullmatch(name):
        raise BadInput(f"name {name!r} of an imported adapter: only small letters, digits and _ are allowed")
    if reason := why_taken(name) or ("is a task of the registry" if name in registry.tasks else None):
        raise BadInput(f"name {name!r} of an imported adapter {reason}; give another one")


def with_imported(study: StudyConfig, store: Store) -> StudyConfig:
    """The study with the keys of its imported adapters written out; BadStudy for one that the store has not."""
    if not study.imported:
        return study
    keys, whole = store.keys(), {}
    for name, prefix in study.imported.items():
        fitting = [key for key in keys if key.startswith(prefix)]
        if len(fitting) != 1:
            count = f"{len(fitting)} records begin so: give more of the key" if fitting else "no record begins so"
            raise BadStudy(
                f"imported.{name} {prefix!r}: {count} in store {store.root}; bring it there with: empathy-transfer "
                f"adapter import SOURCE --as {name}"
            )
        (whole[name],) = fitting
    return dataclasses.replace(study, imported=whole)


def imported_cells(study: StudyConfig, registry: Registry, backbone: Backbone, store: Store | None) -> list[Cell]:
    """What a study's cells on imported adapters stand on; BadStudy for a record that is missing or does not fit."""
    if not study.imported:
        return []
    if store is None:
        raise BadStudy(f"study {study.name!r} has imported adapters, which are in a store; plan it with one")
    study = with_imported(study, store)
    for name in study.imported:
        check_name(name, registry)
    return [_cell(study, name, backbone, store) for name in study.imported]


def _cell(study: StudyConfig, name: str, backbone: Backbone, store: Store) -> Cell:
    record = store.get(study.imported[name])
    spec, where = record.spec, f"imported.{name}: record {record.key[:12]}"
    if "system" in spec:
        raise BadStudy(
            f"{where} is of system {spec['system']!r}, which is no adapter and makes no stack; correct the key, or "
            "name the system in systems"
        )
    if not is_imported(spec):
        raise BadStudy(f"{where} is a trained cell of {spec.get('target')}, not an imported adapter; correct the key")
    if spec["target"] != name:
        raise BadStudy(f"{where} was imported as {spec['target']!r}; call it so in the study")
    if unlike := backbone.unlike(spec["backbone"]):
        raise BadStudy(
            f"{where} was imported for another backbone than {backbone.name!r} is here ({unlike}); import it again "
            f"with --backbone {study.backbone}"
        )
    return Cell(name, None, 0, "full", IMPORTED, spec, record.key)


def imported_lanes(
    study: StudyConfig, backbone: Backbone, rows: Splits, seed: int, setting: str, intermediates: Sequence[Cell]
) -> list[Cell]:
    """A target's cells on imported adapters; BadStudy for one that needs the library where precision is for lanes."""
    lanes = []
    for intermediate in intermediates:
        cell = make_cell(study, backbone, rows, seed=seed, setting=setting, intermediate=intermediate)
        if study.precision == "bf16" and cell.spec["trainer"] == "library":
            raise BadStudy(
                f"imported.{intermediate.target}: another adapter than the study's own, so {rows.task.id} on it trains "
                "through the adapters library, and precision 'bf16' is for lanes; say precision = 'fp32'"
            )
        lanes.append(dataclasses.replace(cell, role=IMPORTED))
    return lanes


def imported_as(store: Store, name: str) -> list[Record]:
    """Every record that was imported under a name; a damaged one is passed over."""
    records = []
    for key in sorted(store.keys()):
        try:
            record = store.get(key)
        except StoreError:
            continue
        if is_imported(record.spec) and record.spec["target"] == name:
            records.append(record)
    return records


VERSION = 1  # of merging: raised when what a recipe gives changes
OTHERS, THEME, FAMILY, OTHER_FAMILIES = "others", "theme", "family", "other families"
PARENTS = (OTHERS, THEME, FAMILY, OTHER_FAMILIES)
OUTPUTS, AVERAGED, TIES, GATED, FUSED, JOINT = "outputs", "weights", "ties", "gated", "fusion", "joint"
RULES = (OUTPUTS, AVERAGED, TIES, GATED, FUSED, JOINT)
WIDE = (OUTPUTS, GATED)  # whose parents lie side by side
PEERS = (FUSED, JOINT)  # which are no merge, but are trained, through the adapters library
LEARNED = (GATED, *PEERS)  # whose cells share nothing that lanes could share
EQUAL, VALIDATION = "equal", "validation"
FUSION_RATE = 5e-5  # learning rate of FUSED (Pfeiffer et al. 2021): its matrices are as wide as the backbone
USUAL_KEEP = 0.5  # share of its changes that TIES keeps of a parent
MEASURED = {  # similarities that stand in the store by pair: kind of measure, and its field
    "data_similarity": (DATA_EMBEDDING, "vector"),
    "logme": (LOGME, "logme"),
    "vocabulary_jaccard": (VOCABULARY, "jaccard"),
    "vocabulary_share": (VOCABULARY, "share"),
    "weight_similarity": (WEIGHTS, "cosine"),
    "subspace_similarity": (WEIGHTS, "subspace"),
}
Share = Annotated[float, Range(above=0, most=1)]
Contaminated = Collection[tuple[str, str]]  # a target, and a task that has its test rows for training


@dataclass(frozen=True)
class MergeRecipe:
    """One table: which tasks' adapters are made into one, how, and for which targets (none named: all).

    ``weights`` are equal, or follow a similarity; only the ``best`` parents count, where a number is given, by the
    validation scores of the target on each of them or by a similarity.
    """

    name: str
    parents: Annotated[str | tuple[str, ...], distinct, "whose adapters: a list of tasks, or a word for many"] = OTHERS
    rule: Annotated[str, OneOf(RULES), "how they are made into one"] = OUTPUTS
    weights: Annotated[str, OneOf((EQUAL, *MEASURED)), "what each parent counts"] = EQUAL
    keep: Annotated[Share | None, "share of its changes that `ties` keeps of a parent"] = None
    learning_rate: Annotated[Share | None, "of a fusion"] = None
    best: Annotated[Number | None, "how many parents count"] = None
    by: Annotated[str | None, OneOf((VALIDATION, *MEASURED)), "by what the best parents are chosen"] = None
    targets: Annotated[tuple[str, ...], distinct, "for which targets; none named: all"] = ()

    @property
    def is_open(self) -> bool:
        """Whether its parents follow from the study's tasks, so that a new task may become one."""
        return isinstance(self.parents, str)

    def of_target(self, target: str) -> bool:
        """Whether this target has a cell on it."""
        return not self.targets or target in self.targets


def recipes_of(study: StudyConfig) -> list[MergeRecipe]:
    """The recipes of a study, in the order of its file; ``check_merged`` has seen them."""
    usual: Mapping[Any, Mapping[str, float]] = {TIES: {"keep": USUAL_KEEP}, FUSED: {"learning_rate": FUSION_RATE}}
    return [
        record_of(MergeRecipe, {"name": name, **usual.get(table.get("rule"), {}), **table}, floats=True)
        for name, table in study.merged.items()
    ]


# What a file may say.


def check_merged(study: StudyConfig, where: str) -> None:
    """BadStudy, in one line that names ``where`` it stands, for a recipe that cannot be followed in this study."""
    for name, table in study.merged.items():
        at = f"{where}: merged.{name}"
        # a name is a word of its own: cells are told apart by it
        if not ID_PATTERN.fullmatch(name):
            raise BadStudy(f"{at}: a name may hold only small letters, digits and _")
        if name in study.tasks or name in study.imported or name in ROLES:
            noun = "a task" if name in study.tasks else "an imported adapter" if name in study.imported else "a control"
            raise BadStudy(f"{at}: {name!r} is the name of {noun} of the study; give the merged row another one")
        check_table(table, written_fields(MergeRecipe), BadStudy, at)
        _check_tasks(study, table, at)
        _check_numbers(table, at)
        if not study.transfers:
            raise BadStudy(f"{at}: merged rows stand beside transfers, and transfers = false; leave one of them out")
        if table.get("rule") in PEERS:
            _check_peer(study, table, at)
        elif study.trainer != "lanes":
            raise BadStudy(f"{at}: merged rows are trained as lanes, and trainer = {study.trainer!r}; say 'lanes'")
        if study.composition != "stack":
            raise BadStudy(
                f"{at}: a merge is a frozen intermediate, and composition = {study.composition!r}; say 'stack'"
            )
        if not serves_lanes(settings_of(study.adapter)):
            raise BadStudy(f"{at}: only adapters of method 'seq_bn' with relu are merged; leave adapter.* out")
        if table.get("rule") == TIES and study.start != "shared":
            raise BadStudy(
                f"{at}: {TIES!r} elects signs of what training has changed, which compares nothing unless all adapters "
                "start alike; say start = 'shared'"
            )


def _check_tasks(study: StudyConfig, table: Mapping[str, Any], at: str) -> None:
    parents = table.get("parents", OTHERS)
    if isinstance(parents, str) and parents not in PARENTS:
        choices = ", ".join(map(repr, PARENTS))
        raise BadStudy(f"{at}: parents {parents!r}{nearest(parents, PARENTS)}; say {choices}, or a list of tasks")
    for field, value in (("parents", parents), ("targets", table.get("targets", []))):
        if not value and field in table:
            raise BadStudy(f"{at}: {field} {value!r} is not a list of tasks")
        for task in () if isinstance(value, str) else value:
            if task not in study.tasks:
                hint = nearest(str(task), study.tasks)
                raise BadStudy(f"{at}: {field} names {task!r}, which is no task of the study{hint}")


def _check_numbers(table: Mapping[str, Any], at: str) -> None:
    if ("best" in table) != ("by" in table):
        given, other = ("best", "by") if "best" in table else ("by", "best")
        raise BadStudy(f"{at}: {given} is there without {other}; say both, as in best = 2 and by = 'validation'")
    for field, rule, meaning in (
        ("keep", TIES, "a share of what 'ties' keeps"),
        ("learning_rate", FUSED, "a fusion's own"),
    ):
        if field in table and table.get("rule") != rule:
            raise BadStudy(f"{at}: {field} is {meaning}, and the rule is another; leave it out")


def _check_peer(study: StudyConfig, table: Mapping[str, Any], at: str) -> None:
    """Whether the adapters library, through which trained peers of merges go, can train it in this study."""
    rule = table["rule"]
    if study.precision != "fp32":
        raise BadStudy(
            f"{at}: {rule!r} is trained through the adapters library, and precision {study.precision!r} is for lanes; "
            "say precision = 'fp32'"
        )
    if "weights" in table:
        raise BadStudy(f"{at}: {rule!r} learns what each parent counts; leave weights out")
    if rule == FUSED and study.adapter.leave_out:
        raise BadStudy(f"{at}: the library fuses in every layer; leave adapter.leave_out out, or take another rule")


# From recipes to cells.


def contaminated(study: StudyConfig, splits: Mapping[str, Splits], store: Store | None) -> set[tuple[str, str]]:
    """(target, task) pairs of which the task has rows of the target's test for training; kept in the store."""
    pairs = [(target, other) for target in splits for other in splits]
    measured = contacts_of(splits, store) if store else contacts(splits, pairs)
    return {
        (contact.target, contact.intermediate)
        for contact in measured
        if contact.is_marked(is_synthetic=study.data == "synthetic")
    }


@dataclass(frozen=True)
class MergedRows:
    """The merged rows of a study's columns. ``left_out`` says in words which have no parents, by row and target."""

    study: StudyConfig
    backbone: Backbone
    splits: Mapping[str, Splits]
    contaminated: Contaminated
    first: Mapping[str, Cell]
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)

    def cells(
        self, target: str, setting: str, seed: int, full: Mapping[str, Cell], column: Sequence[Cell]
    ) -> list[Cell]:
        """A target's cells on merges of the ``full`` baselines; ``column`` has its transfers, which may choose.

        BadStudy for a list that names the target, a task contaminated with it, or an adapter of another shape.
        """
        base, cells = None, []
        for recipe in recipes_of(self.study):
            if not recipe.of_target(target):
                continue
            if parents := self._parents(recipe, target):
                base = base or make_cell(
                    self.study, self.backbone, self.splits[target], seed=seed, setting=setting, role=MERGED
                )
                self._check_lanes(recipe, base)
                merge = self._merge(recipe, target, {name: full[name] for name in parents}, column)
                spec = {**base.spec, **self._trainer(recipe, parents), "intermediate": recipe.name, "merge": merge}
                cells.append(dataclasses.replace(base, intermediate=recipe.name, spec=spec, key=key_of(spec)))
        return cells

    def _trainer(self, recipe: MergeRecipe, parents: Sequence[str]) -> dict[str, Any]:
        """What the spec of a trained peer says of its training, and of its parents' rows where it reads them."""
        if recipe.rule not in PEERS:
            return {}
        library = library_facts(settings_of(self.study.adapter), self.study)
        spec: dict[str, Any] = {"trainer": "library", "library": library}
        if recipe.rule == FUSED:
            return {**spec, "library": {**library, "fusion": dict(FUSION)}}
        return {**spec, "siblings": {name: self.splits[name].content_hash for name in parents}}

    def _check_lanes(self, recipe: MergeRecipe, base: Cell) -> None:
        """BadStudy for a target whose adapter, as a search has it, lanes do not train."""
        if not serves_lanes(base.spec["adapter"]):
            raise BadStudy(
                f"merged.{recipe.name}: target {base.target} trains an adapter of method "
                f"{base.spec['adapter']['method']!r}, which lanes do not have; list other targets: targets"
            )
        if recipe.rule == JOINT and self.splits[base.target].folds:
            raise BadStudy(
                f"merged.{recipe.name}: target {base.target} is cut into folds, which {JOINT!r} does not train; list "
                "other targets: targets"
            )

    def _parents(self, recipe: MergeRecipe, target: str) -> list[str]:
        """The tasks whose adapters are merged, sorted; a row without any is noted among those left out."""
        may_be = {
            name: rows.task
            for name, rows in self.splits.items()
            if name != target and rows.task.role in ("both", "intermediate") and (target, name) not in self.contaminated
        }
        if isinstance(recipe.parents, tuple):
            # without its files a task is among those that are missing
            for name in (name for name in recipe.parents if name in self.splits and name not in may_be):
                fault = "is the target itself" if name == target else "has rows of its test for training"
                if name != target and self.splits[name].task.role not in ("both", "intermediate"):
                    fault = f"is no intermediate (role = {self.splits[name].task.role!r})"
                raise BadStudy(
                    f"merged.{recipe.name}: parents names {name!r}, which for target {target!r} {fault}; leave it out, "
                    "or list the targets that the row is for: targets"
                )
            chosen = [name for name in recipe.parents if name in may_be]
        else:
            target_task, chosen = self.splits[target].task, []
            for name, task in may_be.items():
                words = {OTHERS, FAMILY if task.dataset.family == target_task.dataset.family else OTHER_FAMILIES}
                words |= {THEME} if target_task.theme and task.theme == target_task.theme else set()
                chosen += [name] if recipe.parents in words else []
        if not chosen:
            reason = f"no task is left of parents = {recipe.parents!r}"
            if any(pair[0] == target and pair[1] != target for pair in self.contaminated):
                reason += " but such as have its test rows for training"
            self.left_out[f"{recipe.name} -> {target}"] = reason
        return sorted(chosen)

    def _merge(
        self, recipe: MergeRecipe, target: str, parents: Mapping[str, Cell], column: Sequence[Cell]
    ) -> dict[str, Any]:
        """The recipe as a spec holds it, with the keys of the parents and of all that decides about them."""
        settings = settings_of(self.study.adapter)
        for name, cell in parents.items():
            if cell.spec["adapter"] != settings:
                raise BadStudy(
                    f"merged.{recipe.name}: the adapter of {name} ({cell.spec['adapter']['method']}) has another shape "
                    "than the study's; leave it out of parents"
                )
        merge: dict[str, Any] = {
            "version": VERSION,
            "rule": recipe.rule,
            "parents": {name: cell.key for name, cell in parents.items()},
            "weights": EQUAL if recipe.weights == EQUAL else self._measures(recipe.weights, target, parents),
        }
        for field in ("keep", "learning_rate"):
            if (value := getattr(recipe, field)) is not None:
                merge[field] = value
        if recipe.best is not None:
            merge["best"] = recipe.best
            merge["by"] = VALIDATION if recipe.by == VALIDATION else self._measures(str(recipe.by), target, parents)
        if recipe.by == VALIDATION:
            on = {cell.intermediate: cell.key for cell in column}
            merge["transfers"] = {name: on[name] for name in parents}
        return merge

    def _measures(self, similarity: str, target: str, parents: Collection[str]) -> dict[str, Any]:
        """A similarity with the keys of its measures by parent: one of a pair, or an embedding of either task."""
        kind, _ = MEASURED[similarity]
        of_pair = {VOCABULARY: vocabulary_inputs, WEIGHTS: weights_inputs, LOGME: logme_inputs}
        backbone, keys = self.study.backbone, {}
        for parent in sorted(parents):
            contents = [self.splits[name].content_hash for name in (parent, target)]
            pair = contents if kind == VOCABULARY else [self.first[name].key for name in (parent, target)]
            if kind == DATA_EMBEDDING:
                inputs = [data_embedding_inputs(content, encoders(backbone)[0], backbone) for content in contents]
            else:
                inputs = [of_pair[kind](*pair)]
            keys[parent] = [key_of({"kind": kind, "inputs": each}) for each in inputs]
        return {"similarity": similarity, "measures": keys}


def most_parents(merge: Mapping[str, Any]) -> int:
    """How many of a recipe's parents count."""
    parents = len(merge["parents"])
    return min(parents, int(merge.get("best", parents)))


Merge = Mapping[str, Any]  # a recipe as a cell's spec holds it


class Undecided(BadInput):
    """What decides about the parents of a merge is not in the store, or decides nothing."""


def why_unmergeable(merge: Merge, store: Store) -> str | None:
    """Why a merge whose parents are trained cannot be made, in one line; None where it can."""
    try:
        for name in weights_of(merge, store):
            if "adapter/adapter.safetensors" in left_out(store.get(merge["parents"][name])):
                return f"the weights of parent {name} were left out of its record; restore or train them again"
    except Undecided as reason:
        return str(reason)
    return None


def weights_of(merge: Merge, store: Store) -> dict[str, float]:
    """The weight of every parent that counts, by task in their order; they sum to 1.

    Only the ``best`` count, of equals those that come first by their names. A similarity below 0 counts as 0. Undecided
    in one line for what is not stored or where all weights are 0.
    """
    chosen = sorted(merge["parents"])
    if "best" in merge:
        if merge["by"] == VALIDATION:  # of the target's transfers
            scores = {name: store.get(key).results["validation"] for name, key in merge["transfers"].items()}
        else:
            scores = _similarities(merge["by"], store)
        # those without a score are last
        height = {n: -math.inf if score is None or math.isnan(score) else score for n, score in scores.items()}
        chosen = sorted(sorted(chosen, key=lambda name: (-height[name], name))[: merge["best"]])
    if merge["weights"] == EQUAL:
        return dict.fromkeys(chosen, 1 / len(chosen))
    raw = {
        name: max(0.0, value)
        for name, value in _similarities(merge["weights"], store).items()
        if name in chosen and not math.isnan(value)
    }
    if (total := math.fsum(raw.values())) <= 0:
        raise Undecided(
            f"the weights by {merge['weights']['similarity']} sum to 0, for no parent is above 0; take another "
            "similarity, or weights = 'equal'"
        )
    return {name: raw.get(name, 0.0) / total for name in chosen}


def _similarities(wanted: Mapping[str, Any], store: Store) -> dict[str, float]:
    """A similarity to the target by parent."""
    name = wanted["similarity"]
    kind, field = MEASURED[name]
    values = {}
    for parent, keys in wanted["measures"].items():
        try:
            results = [store.measure_of(key).result[field] for key in keys]
        except MissingRecord:
            raise Undecided(
                f"{name} of {parent} is not stored; measure it first: empathy-transfer study similarities STUDY"
            ) from None
        value = cosine(*results) if kind == DATA_EMBEDDING else results[0]
        values[parent] = math.nan if value is None else float(value)
    return values


def cosine(vector: Sequence[float], other: Sequence[float]) -> float:
    """Cosine of two vectors; undefined where one of them is 0."""
    lengths = math.sqrt(math.fsum(x * x for x in vector)) * math.sqrt(math.fsum(x * x for x in other))
    return math.fsum(x * y for x, y in zip(vector, other, strict=True)) / lengths if lengths else math.nan
