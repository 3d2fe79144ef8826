"""What a study has to cite, as BibTeX, and what of its data may be shared, as far as the entries' licences say.

Cited are its data sets, backbone, adapter methods, systems, training and statistics.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from adapters_store.record import imports_of
from analysis.figures.paper_figures import why_not_drawn
from analysis.gains.cells import Manifest
from analysis.manuscript.frames import Subject
from analysis.manuscript.layout import SOURCE
from analysis.results.leaderboard import has_systems
from analysis.sections.blocks import Heading, Section, Table, Text, markdown, table
from tasks.plain_text import harmless

ENTRY = re.compile(r"@[a-zA-Z]+\{([^,\s]+),")
DATA, BACKBONE, ADAPTER, TRAINING, STATISTICS = "data set", "backbone", "adapter method", "training", "statistics"
OF_OTHERS, MERGING, SYSTEM = "adapter of others", "merged intermediates", "system"
DESIGN = "study design"
THE_PAPER = ("lahnala-etal-2025-muddy", "lahnala-etal-2025-practical")
BACKBONES = {
    "roberta-base": ("liu-etal-2019-roberta",),
    "roberta-large": ("liu-etal-2019-roberta",),
    "minilm": ("wang-etal-2020-minilm", "reimers-gurevych-2019-sentence"),
}
PAPERS_WAY, MIXED = "importances by the paper's procedure", "slopes on ratings"
RANDOM = "random-tiny"  # not trained by anybody
METHODS = {
    "seq_bn": ("pfeiffer-etal-2020-mad",),
    "double_seq_bn": ("houlsby-etal-2019-parameter",),
    "lora": ("hu-etal-2022-lora",),
    "compacter": ("mahabadi-etal-2021-compacter",),
    "prefix_tuning": ("li-liang-2021-prefix",),
    "prompt_tuning": ("lester-etal-2021-power",),
    "par_bn": ("he-etal-2022-towards",),
}
MERGES = {  # by rule; the others are nobody's in the form that they have here
    "weights": ("chronopoulou-etal-2023-adaptersoup",),
    "ties": ("yadav-etal-2023-ties",),
    "fusion": ("pfeiffer-etal-2021-adapterfusion",),
}
SYSTEMS = {  # by kind
    "bi-encoder": ("sharma-etal-2020-computational",),
    "clsn": ("jiang-etal-2023-empathy",),
    "micromodels": ("lee-etal-2023-empathy",),
    **dict.fromkeys(("encoder", "seq2seq", "decoder", "prompted"), ("xu-jiang-2024-multi",)),
}
FLOORS = ("majority", "tfidf")  # kinds that are nobody's
LIBRARY, ADAMW, OPTUNA = "poth-etal-2023-adapters", "loshchilov-hutter-2019-decoupled", "akiba-etal-2019-optuna"
LOSSES = {  # by kind in a spec: what it is called, and who proposed it
    "focal": ("focal loss", ("lin-etal-2017-focal",)),
    "ldam": ("LDAM loss", ("cao-etal-2019-learning",)),
}
DEFERRED = "weights by effective numbers of rows", ("cui-etal-2019-class",)
OVER_SEEDS, OVER_ROWS = "degrees of freedom of intervals", "correction over merged rows"
RESAMPLED, OVER_SYSTEMS = "resampled groups of test rows", "correction over systems"
GAINS = {
    RESAMPLED: ("field-welsh-2007-bootstrapping",),
    OVER_SEEDS: ("satterthwaite-1946-approximate",),
    "correction (false discovery rate)": ("benjamini-hochberg-1995-controlling", "benjamini-yekutieli-2001-control"),
    "correction (family-wise)": ("holm-1979-simple", "westfall-young-1993-resampling"),
    "smallest visible gains": ("johnson-welch-1940-applications",),
}
APPROXIMATED = {"correction (false discovery rate)": ("benjamini-hochberg-1995-controlling",)}
RATINGS = {"agreement of raters": ("hayes-krippendorff-2007-answering",), "rank correlation": ("spearman-1904-proof",)}
EXPLAINED = {
    PAPERS_WAY: ("drucker-etal-1997-support", "breiman-2001-random"),
    MIXED: ("dersimonian-laird-1986-meta", "hartung-knapp-2001-refined"),
}
SIMILARITIES = {
    "data_similarity": ("reimers-gurevych-2019-sentence",),
    "task_similarity": ("vu-etal-2020-exploring", "cormack-etal-2009-reciprocal"),
    "task_similarity_vu": ("vu-etal-2020-exploring", "cormack-etal-2009-reciprocal"),
    "logme": ("you-etal-2021-logme",),
}


class Use(NamedTuple):
    """Something that a study used: what it is, its name, the keys of its entries (none: not known), and their text."""

    kind: str
    name: str
    keys: tuple[str, ...]
    entries: tuple[str, ...]


def uses_of(subject: Subject) -> list[Use]:
    """Everything that a study has to cite, data sets first; what has no entry is there without keys."""
    works = entries(resources.files(__package__).joinpath("references.bib").read_text(encoding="utf-8"))
    named = [(DESIGN, "ratings, themes and transfers", THE_PAPER), *_models(subject), *_statistics(subject)]
    return [
        *_data_sets(subject),
        *(Use(kind, name, keys, tuple(works[key] for key in keys)) for kind, name, keys in named),
    ]


def bibliography(uses: Sequence[Use]) -> str:
    """The entries, each once, under comments that say what each is for; what has none is named at the top."""
    missing = [f"% no entry is known for: {use.kind} {_line(use.name)}" for use in uses if not use.keys]
    lines = ["% What this study has to cite. Fields that could not be verified are left out.", *missing]
    seen: set[str] = set()
    for use in uses:
        if use.keys:
            lines.append(f"\n% {use.kind}: {_line(use.name)} ({', '.join(use.keys)})")
        for key, entry in zip(use.keys, use.entries, strict=True):
            lines += [] if key in seen else [entry]
            seen.add(key)
    return "\n".join(lines) + "\n"


def cited_uses(uses: Sequence[Use], sentences: Sequence[str]) -> list[Use]:
    """What is left of the uses if only works count that the sentences cite (``[@key; @key]``)."""
    parts = (part for text in sentences for part in SOURCE.findall(text))
    cited = {key.strip().removeprefix("@") for part in parts for key in part.split(";")}
    remaining = ({key: entry for key, entry in zip(use.keys, use.entries, strict=True) if key in cited} for use in uses)
    return [
        use._replace(keys=tuple(left), entries=tuple(left.values()))
        for use, left in zip(uses, remaining, strict=True)
        if left
    ]


def _line(name: str) -> str:
    """A name inside a comment: on one line, without control characters."""
    return harmless(" ".join(name.split()))


def entries(text: str) -> dict[str, str]:
    """The entries of a BibTeX text by key."""
    parts = re.split(r"(?m)^(?=@)", text)
    return {match[1]: part.strip() for part in parts if (match := ENTRY.match(part))}


def keys_of(uses: Sequence[Use], kind: str, name: str = "") -> str:
    """``[@key; @key]`` for all of a kind, or for one of them; nothing where none is known."""
    keys = dict.fromkeys(key for use in uses if use.kind == kind and name in ("", use.name) for key in use.keys)
    return f" [{'; '.join(f'@{key}' for key in keys)}]" if keys else ""


def _data_sets(subject: Subject) -> Iterator[Use]:
    """One use per data set, in the order of tasks; made-up texts are nobody's."""
    if subject.results.is_synthetic:
        return
    seen = set()
    for task in subject.results.tasks.itertuples():
        dataset = subject.datasets.get(task.task)
        name = dataset.title if dataset else str(task.dataset)
        if name not in seen:
            cited = entries(dataset.citation) if dataset else {}
            yield Use(DATA, name, tuple(cited), tuple(cited.values()))
        seen.add(name)


def _models(subject: Subject) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The backbone, every adapter method and system, and what trained them."""
    study = subject.study
    if study["backbone"] != RANDOM:
        yield BACKBONE, str(study["backbone"]), BACKBONES.get(study["backbone"], ())
    best = (settings["method"] for settings in study.get("best", {}).values() if "method" in settings)
    of_others = (str(origin["adapter"]["method"]) for origin in subject.imports.values())
    for method in dict.fromkeys([study["adapter"]["method"], *best, *of_others]):
        yield ADAPTER, method, METHODS.get(method, ())
    for name, spec in subject.imports.items():
        yield OF_OTHERS, f"{name} ({origin_of(spec)})", ()
    rules = {recipe["rule"] for recipe in subject.recipes.values()}
    yield from ((MERGING, rule, keys) for rule, keys in MERGES.items() if rule in rules)
    # What trained them, as far as records say it.
    yield TRAINING, "adapters library", (LIBRARY,)
    if subject.stored:
        kinds = dict.fromkeys(record.spec["system"] for record in subject.stored.records if "system" in record.spec)
        yield from ((SYSTEM, kind, SYSTEMS.get(kind, ())) for kind in kinds if kind not in FLOORS)
        yield TRAINING, "AdamW", (ADAMW,)
        losses = [record.spec["loss"] for record in subject.stored.records if "loss" in record.spec]
        for kind in dict.fromkeys(loss["kind"] for loss in losses):
            yield TRAINING, *LOSSES[kind]
        if any("deferred_from" in loss for loss in losses):
            yield TRAINING, *DEFERRED
        if subject.searches:
            yield TRAINING, "search of settings", (OPTUNA,)


def origin_of(spec: Mapping[str, Any]) -> str:
    """Where an imported adapter came from: a repository at a commit, or files that are known by their hash alone."""
    origin = spec["origin"]
    if origin["hub"]:
        return f"{origin['hub']} at commit {origin['commit']}"
    return "; ".join(f"{name} of SHA-256 {digest[:12]}" for name, digest in sorted(origin["files"].items()))


def _statistics(subject: Subject) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The statistical methods that had anything to work on."""
    cited: dict[str, tuple[str, ...]] = {}
    if subject.stored and subject.stored.gains.p.notna().any():
        several = (subject.stored.gains.n_baseline_seeds > 1).any()
        cited |= {name: keys for name, keys in GAINS.items() if several or name != OVER_SEEDS}
    elif subject.results.errors == "approximated":
        cited |= APPROXIMATED
    if subject.recipes:
        cited[OVER_ROWS] = ("westfall-young-1993-resampling",)
    if subject.stored and has_systems(subject.stored.manifest):
        cited |= {RESAMPLED: GAINS[RESAMPLED], OVER_SYSTEMS: ("westfall-young-1993-resampling",)}
    if len(subject.results.ratings):
        cited |= RATINGS
    undrawn = why_not_drawn(subject.results, subject.question.similarities)
    has_importances = not any(line.startswith("Figure 2 ") for line in undrawn)  # by the paper's procedure
    worked = {PAPERS_WAY: has_importances, MIXED: subject.why_no_slopes() is None}
    cited |= {name: keys for name, keys in EXPLAINED.items() if worked[name]}
    if (alike := subject.question.similarities) is not None:
        measured = {name: keys for name, keys in SIMILARITIES.items() if alike[name].notna().any()}
        cited |= {f"similarity ({name})": keys for name, keys in measured.items()}
    for name, keys in cited.items():
        yield STATISTICS, name, keys


UNKNOWN = "not known: read the licence"
RULES = {  # by how a licence begins, in small letters; the longer beginning stands first
    "on request": "no: ask its authors",
    "unstated": "nothing is granted: share ids, not texts, or ask its authors",
    "cc-by-nc-sa": "yes, naming its authors, not commercially, under the same licence",
    "cc-by-nc-nd": "yes, unchanged, naming its authors, not commercially",
    "cc-by-nc": "yes, naming its authors, not commercially",
    "cc-by-sa": "yes, naming its authors, under the same licence",
    "cc-by": "yes, naming its authors",
    "cc0": "yes",
    "mit": "yes, with the text of the licence",
    "apache-2.0": "yes, with the text of the licence and notices",
    "academic research only": "for academic research only",
}
WHOLE = {"unstated; withdrawn": "no: withdrawn by its author"}  # of several parts that make one
PRIVATE = "no: private, neither texts nor ids"
NOTE = (
    "Scores, gains and other numbers of this study hold no text and may be shared; predictions hold ids and labels and"
    " go with their data. Whether a trained adapter is bound by the licence of its data is not settled: ask before you"
    " publish one that was trained on data that are not free. This table repeats what the entries state; it is no"
    " legal advice."
)
SYNTHETIC = "The texts of this study are synthetic: no data set was read, and so none of their licences binds it."


class Licence(NamedTuple):
    """A data set with its tasks, its licence as stated, what that says about sharing, and where it comes from."""

    data_set: str
    tasks: str
    licence: str
    may_be_shared: str
    url: str


def licences(subject: Subject) -> list[Licence]:
    """One row per data set of a study, in the order of tasks; none for made-up texts."""
    if subject.results.is_synthetic:
        return []
    rows: dict[str, Licence] = {}
    for task in subject.results.tasks.itertuples():
        dataset, fact = subject.datasets.get(task.task), subject.tasks.get(task.task, {})
        name = dataset.title if dataset else str(task.dataset)
        licence = str(fact.get("licence", dataset.licence if dataset else "")) or "unstated"
        is_private = bool(fact.get("private", dataset.private if dataset else False))
        tasks = f"{rows[name].tasks}, {task.title}" if name in rows else str(task.title)
        rule = PRIVATE if is_private else sharing(licence)
        rows[name] = Licence(name, tasks, licence, rule, dataset.url if dataset else "")
    return list(rows.values())


def sharing(licence: str) -> str:
    """What a licence says about sharing texts and labels, part by part; read the licence where no rule knows it."""
    if whole := _rule(licence, WHOLE):
        return whole
    parts = [part.strip() for part in licence.split(";")]
    rules_by_part = {part: _rule(part, RULES) or UNKNOWN for part in parts}
    if len(rules_by_part) == 1:
        return next(iter(rules_by_part.values()))
    return "; ".join(f"{part}: {rule}" for part, rule in rules_by_part.items())


def as_markdown(rows: list[Licence]) -> str:
    """The table with what has to be known beside it; without rows, that there is nothing to ask."""
    if not rows:
        return f"# Licences\n\n{SYNTHETIC}\n"
    head = ("data set", "tasks", "licence as stated", "may texts and labels be shared", "where")
    return markdown([Section("", [Heading("Licences"), Table(head, rows), Text(NOTE)])])


def _rule(licence: str, rules: Mapping[str, str]) -> str:
    """What the first rule says whose beginning the licence has; nothing if none does."""
    return next((rule for start, rule in rules.items() if licence.lower().startswith(start)), "")


# The licences of a study's data sets, as its manifest has them, and what they say about sharing, as a page.

HEAD = (
    "# Licences of the data\n\nNo text of any data set is in this archive. Ids, labels and predictions of test and"
    " validation items are, and go with their data."
)
MADE_UP = "The texts of this study were made up; the licences are those of the data sets whose form they have."
BROUGHT = (
    "Cells stand on adapters of others: {names}. Their weights are {where} this archive. Where they came from their"
    " records say (`origin` in `record.json`); under which licence, and what they were trained on, is not known here."
)
COLUMNS = ("data set", "tasks", "licence as stated", "may texts and labels be shared")


def licences_page(manifest: Manifest, *, has_weights: bool = False) -> str:
    """One row per data set and licence of a study, for an archive that has weights or none."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name, task in manifest["tasks"].items():
        rows.setdefault((str(task["dataset"]), str(task.get("licence") or "unstated")), []).append(name)
    body = [(data, ", ".join(tasks), licence, sharing(licence)) for (data, licence), tasks in rows.items()]
    parts = [HEAD, *([MADE_UP] if manifest["synthetic"] else []), table(COLUMNS, body)]
    if brought := sorted(imports_of(manifest)):
        parts.append(BROUGHT.format(names=", ".join(brought), where="in" if has_weights else "not in"))
    return "\n\n".join(parts) + "\n"
