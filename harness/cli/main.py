"""The console command ``empathy-transfer``: parse, dispatch, and turn errors into one line and an exit code.

Every noun has its options and commands in a module of its own. Only the module of the noun that was typed is imported,
so that ``--help`` is quick.
"""

import argparse
import errno
import importlib
import importlib.util
import os
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextlib import redirect_stdout
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO, cast

LONGEST = 2000  # characters of a message; a longer one repeats what a file holds
OURS = ("tasks", "adapters_store", "analysis")
REFUSED = (  # what a place can be to blame for
    *(errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EFBIG),
)


class Noun(NamedTuple):
    """The first word of a command: what for, its line of help, and its verbs, if it has any.

    Its commands are those that the modules add; by default the one that is called as it is. ``module:function`` names
    another function than ``add``.
    """

    name: str
    text: str
    verbs: str = ""
    modules: str = ""


ADD, RUN, READ = "Add a task", "Run a study", "Read and reuse results"
USES = {
    ADD: (
        Noun(
            "tasks",
            "Entries of tasks, their rows, and ratings of them",
            "new check audit list show fields sheet ask",
            "tasks:add_new tasks tasks:add_ratings",
        ),
        Noun("data", "Raw files: which are here, and how to get the rest", "status fetch"),
    ),
    RUN: (
        Noun(
            "study",
            "Studies: prepare them, and ask what their results say",
            "list show doctor prefetch search similarities suggest analyze power compare paper cite",
            "study report:add_questions",
        ),
        Noun("plan", "Cells of a study, those that are stored, and what the others cost"),
        Noun("run", "Train missing cells here or on a cluster; --failed again; --cancel"),
        Noun("status", "What is done, runs, waits and failed; --cell CELL: why one failed"),
        Noun("store", "What is stored, and a study in one file for others", "list gc archive verify restore"),
    ),
    READ: (
        Noun("report", "Tables, figures and a page of a study, from the store alone"),
        Noun("figures", "The figures of a study alone", modules="report:add_figures"),
        Noun(
            "systems",
            "Systems beside adapters: rank, question and explain them",
            "leaderboard flips probe explain",
            "systems systems:add_probe",
        ),
        Noun("adapter", "Trained adapters for others, and theirs", "export publish import pretrain"),
        Noun(
            "texts",
            "Texts of your own: score them, and what scores say",
            "score feedback insights perceived",
            "texts texts:add_insights",
        ),
    ),
}
NOUNS = tuple(noun for nouns in USES.values() for noun in nouns)
OLD_WORDS = {  # of version 0.1, by what is typed now
    "retry": "run STUDY --failed",
    "cancel": "run STUDY --cancel",
    "demo": "run demo",
    "logs": "status STUDY --cell CELL",
    "ratings": "tasks sheet STUDY, or tasks ask",
    "store ls": "store list",
    "archive": "store archive STUDY",
    "verify": "store verify ARCHIVE",
    "store repetition": "study compare STUDY OTHER --repeated",
    "merges": "report STUDY",
    **{
        verb: f"{noun} {verb}"
        for noun, verbs in {
            "study": "analyze cite compare doctor paper power prefetch search similarities suggest",
            "systems": "explain flips leaderboard probe",
            "adapter": "pretrain",
            "texts": "feedback insights perceived score",
        }.items()
        for verb in verbs.split()
    },
    "probe-options": "systems probe --options",
    "tsne": "systems explain --plane",
}


def parser(names: Collection[str] | None = None) -> argparse.ArgumentParser:
    """The command line with the options of these nouns, by default of all; the others have their line of help alone.

    Every command has ``command``, a function from options to an exit code.
    """
    top = _Parser(
        prog="empathy-transfer",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description="\n".join(_help_lines()),
        epilog="empathy-transfer COMMAND --help says more, also of every word after COMMAND.\n"
        "Exit codes: 0 all done, 1 some cells failed, 2 bad input, 130 interrupted.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    nouns = top.add_subparsers(required=True, prog=top.prog, metavar="COMMAND", help=argparse.SUPPRESS)
    for noun in NOUNS:
        if names is not None and noun.name not in names:
            nouns.add_parser(noun.name)
            continue
        leaves = nouns
        if noun.verbs:
            inner = nouns.add_parser(noun.name, description=f"{noun.text}.", usage="%(prog)s COMMAND ...")
            leaves = inner.add_subparsers(required=True, prog=inner.prog, metavar="COMMAND", title="commands")
        for module in (noun.modules or noun.name).split():
            name, _, adds = module.partition(":")
            getattr(importlib.import_module(f"harness.cli.{name}"), adds or "add")(leaves)
    return top


def _help_lines() -> Iterator[str]:
    """The nouns by what they are for, with their verbs."""
    yield "Transfer studies between empathy tasks: train adapters, stack them, test gains."
    for use, nouns in USES.items():
        yield f"\n{use}"
        for noun in nouns:
            yield f"  {noun.name:9}{noun.text}"
            if noun.verbs:
                yield textwrap.fill(
                    noun.verbs.replace(" ", ", "), 79, initial_indent=" " * 11, subsequent_indent=" " * 11
                )


class _Parser(argparse.ArgumentParser):
    """A parser, and those of its words, that refuses as every command does: in one line without the usage."""

    def error(self, message: str) -> NoReturn:
        words = self.prog.partition(" ")[2]
        sys.exit(_refuse(f"{words and f'{words}: '}{message}; what it takes is said by --help"))


class _Version(argparse.Action):
    """Print the version, which is looked up only then, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        parser.exit(message=f"empathy-transfer {metadata.version('empathy-transfer')}\n")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options that were typed; no other module of a noun is imported than that of the first word."""
    words = list(takewhile(lambda word: not word.startswith("-"), arguments))[:2]
    if mistake := _mistake(*words) if words else "":
        sys.exit(_refuse(mistake))
    options, rest = parser(words[:1]).parse_known_args(arguments)
    if rest:
        sys.exit(_refuse(f"{' '.join(words)} takes no {rest[0]!r}; what it takes is said by --help"))
    return options


def _mistake(word: str, verb: str = "") -> str:
    """A line about a first word that is none, or about its verb; nothing if they are right."""
    from tasks.plain_text import nearest

    for old in (word, f"{word} {verb}"):
        if old in OLD_WORDS:
            return f"{old!r} has a new name: empathy-transfer {OLD_WORDS[old]}"
    verbs = {noun.name: noun.verbs.split() for noun in NOUNS}
    if word not in verbs:
        written = {name: f"{noun} {name}" for noun, names in verbs.items() for name in names}
        hint = nearest(word, [*verbs, *written], written) or "; empathy-transfer --help lists all"
        return f"no command {word!r}{hint}"
    if verb and verbs[word] and verb not in verbs[word]:
        alone = f"; it is a word of its own: empathy-transfer {verb}" if verb in verbs else ""
        hint = alone or nearest(verb, verbs[word]) or f"; it is one of: {', '.join(verbs[word])}"
        return f"no command '{word} {verb}'{hint}"
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 done, 1 some cells failed, 2 bad input (one line on stderr), 130 interrupted."""
    if foreign := _foreign_package():
        return _refuse(foreign)
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin on a busy machine cost several times over
    from adapters_store import StoreError
    from harness.cli.terminal import Plain
    from harness.run.interrupts import listen
    from tasks.errors import BadInput
    from tasks.plain_text import harmless

    listen()
    code = 141  # of a program that writes to a reader who has gone, as shells have it
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
        return code
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
