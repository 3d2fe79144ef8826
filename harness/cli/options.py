"""What several commands have in common: help, an example, a function, and options with one meaning everywhere."""

import argparse
import os
import shlex
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from harness.engines.cluster import ENGINES
from tasks.errors import BadInput

Run = Callable[[argparse.Namespace], int]
Leaves: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
PLACES = {"data": ("EMPATHY_DATA", "data", "raw files"), "store": ("EMPATHY_STORE", "runs", "records")}
BUILT_IN = "a built-in study or a .toml file"
STORED = "a study that the store has"
STORED_OR_PUBLISHED = "a stored study, or published: the paper's own tables"


def leaf_of(
    leaves: Leaves, words: str, run: Run, example: str, shared: str = "", study: str = ""
) -> argparse.ArgumentParser:
    """A command ``run``, from options to an exit code, with an example; its help is how its docstring begins.

    ``words`` are its name and what has to be typed after it, STUDY being what ``study`` says. Of the options that mean
    the same everywhere it has those that ``shared`` names, as data, store, json and quiet.
    """
    name = words.partition(" ")[0]
    text = (run.__doc__ or "").partition("\n")[0]
    leaf = leaves.add_parser(
        name,
        help=text,
        description=text,
        usage=f"{leaves._prog_prefix} {words} [options]",
        epilog=f"example: empathy-transfer {example}",
        formatter_class=partial(argparse.HelpFormatter, max_help_position=22),  # far enough to the right for most
    )
    leaf.set_defaults(command=run)
    if study:
        leaf.add_argument("study", metavar="STUDY", help=study)
    add_options(leaf, shared)
    return leaf


SHARED: dict[str, dict[str, Any]] = {  # what options are that mean the same in every command, beside PLACES
    "json": {"action": "store_true", "help": "print JSON instead of text"},
    "quiet": {"action": "store_true", "help": "no progress display"},
    "exact": {"action": "store_true", "help": "ten times as many draws where any correction of a gain is undecided"},
    "best": {"action": "store_true", "help": "train as the searches in the store found best"},
    "splits": {"metavar": "DIR", "help": "published split ids (default: splits in --data)"},
    "engine": {
        **{"metavar": "ENGINE", "choices": ENGINES, "default": "local"},
        "help": "local (default), or jobs of slurm or ray",
    },
    "device": {"default": "auto", "help": "cpu, cuda or cuda:N (default: a GPU if there is one)"},
}
SEVERAL = {  # the same of those that may be given several times; files of systems run with the user's rights
    "registry": ("DIR", "folder with entries of your own"),
    "system": ("FILE", "run this Python file: a system of your own"),
}


def add_options(leaf: argparse.ArgumentParser, names: str) -> None:
    """Options that mean the same in every command, by their names."""
    for name in names.split():
        if name in PLACES:
            variable, usual, content = PLACES[name]
            default, where = os.environ.get(variable, usual), f"folder of {content} (default: {variable}, ./{usual})"
            leaf.add_argument(f"--{name}", metavar="DIR", default=default, help=where)
        elif name in SEVERAL:
            repeatable(leaf, f"--{name}", *SEVERAL[name])
        else:
            leaf.add_argument(f"--{name}", **SHARED[name])


def out_option(
    leaf: argparse.ArgumentParser,
    text: str = "folder for tables, figures and pages (default: results/STUDY)",
    metavar: str = "DIR",
) -> None:
    """Where a command writes."""
    leaf.add_argument("--out", metavar=metavar, help=text)


def repeatable(leaf: argparse.ArgumentParser, option: str, metavar: str, text: str) -> None:
    """An option that may be given several times; none is an empty list."""
    leaf.add_argument(option, metavar=metavar, action="append", default=[], help=f"{text} (repeatable)")


def change_options(leaf: argparse.ArgumentParser) -> None:
    """What changes a study; given to its run, it decides which cells are the study's."""
    add_options(leaf, "registry")
    repeatable(leaf, "--set", "KEY=VALUE", "change a field, as training.epochs=3")
    leaf.add_argument("--limit", metavar="N", type=int, help="at most N rows of every split")
    leaf.add_argument(
        "--seeds",
        "--seed",
        dest="seed",
        metavar="N[,N]",
        type=seeds_of,
        action="extend",
        default=[],
        help="instead of the study's, as 1 or 1,2,3 (repeatable)",
    )


def seeds_of(text: str) -> list[int]:
    """The seeds of ``1`` or ``1,2,3``; argparse says what is wrong with others."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no seed, nor several as 1,2,3") from None


def study_options(leaf: argparse.ArgumentParser) -> None:
    """Which study, and all that decides which cells it has."""
    leaf.add_argument("study", metavar="STUDY", help=BUILT_IN)
    change_options(leaf)
    add_options(leaf, "best splits")


def plan_options(leaf: argparse.ArgumentParser) -> None:
    """Which study, which of its columns, and the user's own systems in it."""
    study_options(leaf)
    repeatable(leaf, "--only-target", "ID", "only this target's column")
    add_options(leaf, "system")


def places(options: argparse.Namespace) -> list[str]:
    """The places that were typed, for the next command: those that are not where they are looked for anyway."""
    usual = {name: os.environ.get(variable, folder) for name, (variable, folder, _) in PLACES.items()}
    typed = {name: getattr(options, name, path) for name, path in usual.items()}
    return [word for name, path in typed.items() if path != usual[name] for word in (f"--{name}", path)]


def changes(options: argparse.Namespace) -> list[str]:
    """What was typed to change a study, for the next command about it."""
    several = {"registry": "registry", "set": "set", "only-target": "only_target", "system": "system"}
    given = {name: getattr(options, field, None) or () for name, field in several.items()}
    words = [word for name, values in given.items() for value in values for word in (f"--{name}", value)]
    if options.limit is not None:
        words += ["--limit", str(options.limit)]
    if options.seed:
        words += ["--seeds", ",".join(map(str, options.seed))]
    words += ["--splits", options.splits] if getattr(options, "splits", None) else []
    return [*words, *(["--best"] if getattr(options, "best", False) else [])]


def print_next(*words: str) -> None:
    """Print the command that is likely to be wanted next, ready to be copied."""
    print(f"\nnext: empathy-transfer {shlex.join(words)}")


def set_threads(threads: int | None) -> None:
    """Let torch, once it is loaded, use this many threads; BadInput for less than one."""
    from harness.study.device import let_torch_use

    if threads is None:
        return
    if threads < 1:
        raise BadInput(f"--threads {threads} is not a whole number from 1")
    let_torch_use(threads)  # it is loaded only if a cell must be trained
