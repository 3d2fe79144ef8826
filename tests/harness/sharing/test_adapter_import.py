"""Adapters of others as records: every weight as it was, the library's own predictions, and where they are from."""

import json

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from harness.sharing import importing
from harness.sharing.importing import import_adapter
from harness.sharing.incoming import FILES, AdapterSource, NoSuchSource, source_of
from harness.training.model import load_backbone, stored_adapter
from tasks.errors import BadInput
from tests.support.studies.old_adapters import NAME, change, old_folder, own

SETTINGS = {"method": "seq_bn", "reduction_factor": 16, "non_linearity": "relu"}
COMMIT = "0123456789abcdef" * 2 + "01234567"
METHODS = {
    "seq_bn with gelu": ("seq_bn[non_linearity='gelu']", {**SETTINGS, "non_linearity": "gelu"}),
    "double_seq_bn": ("double_seq_bn", {"method": "double_seq_bn", "reduction_factor": 16, "non_linearity": "swish"}),
    "compacter": (
        "compacter[reduction_factor=4]",
        {"method": "compacter", "reduction_factor": 4, "non_linearity": "gelu", "phm_dim": 4},
    ),
    "prefix_tuning": (
        "prefix_tuning[prefix_length=3, bottleneck_size=8]",
        {"method": "prefix_tuning", "prefix_length": 3, "bottleneck_size": 8},
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return old_folder(tmp_path_factory.mktemp("theirs") / "adapter")


def brought(store, folder, backbone, name="theirs"):
    return import_adapter(store, AdapterSource(folder, folder), name, backbone)


def logits(backbone, folder, **options):
    """What the library says of some tokens with the adapter and head of a folder, or the last states without a head."""
    network = load_backbone(backbone)
    name = network.load_adapter(str(folder), set_active=True, **options)
    network.set_active_adapters(name)
    tokens = torch.tensor([[0, 17, 40, 99, 2], [0, 8, 8, 31, 2]])
    with torch.inference_mode():
        found = network(input_ids=tokens, head=name if name in network.heads else None)
    return found.logits if name in network.heads else found[0]


def test_the_record_holds_the_folder_s_tensors_under_its_name(folder, store, tiny):
    found = brought(store, folder, tiny)
    at = stored_adapter(store, found.record.key)
    for pickled, safe in (("pytorch_adapter.bin", "adapter"), ("pytorch_model_head.bin", "model_head")):
        theirs = own(torch.load(folder / pickled, weights_only=True), NAME, "theirs")
        ours = load_file(at / f"{safe}.safetensors")
        assert theirs.keys() == ours.keys()
        assert all(torch.equal(theirs[name], ours[name]) for name in theirs)


def test_a_disk_that_refuses_the_weights_is_one_line_and_leaves_no_record(folder, store, command, monkeypatch):
    def refused(*_args, **_kwargs):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("adapters.loading.save_file", refused)
    words = ("--as", "theirs", "--backbone", "random-tiny", "--store", store.root)
    code, _, err = command("adapter", "import", folder, *words)
    assert (code, err.count("\n")) == (2, 1)
    assert "No space left on device" in err
    assert not store.keys()


def test_the_record_says_what_it_is_and_where_it_is_from(folder, store, tiny):
    spec = brought(store, folder, tiny).record.spec
    assert (spec["role"], spec["target"], spec["intermediate_key"]) == ("imported", "theirs", None)
    assert (spec["adapter"], spec["backbone"]) == (SETTINGS, tiny.identity())
    assert spec["label"] == {"kind": "multiclass", "classes": ["LABEL_0", "LABEL_1", "LABEL_2"]}
    origin = spec["origin"]
    assert (origin["name"], origin["library"], origin["model_name"]) == (NAME, "0.1.0", "roberta-base")
    assert (origin["hub"], origin["commit"], len(origin["files"])) == (None, None, 4)
    assert str(folder) not in json.dumps(spec)


def test_the_library_alone_says_the_same_of_the_folder_and_of_the_record(folder, store, tiny):
    at = stored_adapter(store, brought(store, folder, tiny).record.key)
    assert torch.equal(logits(tiny, folder), logits(tiny, at, use_safetensors=True))


@pytest.mark.parametrize("what", METHODS)
def test_other_methods_come_through_the_library(store, tiny, tmp_path, what):
    config, settings = METHODS[what]
    folder = old_folder(tmp_path / "adapter", config=config, outputs=None)
    record = brought(store, folder, tiny).record
    assert (record.spec["adapter"], record.spec["label"]) == (settings, None)
    found = logits(tiny, stored_adapter(store, record.key), use_safetensors=True)
    assert torch.equal(logits(tiny, folder), found)


def test_the_same_folder_again_is_the_same_record_and_another_folder_another(folder, store, tiny, tmp_path):
    first, again = brought(store, folder, tiny), brought(store, folder, tiny)
    assert (first.is_new, again.is_new) == (True, False)
    assert first.record == again.record
    other = brought(store, old_folder(tmp_path / "other", seed=2), tiny)
    assert other.is_new
    assert len(store.keys()) == 2


def test_tensors_of_a_model_without_heads_and_of_the_oldest_libraries_find_their_places(store, tiny, tmp_path):
    plain, bare, oldest = (old_folder(tmp_path / name, outputs=None) for name in ("plain", "bare", "oldest"))
    weights = torch.load(plain / "pytorch_adapter.bin", weights_only=True)
    torch.save({name.removeprefix("roberta."): one for name, one in weights.items()}, bare / "pytorch_adapter.bin")
    old = {name.replace(".adapters.", ".layer_text_task_adapters."): one for name, one in weights.items()}
    torch.save(old, oldest / "pytorch_adapter.bin")
    stored = [
        load_file(stored_adapter(store, brought(store, one, tiny).record.key) / "adapter.safetensors")
        for one in (plain, bare, oldest)
    ]
    assert len(store.keys()) == 3
    for name, value in stored[0].items():
        assert all(torch.equal(value, other[name]) for other in stored[1:])


@pytest.mark.parametrize("name", ["Theirs", "a-b", "../x", "epitome_er", "random", "intermediate"])
def test_a_name_that_could_be_no_intermediate_s_is_refused(folder, store, tiny, name):
    with pytest.raises(BadInput, match="of an imported adapter"):
        brought(store, folder, tiny, name)


@pytest.fixture
def hub(folder, tmp_path, monkeypatch):
    """A cache of the hub with the folder as a part of a repository, and what was asked of it."""
    asked = []

    def snapshot_download(name, *, revision, allow_patterns, local_files_only):
        asked.append((name, revision, allow_patterns, local_files_only))
        top = tmp_path / "models--them--theirs" / "snapshots" / COMMIT
        (top / "er").mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            blob = top.parent.parent / file.name
            blob.write_bytes(file.read_bytes())
            (top / "er" / file.name).unlink(missing_ok=True)
            (top / "er" / file.name).symlink_to(blob)
        return str(top)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    return asked


def test_an_adapter_of_the_hub_is_noted_with_its_commit(hub, store, tiny):
    source = source_of("them/theirs/er", "main")
    assert hub == [("them/theirs", "main", [f"er/{name}" for name in FILES], True)]
    record = import_adapter(store, source, "theirs", tiny).record
    assert record.spec["origin"]["hub"] == "them/theirs/er"
    assert record.spec["origin"]["commit"] == COMMIT


def test_what_is_no_folder_and_not_to_be_had_is_one_line(monkeypatch, tmp_path):
    def offline(*_, **__):
        raise OSError("no network\nat all")

    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    with pytest.raises(NoSuchSource, match=r"them/theirs: neither a folder nor .* \(no network at all\)"):
        source_of("them/theirs")
    for name in ("theirs", str(tmp_path / "none"), "./none", "them/theirs/../../x", "a b/c"):
        with pytest.raises(NoSuchSource, match="no such folder, nor a repository of the hub"):
            source_of(name)
    with pytest.raises(NoSuchSource, match="a folder has no --revision"):
        source_of(str(tmp_path), "main")


def test_the_command_says_what_it_has_imported_and_that_it_had_it(folder, store, command):
    asked = ("adapter", "import", folder, "--as", "theirs", "--backbone", "random-tiny", "--store", store.root)
    code, said, _ = command(*asked)
    (key,) = store.keys()
    assert code == 0
    for words in (f"imported, key {key}", f"{NAME!r}, adapters 0.1.0", "multiclass: LABEL_0", f'theirs = "{key[:12]}"'):
        assert words in said
    assert "warning: it stands on 'random-tiny' now" in said
    assert "is in the store already" in command(*asked)[1]
    told = json.loads(command(*asked, "--json")[1])
    assert (told["key"], told["is_new"], told["adapter"]) == (key, False, SETTINGS)


def test_without_a_backbone_the_one_that_the_folder_names_is_taken(store, command, tmp_path, monkeypatch):
    named = old_folder(tmp_path / "named")
    change(named / "adapter_config.json", lambda told: told.update(model_name="random-tiny"))
    asked = ("adapter", "import", named, "--as", "theirs", "--store", store.root)
    code, said, err = command(*asked)
    assert (code, err) == (0, "")
    assert "warning" not in said
    for name, wanted in (("../../elsewhere", "is no model's name"), ("nobody/nothing", "names 'nobody/nothing' as")):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        change(named / "adapter_config.json", lambda told, name=name: told.update(model_name=name))
        code, _, err = command(*asked)
        assert (code, err.count("\n")) == (2, 1)
        assert wanted in err
        assert "--backbone" in err


def test_a_folder_that_names_no_model_is_taken_to_stand_on_the_usual_one(tmp_path, monkeypatch):
    unnamed, asked = old_folder(tmp_path / "unnamed"), []
    change(unnamed / "adapter_config.json", lambda told: told.update(model_name=None))
    monkeypatch.setattr(importing, "resolve", asked.append)
    importing.backbone_of(source_of(str(unnamed)))
    assert asked == ["roberta-base"]


def test_the_command_tells_what_is_wrong_in_one_line(folder, store, command, tmp_path):
    broken = old_folder(tmp_path / "broken")
    change(broken / "adapter_config.json", lambda told: told.update(hidden_size=768))
    for source, backbone, said in (
        (broken, "random-tiny", "hidden_size 768"),
        (folder, "no-such/backbone", "backbone 'no-such/backbone'"),
        (tmp_path / "none", "random-tiny", "no such folder"),
    ):
        asked = ("adapter", "import", source, "--as", "theirs", "--backbone", backbone, "--store", store.root)
        code, _, refused = command(*asked)
        assert code == 2
        assert said in refused
        assert refused.count("\n") == 1
