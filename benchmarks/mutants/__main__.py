"""Which small wrong changes do the tests notice? ``python -m benchmarks.mutants``

Without options the changes of mutants.toml are made one after the other in a copy of the tree, and the tests of their
module are run against each: it is killed where a test fails, and survives where all pass. ``--made N`` makes N changes
of every module by rule instead. Exit code 0 where nothing survives, 1 where something does, 2 where a change cannot
be made or tests fail without any.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.mutants.mutation import Mutant, listed, sampled
from benchmarks.mutants.runs import Copy, with_libraries

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.toml")


def read_list(path: Path = LIST) -> tuple[dict[str, list[str]], list[dict[str, str]]]:
    """The tests of every module, as words for pytest, and the changes by hand."""
    said: Mapping[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return dict(said["tests"]), list(said["mutant"])


def chosen(arguments: argparse.Namespace, root: Path) -> tuple[list[Mutant], list[str]]:
    """The mutants of a tree that were asked for, and what is wrong with those that cannot be made."""
    tests, rows = read_list()
    wanted = arguments.module or tests
    if arguments.made:
        sources = {file: (root / file).read_text(encoding="utf-8") for file in wanted}
        made = [m for file, text in sources.items() for m in sampled(file, text, arguments.made, arguments.seed)]
        return [mutant for mutant in made if not arguments.only or mutant.name in arguments.only], []
    mutants, stale = [], []
    for row in rows:
        if row["file"] in wanted and (not arguments.only or row["id"] in arguments.only):
            try:
                mutants.append(listed(row["id"], root / row["file"], row["file"], row["old"], row["new"], row["wrong"]))
            except (OSError, ValueError) as problem:
                stale.append(str(problem))
    return mutants, stale


def main(words: Sequence[str] | None = None) -> int:
    """Make the mutants, run the tests, print a line for each; returns the exit code."""
    arguments = _arguments(words)
    if arguments.list:
        mutants, problems = chosen(arguments, ROOT)
        print(*(_line("made", mutant, ROOT, "") for mutant in mutants), *problems, sep="\n")
        return 2 if problems else 0
    with_libraries()
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        copy = Copy(ROOT, Path(folder))
        mutants, problems = chosen(arguments, copy.folder)
        ends = list(_ends(mutants, copy, arguments.limit, problems))
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(ends)} made, {ends.count('killed')} killed, {ends.count('survived')} survived")
    return 2 if problems else 1 if "survived" in ends else 0


def _ends(mutants: Iterable[Mutant], copy: Copy, limit: float, problems: list[str]) -> Iterator[str]:
    """Run the tests against every mutant, room by room; a room that fails without a change is a problem."""
    for room, of_room in _by_room(mutants, problems).items():
        whole = copy.run(room, 3 * limit, keeps_bytecode=True)
        print(f"without a change: {whole.end} in {whole.seconds:.0f} s: {' '.join(room)}", flush=True)
        if whole.end != "passed":
            problems.append(f"{' '.join(room)}: {whole.end} without any change: {whole.test}")
            continue
        for mutant in of_room:
            outcome = copy.noticed(mutant, room, max(limit, 5 * whole.seconds))
            end = "killed" if outcome.is_noticed else "survived"
            print(_line(end, mutant, copy.folder, outcome.test), f"{outcome.seconds:.0f} s", flush=True)
            yield end


def _by_room(mutants: Iterable[Mutant], problems: list[str]) -> dict[tuple[str, ...], list[Mutant]]:
    """The mutants by the tests of their module; a module without tests is a problem."""
    tests, _ = read_list()
    rooms: dict[tuple[str, ...], list[Mutant]] = {}
    for mutant in mutants:
        if mutant.file in tests:
            rooms.setdefault(tuple(tests[mutant.file]), []).append(mutant)
        elif (problem := f"{mutant.file}: {LIST.name} names no tests of it") not in problems:
            problems.append(problem)
    return rooms


def _line(end: str, mutant: Mutant, root: Path, test: str) -> str:
    is_by_rule = mutant.name.startswith(mutant.file)
    line = (root / mutant.file).read_text(encoding="utf-8").count("\n", 0, mutant.start) + 1
    place = mutant.name if is_by_rule else f"{mutant.name} {mutant.file}:{line}"
    shown = f"{mutant.old!r} -> {mutant.new!r}" if is_by_rule else mutant.wrong
    return f"{end:9}{place}  {shown}" + (f"  by {test}" if test else "")


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="ID", help="these mutants alone")
    parser.add_argument("--module", nargs="+", metavar="PATH", help="the mutants of these files alone")
    parser.add_argument("--made", type=int, metavar="N", help="N changes by rule of each module, in place of the list")
    parser.add_argument("--seed", type=int, default=1, help="which changes by rule (1)")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS", help="least time that a run gets (60)")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
