"""What the doctor says of a machine, a study and a store, with the parts that are not here made up."""

import dataclasses
import json
import os
import socket
import subprocess
from collections import namedtuple

import pytest
import torch

from harness.cli.main import main
from harness.preflight import doctor
from harness.preflight import doctor as machine
from harness.preflight.doctor import OK, PROBLEM, WARNING
from harness.study.file import load_study
from harness.training.lanes import frozen
from tasks.registry import Registry

ENTRY = 'id = "{name}"\nfiles = ["{name}.csv"]\ntext = "t"\nlabel = "l"\nkind = "binary"\naccess = "ask the keepers"\n'


@pytest.fixture
def slurm(monkeypatch):
    """A machine with Slurm's commands."""
    monkeypatch.setattr(machine.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(machine, "find_spec", lambda name: object())


def brought(tmp_path, *names):
    """A study of tasks of one's own, and the registry that knows them."""
    entries = tmp_path / "entries"
    entries.mkdir()
    for name in names:
        (entries / f"{name}.toml").write_text(ENTRY.format(name=name), encoding="utf-8")
    study = dataclasses.replace(load_study("tiny"), tasks=names, data="files", registry=(str(entries),))
    return study, Registry.load([entries])


def test_this_python_and_these_packages_are_as_declared_and_an_old_python_is_a_problem(tmp_path, monkeypatch):
    assert machine.python_line().state == OK
    line = machine.packages_line(tmp_path / "none.txt")
    assert (line.state, "declared ranges" in line.detail) == (OK, True)
    monkeypatch.setattr(machine.sys, "version_info", (3, 9, 1))
    line = machine.python_line()
    assert (line.state, line.detail.startswith("3.9.1, not >=3")) == (PROBLEM, True)


def test_versions_other_than_the_constraints_are_named_and_missing_packages_are_problems(tmp_path, monkeypatch):
    versions = machine._version
    monkeypatch.setattr(machine, "_version", lambda name: "1.2.3+cpu" if name == "numpy" else versions(name))
    (tmp_path / "constraints.txt").write_text("# known good\nnumpy==1.2.4 # why\nseaborn-x==1\n", encoding="utf-8")
    line = machine.packages_line(tmp_path / "constraints.txt")
    assert (line.state, line.detail) == (WARNING, "other than in constraints.txt: numpy 1.2.3+cpu (1.2.4)")
    (tmp_path / "constraints.txt").write_text("numpy==1.2.3\n", encoding="utf-8")
    assert machine.packages_line(tmp_path / "constraints.txt").state == OK
    here = {"adapters": "9.0.0", "numpy": None}
    monkeypatch.setattr(machine, "_version", lambda name: here.get(name, "4.57.6"))
    line = machine.packages_line()
    assert line.state == PROBLEM
    assert "adapters~=1.3.0 (here: 9.0.0)" in line.detail
    assert "numpy (here: none)" in line.detail


@pytest.mark.parametrize(
    ("names", "is_for_cuda", "driver", "hidden", "state", "said"),
    [
        (["H200", "H200"], True, "550.1", None, OK, "2 GPU: H200; driver 550.1"),
        (["NVIDIA H200"], True, "550.1", None, OK, "driver 550.1; `plan` has its measured rates"),
        ([], True, None, None, OK, "no NVIDIA driver"),
        ([], False, "550.1", None, WARNING, "torch is built without CUDA"),
        ([], True, "550.1", "", WARNING, "CUDA_VISIBLE_DEVICES is ''"),
        ([], True, "550.1", None, WARNING, "torch sees no GPU"),
    ],
)
def test_the_device_line_says_why_there_is_no_gpu(monkeypatch, names, is_for_cuda, driver, hidden, state, said):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    line = machine.device_line(names, is_for_cuda=is_for_cuda, driver=driver)
    assert line.state == state
    assert said in line.detail
    assert bool(line.cure) == (state != OK)


def test_the_driver_s_version_is_read_where_the_kernel_says_it(tmp_path):
    assert machine.driver_version(tmp_path / "none") is None
    note = tmp_path / "version"
    note.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n", encoding="utf-8")
    assert machine.driver_version(note) == "550.54.15"
    note.write_text("", encoding="utf-8")
    assert machine.driver_version(note) is None


def test_more_threads_than_cores_are_a_warning(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert (machine.threads_line().state, machine.threads_line().cure[:18]) == (WARNING, "OMP_NUM_THREADS=4,")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert machine.threads_line().state == OK


def test_without_slurm_or_ray_only_a_study_that_asks_for_it_is_warned(monkeypatch):
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    assert machine.slurm_line({}).state == OK
    assert machine.slurm_line({"partition": "gpu"}).state == WARNING
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert machine.ray_line().state == OK
    assert machine.ray_line("10.0.0.1:6379").state == WARNING


def test_slurm_s_partitions_are_listed_its_silence_is_told_and_submitit_is_needed(slurm, monkeypatch):
    assert machine.slurm_line({}, lambda: "low*\nhigh\nlow*\n").detail == "partitions low*, high (* is the default)"
    assert machine.slurm_line({"partition": "high,low"}, lambda: "low*\nhigh\n").state == OK
    line = machine.slurm_line({"partition": "lo"}, lambda: "low*\n")
    assert (line.state, line.detail) == (PROBLEM, "no partition 'lo'; there are low*")

    def fails():
        raise subprocess.CalledProcessError(1, "sinfo", stderr="slurm_load: Unable to contact\nmore")

    line = machine.slurm_line({}, fails)
    assert (line.state, line.detail) == (WARNING, "sinfo does not answer: slurm_load: Unable to contact")
    assert machine.slurm_line({"partition": "low"}, fails).state == PROBLEM

    def waits():
        raise subprocess.TimeoutExpired("sinfo", 10)

    assert machine.slurm_line({}, waits).detail == "sinfo does not answer: nothing in 10 s"
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert "[slurm]" in machine.slurm_line({}).cure


def test_a_ray_cluster_is_asked_whether_it_answers(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(machine, "find_spec", lambda name: object())
    monkeypatch.setattr(machine.metadata, "version", lambda name: "2.60.0")
    note = tmp_path / "ray_current_cluster"
    assert "no cluster" in machine.ray_line(noted=note).detail
    with socket.create_server(("127.0.0.1", 0)) as server:
        note.write_text(f"127.0.0.1:{server.getsockname()[1]}\n", encoding="utf-8")
        assert machine.ray_line(noted=note).detail.endswith("answers")
    assert machine.ray_line(noted=note).state == WARNING
    assert machine.ray_line(note.read_text().strip(), noted=note).state == PROBLEM
    assert machine.ray_line("ray://nowhere").state == PROBLEM


@pytest.mark.parametrize(
    ("device", "changes", "multiplies", "advice"),
    [
        ("cuda", {}, True, "bf16"),
        ("cpu", {}, True, None),
        ("cuda", {"precision": "bf16"}, True, None),
        ("cpu", {"precision": "bf16"}, True, None),
        ("cuda", {"precision": "bf16"}, False, "fp32"),
        ("cpu", {"precision": "bf16"}, False, "fp32"),
        ("cuda", {"trainer": "library"}, True, None),
        ("cpu", {"systems": ("encoder",), "system": {"encoder": {"precision": "bf16"}}}, False, "fp32"),
        ("cpu", {"systems": ("encoder",), "system": {"encoder": {"precision": "bf16"}}}, True, None),
    ],
)
def test_the_faster_precision_is_suggested_where_lanes_train(monkeypatch, device, changes, multiplies, advice):
    monkeypatch.setattr(doctor, "kind_of", lambda name: device)
    monkeypatch.setattr(frozen, "has_bf16_products", lambda: multiplies)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: multiplies)
    lines = list(doctor.precision_lines(dataclasses.replace(load_study("demo"), **changes)))
    field = "system.encoder.precision" if "system" in changes else "precision"
    assert [(line.state, line.cure.split(",")[0]) for line in lines] == (
        [(WARNING, f"--set {field}={advice}")] if advice else []
    )


def test_the_backbone_is_named_with_its_hash_never_fetched_and_not_asked_for_more_tokens(monkeypatch):
    line = doctor.backbone_line(dataclasses.replace(load_study("tiny"), max_tokens=600))
    assert (line.state, line.cure) == (PROBLEM, "--set max_tokens=512")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    line = doctor.backbone_line(load_study("tiny"))
    assert (line.state, "random-tiny, weights sha256 " in line.detail) == (OK, True)
    seen = []
    monkeypatch.setattr(doctor, "resolve", lambda name: seen.append(os.environ["HF_HUB_OFFLINE"]) or broken())

    def broken():
        raise doctor.BadInput("no such backbone")

    line = doctor.backbone_line(load_study("tiny"))
    assert (line.state, line.cure) == (PROBLEM, "with internet: empathy-transfer study prefetch tiny")
    assert seen == ["1"]
    assert "HF_HUB_OFFLINE" not in os.environ


def test_datasets_that_are_missing_have_a_line_each_and_synthetic_ones_none(tmp_path):
    study, registry = brought(tmp_path, "kind", "warm")
    (tmp_path / "data").mkdir()
    lines = list(doctor.data_lines(study, registry, tmp_path / "data"))
    assert [line.state for line in lines] == [PROBLEM, WARNING, WARNING]
    (tmp_path / "data" / "kind.csv").write_text("t,l\na,1\n", encoding="utf-8")
    first, second = doctor.data_lines(study, registry, tmp_path / "data")
    assert (first.state, first.detail) == (OK, "1 of 2 datasets are here, 0 of them verified by checksum")
    assert (second.what, second.detail, second.cure) == ("data warm", "warm.csv missing: warm", "ask the keepers")
    (line,) = doctor.data_lines(load_study("tiny"), registry, tmp_path)
    assert line.state == OK


def test_the_store_is_tried_where_it_will_be_and_nothing_is_left_behind(tmp_path):
    lines = list(doctor.store_lines(tmp_path / "not" / "yet"))
    assert "will be made" in lines[0].detail
    assert {line.state for line in lines} == {OK}
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_fails_a_trial_is_a_problem_and_clocks_that_differ_are_a_warning(tmp_path, monkeypatch):
    finding = namedtuple("Finding", "what ok detail")
    monkeypatch.setattr(doctor, "probe", lambda root: [finding("fsync", False, "not permitted")])
    found = {line.what: line for line in doctor.store_lines(tmp_path)}
    assert (found["store: fsync"].state, found["store: fsync"].detail) == (PROBLEM, "not permitted")
    assert [doctor.skew_line(skew).state for skew in (0.5, -90.0, 90.0)] == [OK, WARNING, WARNING]
    assert "-90 s" in doctor.skew_line(-90.0).detail


def test_the_file_system_is_that_of_the_nearest_mount(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"a / ext4 rw 0 0\nb {tmp_path.resolve()} nfs4 rw 0 0\n", encoding="utf-8")
    assert doctor.file_system(tmp_path, mounts) == "nfs4"
    assert doctor.file_system(tmp_path.parent, mounts) == "ext4"
    assert "unknown" in doctor.file_system(tmp_path, tmp_path / "none")


@pytest.mark.slow  # loads torch
def test_the_command_prints_a_line_each_and_its_code_says_if_there_is_a_problem(tmp_path, capsys, printed, monkeypatch):
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    options = ["study", "doctor", "tiny", "--store", str(tmp_path / "runs")]
    found = {line["what"]: line["state"] for line in json.loads(printed(*options, "--json"))}
    assert {"python", "packages", "torch", "device", "threads", "slurm", "ray", "backbone", "data", "store"} <= {*found}
    assert PROBLEM not in found.values()
    assert main([*options, "--set", "max_tokens=600"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("problem")]
    assert line.endswith("cure: --set max_tokens=512")
