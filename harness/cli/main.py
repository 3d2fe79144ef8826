"""The console command ``empathy-transfer``: parse, dispatch, and turn errors into one line and an exit code.

Every noun has its options and commands in a module of its own. Only the module of the noun that was typed is imported,
so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import importlib.util
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple, TextIO, cast

LONGEST = 2000  # characters of a message; a longer one repeats what a file holds
OURS = ("tasks", "adapters_store", "analysis")
REFUSED = (  # what a place can be to blame for
    *(errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EFBIG),
)


class Noun(NamedTuple):
    """The first word of a command, its line of help, and the module of ``harness.cli`` that has its ``add_NOUN``."""

    name: str
    module: str
    text: str


NOUNS = (
    Noun("tasks", "tasks", "the registry of tasks"),
    Noun("data", "data", "the raw files"),
    Noun("ratings", "ratings", "ratings of the tasks, by people and by models"),
    Noun("study", "study", "the studies"),
    Noun("plan", "plan", "Show which cells a study has and which of them are stored."),
    Noun("run", "run", "Train missing cells."),
    Noun("retry", "jobs", "Train only what has failed, and what was not run on its account."),
    Noun(
        "search",
        "search",
        "Search a task's learning rate, batch size, epochs and adapter method, on validation rows only.",
    ),
    Noun("demo", "run", "Run the demo study on synthetic data and write its report."),
    Noun(
        "doctor",
        "preflight",
        "Check requirements and say how to fix what is missing: packages, device, backbone, data, store, scheduler.",
    ),
    Noun(
        "prefetch",
        "preflight",
        "Bring what a study needs from the internet, so that its jobs can run without: backbone and raw files.",
    ),
    Noun(
        "status",
        "status",
        "Show what of the studies is stored; of one study also what runs, waits and failed, and for how long still.",
    ),
    Noun(
        "cancel",
        "jobs",
        "End what runs or is queued for a study; what is finished stays, and run goes on from the checkpoints.",
    ),
    Noun(
        "logs",
        "logs",
        "Show what the store knows of one cell: why it failed and where, its epochs, how it was made, its log's end.",
    ),
    Noun("store", "store", "what is stored"),
    Noun(
        "similarities",
        "similarity",
        "Measure how alike a study's tasks are, by texts and trained adapters, and keep it in the store.",
    ),
    Noun(
        "suggest",
        "similarity",
        "Rank intermediates for a task before any transfer onto it is run, and say how far such rankings were right.",
    ),
    Noun(
        "figures",
        "report",
        "Draw a study's heatmaps and the paper's figures, from the store alone, or from the paper's tables.",
    ),
    Noun("report", "report", "Write tables, figures, report.md and report.html from the store alone."),
    Noun(
        "analyze",
        "report",
        "Say what explains the gains of a study, from the store alone, of the paper's tables, or of any such table.",
    ),
    Noun(
        "flips",
        "flips",
        "Show which predictions an intermediate corrected or broke: by seed, class, length, dialogue, one by one.",
    ),
    Noun(
        "power",
        "compare",
        "Say how small a gain, and an effect of ratings, a study could have seen, and what more seeds would show.",
    ),
    Noun(
        "compare",
        "compare",
        "Compare two studies: scores, gains, and the conclusions that differ, from the store alone.",
    ),
    Noun(
        "probe",
        "probe",
        "Ask whether systems and adapters read the context: the same replies under other contexts, and what changes.",
    ),
    Noun(
        "explain",
        "explain",
        "Show which tokens of stored test rows speak for a system's answer and which against it, coloured.",
    ),
    Noun(
        "leaderboard",
        "leaderboard",
        "Rank all systems of a study beside its adapters, task by task, with paired tests, from the store alone.",
    ),
    Noun(
        "paper",
        "paper",
        "Write a study's tables, numbers, figures, methods and references for a manuscript, from the store alone.",
    ),
    Noun("cite", "paper", "Write what a study has to cite, as BibTeX, and what its data's licences let you share."),
    Noun("score", "score", "Predict every task of a study for every text of a file, in one pass."),
    Noun(
        "feedback",
        "feedback",
        "Say on the terminal what replies lack of EPITOME's mechanisms, in words from templates: a demonstration.",
    ),
    Noun(
        "pretrain",
        "pretrain",
        "Let a backbone read on in texts of a domain, as a backbone of its own.",
    ),
    Noun(
        "insights",
        "insights",
        "Say how levels of scored texts move over time, differ between groups, and go with what follows them.",
    ),
    Noun(
        "perceived",
        "perceived",
        "Compare ratings of what supporters wrote with and without each intent that it expresses, by dialogue.",
    ),
    Noun("adapter", "adapter", "trained adapters for others, and theirs"),
    Noun(
        "archive",
        "deposit",
        "Write a study's records without weights, tables, figures, licences and metadata into one file for others.",
    ),
    Noun(
        "verify",
        "deposit",
        "Check every byte of an archive of results, and compute all its tables anew from its records.",
    ),
)


def parser(names: Collection[str] | None = None) -> argparse.ArgumentParser:
    """The command line with the options of these nouns, by default of all; the others have their line of help alone.

    Every command has ``command``, a function from options to an exit code.
    """
    top = argparse.ArgumentParser(
        prog="empathy-transfer",
        description="Transfer studies between empathy tasks: train adapters, stack them, test the gains.",
        epilog="Exit codes: 0 all done, 1 some cells failed, 2 bad input, 130 interrupted (state saved).",
    )
    top.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    nouns = top.add_subparsers(required=True, metavar="COMMAND")
    for noun in NOUNS:
        sentence = noun.text if noun.text.endswith(".") else None  # else the noun has commands that say what they do
        leaf = nouns.add_parser(noun.name, help=noun.text, description=sentence)
        if names is None or noun.name in names:
            getattr(importlib.import_module(f"harness.cli.{noun.module}"), f"add_{noun.name.replace('-', '_')}")(leaf)
    return top


class _Version(argparse.Action):
    """Print the version, which is looked up only then, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        parser.exit(message=f"empathy-transfer {metadata.version('empathy-transfer')}\n")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options that were typed; no other module of a noun is imported than that of the first word."""
    words, names = [word for word in arguments if not word.startswith("-")][:1], [noun.name for noun in NOUNS]
    if words and words[0] not in names:
        from tasks.plain_text import nearest

        hint = nearest(words[0], names) or "; empathy-transfer --help lists all"
        sys.exit(_refuse(f"no command {words[0]!r}{hint}"))
    return parser(words).parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 done, 1 some cells failed, 2 bad input (one line on stderr), 130 interrupted."""
    if foreign := _foreign_package():
        return _refuse(foreign)
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin on a busy machine cost several times over
    from adapters_store import StoreError
    from harness.cli.terminal import Plain, listen
    from tasks.errors import BadInput
    from tasks.plain_text import harmless

    listen()
    try:
        with redirect_stdout(cast("TextIO", Plain(sys.stdout))):
            code = int(options.command(options))
            sys.stdout.flush()
        return code
    except (BadInput, StoreError) as problem:
        return _refuse(harmless(" ".join(str(problem).split())))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; finished cells are in the store, and the same command continues\n")
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as problem:
        if problem.errno not in REFUSED:
            raise
        path = problem.filename or "a file that is read or written"
        return _refuse(f"{path}: {os.strerror(problem.errno)}; mend it, or name another place")


def _refuse(message: str) -> int:
    if len(message) > LONGEST:
        message = f"{message[: LONGEST // 2]} ... {message[-LONGEST // 2 :]}"
    sys.stderr.write(f"empathy-transfer: {message}\n")
    return 2


def _foreign_package() -> str | None:
    """A line about a foreign file that hides one of our packages, or None."""
    root = Path(__file__).resolve().parents[2]
    for name in OURS:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parent != root / name:
            return (
                f"the package {name!r} of this program is hidden by {origin or 'nothing'}; it should be {root / name}. "
                "Rename that file or take its folder out of PYTHONPATH"
            )
    return None


if __name__ == "__main__":
    sys.exit(main())
