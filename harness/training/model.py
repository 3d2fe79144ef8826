"""The backbone with the adapters of one cell, in the one call order that keeps a frozen intermediate alive."""

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from adapters_store import Store
from adapters_store.store import open_weights
from harness.study.backbone import RANDOM_TINY, Backbone, BadBackbone
from harness.study.cell import Cell, seed_of
from harness.study.methods import METHODS, library_config
from harness.training.recipe import Recipe
from harness.training.tokenizer import byte_vocabulary
from tasks.errors import BadInput

INTERMEDIATE = "intermediate"  # the name under which a cell's frozen intermediate is loaded
ALIVE = 1e-4  # smallest change of a logit that counts as an effect of the intermediate
LIVENESS_ROWS = 16  # of the validation rows, on which it is switched off
ABSENT = object()
LONGEST = 200  # characters of what a library says
REFUSED = re.compile(r"\(os error (\d+)\)")  # how safetensors repeats the operating system
FUSION_LAYER = f".adapter_fusion_layer.{INTERMEDIATE}."  # in the names of a fusion's weights
POOL = ".prefix_tuning.pool."  # in the names under which every layer holds the one prefix of all
OF_ENCODER = (".embeddings.", ".encoder.")  # in names of weights
NOT_IN_EVERY_FILE = (".pooler.", ".prompt_tuning.")  # the pooler is unused, the other is the library's own


class OtherLibrary(BadInput):
    """The installed adapters library is not the one whose defaults a cell is named by."""


class WrongComposition(Exception):
    """The model trains or activates something else than its cell says: a fault of the program, not of the input."""


# Loading: a backbone whose weights all came from its file.


def load_backbone(backbone: Backbone) -> Any:  # noqa: ANN401 - the library's model classes share no useful type
    """The backbone as an adapters-library model without adapters or heads, in evaluation mode."""
    logging.getLogger("adapters.model_mixin").setLevel(logging.ERROR)  # it warns before we activate anything
    if backbone.folder is None:
        from adapters import RobertaAdapterModel
        from transformers import RobertaConfig

        shape = RANDOM_TINY
        config = RobertaConfig(
            vocab_size=len(byte_vocabulary()),
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
        model = RobertaAdapterModel(config)
    else:
        # the model of a folder; BadBackbone, one line, unless all of its encoder came from the folder's weights
        from adapters import AutoAdapterModel
        from transformers import AutoConfig

        options: dict[str, Any] = {}
        if backbone.library_type != backbone.model_type:  # the class by which the library finds its model of that shape
            fields = AutoConfig.from_pretrained(str(backbone.folder), local_files_only=True).to_dict()
            options["config"] = AutoConfig.for_model(**{**fields, "model_type": backbone.library_type})
        model, account = from_folder(AutoAdapterModel, backbone, **options)
        check_loaded(backbone.name, model, account)
    model.config._name_or_path = backbone.name  # saved with every adapter: never a path of this machine
    return model.eval()


def from_folder(kind: Any, backbone: Backbone, **options: Any) -> tuple[Any, Mapping[str, Sequence[str]]]:  # noqa: ANN401
    """A network of this class of the library, and the account of its weights; BadBackbone where it cannot be loaded."""
    try:
        network, account = kind.from_pretrained(
            str(backbone.folder),
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that they stand in the account
            **options,
        )
    except (MemoryError, RuntimeError):  # of the machine, not of the folder
        raise
    except Exception as problem:  # any, for a field of the config that the library reads and nobody else
        reason = f"{type(problem).__name__}: {' '.join(str(problem).split())[:LONGEST]}"
        raise BadBackbone(f"backbone {backbone.name!r}: cannot be loaded ({reason}); get its files again") from None
    return network, account


def check_loaded(name: str, network: torch.nn.Module, account: Mapping[str, Sequence[str]]) -> None:
    """BadBackbone unless every weight of the encoder was in the file, in its shape, and is finite.

    ``account`` is what ``from_pretrained(..., output_loading_info=True)`` says; what it calls unexpected is refused as
    far as it lies in the encoder's own parts.
    """
    missing = [key for key in account["missing_keys"] if not any(part in f".{key}" for part in NOT_IN_EVERY_FILE)]
    odd = [key for key in account["unexpected_keys"] if any(part in f".{key}" for part in OF_ENCODER)]
    named = {"missing in": missing, "of another shape in": account["mismatched_keys"]}
    named["left out of"] = [key for key in odd if "_ids" not in key]
    for fault, keys in named.items():
        if keys:
            raise BadBackbone(
                f"backbone {name!r}: {len(keys)} tensors are {fault} its weights, first {keys[0]}; take weights and "
                "config.json that belong together"
            )
    check_finite(name, network)


def check_finite(name: str, network: torch.nn.Module) -> None:
    """BadBackbone if a parameter, as it was loaded, holds a value that is not finite."""
    for key, value in network.named_parameters():
        if not torch.isfinite(value).all():
            raise BadBackbone(f"backbone {name!r}: {key} holds values that are not finite; get its weights again")


# Composing: adapters and head of one cell, in the one order that keeps a frozen intermediate alive.


def add_target(model: Any, recipe: Recipe) -> None:  # noqa: ANN401
    """Add the target's fresh adapter and head; their weights depend on seed and target alone.

    There is no fresh adapter where a whole model is trained, or where the intermediate's goes on as the target's.
    """
    if recipe.adapter is not None and recipe.composition != "sequential":
        add_fresh(model, recipe, recipe.target, "adapter")
    add_head(model, recipe)


def add_head(model: Any, recipe: Recipe) -> None:  # noqa: ANN401
    """Add a fresh head of the recipe's target."""
    torch.manual_seed(seed_of(recipe.seed, recipe.target, "head"))
    model.add_classification_head(
        recipe.target,
        num_labels=recipe.outputs,
        layers=2,
        activation_function="tanh",
        multilabel=recipe.kind == "multilabel",
    )


def add_fresh(model: Any, recipe: Recipe, name: str, purpose: str) -> None:  # noqa: ANN401
    """Add an untrained adapter of the recipe's method, drawn from seed, target and purpose.

    Where a study's adapters start alike, the word ``shared`` stands for the target.
    """
    is_shared = recipe.start == "shared" and purpose == "adapter"
    torch.manual_seed(seed_of(recipe.seed, "shared" if is_shared else recipe.target, purpose))
    model.add_adapter(name, config=adapter_config(recipe.adapter or {}))


def adapter_config(adapter: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The library's configuration of an adapter; OtherLibrary if its defaults are not those that name cells."""
    import adapters

    settings = dict(adapter)
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


def untrained(model: Any, adapter: str, recipe: Recipe) -> dict[str, Tensor]:  # noqa: ANN401
    """Weights for the parameters of ``adapter`` by their names, in their order; biases are 0.

    They are the intermediate of the control ``random``: an adapter without training, with the effect of a trained one.
    The library's own initialisation, N(0, 0.02), would not do: on the six-layer MiniLM it moves the last layer's first
    token by 4 % of its length, where adapters trained on 400 rows move it by 25 to 33 % with weights that are only a
    quarter larger, because training aligns them. A spread of 1 over the root of the backbone's width, which keeps the
    effect alike in wider backbones, moves it by 23 to 32 %.
    """
    is_own = is_of_adapter(model, adapter)
    generator = torch.Generator().manual_seed(seed_of(recipe.seed, recipe.target, "random"))
    spread = model.config.hidden_size**-0.5
    return {
        name: torch.randn(value.shape, generator=generator) * spread if value.dim() > 1 else torch.zeros(value.shape)
        for name, value in model.named_parameters()
        if is_own(name)
    }


def make_untrained(model: Any, adapter: str, recipe: Recipe) -> None:  # noqa: ANN401
    """Give the ``adapter`` of a model the weights of ``untrained``."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in untrained(model, adapter, recipe).items():
            parameters[name].copy_(value)


def compose(model: Any, recipe: Recipe) -> None:  # noqa: ANN401
    """Freeze what the recipe does not train, then activate its adapters.

    The order matters: ``train_adapter`` also sets what is active, so calling it last would drop the intermediate.
    """
    from adapters.composition import Stack

    if recipe.adapter is None:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(is_of_whole_model(name))
    else:
        stack = Stack(INTERMEDIATE, recipe.target) if recipe.is_stacked else recipe.target
        model.train_adapter(stack if recipe.trains_intermediate else recipe.target)
        model.set_active_adapters(stack)
    model.active_head = recipe.target


def is_of_whole_model(parameter: str) -> bool:
    """True for every weight that a prediction depends on: all but the pooler's, which no head uses."""
    return ".pooler." not in parameter


# Saving, in the library's own format.


def save(model: Any, recipe: Recipe, folder: Path) -> None:  # noqa: ANN401
    """Write the target's adapter and head, and in the folder ``intermediate`` in it one that was trained.

    OSError where the disk refuses.
    """
    from adapters.loading import AdapterFusionLoader

    save_adapter(model, recipe.target, folder, with_head=True)
    if recipe.keeps_intermediate:
        save_adapter(model, INTERMEDIATE, folder / INTERMEDIATE, with_head=False)
    if recipe.fuses:  # what it has learned, without its parents
        with _writing(folder / "fusion"):
            AdapterFusionLoader(model, use_safetensors=True).save(str(folder / "fusion"), INTERMEDIATE)


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
        if (match := REFUSED.search(str(error))) is None:
            raise
        number = int(match[1])
        raise OSError(number, os.strerror(number), str(folder)) from error


# Proofs made in every run: the intermediate is alive, frozen or trained as the cell says, and nothing else is.


def check_trainable(model: Any, recipe: Recipe, label: str) -> int:  # noqa: ANN401
    """Number of trainable parameters; WrongComposition unless they are exactly those that the cell ``label`` trains.

    They are the target's adapter and head, with ``stack-trainable`` the intermediate's too, or a whole model's.
    """
    names = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    trainable = {name for name, is_trained in names.items() if is_trained}
    if recipe.adapter is None:
        expected = {name for name in names if is_of_whole_model(name)}
    else:
        trained = [recipe.target, *([INTERMEDIATE] if recipe.trains_intermediate else [])]
        expected = {name for name in names if any(is_of_adapter(model, adapter)(name) for adapter in trained)}
        expected |= {name for name in names if name.startswith(f"heads.{recipe.target}.")}
        expected |= {name for name in names if recipe.fuses and FUSION_LAYER in name}
    if trainable != expected:
        odd = sorted(trainable ^ expected)[0]
        raise WrongComposition(f"{label}: {odd} is {'trained' if odd in trainable else 'not trained'}")
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def check_intermediate(cell: Cell, *, unchanged: bool) -> None:
    """WrongComposition unless the intermediate of a stack came out of training as its cell says."""
    if unchanged != (cell.composition == "stack"):
        became = "were not trained" if unchanged else "changed during training"
        raise WrongComposition(f"{cell.label}: the intermediate's weights {became}")


def check_composition(model: Any, recipe: Recipe, label: str) -> None:  # noqa: ANN401
    """WrongComposition unless the active adapters are those of the cell ``label``, in its order."""
    expected = [INTERMEDIATE, recipe.target] if recipe.is_stacked else [recipe.target]
    expected = [] if recipe.adapter is None else expected
    active = list(model.active_adapters.children) if model.active_adapters is not None else []
    if active != expected:
        raise WrongComposition(f"{label}: active adapters are {active}, expected {expected}")


def liveness(model: Any, target: str, batch: dict[str, Tensor]) -> float:  # noqa: ANN401
    """Largest change of a logit on ``batch`` when the intermediate is switched off; the active setup is restored."""
    active = model.active_adapters
    model.eval()
    with torch.inference_mode():
        stacked = model(**batch, head=target).logits
        model.set_active_adapters(target)
        alone = model(**batch, head=target).logits
        model.set_active_adapters(active)
    return float((stacked - alone).abs().max())


def proofs(cell: Cell, trainable: int, alive: float | None) -> dict[str, Any]:
    """What a record says of a training that came out as ``check_intermediate`` demands."""
    return {
        "trainable_parameters": trainable,
        "liveness": alive if cell.is_stacked else None,
        "intermediate_unchanged": cell.composition == "stack" if cell.is_stacked else None,
    }


def is_of_adapter(model: Any, name: str) -> Callable[[str], bool]:  # noqa: ANN401
    """The library's own answer to which parameters are an adapter's, of whatever method."""
    from adapters.loading import AdapterLoader

    is_own: Callable[[str], bool] = AdapterLoader(model).filter_func(name)
    return is_own


def adapter_digest(model: Any, name: str) -> str:  # noqa: ANN401
    """The sha256 of an adapter's weights, names and bytes, in the order of their names."""
    digest, is_own = hashlib.sha256(), is_of_adapter(model, name)
    for key, value in sorted(model.state_dict().items()):
        if is_own(key):
            digest.update(key.encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
