"""From an incoming folder to a record: an adapter that others have trained, with its head if it has one."""

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from adapters_store import Record, Store, key_of
from adapters_store.roles import IMPORTED
from harness.run.pack import provenance
from harness.sharing.incoming import (
    ACTIVATION,
    LAYERS,
    AdapterPart,
    AdapterSource,
    BadAdapter,
    Head,
    Incoming,
    head_in,
    read_incoming,
    settings_in,
)
from harness.study.backbone import Backbone, BadBackbone, resolve
from harness.study.intermediates import check_name
from harness.study.methods import METHODS, check_width
from harness.systems.system import ADAPTER_PACKAGES
from harness.training.model import POOL, load_backbone, save_adapter
from harness.training.tensors import CPU
from tasks.fields import excerpt
from tasks.registry import Registry

USUAL_BACKBONE = "roberta-base"
MODEL_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")  # of the hub or built in, but no path
SCHEMA = 2  # as of cells (harness.study.cell)


class Imported(NamedTuple):
    """The record of an import; ``is_new`` unless the store had it already."""

    record: Record
    is_new: bool


def backbone_of(source: AdapterSource) -> Backbone:
    """The backbone that a folder's configuration names as its model, or USUAL_BACKBONE if it names none.

    BadAdapter for a name that is a path, and where the model is not to be had.
    """
    part = read_incoming(source.folder, source.root).adapter
    name = part.text("model_name", "") or USUAL_BACKBONE
    if not MODEL_NAME.fullmatch(name):
        raise BadAdapter(
            f"{part.where}: model_name {excerpt(name)} is no model's name; give what it was trained on with --backbone"
        )
    try:
        return resolve(name)
    except BadBackbone as problem:
        raise BadAdapter(f"{part.where}: names {name!r} as its model: {problem}; or give --backbone") from None


def import_adapter(store: Store, source: AdapterSource, name: str, backbone: Backbone) -> Imported:
    """Keep the adapter in a folder as the record of an intermediate called ``name`` on this backbone.

    BadAdapter, a line, unless the tensors of the folder are exactly those of such an adapter on this backbone.
    """
    check_name(name, Registry.load())
    started = time.perf_counter(), time.process_time()
    incoming = read_incoming(source.folder, source.root)
    for part in (incoming.adapter, incoming.head):
        if part is not None:
            # BadAdapter for what was trained on another kind of encoder, or on one of another width
            kind = part.text("model_type")
            if kind != backbone.library_type:
                raise BadAdapter(
                    f"{part.where}: trained on a {kind}, but backbone {backbone.name!r} is a {backbone.model_type}"
                )
            if part.width != backbone.width:
                raise BadAdapter(
                    f"{part.where}: hidden_size {part.width}, but backbone {backbone.name!r} is {backbone.width} wide; "
                    "give the one that it was trained on with --backbone"
                )
    head = head_in(incoming.head, name) if incoming.head else None
    spec = _spec(incoming, head, name, backbone, source)
    if (key := key_of(spec)) in store:
        return Imported(store.get(key), is_new=False)
    network = _network(spec, incoming.adapter.where, backbone)
    _fill_adapter(network, incoming.adapter, name, backbone)
    if incoming.head and head:
        tensors = {head.rename(old): tensor for old, tensor in incoming.head.tensors.items()}
        weights = {path: value for path, value in network.state_dict().items() if path.startswith(f"heads.{name}.")}
        _fill(tensors, weights, incoming.head.where, backbone)
    with store.staging() as folder:
        save_adapter(network, name, folder / "adapter", with_head=head is not None)
        origin = provenance(backbone, started, CPU, lanes=1, packages=ADAPTER_PACKAGES)
        return Imported(store.put(key, spec, {}, origin, folder), is_new=True)


def _spec(
    incoming: Incoming, head: Head | None, name: str, backbone: Backbone, source: AdapterSource
) -> dict[str, Any]:
    """The spec of the record, from which its key is computed: the files that it was made from, and its backbone."""
    part = incoming.adapter
    return {
        "schema": SCHEMA,
        "role": IMPORTED,
        "target": name,
        "intermediate": None,
        "intermediate_key": None,
        "backbone": backbone.identity(),
        "adapter": settings_in(part),
        "label": {"kind": head.kind, "classes": list(head.classes)} if head else None,
        "origin": {
            "files": dict(sorted(incoming.files.items())),
            "hub": source.hub,
            "commit": source.commit,
            "name": part.name,
            "library": part.text("version", "unstated").removeprefix("adapters."),
            "model_name": part.text("model_name", "unstated"),
        },
    }


def _network(spec: Mapping[str, Any], where: Path, backbone: Backbone) -> Any:  # noqa: ANN401
    """The backbone with an adapter and head as the record's spec says, whose weights are still to be filled in."""
    import adapters

    name, label, settings = spec["target"], spec["label"], dict(spec["adapter"])
    check_width(settings, backbone.width)
    network = load_backbone(backbone)
    config = getattr(adapters, METHODS[settings.pop("method")].config)
    try:
        network.add_adapter(name, config=config(**settings))
    except KeyError:
        raise BadAdapter(
            f"{where}: non_linearity {excerpt(settings['non_linearity'])} is unknown; correct it"
        ) from None
    if label is not None:
        network.add_classification_head(
            name,
            num_labels=len(label["classes"]) or 1,
            layers=LAYERS,
            activation_function=ACTIVATION,
            multilabel=label["kind"] == "multilabel",
            id2label=dict(enumerate(label["classes"])) or None,
        )
    return network


def _fill_adapter(network: Any, part: AdapterPart, name: str, backbone: Backbone) -> None:  # noqa: ANN401
    """Copy the folder's tensors into the adapter, under the names that they have in today's library."""
    from adapters.loading import AdapterLoader

    loader, top = AdapterLoader(network), f"{network.base_model_prefix}."
    rename, is_own = loader.rename_func(part.name, name), loader.filter_func(name)
    is_bare = not any(tensor.startswith(top) for tensor in part.tensors)  # saved from a model without heads
    tensors = {rename(f"{top}{old}" if is_bare else old): tensor for old, tensor in part.tensors.items()}
    if len(tensors) < len(part.tensors):
        raise BadAdapter(f"{part.where}: two of its tensors are for the same place; get the folder again")
    tensors = {name: tensor for name, tensor in tensors.items() if POOL not in name}
    state = network.state_dict()
    weights = {name: tensor for name, tensor in state.items() if is_own(name) and POOL not in name}
    _fill(tensors, weights, part.where, backbone)


def _fill(tensors: Mapping[str, Tensor], parameters: Mapping[str, Tensor], where: Path, backbone: Backbone) -> None:
    """Copy tensors into the parameters of the same names; BadAdapter unless names and shapes are the same."""
    unused, missing = sorted(tensors.keys() - parameters), sorted(parameters.keys() - tensors)
    if unused or missing:
        lines = [_count(unused, "without a place"), _count(missing, "missing")]
        raise BadAdapter(f"{where}: on backbone {backbone.name!r} {' and '.join(filter(None, lines))}")
    for name, parameter in parameters.items():
        if tensors[name].shape != parameter.shape:
            shape, needed = list(tensors[name].shape), list(parameter.shape)
            raise BadAdapter(f"{where}: tensor {name} is {shape}, but backbone {backbone.name!r} needs {needed}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def _count(names: list[str], fault: str) -> str:
    """How many tensors are missing or have no place, with the first of them; empty if there are none."""
    several = "s" if len(names) > 1 else ""
    return f"{len(names)} tensor{several} {fault}, as {excerpt(names[0])}" if names else ""
