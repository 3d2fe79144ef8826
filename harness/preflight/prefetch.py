"""Bring what a study needs from the internet, so that its jobs can run without: backbone, encoder, raw files."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from adapters_store.measures import MINILM, MPNET, encoders
from harness.preflight.doctor import OFFLINE, find_encoder, offline, study_holdings
from harness.raw.fetch import Watch, fetch
from harness.raw.holdings import Holding
from harness.study.backbones.backbone import Backbone, resolve
from harness.study.config import StudyConfig
from tasks.errors import BadInput
from tasks.registry import Registry

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
    yield _backbone(study.backbone)
    if encoders(study.backbone)[0] in (MPNET, MINILM):
        yield _encoder(encoders(study.backbone)[0])
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


def _backbone(name: str) -> Delivery:
    """The backbone's files, from which the tokenizer is loaded once without the hub, as a job will."""
    from harness.training.tokens.tokenizer import load_tokenizer

    try:
        backbone, state = _resolved(name)
    except BadInput as problem:
        return Delivery("backbone", FAILED, str(problem))
    try:
        with offline():
            load_tokenizer(backbone)
    except BadInput as problem:
        return Delivery("backbone", FAILED, str(problem))
    return Delivery("backbone", state, f"{name}, weights sha256 {backbone.weights_sha256[:12]}")


def _resolved(name: str) -> tuple[Backbone, str]:
    try:
        with offline():
            return resolve(name), HERE
    except BadInput:
        return resolve(name), FETCHED


def _encoder(name: str) -> Delivery:
    try:
        with offline():
            find_encoder(name)
    except BadInput:
        try:
            find_encoder(name)
        except BadInput as problem:
            return Delivery("encoder", FAILED, f"{problem} (for `study similarities` only)")
        return Delivery("encoder", FETCHED, name)
    return Delivery("encoder", HERE, name)


def _data(holding: Holding, data: Path, watch: Watch) -> Iterator[Delivery]:
    """A dataset's files, as far as they may be downloaded."""
    what = f"data {holding.dataset.id}"
    fetched = 0
    try:
        for _, is_new in fetch(holding.downloads, data, watch):
            fetched += is_new
    except BadInput as problem:
        yield Delivery(what, FAILED, str(problem))
        return
    licence = f"licence: {holding.dataset.licence or 'unstated'}"
    if fetched:
        yield Delivery(what, FETCHED, f"{fetched} files; {licence}")
    if holding.left_to_ask:
        yield Delivery(what, BY_HAND, f"{', '.join(holding.left_to_ask)}: {holding.how}")
    elif not fetched:
        yield Delivery(what, HERE, f"{len(holding.files)} files; {licence}")
