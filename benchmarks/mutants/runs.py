"""Run the tests of a module against a copy of the tree in which one thing is wrong.

One process imports the libraries, which takes most of a short test run, and forks for every run; what a child does to
memory is gone with it. The copy stands in a temporary folder, so the working tree is never touched. A test that starts
``python -I`` sees the installed code and not the copy: nothing that only such a test sees is noticed.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutants.mutation import Mutant

LIBRARIES = (
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "scipy.stats",
    "scipy.special",
    "sklearn.svm",
    "sklearn.linear_model",
    "sklearn.metrics",
    "sklearn.preprocessing",
    "matplotlib.pyplot",
    "seaborn",
    "hypothesis",
    "safetensors.torch",
    "torch",
    "tokenizers",
    "transformers.models.roberta.modeling_roberta",
    "transformers.models.bert.modeling_bert",
    "adapters",
    "adapters.composition",
)
NEVER_COPIED = ("__pycache__", "*.egg-info", ".*")
BUILT_OR_STORED = ("build", "dist", "data", "runs*", "results*")  # in the root alone
MARKS = "not slow and not simulation and not gpu and not cluster and not browser and not realdata"


@dataclass(frozen=True)
class Outcome:
    """How a run of tests ended: ``passed``, ``failed``, ``limit`` or ``nothing ran``; by which test; after how long."""

    end: str
    test: str
    seconds: float

    @property
    def is_noticed(self) -> bool:
        """Whether a test failed, or the run did not end."""
        return self.end in ("failed", "limit")


class _FirstFailure:
    """A plugin that writes down which test failed first."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def _write(self, test: str) -> None:
        if not self._file.exists():
            self._file.write_text(json.dumps(test), encoding="utf-8")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._write(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._write(f"{report.nodeid} (not collected)")


def with_libraries() -> None:
    """Import what most tests need, as the first thing, with one thread each."""
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", MPLBACKEND="Agg")
    for name in (*LIBRARIES, "pytest"):
        with suppress(ImportError):
            importlib.import_module(name)


class Copy:
    """A copy of the tree in which tests run, each time in a process of their own."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Copy the tree ``root``, without what is built or stored, into ``folder``, which holds the runs' files too."""
        self.folder, self._root, self._out = folder / "tree", root, folder
        shutil.copytree(root, self.folder, ignore=self._left_behind, symlinks=True)

    def _left_behind(self, folder: str, names: list[str]) -> set[str]:
        patterns = (*NEVER_COPIED, *BUILT_OR_STORED) if Path(folder) == self._root else NEVER_COPIED
        return shutil.ignore_patterns(*patterns)(folder, names)

    def noticed(self, mutant: Mutant, tests: Sequence[str], limit: float) -> Outcome:
        """The outcome of these tests with the change; the copy is whole again afterwards."""
        file = self.folder / mutant.file
        source = file.read_text(encoding="utf-8")
        changed = mutant.applied(source)
        ast.parse(changed, mutant.file)
        try:
            self._replace(file, changed)
            return self.run(tests, limit)
        finally:
            self._replace(file, source)

    def run(self, tests: Sequence[str], limit: float, *, keeps_bytecode: bool = False) -> Outcome:
        """The outcome of these tests: the words that pytest takes."""
        failure, start = self._out / "failure.json", time.monotonic()
        failure.unlink(missing_ok=True)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            self._child(tests, failure, keeps_bytecode)
        code = _ended(child, start + limit)
        seconds = time.monotonic() - start
        shutil.rmtree(self._out / "temporary", ignore_errors=True)
        test = json.loads(failure.read_text(encoding="utf-8")) if failure.exists() else ""
        if code is None:
            return Outcome("limit", test or f"over {limit:.0f} s", seconds)
        if code == 0:
            return Outcome("passed", "", seconds)
        return Outcome("nothing ran" if code in (4, 5) and not test else "failed", test or f"exit {code}", seconds)

    def _replace(self, file: Path, source: str) -> None:
        file.write_text(source, encoding="utf-8")
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()  # its time and size may be those of the other version

    def _child(self, tests: Sequence[str], failure: Path, keeps_bytecode: bool) -> None:
        """Run pytest in the copy and leave at once; never returns."""
        code = 70
        try:
            os.setsid()
            log = os.open(self._out / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chdir(self.folder)
            sys.dont_write_bytecode = not keeps_bytecode
            os.environ.update(PYTHONPATH=str(self.folder), PYTHONDONTWRITEBYTECODE="1", CI="mutants")
            for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
                del sys.modules[name]
            sys.path[:] = [str(self.folder), *(place for place in sys.path if place not in ("", str(self._root)))]
            import pytest

            words = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={self._out / 'temporary'}", "-m", MARKS]
            code = int(pytest.main([*words, *tests], plugins=[_FirstFailure(failure)]))
        finally:
            os._exit(code)


def _ended(child: int, until: float) -> int | None:
    """The exit code of a child, or None where it was ended, with all that it started, because the time was over."""
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what the tests left running
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
