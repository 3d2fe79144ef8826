"""What a study and its store need: backbone, encoder, raw files, file system, clock; a line each with the cure."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adapters_store.measures import MINILM, POOLED, encoders
from adapters_store.probe import probe
from harness.preflight.machine import OK, PROBLEM, WARNING, Line
from harness.raw.holdings import Holding, holdings
from harness.study.backbones.backbone import MINILM_SHA256, resolve
from harness.study.config import StudyConfig
from harness.study.device import kind_of
from tasks.errors import BadInput
from tasks.plain_text import is_folder
from tasks.registry import Registry

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
    from harness.training.tokens.tokenizer import load_tokenizer

    try:
        with offline():
            backbone = resolve(study.backbone)
            load_tokenizer(backbone)
    except BadInput as problem:
        fetched = f"with internet: empathy-transfer study prefetch {study.name}"
        return Line("backbone", PROBLEM, str(problem), "" if is_folder(Path(study.backbone)) else fetched)
    known = ", as known" if backbone.weights_sha256 == MINILM_SHA256 else ""
    if study.max_tokens > backbone.max_tokens:
        detail = f"{study.backbone} takes {backbone.max_tokens} tokens, max_tokens is {study.max_tokens}"
        return Line("backbone", PROBLEM, detail, f"--set max_tokens={backbone.max_tokens}")
    hub = f"{OFFLINE} is {'set' if os.environ.get(OFFLINE) == '1' else 'not set'}"
    return Line("backbone", OK, f"{study.backbone}, weights sha256 {backbone.weights_sha256[:12]}{known}; {hub}")


def precision_lines(study: StudyConfig) -> Iterator[Line]:
    """That another precision would be faster here; the default stays fp32, because precision is part of every key."""
    if study.trainer != "lanes":
        return
    device = kind_of("auto")
    if study.precision == "fp32" and device == "cuda":
        detail = "fp32, in which an H200 multiplies at 67 TFLOP/s by its data sheet, in bf16 at 989"
        yield Line("precision", WARNING, detail, f"--set precision=bf16, or stay: {OF_KEY}")
    elif study.precision == "bf16" and not _multiplies_bf16(device):
        detail = f"bf16, in which this {DEVICES[device]} has no products; training is slower than in fp32"
        yield Line("precision", WARNING, detail, f"--set precision=fp32, or stay: {OF_KEY}")


def _multiplies_bf16(device: str) -> bool:
    """Whether the processor or GPU here has products of bf16."""
    import torch

    from harness.training.lanes.products import has_bf16_products

    return torch.cuda.is_bf16_supported(including_emulation=False) if device == "cuda" else has_bf16_products()


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


def find_encoder(name: str) -> None:
    """BadInput unless the sentence encoder of this name is to be had, and its weights are those of its config."""
    if name == MINILM:
        resolve(MINILM)
        return
    from harness.similarity.encoders import check_encoder, sentence_folder

    check_encoder(sentence_folder(name))


def data_lines(study: StudyConfig, registry: Registry, data: Path) -> Iterator[Line]:
    """One line for the datasets of the study that are here, and one for each that is not, or not as it should be."""
    if study.data == "synthetic":
        yield Line("data", OK, "synthetic: written when it is needed")
        return
    asked = study_holdings(study, registry, data)
    whole = [holding for holding in asked if not holding.missing and "differs" not in holding.files.values()]
    verified = sum(set(holding.files.values()) == {"verified"} for holding in whole)
    here = f"{len(whole)} of {len(asked)} datasets are here, {verified} of them verified by checksum"
    is_any = bool(whole) or any(not holding.missing or holding.fallback for holding in asked)
    yield Line("data", OK if is_any else PROBLEM, here, "" if is_any else "the lines below, or another --data")
    for holding in asked:
        yield from _wrong(holding, study)


def _wrong(holding: Holding, study: StudyConfig) -> Iterator[Line]:
    if holding.missing:
        more = f" and {len(holding.missing) - 1} more" if len(holding.missing) > 1 else ""
        until = ", smaller files stand in" if holding.fallback else ""
        tasks = ", ".join(task for task in holding.tasks if task in study.tasks)
        detail = f"{holding.missing[0]}{more} missing{until}: {tasks}"
        yield Line(f"data {holding.dataset.id}", WARNING, detail, holding.how)
    for path, state in holding.files.items():
        if state == "differs":
            detail = f"{path} is not the file that its entry knows"
            yield Line(f"data {holding.dataset.id}", WARNING, detail, "another version, or damaged: fetch it again")


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
    for what, is_ok, detail in probe(root):
        cure = "" if is_ok else "mend this, or choose another place with --store"
        yield Line(f"store: {what}", OK if is_ok else PROBLEM, detail, cure)
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
