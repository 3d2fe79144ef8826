"""A real server of another project, asked by a study from end to end, and beside the weights that it serves."""

import dataclasses
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec

import pytest
import torch

from harness.study.systems import kind_of
from harness.systems import smollm2
from harness.systems.answering import answering
from harness.systems.prompted.prompts import TEMPLATES, prompt_of
from harness.systems.weights import resolve_answering
from tests.support.studies.small_study import small_study
from tests.support.systems.trained import ASKS, row_of

MODEL = "tiny-model"
NEEDED = ("fastapi", "openai", "pydantic", "uvicorn")
ABSENT = [name for name in NEEDED if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(ABSENT), reason=f"transformers serve needs {', '.join(ABSENT)}"),
]
SLOWEST = 300.0  # seconds until the server listens; it is waited for no longer, and never measured


def tiny_model(folder):
    """A Llama of one layer with random weights, whose tokens are bytes, and a chat template that adds nothing."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<pad>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    inputs = {"model_input_names": ["input_ids", "attention_mask"]}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special, **inputs)
    fast.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 8192}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(words), **sizes, **tokens)).save_pretrained(folder)


@contextmanager
def serving(folder):
    """The server's process and address; it serves what lies in this folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = [sys.executable, "-m", "transformers.commands.transformers_cli", "serve"]
    words = [*serve, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(words, cwd=folder, env={**os.environ, "HF_HUB_OFFLINE": "1"}, **quiet)
    try:
        end = time.monotonic() + SLOWEST
        while process.poll() is None and time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        assert process.poll() is None, "the server has ended"
        yield process, f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def server(tmp_path):
    """A server of a tiny random model."""
    tiny_model(tmp_path / MODEL)
    with serving(tmp_path) as process_and_url:
        yield process_and_url


def test_a_tiny_model_behind_transformers_serve_answers_a_study(server, tmp_path):
    process, url = server
    settings = ('systems=["prompted"]', "transfers=false", 'tasks=["epitome_er"]', "max_val=4", "max_test=6")
    own = (f'system.prompted.url="{url}"', f'system.prompted.model="{MODEL}"', "system.prompted.in_flight=2")
    study = small_study(tmp_path / "first", *settings, *own, "system.prompted.timeout=600.0")
    report = study.run()
    assert report.is_complete, report.failed
    (cell,) = [cell for cell in study.plan.cells if cell.system]
    results = study.store.get(cell.key).results
    assert results["answers"]["models"] == {f"{MODEL}@main": 6}
    assert results["n_test"] == 6
    process.kill()
    process.wait()
    study.store.root.joinpath("objects", cell.key).rename(tmp_path / "aside")
    again = small_study(tmp_path / "first", *settings, *own)
    assert again.run().is_complete  # nobody is there who could be asked
    assert again.store.get(cell.key).results == results


@pytest.mark.skipif(not all(map(find_spec, smollm2.PACKAGES)), reason=f"needs {', '.join(smollm2.PACKAGES)}")
def test_a_server_and_the_weights_that_it_serves_say_the_same(tmp_path):
    """By their likeliest tokens, in the template of the weights' chat, which the server fills and we do."""
    (tmp_path / MODEL).symlink_to(smollm2.smollm2())
    rows = [row_of(["I lost my job."], text, []) for text in ("I am sorry to hear that.", "Why?", "No.")]
    prompts = [prompt_of(TEMPLATES["annotator"], ASKS, (), row) for row in rows]
    served = kind_of("prompted").configured({"model": MODEL, "timeout": 600.0, "in_flight": 1}, "test")
    with serving(tmp_path) as (_, url):
        asker = dataclasses.replace(served, url=url).asker(tmp_path / "answers", served.form)
        said = [answer.text for (answer,) in asker.ask(prompts)]
    model = answering(resolve_answering("smollm2"), torch.device("cpu"), chat=True)
    assert model.answers([model.ids(prompt) for prompt in prompts], served.answer_tokens) == said
    assert all(said)
