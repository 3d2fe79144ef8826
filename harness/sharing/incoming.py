"""Adapters that others have trained: from a folder or the hub to checked tensors and settings; no code of it is run.

An `AdapterSource` is a folder with an adapter in the format of the adapters library, of any version. `read_incoming`
reads its files; `settings_in` and `head_in` say what its configurations mean in the library of today.
"""

import dataclasses
import hashlib
import io
import json
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

from harness.study.backbone import hub_folder
from harness.study.methods import METHODS
from tasks.errors import BadInput
from tasks.fields import Line, excerpt, misfits
from tasks.plain_text import is_folder, is_inside

ADAPTER = ("adapter_config.json", "adapter.safetensors", "pytorch_adapter.bin")
HEAD = ("head_config.json", "model_head.safetensors", "pytorch_model_head.bin")
FILES = (*ADAPTER, *HEAD)
LARGEST_BYTES = 512 * 2**20  # of weights: 24 layers of width 1024 with a reduction factor of 2 have 100 MB
LARGEST_JSON = 2**20
LONGEST_NAME = 200
REPOSITORY = re.compile(r"([\w.-]+/[\w.-]+)(?:/(.+))?")
COMMIT = re.compile(r"[0-9a-f]{40}")


# The source: a folder of this machine, or a commit of a repository on the Hugging Face hub.


class NoSuchSource(BadInput):
    """There is no such folder, and no such repository can be had from the hub."""


class AdapterSource(NamedTuple):
    """A folder with an adapter, the ``root`` that no link in it may lead out of, and its repository and commit."""

    folder: Path
    root: Path
    hub: str | None = None
    commit: str | None = None


def source_of(address: str, revision: str = "") -> AdapterSource:
    """The folder of this name, or ``OWNER/NAME`` or ``OWNER/NAME/FOLDER`` of the hub at a revision.

    NoSuchSource if there is neither, or the hub cannot be asked.
    """
    folder = Path(address).expanduser() if address.startswith("~/") else Path(address)
    if is_folder(folder):
        if revision:
            raise NoSuchSource(f"{address}: a folder has no --revision {revision}; leave it out")
        return AdapterSource(folder, folder)
    match = REPOSITORY.fullmatch(address)
    if not match or address.startswith((".", "/", "~")) or not is_inside(match[2] or "here"):
        raise NoSuchSource(f"{address}: no such folder, nor a repository of the hub (OWNER/NAME or OWNER/NAME/FOLDER)")
    part = match[2] or ""
    files = [f"{part}/{file}" if part else file for file in FILES]
    subject, advice = f"{address}: neither a folder nor", "and give the folder"
    top = hub_folder(match[1], files, subject, advice, revision, NoSuchSource)
    if not COMMIT.fullmatch(top.name):
        raise NoSuchSource(f"{address}: the hub did not say of which commit its files are; download them into a folder")
    return AdapterSource(top / part, top.parent.parent, address, top.name)


# The folder: each file is read once, within limits, and gives plain tables and tensors.


class BadAdapter(BadInput):
    """A folder holds no adapter that can be used; the message starts with the file."""


@dataclass(frozen=True)
class AdapterPart:
    """A configuration, and the float32 tensors beside it by the names that they have in the folder.

    ``where`` is the configuration's file.
    """

    where: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    @property
    def name(self) -> str:
        """The name of the adapter or head where it was trained; BadAdapter for a path that leads elsewhere."""
        name = self.text("name")
        if not (0 < len(name) <= LONGEST_NAME and is_inside(name)):
            raise BadAdapter(f"{self.where}: name {excerpt(name)} is empty, too long, or a path that leads elsewhere")
        return name

    def read(self, name: str, kind: Any, default: object = None) -> Any:  # noqa: ANN401 - a type, and a value of it
        """A field of the configuration; BadAdapter if it is not of its kind, or not there and without a ``default``."""
        value = default if self.config.get(name) is None else self.config[name]
        for misfit in misfits(value, kind, name, is_open=True):
            raise BadAdapter(f"{self.where}: {misfit}; is this a folder of the adapters library?")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A field that is a text in one line, as ``read`` gives it."""
        return str(self.read(name, Line, default))

    @property
    def width(self) -> int:
        """Width of a token's vector, as the configuration says."""
        return int(self.read("hidden_size", int))


@dataclass(frozen=True)
class Incoming:
    """An adapter, its head if it has one, and the sha256 of every file that was read, by name."""

    adapter: AdapterPart
    head: AdapterPart | None
    files: Mapping[str, str]


def read_incoming(folder: Path, root: Path) -> Incoming:
    """The adapter and the head in a folder; no file in it may be a link that leads out of ``root``.

    BadAdapter, a line that names the file, if something is missing, damaged, too large or not finite.
    """
    source = _Folder(folder, root)
    adapter = _part(source, ADAPTER)
    if adapter is None:
        raise BadAdapter(f"{folder / ADAPTER[0]}: is missing; give a folder in which the adapters library saved one")
    return Incoming(adapter, _part(source, HEAD), source.hashes)


@dataclass(frozen=True)
class _Folder:
    """A folder whose files are read once each; ``hashes`` are the sha256 of those that were read."""

    folder: Path
    root: Path
    hashes: dict[str, str] = field(default_factory=dict)

    def read(self, name: str, most: int) -> bytes | None:
        """The bytes of a file, at most ``most`` of them; None if there is no such file."""
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


def _part(source: _Folder, names: tuple[str, str, str]) -> AdapterPart | None:
    """A configuration with its tensors; None if the folder has neither."""
    configuration, *weights = names
    raw = source.read(configuration, LARGEST_JSON)
    contents = ((name, source.read(name, LARGEST_BYTES)) for name in weights)
    name, content = next(((name, content) for name, content in contents if content is not None), ("", None))
    if raw is None and content is None:
        return None
    where = source.folder / configuration
    if raw is None or content is None:
        missing = configuration if raw is None else f"{weights[0]} or {weights[1]}"
        raise BadAdapter(
            f"{source.folder / missing}: is missing, though {'weights' if raw is None else where.name} is there"
        )
    path = source.folder / name
    try:
        tensors = load(content) if name == weights[0] else _read_pickle(content, path)
    except (SafetensorError, ValueError, KeyError):
        raise BadAdapter(f"{path}: damaged, or no safetensors; get the folder again") from None
    try:
        table = json.loads(raw.decode())
    except json.JSONDecodeError as problem:
        raise BadAdapter(f"{where}:{problem.lineno}: no JSON ({problem.msg}); get the folder again") from None
    except (ValueError, RecursionError):
        raise BadAdapter(f"{where}: no JSON; get the folder again") from None
    if not isinstance(table, dict):
        raise BadAdapter(f"{where}:1: JSON, but no table of fields; get the folder again")
    return AdapterPart(where, table, _float32(tensors, path))


def _read_pickle(raw: bytes, where: Path) -> dict[str, Tensor]:
    """The tensors of a file of ``torch.save``; a file that holds anything else is refused, and code in it never run."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile:
        size = len(raw)  # the format before torch 1.6 is no archive
    except (ValueError, NotImplementedError) as problem:  # of names that are no text, or an unknown version
        raise BadAdapter(f"{where}: damaged ({type(problem).__name__}); get the folder again") from None
    if size > LARGEST_BYTES:
        raise BadAdapter(f"{where}: unpacks to {size:,} bytes, more than the {LARGEST_BYTES:,} that are read")
    try:
        tensors = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as problem:  # torch does not document what it raises for a damaged file
        kind = type(problem).__name__
        raise BadAdapter(f"{where}: damaged, or more than plain tensors ({kind}); nothing of it was run") from None
    if not (isinstance(tensors, dict) and all(isinstance(name, str) for name in tensors)):
        raise BadAdapter(f"{where}: no table of tensors; get the folder again")
    return tensors


def _float32(tensors: Mapping[str, Any], where: Path) -> dict[str, Tensor]:
    """The tensors as float32; BadAdapter unless each is dense and finite and all together are within LARGEST_BYTES."""
    for name, tensor in tensors.items():
        if not (isinstance(tensor, Tensor) and tensor.layout == torch.strided and tensor.is_floating_point()):
            raise BadAdapter(f"{where}: {excerpt(name)} is no tensor of real numbers; get the folder again")
    if (size := 4 * sum(tensor.numel() for tensor in tensors.values())) > LARGEST_BYTES:
        raise BadAdapter(f"{where}: its tensors take {size:,} bytes, more than the {LARGEST_BYTES:,} that are read")
    single = {name: tensor.detach().to(torch.float32).contiguous() for name, tensor in tensors.items()}
    for name, tensor in single.items():
        if not bool(tensor.isfinite().all()):
            raise BadAdapter(
                f"{where}: tensor {excerpt(name)} holds values that are no finite numbers; get the folder again"
            )
    return single


# The configurations: the method and settings of an adapter, and the labels of a head, in today's terms.

NEW_NAMES = {  # of the fields of adapter-transformers 1
    "LN_after": "ln_after",
    "LN_before": "ln_before",
    "MH_Adapter": "mh_adapter",
    "Output_Adapter": "output_adapter",
    "invertible_adapter": "inv_adapter",
}
OF_FUSION = ("attention_type", "new_attention_norm")  # not of the adapter, but once in every configuration
OF_TRAINING = (  # of how an adapter was initialised and trained, which do not change what it computes
    "init_weights",
    "init_weights_seed",
    "dropout",
    "stochastic_depth",
    "phm_c_init",
    "phm_init_range",
    "hypercomplex_nonlinearity",
    "learn_phm",
)
OF_PHM = (  # unused without its layers
    "phm_dim",
    "phm_rank",
    "phm_bias",
    "shared_W_phm",
    "shared_phm_rule",
    "factorized_phm_W",
    "factorized_phm_rule",
)
MOST = 10_000  # limit of every size in a configuration, so that none takes all memory
ARCHITECTURES = ("prefix_tuning", "lora", "prompt_tuning")
BOTTLENECKS = ("seq_bn", "double_seq_bn", "compacter", "par_bn")
LAYERS, ACTIVATION = 2, "tanh"  # of the heads that a study trains, and that lanes can compute


class Head(NamedTuple):
    """The kind and classes of a head's labels; ``rename`` gives a tensor's name in a model with another head name."""

    kind: str
    classes: tuple[str, ...]
    rename: Callable[[str], str]


def settings_in(part: AdapterPart) -> dict[str, int | float | str]:
    """The method and settings (as in ``methods.settings_of``) of an adapter's configuration of any version.

    The method is the one whose usual configuration differs in the fewest fields; it must differ in none but the free
    settings. BadAdapter if it does, or if an adapter of this method cannot be an intermediate.
    """
    # the fields of a configuration by their names of today, without those of fusion
    from adapters.utils import ACTIVATION_RENAME

    config = part.read("config", Mapping[str, Any])
    fields: dict[str, Any] = {
        NEW_NAMES.get(str(name), str(name)): value for name, value in config.items() if name not in OF_FUSION
    }
    if part.config.get("type") == "text_task":  # it named the invertible adapter of its language, but had none
        fields |= dict.fromkeys(fields.keys() & {"inv_adapter", "inv_adapter_reduction_factor"})
    function = fields.get("non_linearity")
    if isinstance(function, str):
        fields["non_linearity"] = function if "version" in part.config else ACTIVATION_RENAME.get(function, function)
    architecture = fields.pop("architecture", None)
    if architecture is not None and architecture not in ARCHITECTURES:
        raise BadAdapter(
            f"{part.where}: adapter of architecture {excerpt(architecture)}, which this project does not train"
        )
    methods = BOTTLENECKS if architecture is None else (architecture,)
    # all settings of the library's class, missing ones at their defaults; BadAdapter for one that it does not know
    import adapters

    kind = getattr(adapters, ("BnConfig" if architecture is None else METHODS[methods[0]].config))
    names = {setting.name for setting in dataclasses.fields(kind)}
    if unknown := sorted(set(fields) - names):
        raise BadAdapter(f"{part.where}: setting {excerpt(unknown[0])} is unknown to adapters {adapters.__version__}")
    try:
        complete: dict[str, Any] = kind(**fields).to_dict()
    except TypeError:
        needed = [
            setting.name
            for setting in dataclasses.fields(kind)
            if setting.default is setting.default_factory is dataclasses.MISSING
        ]
        lacking = next(name for name in needed if name not in fields)
        raise BadAdapter(f"{part.where}: setting {lacking!r} is missing; save the adapter again") from None
    factor = complete.get("reduction_factor")
    if isinstance(factor, float) and factor.is_integer():
        complete["reduction_factor"] = int(factor)
    if isinstance(complete.get("non_linearity"), str):
        complete["non_linearity"] = complete["non_linearity"].lower()
    differing = {method: _differing(complete, method) for method in methods}
    method = min(differing, key=lambda method: len(differing[method]))
    if differing[method]:
        name, (setting, usual) = next(iter(differing[method].items()))
        raise BadAdapter(
            f"{part.where}: its adapter is no {method}, the nearest that this project trains: {name} is "
            f"{excerpt(setting)}, not {usual!r}"
        )
    if METHODS[method].no_stack:
        raise BadAdapter(f"{part.where}: a {method} adapter stands below no other ({METHODS[method].no_stack})")
    return {"method": method, **{name: complete[name] for name in METHODS[method].settings}}


def _differing(complete: Mapping[str, Any], method: str) -> dict[str, tuple[Any, Any]]:
    """The settings that no adapter of this method has, with their values and the method's usual ones."""
    import adapters

    usual_settings = getattr(adapters, METHODS[method].config)().to_dict()
    unused = (*OF_TRAINING, *(() if complete.get("phm_layer") else OF_PHM))
    differing = {}
    for name, usual in usual_settings.items():
        setting = complete.get(name)
        is_free = name in METHODS[method].settings
        if name not in unused and not (_can_be(setting, usual) if is_free else setting == usual):
            differing[name] = (setting, usual)
    return differing


def _can_be(setting: object, usual: object) -> bool:
    """Whether a free setting may have this value: a text, or a number above 0 of the usual type."""
    if isinstance(usual, str):
        return isinstance(setting, str)
    return type(setting) is type(usual) and isinstance(setting, int | float) and 0 < setting <= MOST


def head_in(part: AdapterPart, name: str) -> Head:
    """The labels of a head, and the names of its tensors in a model where it is called ``name``.

    BadAdapter for a head of another shape than those that score texts here.
    """
    from adapters.head_utils import STATIC_TO_FLEX_HEAD_MAP, get_head_config_and_rename_list

    model_class = part.text("model_class")
    if model_class in STATIC_TO_FLEX_HEAD_MAP:  # the head of a transformers class, not of the library's own
        numbers, outputs = part.config.get("label2id"), part.config.get("num_labels")
        labels = numbers if isinstance(numbers, Mapping) else {}
        config, rename = get_head_config_and_rename_list(model_class, name, labels, num_labels=outputs or len(labels))
    else:
        config = part.read("config", Mapping[str, Any])
        old = f"heads.{part.name}."

        def rename(tensor: str) -> str:
            return f"heads.{name}.{tensor.removeprefix(old)}" if tensor.startswith(old) else tensor

    _check_shape(part, config)
    return Head(*_label(part, config), rename)


def _check_shape(part: AdapterPart, config: Mapping[str, Any]) -> None:
    kind, layers, function = (config.get(name) for name in ("head_type", "layers", "activation_function"))
    is_pooled, has_bias = config.get("use_pooler", False), config.get("bias", True)
    if kind not in ("classification", "multilabel_classification"):
        noun = f"a head of type {excerpt(kind)}"
    elif (layers, function, is_pooled, has_bias) != (LAYERS, ACTIVATION, False, True):
        noun = f"a head of {excerpt(layers)} layers with {excerpt(function)}{', over the pooler' if is_pooled else ''}"
    else:
        return
    raise BadAdapter(
        f"{part.where}: {noun}, but texts are scored through classification heads of {LAYERS} layers with "
        f"{ACTIVATION}; take the head's files out of the folder to import the adapter alone"
    )


def _label(part: AdapterPart, config: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The kind of label and its classes in the order of the outputs; a head with a single output gives a number."""
    outputs, labels = config.get("num_labels"), config.get("label2id")
    is_multilabel = config["head_type"] == "multilabel_classification"
    if type(outputs) is not int or not 1 + is_multilabel <= outputs <= MOST:
        raise BadAdapter(f"{part.where}: num_labels {excerpt(outputs)} is not a number of outputs; save the head again")
    if outputs == 1:
        return "continuous", ()
    if not labels:
        labels = {f"LABEL_{number}": number for number in range(outputs)}
    if not isinstance(labels, Mapping) or sorted(map(str, labels.values())) != sorted(map(str, range(outputs))):
        raise BadAdapter(f"{part.where}: label2id does not number the {outputs} outputs from 0; save the head again")
    classes = tuple(sorted(labels, key=lambda name: int(labels[name])))
    if odd := [name for name in classes if not (name.isprintable() and 0 < len(name) <= LONGEST_NAME)]:
        raise BadAdapter(f"{part.where}: label2id names a class {excerpt(odd[0])}; call it otherwise")
    return "multilabel" if is_multilabel else "binary" if outputs == 2 else "multiclass", classes
