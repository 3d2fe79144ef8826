"""The full grid in small, from raw files to a comparison, by the commands that a person types: ``make smoke``.

Made-up files of all eighteen tasks in their real formats, a RoBERTa of two layers with random weights and a byte-level
BPE of its own, 32 rows and one epoch a cell: ``muddy-waters`` is planned, trained and reported, then compared with a
stand-in of ``reference`` on another random encoder. It needs no data, no network and no GPU, and its numbers mean
nothing. What is left behind in ``--keep`` is an ordinary store with ordinary results.

    python -m benchmarks.drills.grid_smoke
    python -m benchmarks.drills.grid_smoke --only-target epitome_er --keep smoke    # 18 baselines and one column
"""

import argparse
import shlex
import sys
import tempfile
import time
from pathlib import Path

from harness.cli.main import main as command
from harness.preflight.smoke import SMOKE
from harness.study.file import load_study
from tests.support.studies.tiny_backbones import tiny_backbone

GRID, REFERENCE = "muddy-waters", "reference"
TOKENS = 128  # of a row at most: the tiny tokenizer makes several of a word


def main(arguments: list[str] | None = None) -> int:
    """Run every command and say what it took; the exit code of the first that fails, else 0."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        root = options.keep or Path(temporary)
        started, cpu = time.perf_counter(), time.process_time()
        code = next((code for words in commands(root, options.only_target) if (code := _typed(words))), 0)
    spent = f"{time.process_time() - cpu:.0f} CPU seconds, {time.perf_counter() - started:.0f} s in all"
    say(f"\nsmoke: {'stopped by the command above' if code else 'all of it ran'}; {spent}")
    return code


def commands(root: Path, only_targets: list[str]) -> list[list[str]]:
    """What is typed, in order; everything is written below ``root``."""
    backbone = tiny_backbone(root / "tiny-roberta", "roberta", tokens=TOKENS)
    store, results = ["--store", str(root / "runs")], root / "results"
    made_up = ["--seeds", "1", "--set", "data=synthetic", "--set", f"max_tokens={TOKENS}"]
    only = _only(only_targets)
    run = ["--smoke", "--quiet", "--threads", "1", *made_up, *store]
    shared = [target for target in only_targets if target in load_study(REFERENCE).tasks]
    grid, reference = f"{GRID}{SMOKE}", f"{REFERENCE}{SMOKE}"
    return [
        ["plan", GRID, *only, "--set", f"backbone={backbone}", *made_up, *store],
        ["run", GRID, *only, "--set", f"backbone={backbone}", *run],
        ["run", REFERENCE, *_only(shared), "--set", "backbone=random-tiny", *run],
        ["status", grid, *store],
        ["report", grid, "--quiet", *store, "--out", str(results / grid)],
        ["study", "compare", reference, grid, *store, "--out", str(results / f"{reference}-against-{grid}")],
    ]


def _only(targets: list[str]) -> list[str]:
    return [word for target in targets for word in ("--only-target", target)]


def _typed(words: list[str]) -> int:
    """Print a command as it is typed and run it."""
    say(f"\n$ empathy-transfer {shlex.join(words)}")
    return command(words)


def say(text: str) -> None:
    """Print at once, also into a file."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-target", action="append", default=[], metavar="ID", help="this target's column alone")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write there, and leave it (default: a temporary one)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
