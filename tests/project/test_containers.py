"""The container recipes, as far as they can be read without building them: no image can be pulled in these tests."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = sorted({name.split(".")[0] for name in PROJECT["tool"]["setuptools"]["packages"]})


def instructions():
    """The Dockerfile's instructions in order: word and rest, lines that go on joined."""
    text = (ROOT / "containers" / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n", "", "".join(line for line in text.splitlines(True) if not line.startswith("#")))
    return [tuple(line.split(maxsplit=1)) for line in lines.splitlines() if line.strip()]


def sections():
    """The header and the sections of the Apptainer recipe by their names."""
    text = (ROOT / "containers" / "apptainer.def").read_text(encoding="utf-8")
    header, *rest = re.split(r"^%", text, flags=re.MULTILINE)
    return {"header": header} | {one.split("\n", 1)[0].strip(): one.split("\n", 1)[1] for one in rest}


def copied():
    """What either recipe takes from the repository."""
    rests = [rest.split() for word, rest in instructions() if word == "COPY"]
    files = [line.split()[0] for line in sections()["files"].splitlines() if line.strip()]
    return {"docker": sorted(name for rest in rests for name in rest[:-1]), "apptainer": sorted(files)}


def scripts():
    """Every shell script in the recipes."""
    found = [rest for word, rest in instructions() if word == "RUN"]
    return [*found, *(sections()[name] for name in ("post", "environment", "runscript", "test"))]


def test_both_stand_on_one_pinned_base():
    [base] = [rest for word, rest in instructions() if word == "FROM"]
    assert re.fullmatch(r"nvidia/cuda:\d+\.\d+\.\d+-runtime-ubuntu24\.04", base)
    assert sections()["header"].split() == ["Bootstrap:", "docker", "From:", base]


def test_both_take_the_same_files_which_are_there_and_not_ignored():
    names = copied()
    assert names["docker"] == names["apptainer"]
    assert {*PACKAGES, "constraints.txt", "pyproject.toml", *PROJECT["project"]["license-files"]} <= {*names["docker"]}
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for name in names["docker"]:
        assert (ROOT / name).exists() and name in kept
    assert kept == {*names["docker"]}


@pytest.mark.parametrize("script", scripts())
def test_every_script_is_one_for_a_shell(script):
    done = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_install_is_held_to_the_known_good_versions_and_extras_that_there_are():
    installs = [line for script in scripts() for line in re.split(r"&&|\n", script) if "pip install" in line]
    assert len(installs) == 2
    for line in installs:
        assert " -c constraints.txt " in line
        extras = re.search(r"'\.\[(.+)\]'", line)[1].split(",")
        assert {*extras} <= {*PROJECT["project"]["optional-dependencies"]}
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert re.search(r"^torch==[\d.]+$", pins, re.MULTILINE)  # the ordinary build, which is CUDA's on Linux


def test_nobody_runs_as_root_and_nothing_is_secret():
    words = [word for word, _ in instructions()]
    last_user = [rest for word, rest in instructions() if word == "USER"][-1]
    assert last_user not in ("root", "0")
    assert words.index("USER") > max(place for place, word in enumerate(words) if word == "RUN")
    assert not {"ADD", "ARG"} & {*words}
    settings = " ".join(rest for word, rest in instructions() if word == "ENV") + sections()["environment"]
    assert not re.search(r"token|secret|password|key|credential", settings, re.IGNORECASE)


def test_both_start_the_command_that_is_installed_and_stay_offline():
    commands = PROJECT["project"]["scripts"]
    [entry] = [json.loads(rest) for word, rest in instructions() if word == "ENTRYPOINT"]
    assert entry[0] in commands
    assert re.search(rf"exec \S+/bin/{entry[0]} ", sections()["runscript"])
    [settings] = [rest for word, rest in instructions() if word == "ENV"]
    assert "HF_HUB_OFFLINE=1" in settings and "HF_HUB_OFFLINE" in sections()["environment"]


@pytest.mark.slow
def test_what_is_copied_is_enough_to_build_the_project(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    for name in copied()["docker"]:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", tmp_path / "dist", tmp_path], check=True, capture_output=True)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    code = f"import sys; sys.path.insert(0, {str(wheel)!r}); import harness; print(harness.__file__)"
    apart = {"capture_output": True, "text": True, "cwd": tmp_path / "dist"}
    listed = subprocess.run([sys.executable, "-P", "-c", code], check=True, **apart)
    assert listed.stdout.startswith(str(wheel))
