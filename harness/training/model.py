"""The backbone with the adapters of one cell, in the one call order that keeps a frozen intermediate alive."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError

from adapters_store import Store
from adapters_store.weights import open_weights
from harness.backbone import RANDOM_TINY, Backbone, BadBackbone
from harness.backbone_tokenizer import CURE, BadTokenizer, check_ids
from harness.cell import Cell
from harness.methods import METHODS, library_config
from harness.training.loaded import check_loaded
from harness.training.seeds import seed_of
from tasks.errors import BadInput

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

INTERMEDIATE = "intermediate"  # the name under which a cell's frozen intermediate is loaded
ABSENT = object()
LONGEST = 200  # characters of what a library says
REFUSED = re.compile(r"\(os error (\d+)\)")  # how safetensors repeats the operating system
POOL = ".prefix_tuning.pool."  # in the names under which every layer holds the one prefix of all


class OtherLibrary(BadInput):
    """The installed adapters library is not the one whose defaults a cell is named by."""


@cache
def load_tokenizer(backbone: Backbone) -> PreTrainedTokenizerBase:
    """The backbone's fast tokenizer; for ``random-tiny`` one token per byte. BadBackbone if its files make none."""
    if backbone.folder is None:
        return _byte_tokenizer()
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            str(backbone.folder), local_files_only=True, use_fast=True
        )
    except Exception as problem:  # the library has many ways to say that a file does not fit
        reason = " ".join(str(problem).split())[:LONGEST]
        raise BadBackbone(
            f"backbone {backbone.name!r}: no tokenizer can be made of the files in {backbone.folder} ({reason}); {CURE}"
        ) from None
    try:
        check_ids(backbone.folder, tokenizer.get_vocab(), 0, backbone.vocabulary)
    except BadTokenizer as problem:
        raise BadBackbone(f"backbone {backbone.name!r}: {problem}") from None
    return tokenizer


def load_backbone(backbone: Backbone) -> Any:  # noqa: ANN401 - the library's model classes share no useful type
    """The backbone as an adapters-library model without adapters or heads, in evaluation mode."""
    logging.getLogger("adapters.model_mixin").setLevel(logging.ERROR)  # it warns before we activate anything
    if backbone.folder is None:
        model = _random_tiny()
    else:
        model = _of_folder(backbone)
    model.config._name_or_path = backbone.name  # saved with every adapter: never a path of this machine
    return model.eval()


def _of_folder(backbone: Backbone) -> Any:  # noqa: ANN401
    """The model of a folder; BadBackbone, one line, unless all of its encoder came from the folder's weights."""
    from adapters import AutoAdapterModel

    try:
        model, account = AutoAdapterModel.from_pretrained(
            str(backbone.folder),
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that they stand in the account
        )
    except (MemoryError, RuntimeError):  # of the machine, not of the folder
        raise
    except Exception as problem:  # any, for a field of the config that the library reads and nobody else
        reason = f"{type(problem).__name__}: {' '.join(str(problem).split())[:LONGEST]}"
        raise BadBackbone(f"backbone {backbone.name!r}: cannot be loaded ({reason}); get its files again") from None
    check_loaded(backbone.name, model, account)
    return model


def add_target(model: Any, cell: Cell) -> None:  # noqa: ANN401
    """Add the target's fresh adapter and head; their weights depend on seed and target alone.

    There is no fresh adapter where a whole model is trained, or where the intermediate's goes on as the target's.
    """
    label, composition = cell.spec["label"], cell.spec["composition"]
    if cell.spec["adapter"] is not None and composition != "sequential":
        add_fresh(model, cell, cell.target, "adapter")
    torch.manual_seed(seed_of(cell.seed, cell.target, "head"))
    outputs = len(label["classes"]) or 1
    model.add_classification_head(
        cell.target,
        num_labels=outputs,
        layers=2,
        activation_function="tanh",
        multilabel=label["kind"] == "multilabel",
    )


def add_fresh(model: Any, cell: Cell, name: str, purpose: str) -> None:  # noqa: ANN401
    """Add an untrained adapter of the cell's method, drawn from seed, target and purpose."""
    torch.manual_seed(seed_of(cell.seed, cell.target, purpose))
    model.add_adapter(name, config=adapter_config(cell))


def adapter_config(cell: Cell) -> Any:  # noqa: ANN401
    """The library's configuration of the cell's adapter; OtherLibrary if its defaults are not those of the key."""
    import adapters

    settings = dict(cell.spec["adapter"])
    expected = library_config(settings)
    method = settings.pop("method")
    config = getattr(adapters, METHODS[method].config)(**settings)
    if odd := [name for name in {*expected, *config.to_dict()} if getattr(config, name, ABSENT) != expected.get(name)]:
        raise OtherLibrary(
            f"adapters {metadata.version('adapters')}: {method} has another {', '.join(sorted(odd))} than "
            "the version that names cells (constraints.txt); install that one"
        )
    return config


def add_intermediate(model: Any, folder: Path, name: str = INTERMEDIATE) -> None:  # noqa: ANN401
    """Load a stored adapter, without its head, as the intermediate, or under the target's own name to go on with."""
    model.load_adapter(str(folder), load_as=name, with_head=False, use_safetensors=True, set_active=False)


def stored_adapter(store: Store, key: str) -> Path:
    """The folder of a record's adapter, its files checked; NoWeights if they were left out of the record."""
    for name in ("adapter_config.json", "adapter.safetensors"):
        folder = open_weights(store, key, f"adapter/{name}").parent
    return folder


def compose(model: Any, cell: Cell) -> None:  # noqa: ANN401
    """Freeze what the cell does not train, then activate its adapters.

    The order matters: ``train_adapter`` also sets what is active, so calling it last would drop the intermediate.
    """
    from adapters.composition import Stack

    if cell.spec["adapter"] is None:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(is_of_whole_model(name))
    else:
        stack = Stack(INTERMEDIATE, cell.target) if cell.is_stacked else cell.target
        model.train_adapter(stack if cell.spec["composition"] == "stack-trainable" else cell.target)
        model.set_active_adapters(stack)
    model.active_head = cell.target


def is_of_whole_model(parameter: str) -> bool:
    """True for every weight that a prediction depends on: all but the pooler's, which no head uses."""
    return ".pooler." not in parameter


def save(model: Any, cell: Cell, folder: Path) -> None:  # noqa: ANN401
    """Write the target's adapter and head, and in ``intermediate`` below it an intermediate that was trained."""
    save_adapter(model, cell.target, folder, with_head=True)
    if cell.spec["composition"] == "stack-trainable":
        save_adapter(model, INTERMEDIATE, folder / INTERMEDIATE, with_head=False)


def save_adapter(model: Any, name: str, folder: Path, *, with_head: bool) -> None:  # noqa: ANN401
    """Save as the library does, but a prefix once: all layers hold the same one, which safetensors refuses to repeat.

    The library loads it into all of them. OSError where the disk refuses.
    """
    from adapters.loading import AdapterLoader, PredictionHeadLoader

    loader = AdapterLoader(model, use_safetensors=True)
    is_own = loader.filter_func(name)
    loader.filter_func = lambda _: lambda key: is_own(key) and POOL not in key
    with _writing(folder):
        loader.save(str(folder), name)
        if with_head:
            PredictionHeadLoader(model, use_safetensors=True).save(str(folder), name)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn what safetensors says of a disk that refuses into the OSError that it is."""
    try:
        yield
    except SafetensorError as error:
        if (said := REFUSED.search(str(error))) is None:
            raise
        number = int(said[1])
        raise OSError(number, os.strerror(number), str(folder)) from error


def _random_tiny() -> Any:  # noqa: ANN401
    from adapters import RobertaAdapterModel
    from transformers import RobertaConfig

    shape = RANDOM_TINY
    config = RobertaConfig(
        vocab_size=len(_byte_vocabulary()),
        hidden_size=shape["hidden"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        intermediate_size=shape["intermediate"],
        max_position_embeddings=shape["positions"],
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
    )
    torch.manual_seed(shape["seed"])
    return RobertaAdapterModel(config)


def _byte_vocabulary() -> dict[str, int]:
    from tokenizers.pre_tokenizers import ByteLevel

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    return {token: number for number, token in enumerate([*special, *sorted(ByteLevel.alphabet())])}


def _byte_tokenizer() -> PreTrainedTokenizerBase:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import RobertaTokenizerFast

    raw = Tokenizer(models.BPE(vocab=_byte_vocabulary(), merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    return RobertaTokenizerFast(tokenizer_object=raw)
