"""What a machine has for a run: Python, packages, torch, device, threads, schedulers; a line each with the cure."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from harness.study.config import StudyConfig
from harness.study.device import cores

OK, WARNING, PROBLEM = "ok", "warning", "problem"
PROJECT = "empathy-transfer"
CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"  # of a checkout; an installation has none
DRIVER = Path("/proc/driver/nvidia/version")
RAY_NOTE = Path(tempfile.gettempdir()) / "ray" / "ray_current_cluster"  # the cluster that its command line started
SECONDS = 10  # that a scheduler has for its answer
NETWORK_SECONDS = 2.0


class Line(NamedTuple):
    """One thing that was looked at: ``state`` is ``ok``, ``warning`` or ``problem``; ``cure`` what to do about it."""

    what: str
    state: str
    detail: str
    cure: str = ""


def machine_lines(study: StudyConfig | None = None) -> Iterator[Line]:
    """The lines that do not depend on data or store; of a study only what it asks of schedulers. Loads torch."""
    yield python_line()
    yield packages_line()
    yield from torch_lines()
    yield threads_line()
    yield slurm_line(study.slurm if study else {})
    yield ray_line(str(study.ray.get("address", "")) if study else "")


def python_line() -> Line:
    """Whether this Python is one that the project is for."""
    from packaging.specifiers import SpecifierSet

    wanted = metadata.metadata(PROJECT)["Requires-Python"]
    version = ".".join(str(part) for part in sys.version_info[:3])
    if version not in SpecifierSet(wanted):
        return Line("python", PROBLEM, f"{version}, not {wanted}", "make a virtual environment with a newer Python")
    return Line("python", OK, f"{version} at {sys.executable}")


def packages_line(constraints: Path = CONSTRAINTS) -> Line:
    """Whether the declared packages are here, in their ranges, and as in the constraints where those are here."""
    from packaging.requirements import Requirement

    every = [Requirement(line) for line in metadata.requires(PROJECT) or ()]
    declared = [package for package in every if package.marker is None or package.marker.evaluate({"extra": ""})]
    here = {package.name: _version(package.name) for package in declared}
    wrong = [
        f"{package} (here: {here[package.name] or 'none'})"
        for package in declared
        if _is_wrong(here[package.name], package.specifier)
    ]
    if wrong:
        return Line("packages", PROBLEM, f"not as declared: {', '.join(wrong)}", f"pip install --upgrade {PROJECT}")
    if not constraints.is_file():
        return Line("packages", OK, f"{len(declared)} packages in their declared ranges")
    known = _pinned(constraints.read_text(encoding="utf-8"))
    other = [
        f"{name} {version} ({known[name]})"
        for name, version in here.items()
        if name in known and version and version.partition("+")[0] != known[name]
    ]
    if other:
        cure = "pip install -c constraints.txt -e ."
        return Line("packages", WARNING, f"other than in constraints.txt: {', '.join(other)}", cure)
    return Line("packages", OK, f"{len(declared)} packages as declared, and as in constraints.txt")


def _is_wrong(version: str | None, specifier: object) -> bool:
    return version is None or version.partition("+")[0] not in specifier  # type: ignore[operator]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _pinned(text: str) -> dict[str, str]:
    """Versions by name of the lines ``name==version``."""
    pairs = (line.split("#")[0].strip().partition("==") for line in text.splitlines())
    return {name: version for name, equals, version in pairs if equals}


def torch_lines() -> Iterator[Line]:
    """The build of torch, and whether it computes on a GPU or why not."""
    try:
        import torch
    except ImportError as problem:
        yield Line("torch", PROBLEM, f"cannot be loaded: {problem}", "pip install torch")
        return
    yield Line("torch", OK, f"{torch.__version__}, {_built_for(torch.version.cuda)}")
    try:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        names = [torch.cuda.get_device_name(number) for number in range(count)]
        for number in range(count):
            torch.ones(2, device=f"cuda:{number}").sum().item()
    except RuntimeError as problem:
        reason = str(problem).splitlines()[0]
        yield Line("device", PROBLEM, f"a GPU is seen but does not compute: {reason}", "install a torch for this GPU")
        return
    yield device_line(names, is_for_cuda=torch.version.cuda is not None, driver=driver_version())


def _built_for(cuda: str | None) -> str:
    return f"built for CUDA {cuda}" if cuda else "built without CUDA"


def driver_version(path: Path = DRIVER) -> str | None:
    """The version of NVIDIA's kernel driver, or None where there is none."""
    try:
        words = path.read_text(encoding="utf-8").splitlines()[0].split()
    except (OSError, IndexError):
        return None
    return next((word for word in words if word[:1].isdigit()), "of unknown version")


def device_line(names: Sequence[str], *, is_for_cuda: bool, driver: str | None) -> Line:
    """What is trained on, and why that is no GPU."""
    if names:
        return Line("device", OK, f"{len(names)} GPU: {', '.join(dict.fromkeys(names))}; driver {driver}")
    if driver is None:
        return Line("device", OK, "processor only: there is no NVIDIA driver (on a login node that is usual)")
    if not is_for_cuda:
        cure = "install a torch that is built for CUDA"
        return Line("device", WARNING, f"driver {driver} is here, but torch is built without CUDA", cure)
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None:
        cure = "ask the scheduler for a GPU (--gres=gpu:1), or unset it"
        return Line("device", WARNING, f"driver {driver} is here, CUDA_VISIBLE_DEVICES is {hidden!r}", cure)
    cure = "compare the driver with the CUDA of torch; update the driver, or take a torch for an older CUDA"
    return Line("device", WARNING, f"driver {driver} is here, but torch sees no GPU", cure)


def threads_line() -> Line:
    """Whether torch would start more threads than there are cores for this process."""
    asked, here = os.environ.get("OMP_NUM_THREADS", ""), cores()
    if asked.isdecimal() and int(asked) > here:
        cure = f"OMP_NUM_THREADS={here}, or ask the scheduler for more cores"
        return Line("threads", WARNING, f"OMP_NUM_THREADS is {asked}, but only {here} cores are ours", cure)
    return Line("threads", OK, f"{here} cores; OMP_NUM_THREADS is {asked or 'not set'}")


def slurm_line(wanted: Mapping[str, object], ask: Callable[[], str] | None = None) -> Line:
    """Whether jobs can be submitted to Slurm, and whether it has the partition that a study names."""
    missing = [name for name in ("sbatch", "squeue", "sinfo") if shutil.which(name) is None]
    if missing:
        absent = f"{', '.join(missing)} not found"
        if wanted:
            return Line("slurm", WARNING, f"{absent}; the study has a table [slurm]", "log in where jobs are submitted")
        return Line("slurm", OK, f"{absent}; needed by --engine slurm only")
    if find_spec("submitit") is None:
        return Line("slurm", WARNING, "submitit is not installed", f"pip install '{PROJECT}[slurm]'")
    try:
        names = [line.split()[0] for line in (ask or _sinfo)().splitlines() if line.split()]
    except (OSError, subprocess.SubprocessError) as problem:
        state = PROBLEM if wanted else WARNING
        return Line(
            "slurm",
            state,
            f"sinfo does not answer: {_reason(problem)}",
            "set SLURM_CONF, or ask the site if Slurm is up",
        )
    known = {name.rstrip("*") for name in names}
    if unknown := [name for name in str(wanted.get("partition", "")).split(",") if name and name not in known]:
        detail = f"no partition {unknown[0]!r}; there are {', '.join(names)}"
        return Line("slurm", PROBLEM, detail, "correct slurm.partition in the study")
    return Line("slurm", OK, f"partitions {', '.join(dict.fromkeys(names)) or 'none'} (* is the default)")


def _reason(problem: Exception) -> str:
    """Why a command did not do what it was asked, in a line."""
    if isinstance(problem, subprocess.TimeoutExpired):
        return f"nothing in {SECONDS} s"
    return str(getattr(problem, "stderr", None) or problem).strip().splitlines()[0]


def _sinfo() -> str:
    command = ["sinfo", "--noheader", "--format=%P"]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout


def ray_line(wanted: str = "", noted: Path = RAY_NOTE) -> Line:
    """Whether Ray is here, and whether the cluster answers that the study, RAY_ADDRESS or Ray's own note names."""
    if find_spec("ray") is None:
        state = WARNING if wanted else OK
        cure = f"pip install '{PROJECT}[ray]'" if wanted else ""
        return Line("ray", state, "not installed; needed by --engine ray only", cure)
    address = wanted or os.environ.get("RAY_ADDRESS", "") or (noted.read_text().strip() if noted.is_file() else "")
    if not address or address in ("auto", "local"):
        return Line("ray", OK, f"{metadata.version('ray')}; no cluster: --engine ray would start one on this machine")
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port)), NETWORK_SECONDS).close()
    except (OSError, ValueError) as problem:
        state = PROBLEM if wanted else WARNING
        cure = "start it (ray start --head), or correct the address"
        return Line("ray", state, f"the cluster {address} does not answer: {problem}", cure)
    return Line("ray", OK, f"{metadata.version('ray')}; the cluster {address} answers")
