"""The commands that same_outputs.py runs with both checkouts, and the files that they are given.

``tiny`` is trained through the adapters library. ``broad`` is trained as lanes, and has seeds, controls, and as many
pairs and families as the analysis needs. ``every`` trains the baselines of the paper's 18 tasks on some made-up rows,
so that the reader, the split and the keys of each are compared.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cli.main import NOUNS

FILES = {
    "broad.toml": """extends = "tiny"
tasks = ["epitome_er", "empdial_role", "news_empathy", "epitome_ip", "empathy_hope", "mi_adherent"]
trainer = "lanes"
seeds = [1, 2]
controls = ["self"]

[training]
epochs = 1
""",
    "every.toml": """extends = "muddy-waters"
backbone = "random-tiny"
data = "synthetic"
synthetic_rows = 400
transfers = false
max_tokens = 32
max_train = 32
max_val = 32
max_test = 32

[training]
epochs = 1
""",
    "replies.csv": """id,text,context,group,kind
1,I am so sorry to hear that.,My dog died this morning.,a,warm
2,What happened then?,,a,cold
3,"Great news, and well deserved!",We won.,b,warm
4,You should see a doctor about it.,"My knee hurts, it has for weeks.",b,cold
5,,Nobody says anything.,b,cold
6,=1+1,A text that a spreadsheet would compute.,b,warm
""",
}
KINDS = (("is kind and warm", "warm"), ("is rather short", "cold"), ("asks how it was", "warm"))
FILES["kindness.csv"] = "reply,kind\n" + "".join(
    f"reply number {i} {text},{kind}\n" for i in range(30) for text, kind in KINDS
)
SIDES = ("before", "after")
LEAVES = tuple(f"{noun.name} {verb}".strip() for noun in NOUNS for verb in noun.verbs.split() or [""])
SHOWN = ("epitome_er", "news_empathy", "empdial_qint", "mi_behavior", "condolence", "control_reply", "esconv_strategy")
BUILT_IN = ("tiny", "demo", "real-small", "real-12", "muddy-waters")


@dataclass(frozen=True)
class Command:
    """Lines for the command line, run in a folder of the command's name; each ends with 0 unless it ``may_fail``.

    ``store`` is a folder beside it, of which the command gets a copy of its own as ``runs``.
    """

    name: str
    lines: tuple[str, ...]
    may_fail: bool = False
    store: str = ""

    @property
    def words(self) -> list[list[str]]:
        """The lines as words."""
        return [shlex.split(line) for line in self.lines]


def _do(name: str, *lines: str, may_fail: bool = False, store: str = "") -> Command:
    return Command(name, lines, may_fail, store)


def training() -> list[Command]:
    """What fills the store ``runs``, in order."""
    return [
        _do("run tiny", "run tiny --store ../runs --threads 1 --quiet"),
        _do("run broad", "run ../broad.toml --store ../runs --threads 1 --quiet"),
        _do("run every", "run ../every.toml --store ../runs --threads 1 --quiet"),
        _do("similarities tiny", "study similarities tiny --store ../runs --quiet"),
        _do("similarities broad", "study similarities ../broad.toml --store ../runs --quiet"),
    ]


def reading(store: Path, studies: Mapping[str, Sequence[str]]) -> list[Command]:
    """What is run from copies of the trained store, and from a store of each further study, given with its tasks."""
    return [
        *_without_a_store(),
        *_of_study("tiny", "before", ("epitome_er", "news_empathy")),
        *_of_study("broad", "before", ("epitome_er", "mi_adherent")),
        *_of_store(),
        *_with_changes(),
        *_of_data(store),
        *_of_published(),
        *(command for name, tasks in studies.items() for command in _of_study(name, name, tasks)),
        *(_do(f"help {leaf}", f"{leaf} --help") for leaf in LEAVES),
    ]


def _of_study(name: str, store: str, tasks: Sequence[str]) -> list[Command]:
    """What is said of a finished study from its store alone."""
    kept, pair = f"--store ../stores/{store}", " ".join(tasks[:2])
    named, author = f"{name} {kept}", "--creator 'Vale, Mira' --licence cc-by-4.0"
    return [
        _do(f"report {name}", f"report {named} --out out"),
        _do(f"report {name} public", f"report {named} --out out --public"),
        _do(f"figures {name}", f"figures {named} --out out"),
        _do(f"analyze {name}", f"study analyze {named} --out out"),
        _do(f"analyze {name} paper", f"study analyze {named} --out out --mode paper"),
        _do(f"paper {name}", f"study paper {named} --out out"),
        _do(f"power {name}", f"study power {named} --out out --grids 5"),
        _do(f"compare {name}", f"study compare {name} published {kept} --out out"),
        _do(f"flips {name}", *(f"systems flips {name} {pair} {kept} {form}" for form in ("--out out", "--json"))),
        _do(f"status {name}", f"status {named} --json", f"status {named}"),
        _do(f"logs {name}", f"status {named} --cell {tasks[0]} --seed 1"),
        _do(f"cite {name}", f"study cite {named} --out out", f"study cite {named} --out -"),
        _do(f"store list {name}", f"store list {kept}", f"store list {kept} --json"),
        _do(f"archive {name}", f"store archive {named} {author} --out r.tar.gz", "store verify r.tar.gz --quiet"),
        _do(
            f"store archive {name}",
            f"store archive {named} --weights --out a.tar.gz",
            "store restore a.tar.gz --store runs",
        ),
    ]


def _of_store() -> list[Command]:
    """What uses what the trained store has of several studies, or its adapters."""
    kept, columns = "--store ../stores/before", "--text text --id id --context context --group group"
    suggest = tuple(f"study suggest {of} {kept}" for of in ("../broad.toml epitome_er", "tiny news_empathy --json"))
    return [
        _do("compare tiny broad", f"study compare tiny broad {kept} --out out"),
        _do("suggest", *suggest),
        _do("plans", *(f"plan {study} {kept} --json --why" for study in ("tiny", "../broad.toml", "../every.toml"))),
        _do("plan in words", f"plan ../broad.toml {kept}"),
        _do("status", f"status {kept}"),
        _do("archive private", f"store archive every {kept} --licence mit --out r.tar.gz", may_fail=True),
        _do("score", f"texts score tiny ../replies.csv {kept} {columns} --out out/s.csv --plots out"),
        _do("score as jsonl", f"texts score broad ../replies.csv {kept} --text text --out out/s.jsonl"),
        _do("adapter export", f"adapter export broad epitome_er {kept} --out out"),
    ]


def _with_changes() -> list[Command]:
    """What may change the trained store, done to a copy."""
    again = (
        "run tiny --store runs --quiet",
        "run tiny --failed --store runs --quiet",
        "run tiny --cancel --store runs",
    )
    exported = "adapter export tiny epitome_er --store runs --out out"
    imported = "adapter import out --as theirs --backbone random-tiny --store runs"
    search = "study search tiny --task epitome_er --trials 2 --store runs --quiet"
    return [
        _do("run again", *again, store="stores/before"),
        _do("adapter import", exported, imported, store="stores/before"),
        _do("search", search, may_fail=True, store="stores/before"),  # needs an extra, optuna
        _do("store care", "store gc --store runs", store="stores/before"),
    ]


def _of_data(store: Path) -> list[Command]:
    """What reads raw files: those that were made up for the study ``every``."""
    most = max(sorted((store / "synthetic").iterdir()), key=lambda folder: len(list(folder.iterdir())))
    data = f"--data ../stores/before/synthetic/{most.name}"
    flips = f"systems flips tiny epitome_er news_empathy --store ../stores/before {data} --show 3"
    return [
        _do("tasks check", f"tasks check {data} --quiet", f"tasks check mi_behavior {data} --backbone random-tiny"),
        _do("tasks audit", f"tasks audit {data}", f"tasks audit {data} --json"),
        _do("data status", f"data status {data}", f"data status {data} --json"),
        _do("tasks show data", *(f"tasks show {task} {data}" for task in SHOWN)),
        _do("tasks new", "tasks new ../kindness.csv --data .. --registry own --quiet"),
        _do("flips with texts", flips),
    ]


def _without_a_store() -> list[Command]:
    """What needs neither a store nor raw files."""
    return [
        _do("tasks list", "tasks list", "tasks list --json", "tasks list --theme direct"),
        _do("tasks fields", "tasks fields", "tasks fields --json"),
        _do("tasks show", *(f"tasks show {task}" for task in SHOWN), "tasks show epitome_er --json"),
        _do("study list", "study list", "study list --json"),
        _do("study show", *(f"study show {study} {form}" for study in BUILT_IN for form in ("", "--json"))),
        _do("plan tiny", "plan tiny --json --why"),
        _do("plan demo", "plan demo --json --why", may_fail=True),  # needs an extra, MiniLM
        _do("plan every", "plan ../every.toml --json --set transfers=true --seed 1 --seed 2"),
        _do("plan muddy-waters", "plan muddy-waters", "plan muddy-waters --data .. --json", may_fail=True),
        _do("jobs", "run tiny --engine slurm --dry-run", may_fail=True),  # needs an extra, submitit
        _do("tasks sheet", "tasks sheet muddy-waters --rater C --out out"),
    ]


def _of_published() -> list[Command]:
    """What is said of the numbers that the paper prints."""
    return [
        _do("analyze published paper", "study analyze published --quiet --out out --mode paper"),
        _do("analyze published", "study analyze published --quiet --out out"),
        _do("paper published", "study paper published --quiet --out out"),
        _do("power published", "study power published --quiet --out out --grids 5"),
        _do("figures published", "figures published --out out"),
        _do("cite published", "study cite published --out -"),
    ]
