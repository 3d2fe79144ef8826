"""A folder that the adapters library, of any version, has saved: facts and tensors, and nothing of it is run."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from harness.study.methods import METHODS
from tasks.errors import BadInput
from tasks.plain_text import is_folder, is_inside

ADAPTER = ("adapter_config.json", "adapter.safetensors", "pytorch_adapter.bin")
HEAD = ("head_config.json", "model_head.safetensors", "pytorch_model_head.bin")
FILES = (*ADAPTER, *HEAD)
LARGEST_BYTES = 512 * 2**20  # of weights: 24 layers of width 1024 with a reduction factor of 2 have 100 MB
LARGEST_JSON = 2**20
LONGEST_NAME = 200
LONGEST_SHOWN = 120


class BadAdapter(BadInput):
    """A folder holds no adapter that can be used; the message starts with the file."""


def shown(value: object) -> str:
    """A value of a folder in so few characters that a line can hold it."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


@dataclass(frozen=True)
class Part:
    """A configuration with the tensors beside it, float32 by the names that the folder gives them.

    ``where`` is the configuration's file.
    """

    where: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    @property
    def name(self) -> str:
        """What the adapter or head was called where it was trained; a path that leads elsewhere is refused."""
        name = self.text("name")
        if not (0 < len(name) <= LONGEST_NAME and is_inside(name)):
            raise BadAdapter(f"{self.where}: name {shown(name)} is empty, too long, or a path that leads elsewhere")
        return name

    def text(self, name: str, default: str | None = None) -> str:
        """A field that is a text; BadAdapter if it is not, or not there and without a ``default``."""
        value = default if self.config.get(name) is None else self.config[name]
        if not isinstance(value, str) or not value.isprintable():
            raise BadAdapter(
                f"{self.where}: {name} {shown(value)} is not a text; is this a folder of the adapters library?"
            )
        return value

    @property
    def width(self) -> int:
        """Values of one token's vector, as the configuration says."""
        value = self.config.get("hidden_size")
        if type(value) is not int:
            raise BadAdapter(f"{self.where}: hidden_size {shown(value)} is not a whole number; save the adapter again")
        return value


@dataclass(frozen=True)
class Incoming:
    """An adapter, its head if it has one, and the sha256 of every file that was read, by name."""

    adapter: Part
    head: Part | None
    files: Mapping[str, str]


def read_incoming(folder: Path, root: Path) -> Incoming:
    """What is in a folder; nothing in it may be a link that leads out of ``root``.

    BadAdapter, one line that names the file, if something is missing, damaged, over-large or not finite.
    """
    source = _Source(folder, root)
    adapter = _part(source, ADAPTER)
    if adapter is None:
        raise BadAdapter(f"{folder / ADAPTER[0]}: is missing; give a folder in which the adapters library saved one")
    return Incoming(adapter, _part(source, HEAD), source.hashes)


@dataclass(frozen=True)
class _Source:
    """A folder whose files are read once each, and what they were."""

    folder: Path
    root: Path
    hashes: dict[str, str] = field(default_factory=dict)

    def read(self, name: str, most: int) -> bytes | None:
        """The bytes of a file of at most so many; None if it is not there."""
        path = self.folder / name
        try:
            if not path.is_file():
                return None
            if not path.resolve().is_relative_to(self.root.resolve()):
                raise BadAdapter(f"{path}: a link that leads out of its folder; put the file itself there")
            if (size := path.stat().st_size) > most:
                raise BadAdapter(f"{path}: {size:,} bytes, more than the {most:,} that are read")
            raw = path.read_bytes()
        except OSError as problem:
            raise BadAdapter(f"{path}: cannot be read ({problem.strerror}); mend its rights") from None
        self.hashes[name] = hashlib.sha256(raw).hexdigest()
        return raw


def _part(source: _Source, names: tuple[str, str, str]) -> Part | None:
    """A configuration and its tensors; None where neither is there."""
    configuration, *weights = names
    raw = source.read(configuration, LARGEST_JSON)
    found = next(((name, one) for name in weights if (one := source.read(name, LARGEST_BYTES)) is not None), None)
    if raw is None and found is None:
        return None
    where = source.folder / configuration
    if raw is None or found is None:
        missing = configuration if raw is None else f"{weights[0]} or {weights[1]}"
        raise BadAdapter(
            f"{source.folder / missing}: is missing, though {'weights' if raw is None else where.name} is there"
        )
    name, content = found
    path = source.folder / name
    tensors = _safe(content, path) if name == weights[0] else _pickled(content, path)
    return Part(where, _table(raw, where), _checked(tensors, path))


def _table(raw: bytes, where: Path) -> dict[str, Any]:
    try:
        found = json.loads(raw.decode())
    except json.JSONDecodeError as problem:
        raise BadAdapter(f"{where}:{problem.lineno}: no JSON ({problem.msg}); get the folder again") from None
    except (ValueError, RecursionError):
        raise BadAdapter(f"{where}: no JSON; get the folder again") from None
    if not isinstance(found, dict):
        raise BadAdapter(f"{where}:1: JSON, but no table of fields; get the folder again")
    return found


def _safe(raw: bytes, where: Path) -> dict[str, Tensor]:
    try:
        return load(raw)
    except (SafetensorError, ValueError, KeyError):
        raise BadAdapter(f"{where}: damaged, or no safetensors; get the folder again") from None


def _pickled(raw: bytes, where: Path) -> dict[str, Tensor]:
    """The tensors of a file of ``torch.save``, read as tensors only: code in it is refused and never run."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile:
        size = len(raw)  # the format before torch 1.6 is no archive
    except (ValueError, NotImplementedError) as problem:  # names that are no text, a version that is none
        raise BadAdapter(f"{where}: damaged ({type(problem).__name__}); get the folder again") from None
    if size > LARGEST_BYTES:
        raise BadAdapter(f"{where}: unpacks to {size:,} bytes, more than the {LARGEST_BYTES:,} that are read")
    try:
        found = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as problem:  # what torch raises of a damaged file, it does not say
        kind = type(problem).__name__
        raise BadAdapter(f"{where}: damaged, or more than plain tensors ({kind}); nothing of it was run") from None
    if not (isinstance(found, dict) and all(isinstance(name, str) for name in found)):
        raise BadAdapter(f"{where}: no table of tensors; get the folder again")
    return found


def _checked(tensors: Mapping[str, Any], where: Path) -> dict[str, Tensor]:
    """The tensors as float32, every one of them dense and finite, no larger in all than a file may be."""
    values = {}
    for name, value in tensors.items():
        if not (isinstance(value, Tensor) and value.layout == torch.strided and value.is_floating_point()):
            raise BadAdapter(f"{where}: {shown(name)} is no tensor of real numbers; get the folder again")
        values[name] = value
    if (size := 4 * sum(value.numel() for value in values.values())) > LARGEST_BYTES:
        raise BadAdapter(f"{where}: its tensors take {size:,} bytes, more than the {LARGEST_BYTES:,} that are read")
    plain = {name: value.detach().to(torch.float32).contiguous() for name, value in values.items()}
    for name, value in plain.items():
        if not bool(value.isfinite().all()):
            raise BadAdapter(
                f"{where}: tensor {shown(name)} holds values that are no finite numbers; get the folder again"
            )
    return plain


# What the configurations of an incoming folder mean today: an adapter's method and settings, a head's labels.

RENAMED = {  # fields of adapter-transformers 1 by their names of today
    "LN_after": "ln_after",
    "LN_before": "ln_before",
    "MH_Adapter": "mh_adapter",
    "Output_Adapter": "output_adapter",
    "invertible_adapter": "inv_adapter",
}
OF_FUSION = ("attention_type", "new_attention_norm")  # once in every adapter's configuration, and never of one adapter
OF_TRAINING = (  # how it began and was trained: no part in what it computes
    "init_weights",
    "init_weights_seed",
    "dropout",
    "stochastic_depth",
    "phm_c_init",
    "phm_init_range",
    "hypercomplex_nonlinearity",
    "learn_phm",
)
OF_PHM = (
    "phm_dim",
    "phm_rank",
    "phm_bias",
    "shared_W_phm",
    "shared_phm_rule",
    "factorized_phm_W",
    "factorized_phm_rule",
)
MOST = 10_000  # of any size that a configuration may ask for, so that none takes all memory
ARCHITECTURES = ("prefix_tuning", "lora", "prompt_tuning")
BOTTLENECKS = ("seq_bn", "double_seq_bn", "compacter", "par_bn")
LAYERS, ACTIVATION = 2, "tanh"  # of the heads that a study trains, and that lanes have


class Head(NamedTuple):
    """What a head answers, and how its tensors are called in a model where it is called otherwise."""

    kind: str
    classes: tuple[str, ...]
    rename: Callable[[str], str]


def settings_in(part: Part) -> dict[str, int | float | str]:
    """The method and settings (as in ``methods.settings_of``) of an adapter's configuration, however old.

    BadAdapter for one that is none of the methods whose adapters can stand below others.
    """
    given = _today(part)
    architecture = given.pop("architecture", None)
    if architecture is not None and architecture not in ARCHITECTURES:
        raise BadAdapter(
            f"{part.where}: adapter of architecture {shown(architecture)}, which this project does not train"
        )
    methods = BOTTLENECKS if architecture is None else (architecture,)
    complete = _complete(part, given, "BnConfig" if architecture is None else METHODS[methods[0]].config)
    differing = {method: _differing(complete, method) for method in methods}
    method = min(differing, key=lambda one: len(differing[one]))
    if differing[method]:
        name, (found, wanted) = next(iter(differing[method].items()))
        raise BadAdapter(
            f"{part.where}: its adapter is no {method}, the nearest that this project trains: {name} is "
            f"{shown(found)}, not {wanted!r}"
        )
    if METHODS[method].no_stack:
        raise BadAdapter(f"{part.where}: a {method} adapter stands below no other ({METHODS[method].no_stack})")
    return {"method": method, **{name: complete[name] for name in METHODS[method].settings}}


def _today(part: Part) -> dict[str, Any]:
    """The fields under today's names, without those that mean nothing for one adapter."""
    from adapters.utils import ACTIVATION_RENAME

    given = part.config.get("config")
    if not isinstance(given, Mapping):
        raise BadAdapter(f"{part.where}: config {shown(given)} is not a table of settings; save the adapter again")
    found: dict[str, Any] = {
        RENAMED.get(str(name), str(name)): value for name, value in given.items() if name not in OF_FUSION
    }
    if part.config.get("type") == "text_task":  # it named the invertible adapter of its language, and had none
        found |= dict.fromkeys(found.keys() & {"inv_adapter", "inv_adapter_reduction_factor"})
    function = found.get("non_linearity")
    if isinstance(function, str):
        found["non_linearity"] = function if "version" in part.config else ACTIVATION_RENAME.get(function, function)
    return found


def _complete(part: Part, given: Mapping[str, Any], config: str) -> dict[str, Any]:
    """All settings, those that an older library did not know as it had them; BadAdapter for one that nobody knows."""
    import adapters

    kind = getattr(adapters, config)
    known = {one.name for one in dataclasses.fields(kind)}
    if unknown := sorted(set(given) - known):
        raise BadAdapter(f"{part.where}: setting {shown(unknown[0])} is unknown to adapters {adapters.__version__}")
    try:
        complete: dict[str, Any] = kind(**given).to_dict()
    except TypeError:
        plain = dataclasses.fields(kind)
        needed = [one.name for one in plain if one.default is one.default_factory is dataclasses.MISSING]
        lacking = next(name for name in needed if name not in given)
        raise BadAdapter(f"{part.where}: setting {lacking!r} is missing; save the adapter again") from None
    factor = complete.get("reduction_factor")
    if isinstance(factor, float) and factor.is_integer():
        complete["reduction_factor"] = int(factor)
    if isinstance(complete.get("non_linearity"), str):
        complete["non_linearity"] = complete["non_linearity"].lower()
    return complete


def _differing(complete: Mapping[str, Any], method: str) -> dict[str, tuple[Any, Any]]:
    """Settings that make another adapter than the library's own of a method, with their values and the library's."""
    import adapters

    plain = getattr(adapters, METHODS[method].config)().to_dict()
    unused = (*OF_TRAINING, *(() if complete.get("phm_layer") else OF_PHM))
    found = {}
    for name, usual in plain.items():
        value = complete.get(name)
        is_free = name in METHODS[method].settings
        if name not in unused and not (_can_be(value, usual) if is_free else value == usual):
            found[name] = (value, usual)
    return found


def _can_be(value: object, usual: object) -> bool:
    """Whether a free setting may be so: a text, or a number above 0, whole where it usually is."""
    if isinstance(usual, str):
        return isinstance(value, str)
    return type(value) is type(usual) and isinstance(value, int | float) and 0 < value <= MOST


def head_in(part: Part, name: str) -> Head:
    """What a head answers, and the names of its tensors in a model where it is called ``name``.

    BadAdapter for a head of another shape than those that score texts here.
    """
    from adapters.head_utils import STATIC_TO_FLEX_HEAD_MAP, get_head_config_and_rename_list

    model_class, config = part.text("model_class"), part.config.get("config")
    if model_class in STATIC_TO_FLEX_HEAD_MAP:  # the head of a transformers class, not of the library's own
        named, outputs = part.config.get("label2id"), part.config.get("num_labels")
        labels = named if isinstance(named, Mapping) else {}
        config, rename = get_head_config_and_rename_list(model_class, name, labels, num_labels=outputs or len(labels))
    elif isinstance(config, Mapping):
        old = f"heads.{part.name}."

        def rename(tensor: str) -> str:
            return f"heads.{name}.{tensor.removeprefix(old)}" if tensor.startswith(old) else tensor
    else:
        raise BadAdapter(f"{part.where}: config {shown(config)} is not a table of settings; save the head again")
    _check_shape(part, config)
    return Head(*_label(part, config), rename)


def _check_shape(part: Part, config: Mapping[str, Any]) -> None:
    kind, layers, function = (config.get(name) for name in ("head_type", "layers", "activation_function"))
    is_pooled, has_bias = config.get("use_pooler", False), config.get("bias", True)
    if kind not in ("classification", "multilabel_classification"):
        what = f"a head of type {shown(kind)}"
    elif (layers, function, is_pooled, has_bias) != (LAYERS, ACTIVATION, False, True):
        what = f"a head of {shown(layers)} layers with {shown(function)}{', over the pooler' if is_pooled else ''}"
    else:
        return
    raise BadAdapter(
        f"{part.where}: {what}, but texts are scored through classification heads of {LAYERS} layers with "
        f"{ACTIVATION}; take the head's files out of the folder to import the adapter alone"
    )


def _label(part: Part, config: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The kind of label and its classes in the order of the outputs; a head of one output gives a number."""
    outputs, labels = config.get("num_labels"), config.get("label2id")
    is_multilabel = config["head_type"] == "multilabel_classification"
    if type(outputs) is not int or not 1 + is_multilabel <= outputs <= MOST:
        raise BadAdapter(f"{part.where}: num_labels {shown(outputs)} is not a number of outputs; save the head again")
    if outputs == 1:
        return "continuous", ()
    if not labels:
        labels = {f"LABEL_{number}": number for number in range(outputs)}
    if not isinstance(labels, Mapping) or sorted(map(str, labels.values())) != sorted(map(str, range(outputs))):
        raise BadAdapter(f"{part.where}: label2id does not number the {outputs} outputs from 0; save the head again")
    classes = tuple(sorted(labels, key=lambda one: int(labels[one])))
    if odd := [one for one in classes if not (one.isprintable() and 0 < len(one) <= LONGEST_NAME)]:
        raise BadAdapter(f"{part.where}: label2id names a class {shown(odd[0])}; call it otherwise")
    return "multilabel" if is_multilabel else "binary" if outputs == 2 else "multiclass", classes


# Where an adapter comes from: a folder of this machine, or a commit of a repository on the Hugging Face hub.

REPOSITORY = re.compile(r"([\w.-]+/[\w.-]+)(?:/(.+))?")
COMMIT = re.compile(r"[0-9a-f]{40}")


class NoSuchSource(BadInput):
    """There is no such folder, and the hub does not give such a repository."""


class Source(NamedTuple):
    """A folder with an adapter, what no link in it may lead out of, and the repository and commit it is from."""

    folder: Path
    root: Path
    hub: str | None = None
    commit: str | None = None


def source_of(given: str, revision: str = "") -> Source:
    """The folder of this name, or the part ``OWNER/NAME`` or ``OWNER/NAME/FOLDER`` of the hub, at a revision.

    NoSuchSource if there is neither, or the hub cannot be asked.
    """
    folder = Path(given).expanduser() if given.startswith("~/") else Path(given)
    if is_folder(folder):
        if revision:
            raise NoSuchSource(f"{given}: a folder has no --revision {revision}; leave it out")
        return Source(folder, folder)
    found = REPOSITORY.fullmatch(given)
    if not found or given.startswith((".", "/", "~")) or not is_inside(found[2] or "here"):
        raise NoSuchSource(f"{given}: no such folder, nor a repository of the hub (OWNER/NAME or OWNER/NAME/FOLDER)")
    name, part = found[1], found[2] or ""
    top = _downloaded(given, name, part, revision)
    if not COMMIT.fullmatch(top.name):
        raise NoSuchSource(f"{given}: the hub did not say of which commit its files are; download them into a folder")
    return Source(top / part, top.parent.parent, given, top.name)


def _downloaded(given: str, name: str, part: str, revision: str) -> Path:
    """The folder of a commit in the hub's cache, with what an adapter's folder may hold and nothing else."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    wanted = [f"{part}/{file}" if part else file for file in FILES]
    offline = os.environ.get("HF_HUB_OFFLINE") == "1"
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=wanted, local_files_only=offline))
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as problem:
        reason = " ".join(str(problem).split())[:160] or type(problem).__name__
        raise NoSuchSource(
            f"{given}: neither a folder nor to be had from the hub ({reason}); download it on a machine with internet, "
            "and give the folder"
        ) from None
