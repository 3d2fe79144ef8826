"""A disk that fails on purpose: a library in C, preloaded, makes calls on files below one folder fail.

It reaches what Python, pyarrow, safetensors and matplotlib write and read alike. A process has it when it was started
with the environment that ``preloaded`` returns; its children, forked when all is imported, are cheap.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
LIBRARY = "failing_disk.so"
SECONDS = 300  # for one child; a hang is a failure, and must not hang the drill


def preloaded(folder: Path) -> dict[str, str]:
    """The environment of a process whose disk can fail; the library is compiled into ``folder`` first."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        raise NoCompiler("a disk that fails on purpose needs Linux and a C compiler (cc)")
    library = folder / LIBRARY
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return {**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"}


class NoCompiler(Exception):
    """The library cannot be made here."""


@dataclass(frozen=True)
class Fault:
    """The call with the number ``at`` (from 1; 0: none) fails with ``code``, and with ``stays`` all later ones."""

    at: int = 0
    code: int = 0
    stays: bool = False
    reads: bool = False

    def __str__(self) -> str:
        """The fault in words."""
        kind = "read" if self.reads else "write"
        name = os.strerror(self.code) if self.code else "none"
        return f"{name} at {kind} {self.at}{' and all later' if self.stays else ''}"


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code (negative: by a signal), what it said, and how many calls were counted."""

    code: int
    out: str
    err: str
    calls: int


def forked(work: Callable[[], int], folder: Path, fault: Fault) -> Ended:
    """Run ``work`` in a child that stands in ``folder``, below which the disk fails as the fault says."""
    said = {name: folder.with_name(f"{folder.name}.{name}") for name in ("out", "err", "calls")}
    child = os.fork()
    if child == 0:
        _be_child(work, folder, fault, said)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    texts = {name: path.read_text(errors="replace") if path.exists() else "" for name, path in said.items()}
    for path in said.values():
        path.unlink(missing_ok=True)
    return Ended(code, texts["out"], texts["err"], int(texts["calls"] or 0))


def _be_child(work: Callable[[], int], folder: Path, fault: Fault, said: dict[str, Path]) -> None:
    """Never returns: the child must not go on with what the parent was about."""
    library, code = ctypes.CDLL(None), 1
    try:
        for number, name in ((1, "out"), (2, "err")):
            handle = os.open(said[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, number)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))
        os.chdir(folder)
        import signal

        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        library.failing_disk_arm(
            str(folder).encode(), ctypes.c_long(fault.at), fault.code, int(fault.stays), int(fault.reads)
        )
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        said["calls"].write_text(str(library.failing_disk_count()))
        os._exit(code)
