"""Folders of other people: every way in which one can be wrong is one line, and nothing in it is run."""

import hashlib
import io
import shutil
import zipfile

import pytest
import torch

from harness.sharing import incoming
from harness.sharing.importing import import_adapter
from harness.sharing.incoming import AdapterSource, BadAdapter, read_incoming
from tests.support.studies.old_adapters import NAME, change, change_tensors, old_folder

WEIGHTS, HEAD = "pytorch_adapter.bin", "pytorch_model_head.bin"
FIRST = f"roberta.encoder.layer.0.output.adapters.{NAME}.adapter_up.bias"


class Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def config(folder, **changes):
    change(folder / "adapter_config.json", lambda told: told.update(changes))


def setting(folder, **changes):
    change(folder / "adapter_config.json", lambda told: told["config"].update(changes))


def head(folder, **changes):
    change(folder / "head_config.json", lambda told: told["config"].update(changes))


def tensors(folder, name=WEIGHTS, **changes):
    change_tensors(folder / name, lambda found: found.update(changes))


def without(folder, tensor):
    change_tensors(folder / WEIGHTS, lambda found: found.pop(tensor))


def cut(folder, name):
    raw = (folder / name).read_bytes()
    (folder / name).write_bytes(raw[: len(raw) // 2])


def linked(folder):
    shutil.move(folder / WEIGHTS, folder.parent / "elsewhere.bin")
    (folder / WEIGHTS).symlink_to(folder.parent / "elsewhere.bin")


WRONG = {
    "no configuration": (lambda at: (at / "adapter_config.json").unlink(), r"adapter_config\.json: is missing"),
    "no folder of an adapter": (lambda at: [one.unlink() for one in at.iterdir()], r"adapter_config\.json: is missing"),
    "no weights": (lambda at: (at / WEIGHTS).unlink(), r"adapter\.safetensors or pytorch_adapter\.bin: is missing"),
    "no weights of the head": (lambda at: (at / HEAD).unlink(), r"model_head\.bin: is missing, though head_config"),
    "no configuration of the head": (lambda at: (at / "head_config.json").unlink(), r"head_config\.json: is missing"),
    "no JSON": (lambda at: (at / "adapter_config.json").write_text("{\n,"), r"adapter_config\.json:2: no JSON"),
    "no text": (lambda at: (at / "adapter_config.json").write_bytes(b"\xff"), r"adapter_config\.json: no JSON"),
    "a list": (lambda at: (at / "adapter_config.json").write_text("[]"), "no table of fields"),
    "half a pickle": (lambda at: cut(at, WEIGHTS), r"pytorch_adapter\.bin: damaged"),
    "half a safetensors": (lambda at: (at / "adapter.safetensors").write_bytes(b"x" * 20), r"safetensors: damaged"),
    "no table": (lambda at: torch.save([torch.zeros(2)], at / WEIGHTS), "no table of tensors"),
    "whole numbers": (lambda at: tensors(at, x=torch.zeros(2, dtype=torch.int64)), "'x' is no tensor of real numbers"),
    "no tensor": (lambda at: tensors(at, x="y"), "'x' is no tensor of real numbers"),
    "no number": (lambda at: tensors(at, **{FIRST: torch.full((64,), torch.nan)}), "no finite numbers"),
    "endless": (lambda at: tensors(at, x=torch.zeros(1).expand(2**30)), "take 4,.* bytes, more than"),
    "a tensor too few": (lambda at: without(at, FIRST), f"1 tensor missing, as '{FIRST.replace(NAME, 'theirs')}'"),
    "a tensor too many": (lambda at: tensors(at, x=torch.zeros(2)), r"1 tensor without a place, as 'x'"),
    "another name": (
        lambda at: (without(at, FIRST), tensors(at, x=torch.zeros(2))),
        "1 tensor without .* and 1 tensor missing",
    ),
    "of the encoder": (
        lambda at: tensors(at, **{"roberta.embeddings.word_embeddings.weight": torch.zeros(261, 64)}),
        "without a place, as 'roberta.embeddings",
    ),
    "another head's": (
        lambda at: tensors(at, HEAD, **{"heads.x.1.bias": torch.zeros(64)}),
        r"head_config\.json: .* without a place, as 'heads\.x\.1\.bias",
    ),
    "a shape": (lambda at: tensors(at, **{FIRST: torch.zeros(65)}), r"is \[65\], but .* needs \[64\]"),
    "width": (lambda at: config(at, hidden_size=768), r"hidden_size 768, but backbone 'random-tiny' is 64 wide"),
    "width in words": (lambda at: config(at, hidden_size="64"), "hidden_size '64' is not a whole number"),
    "another encoder": (lambda at: config(at, model_type="bert"), "trained on a bert, but backbone 'random-tiny'"),
    "a path": (lambda at: config(at, name="../../x"), r"name '\.\./\.\./x' is empty, too long, or a path"),
    "no name": (lambda at: config(at, name=None), "name None is not a text"),
    "a link": (linked, "a link that leads out of its folder"),
    "no settings": (lambda at: config(at, config="pfeiffer"), "config 'pfeiffer' is not a table"),
    "a setting gone": (
        lambda at: change(at / "adapter_config.json", lambda told: told["config"].pop("reduction_factor")),
        "setting 'reduction_factor' is missing",
    ),
    "a setting of tomorrow": (lambda at: setting(at, warp=9), "setting 'warp' is unknown to adapters"),
    "another adapter": (lambda at: setting(at, ln_after=True), "is no seq_bn.* ln_after is True, not False"),
    "many factors": (lambda at: setting(at, reduction_factor={"1": 8}), "no seq_bn.* reduction_factor is {'1': 8}"),
    "no factor": (lambda at: setting(at, reduction_factor=-4), "no seq_bn.* reduction_factor is -4"),
    "another factor": (lambda at: setting(at, reduction_factor=8), r"needs \[8"),
    "no function": (lambda at: setting(at, non_linearity="reloo"), "non_linearity 'reloo' is unknown"),
    "beside, not below": (
        lambda at: setting(at, is_parallel=True, original_ln_before=False, scaling=4.0),
        "a par_bn adapter stands below no other",
    ),
    "another architecture": (lambda at: setting(at, architecture="reft"), "adapter of architecture 'reft'"),
    "a tagger": (lambda at: head(at, head_type="tagging"), "a head of type 'tagging'.* import the adapter alone"),
    "a flat head": (lambda at: head(at, layers=1), "a head of 1 layers with 'tanh'"),
    "endless outputs": (lambda at: head(at, num_labels=10**9), "num_labels 1000000000 is not a number of outputs"),
    "wrong labels": (lambda at: head(at, label2id={"a": 0, "b": 0, "c": 1}), "label2id does not number the 3 outputs"),
    "labels of nothing": (lambda at: head(at, label2id=["a", "b", "c"]), "label2id does not number"),
    "a class of two lines": (lambda at: head(at, label2id={"a\nb": 0, "c": 1, "d": 2}), r"names a class 'a\\nb'"),
    "fewer outputs": (lambda at: head(at, num_labels=2, label2id=None), r"is \[3, 64\], but .* needs \[2, 64\]"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return old_folder(tmp_path_factory.mktemp("whole") / "adapter")


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "adapter")


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_with_a_folder_is_said_in_one_line_and_leaves_no_record(folder, store, tiny, what):
    spoil, said = WRONG[what]
    spoil(folder)
    with pytest.raises(BadAdapter, match=said) as problem:
        import_adapter(store, AdapterSource(folder, folder), "theirs", tiny)
    assert "\n" not in str(problem.value)
    assert store.keys() == set()


def test_code_in_a_pickle_is_refused_and_never_run(folder):
    torch.save({"x": Evil(folder / "was-run")}, folder / WEIGHTS)
    with pytest.raises(BadAdapter, match=r"more than plain tensors .* nothing of it was run"):
        read_incoming(folder, folder)
    assert not (folder / "was-run").exists()


def test_a_file_that_is_too_large_is_not_read(folder, monkeypatch):
    monkeypatch.setattr(incoming, "LARGEST_BYTES", 100)
    with pytest.raises(BadAdapter, match=r"pytorch_adapter\.bin: [\d,]+ bytes, more than the 100"):
        read_incoming(folder, folder)


def test_a_pickle_that_unpacks_to_too_much_is_not_unpacked(folder, monkeypatch):
    with zipfile.ZipFile(folder / WEIGHTS, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("adapter/data/0", bytes(10**6))
    monkeypatch.setattr(incoming, "LARGEST_BYTES", 10**5)
    assert (folder / WEIGHTS).stat().st_size < 10**5
    with pytest.raises(BadAdapter, match="unpacks to 1,000,000 bytes"):
        read_incoming(folder, folder)


def test_tensors_of_half_precision_are_read_in_full(folder):
    before = torch.load(folder / WEIGHTS, weights_only=True)
    change_tensors(folder / WEIGHTS, lambda found: found.update({name: one.half() for name, one in found.items()}))
    read = read_incoming(folder, folder).adapter.tensors
    for name, value in before.items():
        assert read[name].dtype == torch.float32
        torch.testing.assert_close(read[name], value, atol=1e-3, rtol=1e-3)


def test_every_file_that_was_read_is_named_with_its_hash(folder):
    found = read_incoming(folder, folder)
    assert found.files == {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in folder.iterdir()}
    assert set(found.files) == {"adapter_config.json", "head_config.json", WEIGHTS, HEAD}


def test_a_pickle_whose_archive_has_names_that_are_no_text_is_one_line(tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("\u00e9" * 20, b"1")
    raw = content.getvalue().replace("\u00e9".encode(), b"\xf2(")
    with pytest.raises(BadAdapter, match="damaged"):
        incoming._read_pickle(raw, tmp_path / "pytorch_adapter.bin")
