"""Datasets of the hub, against a server on this machine that answers as the hub does."""

import hashlib
import json

import pandas as pd
import pytest

from harness.cli.main import main
from harness.raw.fetch import BadHubDataset, FetchFailed, hub_dataset

SHA = "0123456789abcdef0123456789abcdef01234567"
CONVERTED = "/api/datasets/someone/replies/revision/refs%2Fconvert%2Fparquet?blobs=true"


def parquet(folder, rows):
    labels = ["warm", "cold"]
    frame = pd.DataFrame(
        {
            "reply": [f"a {labels[i % 2]} reply, number {i}" for i in range(rows)],
            "tone": [labels[i % 2] for i in range(rows)],
        }
    )
    frame.to_parquet(folder / "made.parquet", index=False)
    return (folder / "made.parquet").read_bytes()


def large(name, content):
    return {
        "rfilename": name,
        "size": len(content),
        "blobId": "0" * 40,
        "lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)},
    }


def small(name, content):
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return {"rfilename": name, "size": len(content), "blobId": blob}


@pytest.fixture
def hub(file_server):
    """Answers by path; a text is where a redirect leads."""
    return file_server.files


def listed(hub, *files, path="/api/datasets/someone/replies?blobs=true", **more):
    answer = {"sha": SHA, "siblings": [{"rfilename": "README.md", "size": 3}, *files], **more}
    hub[path] = json.dumps(answer).encode()


def test_a_hub_dataset_goes_from_its_name_to_an_entry_that_others_can_fetch(hub, tmp_path, capsys, printed):
    content = parquet(tmp_path, 60)
    listed(hub, large("data/train.parquet", content), cardData={"license": "cc0-1.0"})
    hub[f"/datasets/someone/replies/resolve/{SHA}/data/train.parquet"] = content
    options = ["--registry", tmp_path / "entries", "--data", tmp_path / "data"]
    assert main([str(one) for one in ["tasks", "new", "hub:someone/replies", *options, "--skip-training"]]) == 0
    entry = (tmp_path / "entries" / "replies.toml").read_text(encoding="utf-8")
    assert 'licence = "cc0-1.0"' in entry
    assert 'kind = "binary"' in entry
    (tmp_path / "data/hub/someone--replies/data/train.parquet").unlink()
    capsys.readouterr()
    assert "fetched, verified" in printed("data", "fetch", "replies", *options)


def test_small_files_are_checked_by_their_git_blob(hub):
    listed(hub, small("train.csv", b"a,b\n"), small("test.csv", b"c,d\n"))
    found = hub_dataset("hub:someone/replies")
    assert [one.path for one in found.downloads] == [f"hub/someone--replies/{name}.csv" for name in ("test", "train")]
    assert all(one.git_blob and not one.sha256 and SHA in one.url for one in found.downloads)


def test_the_hubs_own_tables_stand_in_for_other_formats(hub):
    listed(hub, {"rfilename": "data.zip", "size": 9})
    listed(hub, large("default/train/0000.parquet", b"x"), path=CONVERTED)
    assert [one.path for one in hub_dataset("hub:someone/replies").downloads] == [
        "hub/someone--replies/default/train/0000.parquet"
    ]


def test_a_dataset_of_several_parts_needs_one_to_be_named(hub):
    listed(hub, large("en/train.parquet", b"x"), large("zh/train.parquet", b"y"))
    with pytest.raises(BadHubDataset, match="give one of hub:someone/replies:en, hub:someone/replies:zh"):
        hub_dataset("hub:someone/replies")
    assert [one.path[-17:] for one in hub_dataset("hub:someone/replies:zh").downloads] == ["/zh/train.parquet"]
    with pytest.raises(BadHubDataset, match="no such part"):
        hub_dataset("hub:someone/replies:fr")


@pytest.mark.parametrize("address", ["hub:replies", "hub:a/b/c", "hub:../b"])
def test_an_odd_name_is_refused(hub, address):
    with pytest.raises((BadHubDataset, FetchFailed)):
        hub_dataset(address)


def test_a_dataset_that_is_absent_too_large_or_no_json_is_refused_in_a_line(hub):
    with pytest.raises(FetchFailed, match="upstream does not have it"):
        hub_dataset("hub:someone/nothing")
    listed(hub, {**large("train.parquet", b"x"), "size": 10**12})
    with pytest.raises(BadHubDataset, match="cut a file of your own"):
        hub_dataset("hub:someone/replies")
    hub["/api/datasets/someone/replies?blobs=true"] = b"<html>"
    with pytest.raises(FetchFailed, match="not JSON"):
        hub_dataset("hub:someone/replies")


@pytest.mark.parametrize(
    ("address", "reason"),
    [("http://localhost/inside", "not an https address"), ("https://10.0.0.1/inside", "private network")],
)
def test_a_listing_that_leads_off_the_hub_to_plain_http_or_a_private_network_is_refused(hub, address, reason):
    hub["/api/datasets/someone/replies?blobs=true"] = address
    with pytest.raises(FetchFailed, match=reason):
        hub_dataset("hub:someone/replies")
