"""Does the code of two checkouts make the same bytes? ``python -m benchmarks.same_outputs BEFORE AFTER --work DIR``.

Each checkout trains studies on made-up data into a store of its own; records, manifests and measures are compared.
Then both checkouts read copies of the store that BEFORE has trained, by every command that reads one; each written
file, what was printed, and the exit code are compared. Both work in a folder of one name, DIR/room, which is moved to
DIR/before or DIR/after when its side is done, so that no path differs but that of the checkout. Exit code 0 where all
is the same, 1 where something differs or a command ends otherwise than it should, 2 where nothing can be compared.

Only the command line is used (same_outputs_commands.py has the list), so modules may move between both checkouts.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.same_outputs_commands import FILES, SIDES, Command, reading, training

MAIN = ("-m", "harness.cli.main")
WHERE = "import harness, pathlib; print(pathlib.Path(harness.__file__).resolve().parents[1])"
SEALED = {"record.json", "measure.json"}  # and the manifests in a store's folder studies
LEFT_OUT = {  # fields of what a store keeps that say when it was made, how long it took, and by which commit
    "created": "a time",
    "declared": "a time",
    "wall_seconds": "a time",
    "cpu_seconds": "a time",
    "cost_seconds": "a time",
    "code": "the commit of the checkout",
    "checksum": "covers the fields above; store verify holds it against them",
}
MASKED = (  # of what is printed, and of the journal of a search: pattern, what stands for it, and why
    (rb'"(worker_id|datetime_\w+)":"[^"]*"', rb'"\1":""', "a process and times in the journal of a search"),
    (rb'("free_bytes": )\d+', rb"\1FREE", "of the disk, which others fill meanwhile"),
    (
        rb"(?m)^((?:data|vocabulary|weights|task|logme)(?: +\d+){2} +)\d+\.\d",
        rb"\1SECONDS",
        "of measuring similarities",
    ),
    (rb"(?<= on random-tiny in )\d+(?= s\.)", rb"SECONDS", "of a dry training"),
    (rb"(?m)^\S+\.py:\d+: (\w*Warning: .*)\n(?:  .*\n)?", rb"\1\n", "a warning's file and line, as code may move"),
)
SAID = ("said.stdout", "said.stderr", "said.code")
TAKEN = {*SIDES, *(name.removesuffix(".toml") for name in FILES), "tiny"}
JOURNAL = "journal.jsonl"
SHOWN = 12  # lines of a difference


@dataclass(frozen=True)
class Side:
    """A checkout whose code is run, always in processes of its own."""

    name: str
    checkout: Path
    python: str

    def start(self, words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
        """Run the interpreter in a folder; the checkout comes before whatever is installed."""
        ours = ("EMPATHY_", "PYTHON", "OMP_", "HF_")
        plain = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        environment = {
            **plain,
            "PYTHONPATH": str(self.checkout),
            "PYTHONSAFEPATH": "1",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        return subprocess.run([self.python, "-P", *words], cwd=folder, env=environment, capture_output=True)

    def check(self, folder: Path) -> str:
        """What is wrong with the checkout: nothing, or that its code is not what would run."""
        done = self.start(("-c", WHERE), folder)
        where = done.stdout.decode().strip() or done.stderr.decode().strip()
        return "" if where == str(self.checkout) else f"{self.checkout}: the code that runs is not of it: {where}"

    def perform(self, command: Command, room: Path) -> None:
        """Run a command in a folder of its own in the room, and keep beside its files what it said."""
        folder, began = room / command.name, time.perf_counter()
        folder.mkdir()
        if command.store:
            shutil.copytree(room / command.store, folder / "runs")
        said: dict[str, bytes] = dict.fromkeys(SAID, b"")
        for words in command.words:
            done = self.start((*MAIN, *words), folder)
            for name, text in zip(SAID, (done.stdout, done.stderr, b"%d\n" % done.returncode), strict=True):
                said[name] += text
        for name, text in said.items():
            (folder / name).write_bytes(text)
        print(f"{self.name}: {command.name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run both sides, compare, print a table and every difference; returns the exit code."""
    arguments = _arguments(words)
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    sides = [Side(name, Path(getattr(arguments, name)).resolve(), arguments.python) for name in SIDES]
    problems = _problems(sides, work, arguments.study)
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        return 2
    trained = [_trained(side, work) for side in sides]
    stores = dict(zip(SIDES, (folder / "runs" for folder in trained), strict=True))
    stores |= {name: Path(store) for name, store in arguments.study}
    listed = reading(stores["before"], {name: _tasks(store, name) for name, store in arguments.study})
    read = [_read(side, work, stores, listed, arguments.jobs) for side in sides]
    rows = [
        *_compared(sides, trained, [*training(), Command("runs", ())]),
        *_compared(sides, read, [*listed, Command("stores", ())]),
    ]
    return _print_table(rows)


def _problems(sides: Sequence[Side], work: Path, studies: Sequence[tuple[str, str]]) -> list[str]:
    """Why nothing can be compared, a line for each reason."""
    wrong = [problem for side in sides if (problem := side.check(work))]
    wrong += [f"{work} is not empty; give a new folder"] if any(work.iterdir()) else []
    wrong += [f"a study {name!r} is trained here already" for name, _ in studies if name in TAKEN]
    return wrong + [f"{store}: no study {name!r}" for name, store in studies if not _manifest(store, name).is_file()]


def _trained(side: Side, work: Path) -> Path:
    """Train with a checkout, one command after the other; returns the folder with the store ``runs``."""
    room = _room(work)
    for command in training():
        side.perform(command, room)
    return room.rename(work / f"{side.name}-trained")


def _read(side: Side, work: Path, stores: dict[str, Path], listed: Sequence[Command], jobs: int) -> Path:
    """Read copies of stores with a checkout; returns the folder with what came of it."""
    room = _room(work)
    for name, store in stores.items():
        shutil.copytree(store, room / "stores" / name)
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda command: side.perform(command, room), listed))
    return room.rename(work / side.name)


def _room(work: Path) -> Path:
    room = work / "room"
    room.mkdir()
    for name, text in FILES.items():
        (room / name).write_text(text, encoding="utf-8")
    return room


def _manifest(store: str | Path, study: str) -> Path:
    return Path(store) / "studies" / f"{study}.json"


def _tasks(store: str, study: str) -> list[str]:
    return list(json.loads(_manifest(store, study).read_text(encoding="utf-8"))["study"]["tasks"])


@dataclass(frozen=True)
class Row:
    """What was compared of a command: how many files, and what is wrong."""

    name: str
    files: int
    wrong: tuple[str, ...]


def _compared(sides: Sequence[Side], rooms: Sequence[Path], commands: Sequence[Command]) -> Iterator[Row]:
    """A row of each command, whose folders lie in both rooms."""
    for command in commands:
        folders = [room / command.name for room in rooms]
        names = sorted({str(p.relative_to(folder)) for folder in folders for p in folder.rglob("*") if p.is_file()})
        wrong = [line for name in names if (line := _difference(name, sides, [folder / name for folder in folders]))]
        code = folders[0] / "said.code"
        if code.is_file() and not command.may_fail and set(code.read_text().split()) != {"0"}:
            last = (folders[0] / "said.stderr").read_text(errors="replace").splitlines()[-1:]
            wrong.insert(0, f"before ends with {' '.join(code.read_text().split())}: {''.join(last)}")
        yield Row(command.name, len(names), tuple(wrong))


def _difference(name: str, sides: Sequence[Side], paths: Sequence[Path]) -> str:
    """How a file of both sides differs: nothing, which side lacks it, a text difference, or the first byte."""
    lacking = [side.name for side, path in zip(sides, paths, strict=True) if not path.is_file()]
    if lacking:
        return f"{name}: not made by {lacking[0]}"
    old, new = (_alike(path, side.checkout) for side, path in zip(sides, paths, strict=True))
    if old == new:
        return ""
    try:
        lines = difflib.unified_diff(old.decode().splitlines(), new.decode().splitlines(), *SIDES, lineterm="", n=0)
        shown = [line[:200] for line in lines if not line.startswith(("---", "+++"))]
        more = [f"... {len(shown) - SHOWN} lines more"] if len(shown) > SHOWN else []
        return "\n    ".join((f"{name}:", *shown[:SHOWN], *more))
    except UnicodeDecodeError:
        first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        return f"{name}: byte {first} differs, of {len(old)} and {len(new)}"


def _alike(path: Path, checkout: Path) -> bytes:
    """The bytes of a file without what differs by itself: the checkout's place, and what LEFT_OUT and MASKED name."""
    content = path.read_bytes()
    if path.name in SEALED or path.parent.name == "studies":
        return json.dumps(_kept(json.loads(content)), indent=1, ensure_ascii=False).encode()
    content = content.replace(bytes(checkout), b"CHECKOUT")
    if path.name in (*SAID, JOURNAL):
        for pattern, stands, _ in MASKED:
            content = re.sub(pattern, stands, content)
    return content


def _kept(body: dict[str, Any]) -> dict[str, Any]:
    """A body of a store, or its provenance, without the fields that are left out."""
    kept = {name: value for name, value in body.items() if name not in LEFT_OUT}
    return kept | ({"provenance": _kept(kept["provenance"])} if "provenance" in kept else {})


def _print_table(rows: Sequence[Row]) -> int:
    """A line for each command, then every difference; returns the exit code."""
    width = max(len(row.name) for row in rows)
    print(f"{'what':{width}}  files  differ")
    for row in rows:
        print(f"{row.name:{width}}  {row.files:5}  {len(row.wrong) or '-':>6}")
    wrong = [(row.name, line) for row in rows for line in row.wrong]
    for name, line in wrong:
        print(f"\n{name}: {line}")
    print(f"\n{len(rows)} compared, {sum(row.files for row in rows)} files, {len(wrong)} differ")
    print("left out:", *(f"  {name}: {why}" for name, why in LEFT_OUT.items()), sep="\n")
    print("masked in what is printed, and in journals:", *(f"  {why}" for _, _, why in MASKED), sep="\n")
    return 1 if wrong else 0


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_outputs", description=__doc__)
    parser.add_argument("before", metavar="BEFORE", help="folder of a checkout")
    parser.add_argument("after", metavar="AFTER", help="folder of another")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="new folder for all that is made")
    parser.add_argument("--python", default=sys.executable, metavar="INTERPRETER", help="that has the packages (this)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="commands that read at a time (1)")
    parser.add_argument(
        "--study",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "STORE"),
        help="a finished study, and the store that has it, to read too (repeatable)",
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
