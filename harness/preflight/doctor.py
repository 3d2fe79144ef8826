"""What a machine has for a run, and what a study and its store need; a line each with the cure, and how to bring it.

Of the machine: Python, packages, torch, device, threads, schedulers. Of a study: backbone, encoder, raw files. Of a
store: file system, clock. ``prefetch`` brings what a study needs from the internet, so that its jobs run without.
"""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from adapters_store.disk import probe
from adapters_store.measures import MINILM, MPNET, POOLED, encoders
from harness.preflight.estimate import MEASURED
from harness.raw.fetch import Watch, fetch
from harness.raw.holdings import Holding, holdings
from harness.study.backbone import MINILM_SHA256, resolve
from harness.study.config import StudyConfig
from harness.study.device import cores, kind_of
from tasks.errors import BadInput
from tasks.plain_text import is_folder
from tasks.registry import Registry

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
    wrong = []
    for package in declared:
        version = here[package.name]
        if version is None or version.partition("+")[0] not in package.specifier:
            wrong.append(f"{package} (here: {version or 'none'})")
    if wrong:
        return Line("packages", PROBLEM, f"not as declared: {', '.join(wrong)}", f"pip install --upgrade {PROJECT}")
    if not constraints.is_file():
        return Line("packages", OK, f"{len(declared)} packages in their declared ranges")
    pins = (line.split("#")[0].strip().partition("==") for line in constraints.read_text("utf-8").splitlines())
    versions = {name: version for name, equals, version in pins if equals}
    other = [
        f"{name} {version} ({versions[name]})"
        for name, version in here.items()
        if name in versions and version and version.partition("+")[0] != versions[name]
    ]
    if other:
        cure = "pip install -c constraints.txt -e ."
        return Line("packages", WARNING, f"other than in constraints.txt: {', '.join(other)}", cure)
    return Line("packages", OK, f"{len(declared)} packages as declared, and as in constraints.txt")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def torch_lines() -> Iterator[Line]:
    """The build of torch, and whether it computes on a GPU or why not."""
    try:
        import torch
    except ImportError as problem:
        yield Line("torch", PROBLEM, f"cannot be loaded: {problem}", "pip install torch")
        return
    build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
    yield Line("torch", OK, f"{torch.__version__}, {build}")
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
        known = "; `plan` has its measured rates" if set(names) <= set(MEASURED) else ""
        return Line("device", OK, f"{len(names)} GPU: {', '.join(dict.fromkeys(names))}; driver {driver}{known}")
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
    threads, here = os.environ.get("OMP_NUM_THREADS", ""), cores()
    if threads.isdecimal() and int(threads) > here:
        cure = f"OMP_NUM_THREADS={here}, or ask the scheduler for more cores"
        return Line("threads", WARNING, f"OMP_NUM_THREADS is {threads}, but only {here} cores are ours", cure)
    return Line("threads", OK, f"{here} cores; OMP_NUM_THREADS is {threads or 'not set'}")


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
        command = ["sinfo", "--noheader", "--format=%P"]
        sinfo = partial(subprocess.run, command, capture_output=True, text=True, timeout=SECONDS, check=True)
        names = [line.split()[0] for line in (ask() if ask else sinfo().stdout).splitlines() if line.split()]
    except (OSError, subprocess.SubprocessError) as problem:
        reason = str(getattr(problem, "stderr", None) or problem).strip().splitlines()[0]
        if isinstance(problem, subprocess.TimeoutExpired):
            reason = f"nothing in {SECONDS} s"
        detail = f"sinfo does not answer: {reason}"
        return Line("slurm", PROBLEM if wanted else WARNING, detail, "set SLURM_CONF, or ask the site if Slurm is up")
    partitions = {name.rstrip("*") for name in names}
    if unknown := [name for name in str(wanted.get("partition", "")).split(",") if name and name not in partitions]:
        detail = f"no partition {unknown[0]!r}; there are {', '.join(names)}"
        return Line("slurm", PROBLEM, detail, "correct slurm.partition in the study")
    return Line("slurm", OK, f"partitions {', '.join(dict.fromkeys(names)) or 'none'} (* is the default)")


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


OFFLINE = "HF_HUB_OFFLINE"
MOST_SKEW = 2.0  # seconds that the clocks of this machine and of the store's may be apart; times are kept in seconds
DEVICES = {"cpu": "processor", "cuda": "GPU"}
OF_KEY = "precision is part of the key of every cell"
NETWORKS = ("nfs", "lustre", "gpfs", "beegfs", "cifs", "smb", "ceph", "fuse", "9p", "afs")


@contextmanager
def offline() -> Iterator[None]:
    """Take from the hub's cache only what is there already."""
    earlier = os.environ.get(OFFLINE)
    os.environ[OFFLINE] = "1"
    try:
        yield
    finally:
        if earlier is None:
            del os.environ[OFFLINE]
        else:
            os.environ[OFFLINE] = earlier


def study_lines(study: StudyConfig, registry: Registry, data: Path) -> Iterator[Line]:
    """Backbone, sentence encoder and one line for each dataset that is not as it should be."""
    yield backbone_line(study)
    yield encoder_line(study)
    yield from precision_lines(study)
    yield from data_lines(study, registry, data)


def backbone_line(study: StudyConfig) -> Line:
    """Whether the backbone is here without the internet, its files fit each other, and the hash of its weights."""
    from harness.training.tokenizer import load_tokenizer

    try:
        with offline():
            backbone = resolve(study.backbone)
            load_tokenizer(backbone)
    except BadInput as problem:
        fetched = f"with internet: empathy-transfer study prefetch {study.name}"
        return Line("backbone", PROBLEM, str(problem), "" if is_folder(Path(study.backbone)) else fetched)
    note = ", as known" if backbone.weights_sha256 == MINILM_SHA256 else ""
    if study.max_tokens > backbone.max_tokens:
        detail = f"{study.backbone} takes {backbone.max_tokens} tokens, max_tokens is {study.max_tokens}"
        return Line("backbone", PROBLEM, detail, f"--set max_tokens={backbone.max_tokens}")
    hub = f"{OFFLINE} is {'set' if os.environ.get(OFFLINE) == '1' else 'not set'}"
    return Line("backbone", OK, f"{study.backbone}, weights sha256 {backbone.weights_sha256[:12]}{note}; {hub}")


def precision_lines(study: StudyConfig) -> Iterator[Line]:
    """That another precision would be faster here; the default stays fp32, because precision is part of every key."""
    device, is_lanes = kind_of("auto"), study.trainer == "lanes"
    if is_lanes and study.precision == "fp32" and device == "cuda":
        detail = "fp32, in which an H200 multiplies at 67 TFLOP/s by its data sheet, in bf16 at 989"
        yield Line("precision", WARNING, detail, f"--set precision=bf16, or stay: {OF_KEY}")
    asked = {"precision": study.precision if is_lanes else ""}
    asked |= {f"system.{name}.precision": table.get("precision", "") for name, table in study.system.items()}
    if names := [name for name, precision in asked.items() if precision == "bf16"]:
        import torch

        from harness.training.lanes.frozen import has_bf16_products

        is_gpu = device == "cuda"
        if torch.cuda.is_bf16_supported(including_emulation=False) if is_gpu else has_bf16_products():
            return
        detail = f"bf16, in which this {DEVICES[device]} has no products; training is slower than in fp32"
        for name in names:
            yield Line("precision", WARNING, detail, f"--set {name}=fp32, or stay: {OF_KEY}")


def encoder_line(study: StudyConfig) -> Line:
    """Whether the sentence encoder is here that `study similarities` would take; nothing else needs it."""
    name = encoders(study.backbone)[0]
    if name == POOLED:
        return Line("encoder", OK, "the backbone itself stands in for a sentence encoder")
    try:
        with offline():
            find_encoder(name)
    except BadInput as problem:
        cure = f"with internet: empathy-transfer study prefetch {study.name}"
        return Line("encoder", WARNING, f"{problem} (for `study similarities` only)", cure)
    return Line("encoder", OK, f"{name} is here, for `study similarities`")


def find_encoder(name: str) -> str:
    """The name itself; BadInput unless this sentence encoder is to be had, and its weights are those of its config."""
    if name == MINILM:
        resolve(MINILM)
    else:
        from harness.similarity.encoders import check_encoder, sentence_folder

        check_encoder(sentence_folder(name))
    return name


def data_lines(study: StudyConfig, registry: Registry, data: Path) -> Iterator[Line]:
    """One line for the datasets of the study that are here, and one for each that is not, or not as it should be."""
    if study.data == "synthetic":
        yield Line("data", OK, "synthetic: written when it is needed")
        return
    every = study_holdings(study, registry, data)
    whole = [holding for holding in every if not holding.missing and "differs" not in holding.files.values()]
    verified = sum(set(holding.files.values()) == {"verified"} for holding in whole)
    here = f"{len(whole)} of {len(every)} datasets are here, {verified} of them verified by checksum"
    is_any = bool(whole) or any(not holding.missing or holding.fallback for holding in every)
    yield Line("data", OK if is_any else PROBLEM, here, "" if is_any else "the lines below, or another --data")
    for holding in every:
        subject = f"data {holding.dataset.id}"
        if holding.missing:
            more = f" and {len(holding.missing) - 1} more" if len(holding.missing) > 1 else ""
            until = ", smaller files stand in" if holding.fallback else ""
            tasks = ", ".join(task for task in holding.tasks if task in study.tasks)
            yield Line(subject, WARNING, f"{holding.missing[0]}{more} missing{until}: {tasks}", holding.how)
        for path in (path for path, state in holding.files.items() if state == "differs"):
            detail = f"{path} is not the file that its entry knows"
            yield Line(subject, WARNING, detail, "another version, or damaged: fetch it again")


def study_holdings(study: StudyConfig, registry: Registry, data: Path) -> list[Holding]:
    """The datasets of a study's tasks."""
    return [holding for holding in holdings(registry, data) if set(holding.tasks) & set(study.tasks)]


def store_lines(root: Path) -> Iterator[Line]:
    """What the store's file system does, tried there, and its clock."""
    folder = next(path for path in (root.absolute(), *root.absolute().parents) if path.is_dir())
    kind = file_system(folder)
    there = "is there" if root.is_dir() else "will be made by the first run"
    far = " (over the network: what is assumed of it is tried below)" if kind.startswith(NETWORKS) else ""
    yield Line("store", OK, f"{root} {there}, on {kind}{far}")
    for trait, is_ok, detail in probe(root):
        cure = "" if is_ok else "mend this, or choose another place with --store"
        yield Line(f"store: {trait}", OK if is_ok else PROBLEM, detail, cure)
    yield clock_line(folder)


def clock_line(folder: Path) -> Line:
    """How far the file system's clock is from ours."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            started = time.time()
            file.write(b"x")
            file.flush()
            skew = os.fstat(file.fileno()).st_mtime - started
    except OSError as problem:
        return Line("clock", WARNING, f"cannot be compared: {problem.strerror or problem}", "mend the lines above")
    return skew_line(skew)


def skew_line(skew: float) -> Line:
    """What it means that the store's clock is ``skew`` seconds ahead."""
    if abs(skew) > MOST_SKEW:
        detail = f"the store's clock is {skew:+.0f} s from this machine's"
        return Line("clock", WARNING, detail, "set both by NTP; ages and rates of `status` are off until then")
    return Line("clock", OK, f"the store's and this machine's agree within {MOST_SKEW:g} s")


def file_system(folder: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The kind of file system that a folder is on."""
    try:
        entries = [line.split()[1:3] for line in mounts.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "a file system of unknown kind"
    points = [(mount.replace("\\040", " "), kind) for mount, kind in entries]
    around = [(len(mount), kind) for mount, kind in points if folder.resolve().is_relative_to(mount)]
    return max(around)[1] if around else "a file system of unknown kind"


HERE, FETCHED, BY_HAND, FAILED = "here", "fetched", "by hand", "failed"


class Delivery(NamedTuple):
    """What came of one thing: it was ``here``, is ``fetched``, is to be had ``by hand`` only, or ``failed``."""

    what: str
    state: str
    detail: str


def prefetch(study: StudyConfig, registry: Registry, data: Path, watch: Watch) -> Iterator[Delivery]:
    """Bring everything and say of each thing what came of it; BadInput when the hub is switched off."""
    if os.environ.get(OFFLINE) == "1":
        raise BadInput(f"{OFFLINE}=1 is set, so nothing can be fetched; unset it where there is internet")
    yield _deliver("backbone", lambda: _backbone(study.backbone))
    encoder = encoders(study.backbone)[0]
    if encoder in (MPNET, MINILM):
        yield _deliver("encoder", lambda: find_encoder(encoder), " (for `study similarities` only)")
    if study.data == "synthetic":
        yield Delivery("data", HERE, "synthetic: written when it is needed")
        return
    for holding in study_holdings(study, registry, data):
        yield from _data(holding, data, watch)


def environment(data: Path, store: Path) -> str:
    """The line of shell with which jobs find everything and ask no hub."""
    folders = {"EMPATHY_DATA": str(data.resolve()), "EMPATHY_STORE": str(store.resolve())}
    kept = {name: os.environ[name] for name in ("HF_HOME", "HF_HUB_CACHE") if name in os.environ}
    values = {OFFLINE: "1", **folders, **kept}
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())


def _deliver(subject: str, bring: Callable[[], str], note: str = "") -> Delivery:
    """What came of files that ``bring`` describes: here if it can without the hub, else fetched, or failed."""
    try:
        with offline():
            return Delivery(subject, HERE, bring())
    except BadInput:
        try:
            return Delivery(subject, FETCHED, bring())
        except BadInput as problem:
            return Delivery(subject, FAILED, f"{problem}{note}")


def _backbone(name: str) -> str:
    """The backbone's files, from which the tokenizer is loaded once without the hub, as a job will."""
    from harness.training.tokenizer import load_tokenizer

    backbone = resolve(name)
    with offline():
        load_tokenizer(backbone)
    return f"{name}, weights sha256 {backbone.weights_sha256[:12]}"


def _data(holding: Holding, data: Path, watch: Watch) -> Iterator[Delivery]:
    """A dataset's files, as far as they may be downloaded."""
    subject = f"data {holding.dataset.id}"
    fetched = 0
    try:
        for _, is_new in fetch(holding.downloads, data, watch):
            fetched += is_new
    except BadInput as problem:
        yield Delivery(subject, FAILED, str(problem))
        return
    licence = f"licence: {holding.dataset.licence or 'unstated'}"
    if fetched:
        yield Delivery(subject, FETCHED, f"{fetched} files; {licence}")
    if holding.left_to_ask:
        yield Delivery(subject, BY_HAND, f"{', '.join(holding.left_to_ask)}: {holding.how}")
    elif not fetched:
        yield Delivery(subject, HERE, f"{len(holding.files)} files; {licence}")
