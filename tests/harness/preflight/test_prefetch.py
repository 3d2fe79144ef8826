"""What is brought for jobs without internet: the hub is a folder here, and addresses answer from memory."""

import dataclasses
import hashlib
import json
import os
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from harness.cli.main import main
from harness.preflight.doctor import environment, prefetch
from harness.raw import fetch as fetching
from harness.study.file import load_study
from tasks.errors import BadInput
from tasks.registry import Registry
from tests.support.studies.tiny_backbones import tiny_backbone

CONTENT = b"reply,kind\nwell,1\nno,0\n"


@pytest.fixture
def online(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    for name in ("HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hub(monkeypatch, tmp_path, online):
    """A hub of local folders by id; what was downloaded once is in its cache and to be had offline."""
    folders, cached = {}, set()

    def snapshot_download(name, revision, allow_patterns, local_files_only):
        if name not in folders or (local_files_only and name not in cached):
            raise LocalEntryNotFoundError(f"no {name}")
        cached.add(name)
        return str(folders[name])

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return folders


@pytest.fixture
def brought(tmp_path, monkeypatch):
    """A study of three tasks: one may be downloaded, one must be asked for, one's address does not answer."""
    entries = tmp_path / "entries"
    entries.mkdir()
    plain = 'text = "reply"\nlabel = "kind"\nkind = "binary"\n'
    digest = hashlib.sha256(CONTENT).hexdigest()
    for name in ("kind", "gone"):
        load = f'downloads = [{{ url = "https://example.org/{name}.csv", path = "{name}.csv", sha256 = "{digest}" }}]\n'
        (entries / f"{name}.toml").write_text(f'id = "{name}"\nfiles = ["{name}.csv"]\n{plain}{load}', encoding="utf-8")
    (entries / "secret.toml").write_text(
        f'id = "secret"\nfiles = ["s.csv"]\n{plain}access = "ask the keepers"\n', encoding="utf-8"
    )

    def transfer(download, part, watch):
        if "gone" in download.url:
            raise fetching.FetchFailed(f"{download.url}: upstream does not have it")
        part.write_bytes(CONTENT)
        return True

    monkeypatch.setattr(fetching, "_transfer", transfer)
    changes = {"tasks": ("kind", "secret", "gone"), "data": "files", "registry": (str(entries),)}
    return dataclasses.replace(load_study("tiny"), **changes), Registry.load([entries])


def states(study, registry, data):
    return {one.what: one.state for one in prefetch(study, registry, data, lambda path, received, total: None)}


def test_what_may_be_downloaded_comes_once_and_of_the_rest_it_is_said_whom_to_ask(brought, online, tmp_path):
    first = states(*brought, tmp_path / "data")
    assert first == {"backbone": "here", "data gone": "failed", "data kind": "fetched", "data secret": "by hand"}
    assert (tmp_path / "data" / "kind.csv").read_bytes() == CONTENT
    assert states(*brought, tmp_path / "data") == {**first, "data kind": "here"}
    details = {one.what: one.detail for one in prefetch(*brought, tmp_path / "data", lambda *_: None)}
    assert details["data secret"] == "s.csv: ask the keepers"
    assert "upstream does not have it" in details["data gone"]


def test_what_the_hub_has_is_fetched_with_its_tokenizer_loaded_as_a_job_would_and_else_failed(hub, tmp_path):
    study = dataclasses.replace(load_study("tiny"), backbone="some/bert")
    assert states(study, Registry.load(), tmp_path) == {"backbone": "failed", "encoder": "failed", "data": "here"}
    hub["some/bert"] = tiny_backbone(tmp_path / "bert", "bert")
    hub["sentence-transformers/all-mpnet-base-v2"] = hub["some/bert"]
    assert states(study, Registry.load(), tmp_path) == {"backbone": "fetched", "encoder": "fetched", "data": "here"}
    assert states(study, Registry.load(), tmp_path) == {"backbone": "here", "encoder": "here", "data": "here"}
    assert "HF_HUB_OFFLINE" not in os.environ


def test_an_encoder_whose_weights_are_not_its_config_s_failed(hub, tmp_path):
    hub["some/bert"] = tiny_backbone(tmp_path / "bert", "bert")
    hub["sentence-transformers/all-mpnet-base-v2"] = other = tiny_backbone(tmp_path / "other", "bert")
    config = (other / "config.json").read_text().replace('"num_hidden_layers": 2', '"num_hidden_layers": 3')
    (other / "config.json").write_text(config)
    study = dataclasses.replace(load_study("tiny"), backbone="some/bert")
    got = {one.what: one for one in prefetch(study, Registry.load(), tmp_path, lambda *_: None)}
    assert (got["backbone"].state, got["encoder"].state) == ("fetched", "failed")
    assert "encoder.layer.2.attention.self.query.weight is missing" in got["encoder"].detail


def test_nothing_is_tried_while_the_hub_is_switched_off(brought, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadInput, match="HF_HUB_OFFLINE=1 is set"):
        states(*brought, tmp_path)


def test_the_line_for_jobs_has_absolute_places_that_a_shell_reads_back(online, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", "/big disk/hub")
    here = Path.cwd()
    line = environment(Path("my data"), Path("runs"))
    places = f"EMPATHY_DATA='{here}/my data' EMPATHY_STORE={here}/runs HF_HOME='/big disk/hub'"
    assert line == f"export HF_HUB_OFFLINE=1 {places}"


def test_the_command_prints_the_line_and_its_code_says_whether_a_download_failed(online, tmp_path, capsys):
    options = ["study", "prefetch", "tiny", "--store", str(tmp_path / "runs"), "--data", str(tmp_path), "--quiet"]
    assert main(options) == 0
    assert f"EMPATHY_STORE={tmp_path.resolve()}/runs" in capsys.readouterr().out.splitlines()[-1]
    assert main([*options, "--set", "backbone=/no/such", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["found"]
    assert [one["state"] for one in found if one["what"] == "backbone"] == ["failed"]
