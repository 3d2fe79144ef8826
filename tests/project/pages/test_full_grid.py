"""The page of the full grid says what its commands print, as far as they print it without data or a GPU."""

import importlib.util
import re
from pathlib import Path

import pytest

from benchmarks.steps import arithmetic
from benchmarks.steps.columns import columns
from harness.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
PAGE = " ".join((ROOT / "docs" / "cluster.md").read_text(encoding="utf-8").split())
STAND_IN = ["--set", "data=synthetic", "--set", "backbone=random-tiny"]  # cells, packs and jobs need no real encoder


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def printed(capsys, *words):
    assert main([*words]) == 0
    return capsys.readouterr().out


def test_cells_and_packs_are_those_of_the_plan(store, capsys):
    said = printed(capsys, "plan", "muddy-waters", *STAND_IN, "--store", str(store))
    cells, packs = re.search(r"(\d+) cells in (\d+) packs", said).groups()
    baselines, transfers = re.search(r"baseline (\d+), transfer (\d+)", said).groups()
    assert f"{cells} in {packs}: {baselines} baselines and {transfers} transfers" in PAGE


def test_jobs_are_those_of_the_dry_run(store, capsys):
    if importlib.util.find_spec("submitit") is None:
        pytest.skip("needs the extra slurm")
    words = ["run", "muddy-waters", "--engine", "slurm", "--dry-run", *STAND_IN, "--store", str(store)]
    said = printed(capsys, *words)
    (array,) = re.findall(r"^#SBATCH (--array=\S+)", said, re.MULTILINE)
    jobs = set(re.findall(r"^# JOB\d+$", said, re.MULTILINE))
    waiting = re.findall(r"^#SBATCH --dependency=afterok:(\S+)", said, re.MULTILINE)
    assert (len(waiting), {line.count(":") + 1 for line in waiting}) == (len(jobs) - 1, {17})
    assert f"`#SBATCH {array}`" in PAGE
    assert f"an array of 54 baselines, then {len(waiting)} packs of 17 lanes, each `afterok` on the 17 jobs" in PAGE
    for option in ("--requeue", "--time=240"):
        assert f"#SBATCH {option}" in said
        assert f"`{option}`" in PAGE


def test_hours_of_products_are_those_that_the_arithmetic_prints(capsys):
    arithmetic.main(["--batches", "20"])
    said = capsys.readouterr().out
    assert f"{sum(column.steps for column in columns()):,} of baselines" in PAGE
    full, half, single = (hours.lstrip("0") for hours in re.findall(r"TFLOP/s +([\d.]+) h", said))
    assert f"{full} h in bf16 at 790 TFLOP/s, {half} h at half of that, {single} h in fp32 at 54" in PAGE


def test_records_are_as_large_as_the_weights_of_roberta_base_s_adapters_and_heads():
    width, bottleneck, layers = 768, 48, 12
    adapter = layers * (2 * width * bottleneck + bottleneck + width)
    head = width * width + width + 5 * (width + 1)  # of about five classes
    gigabytes = 972 * 4 * (adapter + head) / 1e9
    said = float(re.search(r"([\d.]+) GB of records", PAGE)[1])
    assert said == pytest.approx(gigabytes, rel=0.02)
    checkpoints = float(re.search(r"(\d+) MB of checkpoints", PAGE)[1])
    assert checkpoints == pytest.approx(8 * 17 * 4 * (adapter + head) / 1e6, rel=0.02)  # eight copies, 17 lanes


def test_only_one_column_has_the_cells_that_the_page_says(store, capsys):
    said = printed(capsys, "plan", "muddy-waters", "--only-target", "epitome_er", *STAND_IN, "--store", str(store))
    baselines, transfers = re.search(r"baseline (\d+), transfer (\d+)", said).groups()
    assert f"trains {baselines} baselines and {transfers} transfers of it" in PAGE
