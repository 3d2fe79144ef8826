"""Who may import whom: as written in pyproject.toml, and as it happens at run time."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRAINING = ("torch", "transformers", "adapters", "sentence_transformers")


def run(code):
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def loaded(modules):
    """Names of the top-level packages in memory after importing these modules in a new process."""
    code = f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\nprint(*sys.modules)"
    done = run(code)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stdout.split()}


def modules_of(package):
    paths = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / package).rglob("*.py")]
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)


def test_the_import_contracts_hold():
    pytest.importorskip("importlinter", reason="needs the extra `dev`")
    done = run("from importlinter.cli import lint_imports_command as check; check(['--no-cache'])")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_analysis_loads_no_training_library_and_no_harness():
    packages = loaded(modules_of("analysis"))
    assert "analysis" in packages
    assert packages & {*TRAINING, "harness"} == set()


PLANNING = ("study.file", "study.cell", "study.plan", "run.grid", "cli.main", "cli.plan", "cli.study")


def test_planning_loads_no_training_library():
    packages = loaded([f"harness.{module}" for module in PLANNING])
    assert "harness" in packages
    assert packages & set(TRAINING) == set()


def test_no_help_loads_what_takes_long():
    done = run("import sys; from harness.cli.main import parser; parser(); print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "harness" in loaded
    assert loaded & {*TRAINING, "analysis", "matplotlib", "numpy", "pandas", "rich", "scipy"} == set()


def test_the_registry_loads_no_training_library_and_nothing_else_of_ours():
    assert loaded(modules_of("tasks")) & {*TRAINING, "harness", "analysis", "adapters_store"} == set()


def test_the_store_needs_the_standard_library_only():
    imported = set()
    for path in (ROOT / "adapters_store").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    assert "json" in imported
    assert imported - set(sys.stdlib_module_names) == {"adapters_store"}


def test_ray_is_loaded_only_once_a_cluster_is_asked_for():
    """It reads once, when it is loaded, whether its cluster is this user's own: the engine says so before."""
    assert "ray" not in loaded(["harness.engines.ray_engine", "harness.engines.cluster"])
