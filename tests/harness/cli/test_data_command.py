"""``data status`` and ``data fetch``: what people see of files that are here, missing, wrong or on request."""

import hashlib
import json

import pytest

from harness.raw import fetch as fetching
from tasks.registry import Registry

CONTENT = b"reply,kind\nwell,1\nno,0\n"


@pytest.fixture
def registry(tmp_path):
    """A folder with an entry whose one file may be downloaded, and one that must be asked for."""
    folder = tmp_path / "entries"
    folder.mkdir()
    plain = 'text = "reply"\nlabel = "kind"\nkind = "binary"\n'
    download = f'url = "https://example.org/k.csv", path = "k/k.csv", sha256 = "{hashlib.sha256(CONTENT).hexdigest()}"'
    (folder / "kindness.toml").write_text(
        f'id = "kindness"\nfiles = ["k/k.csv"]\nlicence = "CC0-1.0"\n{plain}downloads = [{{ {download} }}]\n',
        encoding="utf-8",
    )
    (folder / "secret.toml").write_text(
        f'id = "secret"\nfiles = ["s.csv"]\n{plain}access = "ask the keepers of the secret"\n', encoding="utf-8"
    )
    return folder


@pytest.fixture
def upstream(monkeypatch):
    """What the addresses answer; an address that is not listed fails."""
    answers = {"https://example.org/k.csv": CONTENT}

    def transfer(download, part, watch):
        if download.url not in answers:
            raise fetching.FetchFailed(f"{download.url}: upstream does not have it")
        part.write_bytes(answers[download.url])
        return True

    monkeypatch.setattr(fetching, "_transfer", transfer)
    return answers


def status(printed, registry, data, name):
    out = printed("data", "status", name, "--registry", registry, "--data", data, "--json")
    return json.loads(out)[0]


def test_a_file_is_missing_then_fetched_then_verified(printed, registry, upstream, tmp_path):
    data = tmp_path / "data"
    before = status(printed, registry, data, "kindness")
    assert (before["files"], before["is_here"], before["is_fetchable"]) == ({"k/k.csv": "missing"}, False, True)
    out = printed("data", "fetch", "kindness", "--registry", registry, "--data", data)
    assert "licence: CC0-1.0" in out
    assert "k/k.csv: fetched, verified" in out
    after = status(printed, registry, data, "kindness")
    assert (after["files"], after["is_here"]) == ({"k/k.csv": "verified"}, True)


def test_a_changed_file_is_reported_and_never_replaced(command, printed, registry, upstream, tmp_path):
    data = tmp_path / "data"
    (data / "k").mkdir(parents=True)
    (data / "k" / "k.csv").write_bytes(b"mine")
    assert status(printed, registry, data, "kindness")["files"] == {"k/k.csv": "differs"}
    out = printed("data", "status", "kindness", "--registry", registry, "--data", data)
    assert "k/k.csv is not the file" in out
    code, out, _ = command("data", "fetch", "kindness", "--registry", registry, "--data", data)
    assert code == 1
    assert "move it away" in out
    assert (data / "k" / "k.csv").read_bytes() == b"mine"


def test_what_is_on_request_says_whom_to_ask_and_an_unknown_name_gets_the_nearest(
    printed, refused, registry, upstream, tmp_path
):
    out = printed("data", "fetch", "secret", "--registry", registry, "--data", tmp_path / "data")
    assert out == "secret: cannot be fetched: ask the keepers of the secret\n"
    assert not (tmp_path / "data").exists()
    assert "did you mean 'kindness'" in refused("data", "fetch", "kindnes", "--registry", registry, "--data", tmp_path)


def test_a_failure_stops_no_other_data_set(command, registry, upstream, tmp_path):
    data = tmp_path / "data"
    code, out, _ = command("data", "fetch", "epitome", "kindness", "--registry", registry, "--data", data)
    assert code == 1
    assert "upstream does not have it" in out
    assert (data / "k" / "k.csv").read_bytes() == CONTENT


def test_synthetic_files_differ_from_upstreams_and_anothers_files_can_be_fetched(printed, data, tmp_path):
    out = printed("data", "status", "epitome_er", "--data", data, "--json")
    assert set(json.loads(out)[0]["files"].values()) == {"differs"}
    out = printed("data", "status", "empdial", "--data", tmp_path, "--json")
    assert json.loads(out)[0]["is_fetchable"]


def test_every_download_of_the_registry_is_pinned_checked_and_open():
    datasets = {task.dataset.id: task.dataset for task in Registry.load().tasks.values()}
    downloads = [one for dataset in datasets.values() for one in dataset.downloads]
    assert len(downloads) >= 37
    for one in downloads:
        fetching.check_address(one.url)
        assert one.sha256 or one.git_blob, one.url
        assert any(len(part) == 40 for part in one.url.split("/")), f"{one.url} names no commit"
