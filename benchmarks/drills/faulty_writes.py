"""Every command that writes, on a disk that fails at a random write: one line, exit code 2, no half file.

python -m benchmarks.drills.faulty_writes --times 200 --seed 1 [--only report cite]

Each round takes the next command and one of three faults: the disk is full (ENOSPC, from that write on), it breaks
(EIO, once), it becomes read-only (EROFS, from that write on). Afterwards every file under a final name must hold what
stood there before or what an undisturbed run writes, and the store must be sound. Exit code 1 if anything else came
out.
"""

import argparse
import errno
import importlib
import os
import pkgutil
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.drills.failing_disk import Ended, Fault, NoCompiler, forked, preloaded

FAULTS = ((errno.ENOSPC, True), (errno.EIO, False), (errno.EROFS, True))
BEFORE = b"an older file that was here before\n"
TASKS = ("news_emotion", "news_empathy")
STUDY = (
    *("tiny", "--threads", "1", "--quiet"),
    *("--set", f"tasks={list(TASKS)}", "--set", "training.epochs=1", "--set", 'trainer="lanes"'),
    *("--set", "max_train=16", "--set", "max_val=16", "--set", "max_test=16", "--set", "synthetic_rows=200"),
)


@dataclass(frozen=True)
class Command:
    """Arguments; ``needs`` are files and folders of the world that it works on, ``replaces`` what it writes anew.

    ``fails`` are the exit codes that a fault may lead to.
    """

    name: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ("runs",)
    replaces: bool = False
    fails: tuple[int, ...] = (2,)


COMMANDS = (
    Command("report", ("report", "tiny", "--quiet", "--out", "out"), replaces=True),
    Command("report --public", ("report", "tiny", "--quiet", "--public", "--out", "out"), replaces=True),
    Command("cite", ("study", "cite", "tiny", "--out", "out"), replaces=True),
    Command("figures", ("figures", "tiny", "--out", "out"), replaces=True),
    Command("paper", ("study", "paper", "tiny", "--quiet", "--out", "out"), replaces=True),
    Command("analyze", ("study", "analyze", "tiny", "--quiet", "--out", "out"), replaces=True),
    Command("power", ("study", "power", "tiny", "--quiet", "--grids", "1", "--out", "out"), replaces=True),
    Command("compare", ("study", "compare", "tiny", "published", "--out", "out"), replaces=True),
    Command("flips", ("systems", "flips", "tiny", TASKS[1], TASKS[0], "--out", "out"), replaces=True),
    Command("tasks check", ("tasks", "check", "news_empathy", "--data", "data", "--out", "out"), ("data",), True),
    Command("tasks new", ("tasks", "new", "replies.csv", "--skip-training"), ("replies.csv",)),
    Command("tasks sheet", ("tasks", "sheet", "tiny", "--rater", "C", "--out", "out"), ()),
    Command("similarities", ("study", "similarities", "tiny", "--measure", "vocabulary", "--quiet", *STUDY[4:])),
    Command("suggest", ("study", "suggest", "tiny", TASKS[0], "--quiet", "--out", "out", *STUDY[4:]), replaces=True),
    Command("score to csv", ("texts", "score", "tiny", "texts.csv", "--out", "scores.csv"), ("runs", "texts.csv")),
    Command("score to parquet", ("texts", "score", "tiny", "texts.csv", "--out", "s.parquet"), ("runs", "texts.csv")),
    Command(
        "score --plots",
        ("texts", "score", "tiny", "texts.csv", "--out", "scores.jsonl", "--plots", "plots"),
        ("runs", "texts.csv"),
    ),
    Command("adapter export", ("adapter", "export", "tiny", TASKS[0], "--bin", "--out", "adapter")),
    Command(
        "adapter import",
        ("adapter", "import", "brought", "--as", "theirs", "--backbone", "random-tiny"),
        ("brought",),
    ),
    Command("store archive", ("store", "archive", "tiny", "--weights", "--quiet", "--out", "tiny.tar.gz")),
    Command("store restore", ("store", "restore", "kept.tar.gz", "--store", "restored"), ("kept.tar.gz",)),
    Command("run", ("run", *STUDY), ("inputs",), fails=(1, 2)),
)


def command_line(arguments: tuple[str, ...]) -> int:
    from harness.cli.main import main

    return main(list(arguments))


class World:
    """What the commands work on, made once: a finished study, an archive, texts, an exported adapter, made-up data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.whole: dict[str, dict[str, bytes]] = {}
        self.writes: dict[str, int] = {}
        folder.mkdir()
        texts = "".join(f"{place},what is said {place}\n" for place in range(20))
        (folder / "texts.csv").write_text("id,text\n" + texts)
        rows = "".join(f"a reply of somebody {place},{('warm', 'cold')[place % 2]}\n" for place in range(60))
        (folder / "replies.csv").write_text("reply,kind\n" + rows)
        self._must("run", *STUDY)
        (folder / "inputs").mkdir()
        shutil.copytree(folder / "runs" / "synthetic", folder / "inputs" / "synthetic")
        shutil.copytree(next((folder / "runs" / "synthetic").iterdir()), folder / "data")
        self._must("store", "archive", "tiny", "--weights", "--quiet", "--out", "kept.tar.gz")
        self._must("adapter", "export", "tiny", TASKS[0], "--out", "brought")

    def _must(self, *arguments: str) -> None:
        ended = forked(lambda: command_line(arguments), self.folder, Fault())
        if ended.code:
            raise RuntimeError(f"{' '.join(arguments)}: {ended}")

    def place(self, command: Command, folder: Path, before: dict[str, bytes]) -> None:
        """Lay out what a command needs in a new folder, with what stood there before."""
        folder.mkdir()
        (folder / "tmp").mkdir()
        for name in command.needs:
            origin, target = self.folder / name, folder / ("runs" if name == "inputs" else name)
            (shutil.copytree if origin.is_dir() else shutil.copy2)(origin, target)
        for name, content in before.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    def learn(self, command: Command, folder: Path) -> None:
        """Run a command undisturbed: what it writes, and in how many calls."""
        self.place(command, folder, {})
        there = set(files_of(folder))
        ended = self.run(command, folder, Fault())
        if ended.code:
            raise RuntimeError(f"{command.name}: {ended}")
        self.writes[command.name] = ended.calls
        self.whole[command.name] = {name: text for name, text in files_of(folder).items() if name not in there}
        shutil.rmtree(folder)

    def run(self, command: Command, folder: Path, fault: Fault) -> Ended:
        def work() -> int:
            tempfile.tempdir = str(folder / "tmp")
            return command_line(command.arguments)

        return forked(work, folder, fault)


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file that stands under a final name, outside of stores and folders of unfinished work."""
    found = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        is_own = parts[0] in ("tmp", "runs", "restored") or any(part.startswith(".") for part in parts)
        if path.is_file() and not is_own and not any(part.endswith(".part") for part in parts):
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def wrong(world: World, command: Command, folder: Path, ended: Ended) -> Iterator[str]:
    """What is not as it must be after a command on a failing disk."""
    lines = [line for line in ended.err.splitlines() if line.startswith("empathy-transfer: ")]
    if ended.code == 2 and len(lines) != 1:
        yield f"{len(lines)} lines of error"
    if ended.code not in (0, *command.fails):
        yield f"exit code {ended.code}"
    if "Traceback" in ended.err or "Exception ignored" in ended.err:
        yield "a traceback"
    whole = world.whole[command.name]
    after = files_of(folder)
    for name, content in after.items():
        if name in whole and content not in (whole[name], BEFORE):
            yield f"{name} is half written"
    if ended.code == 0 and {name: after.get(name) for name in whole} != whole:
        yield "exit code 0, and not all was written"
    yield from _damage(folder)


def _damage(folder: Path) -> Iterator[str]:
    from adapters_store import Store
    from adapters_store.listing import verify

    for name in ("runs", "restored"):
        if (folder / name).is_dir():
            yield from (f"the store is damaged: {one}" for one in verify(Store(folder / name)).damaged)


def drill(world: World, folder: Path, commands: tuple[Command, ...], times: int, seed: int, say: Callable) -> int:
    """Run the rounds; how many of them came out wrong."""
    rng, came = random.Random(seed), Counter()
    for command in commands:
        world.learn(command, folder / "learned")
    for number in range(times):
        command, (code, stays) = commands[number % len(commands)], rng.choice(FAULTS)
        fault = Fault(rng.randint(1, world.writes[command.name]), code, stays)
        place = folder / f"round-{number}"
        before = {name: BEFORE for name in world.whole[command.name]} if command.replaces else {}
        world.place(command, place, before)
        ended = world.run(command, place, fault)
        problems = list(wrong(world, command, place, ended))
        came[f"exit code {ended.code}"] += 1
        came["wrong"] += bool(problems)
        if problems:
            say(f"{command.name}, {fault}: {'; '.join(problems)}\n{ended.err.strip()[-1500:]}")
        shutil.rmtree(place)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(came.items()))
    say(f"{times} rounds over {len(commands)} commands: {counts}")
    return came["wrong"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=[one.name for one in COMMANDS])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if "failing_disk" not in os.environ.get("LD_PRELOAD", ""):
            again = [sys.executable, "-m", "benchmarks.drills.faulty_writes", *sys.argv[1:]]
            try:
                return subprocess.run(again, env=preloaded(Path(temporary)), check=False).returncode
            except NoCompiler as reason:
                sys.exit(str(reason))
        import_all()
        folder = Path(temporary).resolve()
        world = World(folder / "world")
        chosen = tuple(one for one in COMMANDS if one.name in (options.only or one.name))
        failed = drill(world, folder, chosen, options.times, options.seed, say)
        spent = os.times()
        say(f"{spent.user + spent.children_user + spent.system + spent.children_system:.0f} s of processor time")
    return 1 if failed else 0


def import_all() -> None:
    """Import once what the children would otherwise import again and again."""
    import harness.cli

    lazy = [f"matplotlib.backends.backend_{name}" for name in ("agg", "pdf", "svg")]
    lazy += ["adapters", "pyarrow.parquet", "analysis.manuscript.paper", "analysis.report"]
    lazy += ["harness.run.pack", "harness.scoring.scorer", "harness.sharing.importing", "harness.training.lanes.train"]
    for name in (*lazy, *(one.name for one in pkgutil.iter_modules(harness.cli.__path__, "harness.cli."))):
        importlib.import_module(name)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
