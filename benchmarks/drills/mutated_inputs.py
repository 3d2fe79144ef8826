"""Inputs of five kinds with random damage: what comes out is a result or one of our own errors, soon and in bounds.

python -m benchmarks.drills.mutated_inputs --times 20000 --seed 1 [--only readers adapters]

Each kind has a few small good inputs; a round takes one, changes some bytes or swaps a piece for something nasty, and
reads it as a command would. Rounds run in forked children with a limit of 1 GB of memory and 10 seconds for each input.
Entries, studies and archives are damaged in tests of their own (test_fuzz_entries.py, test_fuzz_studies.py and
test_fuzz_archives.py).
Exit code 1 if anything but a BadInput or StoreError came out.
"""

import argparse
import gzip
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SECONDS, MEMORY, BATCH = 10, 1 << 30, 250
NASTY = (
    *(b"\0", b'"', b"\n", b"\r", b",", b"\t", b"\\", b"'", b"#", b"=", b"-1", b"0", b"1e999", b"-0.0", b"nan", b"inf"),
    *(b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\ud800", b"null", b"true", b"[]", b"{}", b'""', b"[[1]]"),
    *(b"9" * 400, b"9" * 5000, b"[" * 3000, b"{a=" * 500, b"a" * 70_000, b"../../etc/passwd", b"/", b"~", b"\x1b[2J"),
    *("\u202e".encode(), "\u2028".encode(), b"roberta-base", b'{"a": {"b": 1}}', b"9007199254740993", b"\r\n\r\n"),
)


def damaged(rng: random.Random, content: bytes) -> bytes:
    """The content with one to four changes."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randint(0, len(content))
        end = min(len(content), start + rng.choice((0, 0, 1, 2, 8, 40)))
        how = rng.randrange(6)
        if how == 0 and content:
            place = min(start, len(content) - 1)
            content = content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]
        elif how == 1:
            content = content[:start] if rng.random() < 0.3 else content[:start] + content[end:]
        elif how == 2:
            content = content[:end] + content[start:]
        elif how == 3:
            content = content[:start] + rng.choice(NASTY) + content[end:]
        else:
            content = _with_another_value(rng, content)
    return content


def _with_another_value(rng: random.Random, content: bytes) -> bytes:
    """Swap what stands between two separators, a cell or a value, for something nasty or for another one."""
    ends = [place for place, byte in enumerate(content) if byte in b'=:,\n"[]{}\t']
    if len(ends) < 2:
        return content
    number = rng.randrange(len(ends) - 1)
    other = rng.randrange(len(ends) - 1)
    value = rng.choice(NASTY) if rng.random() < 0.6 else content[ends[other] + 1 : ends[other + 1]]
    return content[: ends[number] + 1] + value + content[ends[number + 1] :]


@dataclass(frozen=True)
class Kind:
    """Good inputs, a file's content by the file's name each, and what reads a folder that holds a changed one."""

    inputs: tuple[tuple[str, bytes], ...]
    read: Callable[[Path], object]
    beside: Path | None = None  # a folder whose other files are there too


def kinds(folder: Path) -> dict[str, Kind]:
    """All five; what is costly to make is made once, in ``folder``."""
    return {
        "readers": Kind(_tables(folder), _read_rows),
        "grids": Kind((("grid.csv", _grid()),), _read_grid),
        "ratings": Kind(
            (("ratings.csv", b"task,construct,rater,value\nmine,link,A,2\nmine,link,B,4\n"),), _read_ratings
        ),
        "scores": Kind(_tables(folder), _read_texts),
        "adapters": _adapters(folder),
    }


def _tables(folder: Path) -> tuple[tuple[str, bytes], ...]:
    import pandas as pd

    rows = [{"text": f'words, "{place}"\nmore', "id": f"i{place}", "label": place % 2} for place in range(12)]
    frame = pd.DataFrame(rows)
    frame.to_parquet(folder / "rows.parquet", index=False)
    frame.assign(n=[{"b": 1}] * 12).to_parquet(folder / "nested.parquet", index=False, compression="zstd")
    lines = "".join(json.dumps({**row, "post": {"body": row["text"]}}) + "\n" for row in rows).encode()
    csv = frame.to_csv(index=False).encode()
    return (
        *((name, (folder / name).read_bytes()) for name in ("rows.parquet", "nested.parquet")),
        *(("rows.csv", csv), ("rows.tsv", frame.to_csv(index=False, sep="\t").encode()), ("rows.jsonl", lines)),
        *(("rows.json", json.dumps(rows).encode()), ("rows.csv.gz", gzip.compress(csv)), ("rows.txt", b"a\nb\n")),
    )


def _grid() -> bytes:
    head, names = "intermediate,target,metric,score,baseline\n", ("a", "b", "c")
    return (head + "".join(f"{one},{two},macro_f1,.5,.4\n" for one in names for two in names if one != two)).encode()


def _adapters(folder: Path) -> Kind:
    from tests.support.studies.old_adapters import old_folder

    good = old_folder(folder / "adapter")
    files = tuple((path.name, path.read_bytes()) for path in sorted(good.iterdir()) if path.is_file())
    return Kind(files, _read_adapter, good)


def _read_rows(file: Path) -> object:
    from tasks.proposal import read_file
    from tasks.readers.raw import read_raw

    read_raw(file, delimiter="," if file.suffix == ".txt" else "")
    return read_file(file)


def _read_grid(file: Path) -> object:
    from analysis.results.results import read_own_table

    return read_own_table(file)


def _read_ratings(file: Path) -> object:
    from tasks.ratings import ratings

    return ratings([file])


def _read_texts(file: Path) -> object:
    from harness.scoring.texts import TextFile

    texts = TextFile(str(file), text="text" if file.suffix != ".txt" else "", id="id" if file.suffix != ".txt" else "")
    return texts.about(), sum(1 for _ in texts.lines())


def _read_adapter(file: Path) -> object:
    from harness.sharing.incoming import head_in, read_incoming, settings_in

    found = read_incoming(file.parent, file.parent)
    return settings_in(found.adapter), found.head and head_in(found.head, "mine")


def run(folder: Path, chosen: dict[str, Kind], times: int, seed: int, say: Callable[[str], None]) -> int:
    """Run the rounds, a child for each batch; how many came out wrong."""
    wrong, came = 0, Counter()
    for start in range(0, times, BATCH):
        first = start
        while first < min(times, start + BATCH):
            child = os.fork()
            if child == 0:
                _be_child(folder, chosen, range(first, min(times, start + BATCH)), seed)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            lines = (folder / "came").read_text().splitlines() if (folder / "came").exists() else []
            (folder / "came").unlink(missing_ok=True)
            came.update(line.split("\t")[1] for line in lines)
            for line in lines:
                if "\t!" in line:
                    wrong += 1
                    say(line.replace("\\n", "\n"))
            first += len(lines)
            if code:  # it died at an input
                wrong += 1
                died = "took more than 10 seconds" if code == -signal.SIGALRM else f"ended the process with {code}"
                say(f"input {first}: {list(chosen)[first % len(chosen)]}: {died}")
                first += 1
    counts = ", ".join(f"{what} {count}" for what, count in sorted(came.items()))
    say(f"{times} inputs of {len(chosen)} kinds: {counts}; {wrong} wrong")
    return wrong


def _be_child(folder: Path, chosen: dict[str, Kind], numbers: range, seed: int) -> None:
    from adapters_store import StoreError
    from tasks.errors import BadInput

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    names = list(chosen)
    with (folder / "came").open("w") as came:
        for number in numbers:
            name = names[number % len(names)]
            kind, rng = chosen[name], random.Random(f"{seed} {number}")
            place = folder / f"round-{number}"
            signal.alarm(SECONDS)
            try:
                input_name, content = rng.choice(kind.inputs)
                if kind.beside:
                    shutil.copytree(kind.beside, place)
                file = place / input_name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(damaged(rng, content))
                kind.read(file)
                came.write(f"{number}\tread\n")
            except (BadInput, StoreError):
                came.write(f"{number}\trefused\n")
            except BaseException:
                text = traceback.format_exc()[-1500:].replace("\n", "\\n")
                came.write(f"{number}\tfailed\t!{name} {input_name}\\n{text}\n")
            signal.alarm(0)
            came.flush()
            shutil.rmtree(place, ignore_errors=True)
    os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        chosen = {name: kind for name, kind in kinds(folder).items() if name in (options.only or name)}
        wrong = run(folder, chosen, options.times, options.seed, say)
    spent = os.times()
    say(f"{spent.user + spent.children_user + spent.system + spent.children_system:.0f} s of processor time")
    return 1 if wrong else 0


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
