"""Which processes of this machine run a study: this user's own, started by this program's commands for it.

That is read from /proc, right before a signal is sent: the number in a note may long be another process's.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.before.stored_records import SMOKE
from harness.cli.study import name_of
from tasks.errors import BadInput

COMMANDS = ("run", "retry", "demo")


@dataclass(frozen=True)
class _Process:
    """What /proc says of a process: its command line, working folder and environment."""

    arguments: Sequence[str]
    folder: Path
    environment: dict[str, str]


def drivers(study: str, root: Path) -> list[int]:
    """Ids of the processes that were started as ``run``, ``retry`` or ``demo`` of the study on the store at ``root``.

    None where the system has no /proc.
    """
    return [pid for pid, one in _own_processes() if pid != os.getpid() and _runs(one, study, root.resolve())]


def _own_processes() -> Iterator[tuple[int, _Process]]:
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile, or may not be looked at
            if place.stat().st_uid == os.geteuid():
                told = [(place / name).read_bytes().decode(errors="replace") for name in ("cmdline", "environ")]
                pairs = (one.partition("=") for one in told[1].split("\0"))
                environment = {name: value for name, _, value in pairs}
                yield int(place.name), _Process(told[0].split("\0")[:-1], (place / "cwd").readlink(), environment)


def _runs(process: _Process, study: str, root: Path) -> bool:
    given = _given(process.arguments)
    options = _parsed(given) if given and given[0] in COMMANDS else None
    if options is None or _study_of(options, process.folder) != study:
        return False
    is_named = any(one.startswith("--st") for one in given)
    store = options.store if is_named else process.environment.get("EMPATHY_STORE") or "runs"
    return (process.folder / store).resolve() == root


def _given(arguments: Sequence[str]) -> Sequence[str]:
    """What was typed after the program's name; nothing if it is another program."""
    if not arguments or not Path(arguments[0]).name.startswith(("python", "empathy-transfer")):
        return ()
    for place, one in enumerate(arguments[:4]):
        if Path(one).name == "empathy-transfer" or arguments[place : place + 2] == ["-m", "harness.cli.main"]:
            return arguments[place + (2 if one == "-m" else 1) :]
    return ()


def _parsed(given: Sequence[str]) -> argparse.Namespace | None:
    from harness.cli.parser import parser

    with suppress(SystemExit), redirect_stderr(io.StringIO()):
        return parser().parse_args(list(given))
    return None


def _study_of(options: argparse.Namespace, folder: Path) -> str | None:
    """The name under which the store knows what such a command runs; None for a file that is no study."""
    study = getattr(options, "study", "demo")
    with suppress(BadInput):
        name = name_of(str(folder / study) if study.endswith(".toml") else study)
        return name + (SMOKE if getattr(options, "smoke", False) else "")
    return None
