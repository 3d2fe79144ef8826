"""Shared fixtures: toy tasks in memory, a tiny local backbone folder, a store in a temporary folder."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of tiny models; a thread that waits for a busy core is slow
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.pop("COLUMNS", None)  # pytest's workers set a width, and commands would break their lines at it

import numpy as np
import pytest
from hypothesis import settings

from adapters_store import Store
from harness.cli.main import main
from harness.study.backbone import Backbone, resolve
from harness.study.config import StudyConfig
from tasks import synthetic
from tasks.splits.loading import Splits
from tasks.task import Dataset, Example, Label, Task, Turn
from tests.support.studies.stored import prepared

if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # under nohup: tests stay deaf to it, what they start does not
    signal.signal(signal.SIGHUP, lambda number, frame: None)

settings.register_profile("any machine", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("any machine")

# Files that take longest, longest first: a worker that is given one of them last works on alone. `make test` and
# `make long` print the longest tests, from which this follows; the other files start in the order of their names.
LONGEST = (
    "harness/cli/test_ratings_ask.py",
    "harness/run/test_kill.py",
    "harness/systems/prompted/test_answers.py",
    "harness/scoring/probe/test_options.py",
    "analysis/gains/test_null_calibration.py",
    "harness/scoring/probe/test_probe.py",
    "project/test_field_note.py",
    "harness/systems/prompted/test_prompted_studies.py",
    "harness/training/test_by_hand.py",
    "harness/systems/test_seq2seq.py",
    "tasks/splits/test_real_leaks.py",
    "harness/search/test_search.py",
    "harness/systems/test_kinds.py",
    "analysis/manuscript/test_manuscript_paper.py",
    "harness/training/lanes/test_lanes.py",
    "project/drills/test_drills.py",
    "analysis/gains/test_comparisons.py",
    "analysis/sections/test_report.py",
    "harness/training/lanes/test_lane_invariance.py",
    "analysis/ratings/test_rating_sets.py",
    "harness/cli/test_archive.py",
    "harness/training/test_devices.py",
    "harness/training/lanes/test_checkpoints.py",
    "project/pages/test_tutorial.py",
    "harness/cli/test_command_line.py",
    "harness/cli/test_analyze.py",
    "harness/systems/prompted/test_schema.py",
    "analysis/test_kept.py",
    "analysis/importance/mixed/test_mixed.py",
    "analysis/importance/test_paper_mode.py",
    "harness/run/test_new_tasks_train.py",
    "analysis/results/test_insights.py",
    "harness/engines/test_engine_contract.py",
)

OF_EXTRAS = {  # files that need a package of an extra; CI has them all
    "harness/engines/test_slurm.py": "submitit",
    "harness/engines/test_slurm_engine.py": "submitit",
    "harness/engines/test_slurm_scripts.py": "submitit",
    "harness/search/test_search.py": "optuna",
}
collect_ignore = [
    str(Path(__file__).parent / name) for name, package in OF_EXTRAS.items() if find_spec(package) is None
]


def pytest_report_header() -> list[str]:
    """Name the files that are not collected."""
    return [f"not collected, for want of an extra: {path}" for path in collect_ignore]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the longest files; within a file and among the others the order stays.

    Where EMPATHY_LONG_TURN is a number, as in CI, whose time does not reach all long tests, files follow each other in
    a circle that begins at that turn, so that all come round.
    """
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    gone = [path.name for path in places if not path.is_file()]
    assert not gone, f"LONGEST names files that are not there: {gone}"
    if turn := os.environ.get("EMPATHY_LONG_TURN"):
        files = sorted({item.path for item in items})
        places = {path: (place - int(turn)) % len(files) for place, path in enumerate(files)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """Take what is loaded by now out of later collections of garbage, of which every pack asks for one."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before its fixtures are made
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a long test out when the time that CI has for them is over (seconds since 1970 in EMPATHY_LONG_UNTIL)."""
    until = float(os.environ.get("EMPATHY_LONG_UNTIL", "inf"))
    if time.time() > until and (item.get_closest_marker("slow") or item.get_closest_marker("simulation")):
        pytest.skip(f"no time was left for {item.nodeid}")


WORDS = {"calm": 0, "warm": 0, "cold": 1, "harsh": 1}


def toy_task(name: str, kind: str = "binary") -> Task:
    classes = () if kind == "continuous" else ("0", "1")
    return Task(
        name,
        Dataset("toy", "Toy", "toy"),
        name.title(),
        ("toy.csv",),
        "table",
        Label("label", kind, classes),
        tags="post_reply",
    )


def toy_rows(count: int, kind: str, seed: int) -> tuple[Example, ...]:
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        word = list(WORDS)[i % len(WORDS)]
        filler = " ".join(rng.choice(["and", "then", "so", "well", "now"], size=int(rng.integers(1, 9))))
        label = WORDS[word] if kind != "continuous" else float(WORDS[word]) + float(rng.normal(0, 0.1))
        context = (Turn("speaker", f"question {i}"),) if i % 3 else ()
        rows.append(Example(f"r{i}", f"g{i // 2}", f"g{i // 2}", context, f"{filler} {word}", label))
    return tuple(rows)


def make_toy_splits(name: str, kind: str = "binary", seed: int = 0, train: int = 40) -> Splits:
    parts = [toy_rows(count, kind, seed * 10 + i) for i, count in enumerate((train, 16, 24))]
    return Splits(toy_task(name, kind), *parts, content_hash=f"{seed:064d}", warnings=())


@pytest.fixture(scope="session")
def tiny() -> Backbone:
    return resolve("random-tiny")


@pytest.fixture
def study() -> StudyConfig:
    training = {"epochs": 2, "batch_size": 8, "learning_rate": 2e-3}
    return StudyConfig(
        "toy", ("one", "two"), backbone="random-tiny", training=training, max_tokens=48, trainer="library"
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The prepared files of one record."""
    return prepared(tmp_path / "prepared")


@pytest.fixture(scope="session")
def toy_splits() -> Callable[..., Splits]:
    """A function that makes the splits of a toy task: name, kind, seed, number of training rows."""
    return make_toy_splits


@pytest.fixture(scope="session")
def column(tiny, toy_splits, tmp_path_factory):
    """Stored baselines of four toy tasks, and the transfers onto the first of them, trained once and only read."""
    from tests.support.studies.toy_column import Column  # which loads torch

    return Column(tiny, toy_splits, tmp_path_factory.mktemp("column"))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small raw files of Epitome and News, to be read only."""
    folder = tmp_path_factory.mktemp("data")
    synthetic.write(folder, ["epitome", "news"], rows=300, seed=1)
    return folder


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; returns (exit code, standard output, standard error)."""

    def command(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return command


@pytest.fixture
def printed(command: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """Run the command line in this process, which is to end well; returns what it prints."""

    def printed(*arguments: object) -> str:
        code, out, err = command(*arguments)
        assert code == 0, err
        return out

    return printed


@pytest.fixture
def refused(command: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """Run the command line in this process; returns the line that says why it did nothing."""

    def refused(*arguments: object) -> str:
        code, out, err = command(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        return err

    return refused
