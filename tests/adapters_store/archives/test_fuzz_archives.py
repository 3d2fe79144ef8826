"""Archives made to do harm, and archives with any bytes changed: only our own errors come out, and nothing goes in."""

import gzip
import io
import json
import lzma
import tarfile
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters_store import Store, StoreError, key_of
from adapters_store import restore as unpacked
from adapters_store.archive import archive
from adapters_store.record import seal
from adapters_store.restore import BadArchive, restore
from tests.support.studies.forged import members, special, tar_of

SPEC = {"target": "toy", "intermediate": None, "seed": 1}
KEY = key_of(SPEC)
RECORD = f"objects/{KEY}/record.json"
TEST = f"objects/{KEY}/test.parquet"
INPUTS = {"splits_hash": "0" * 64}
MEASURE = f"measures/{key_of({'kind': 'statistics', 'inputs': INPUTS})}/measure.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Bytes of a good archive, and its members by name but for their list."""
    root = tmp_path_factory.mktemp("made")
    store = Store(root / "runs")
    with store.staging() as folder:
        (folder / "adapter").mkdir()
        (folder / "adapter" / "adapter.safetensors").write_bytes(bytes(range(256)) * 3)
        (folder / "test.parquet").write_bytes(b"predictions")
        store.put(KEY, SPEC, {"test": 0.5}, {"host": "here"}, folder)
    store.put_measure("statistics", INPUTS, {"rows": 3}, 0.5)
    store.write_manifest("toy", {"name": "toy", "cells": [{"key": KEY}]})
    archive(store, "toy", [("statistics", INPUTS)], root / "toy.tar.gz")
    content = members(root / "toy.tar.gz")
    del content["archive.json"]
    return (root / "toy.tar.gz").read_bytes(), content


def listed(content, **head):
    """The members in order with a list of them that fits, as a hostile hand would write it."""
    content = dict(sorted(content.items()))
    stamps = {name: {"sha256": sha256(one).hexdigest(), "bytes": len(one)} for name, one in content.items()}
    whole = {"format": "empathy-transfer study", "schema": 1, "study": "toy", "is_light": False, "members": stamps}
    return [("archive.json", json.dumps({**whole, **head}).encode()), *content.items()]


def refused(tmp_path, raw):
    """The message with which an archive is refused; nothing is written by that, inside the store or elsewhere."""
    (tmp_path / "bad.tar.gz").write_bytes(raw)
    with pytest.raises(BadArchive) as problem:
        restore(tmp_path / "bad.tar.gz", Store(tmp_path / "store" / "runs"))
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tar.gz"]
    assert "\n" not in str(problem.value) and "bad.tar.gz: " in str(problem.value)
    return str(problem.value)


def stretched(raw, member, **pax):
    """The archive with extended headers before one member, which tarfile puts over what the member says."""
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        pairs = [(info, tar.extractfile(info).read()) for info in tar]
    for info, _ in pairs:
        info.pax_headers = pax if info.name == member else {}
    return tar_of(pairs)


def header_of(size):
    """One extended header that claims a size, packed, with nothing but zeros after it."""
    info = special("x", tarfile.XHDTYPE)
    info.size = size
    return gzip.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(30_000_000))


def nested(depth):
    info = special("x", tarfile.XHDTYPE)
    return gzip.compress(info.tobuf(tarfile.USTAR_FORMAT) * depth)


def with_record(members, change):
    """The members with another record.json; its own checksum fits again."""
    body = json.loads(members[RECORD])
    del body["checksum"]
    return listed({**members, RECORD: seal(change(body))})


HOSTILE = {
    "parent": lambda m: listed({**m, "objects/../../evil": b"x"}),
    "parent-in-record": lambda m: listed({**m, f"objects/{KEY}/../../../evil": b"x"}),
    "absolute": lambda m: listed({**m, "/etc/evil": b"x"}),
    "elsewhere": lambda m: listed({**m, "packs/x/progress.json": b"{}"}),
    "below-beside": lambda m: listed({**m, "report/../../evil": b"x"}),
    "hidden-beside": lambda m: listed({**m, ".bashrc": b"x"}),
    "no-record": lambda m: listed({**m, f"objects/{'0' * 64}/test.parquet": b"x"}),
    "odd-name": lambda m: listed({**m, f"objects/{KEY}/a b": b"x"}),
    "hidden": lambda m: listed({**m, f"objects/{KEY}/.x": b"x"}),
    "other-case": lambda m: listed({**m, f"objects/{KEY}/RECORD.JSON": b"x"}),
    "long-name": lambda m: listed({**m, f"objects/{KEY}/{'x' * 200}": b"x"}),
    "file-and-folder": lambda m: listed({**m, f"{TEST}/x": b"x"}),
    "more-in-record": lambda m: listed({**m, f"objects/{KEY}/more": b"x"}),
    "another-study": lambda m: listed({**m, "studies/other.json": b"{}"}),
    "study-name": lambda m: listed(m, study="../toy"),
    "study-lacks": lambda m: listed(m, study="other"),
    "format": lambda m: listed(m, format="tar"),
    "schema": lambda m: listed(m, schema=2),
    "negative-size": lambda m: listed(m, members={name: {"sha256": "0" * 64, "bytes": -1} for name in m}),
    "size-is-true": lambda m: listed(m, members={name: {"sha256": "0" * 64, "bytes": True} for name in m}),
    "list-is-a-list": lambda m: listed(m, members=[1]),
    "list-not-json": lambda m: [("archive.json", b"{"), *m.items()],
    "list-deep": lambda m: [("archive.json", b"[" * 100_000), *m.items()],
    "list-missing": lambda m: [*m.items()],
    "list-last": lambda m: [*list(m.items())[1:], ("archive.json", b"{}")],
    "order": lambda m: listed(m, members=dict(reversed(json.loads(listed(m)[0][1])["members"].items()))),
    "unlisted": lambda m: [*listed(m), ("objects/../../evil", b"x")],
    "twice": lambda m: [*listed(m), (TEST, b"x")],
    "lacking": lambda m: listed(m)[:-1],
    "hash": lambda m: [(n, b"predictionz" if n == TEST else c) for n, c in listed(m)],
    "size": lambda m: [(n, b"predictions!" if n == TEST else c) for n, c in listed(m)],
    "symlink": lambda m: [
        (special(n, tarfile.SYMTYPE, "/etc/passwd"), None) if n == TEST else (n, c) for n, c in listed(m)
    ],
    "hardlink": lambda m: [(special(n, tarfile.LNKTYPE, RECORD), None) if n == TEST else (n, c) for n, c in listed(m)],
    "device": lambda m: [(special(n, tarfile.CHRTYPE), None) if n == TEST else (n, c) for n, c in listed(m)],
    "pipe": lambda m: [(special(n, tarfile.FIFOTYPE), None) if n == TEST else (n, c) for n, c in listed(m)],
    "folder": lambda m: [(special(n, tarfile.DIRTYPE), None) if n == TEST else (n, c) for n, c in listed(m)],
    "record-of-another-key": lambda m: with_record(m, lambda body: {**body, "key": "0" * 64}),
    "record-of-another-spec": lambda m: with_record(m, lambda body: {**body, "spec": {"target": "x"}}),
    "record-without-files": lambda m: with_record(m, lambda body: {**body, "files": {}}),
    "record-of-the-future": lambda m: with_record(m, lambda body: {**body, "schema": 99}),
    "record-left-out": lambda m: with_record(m, lambda body: {**body, "provenance": {"left_out": {"x": 1}}}),
    "record-results": lambda m: with_record(m, lambda body: {**body, "results": [1]}),
    "record-cut": lambda m: listed({**m, RECORD: m[RECORD][:-30]}),
    "measure-of-another-key": lambda m: listed({k.replace(MEASURE[9:20], "0" * 11): v for k, v in m.items()}),
    "measure-is-none": lambda m: listed({**m, MEASURE: b"{}"}),
    "manifest-not-json": lambda m: listed({**m, "studies/toy.json": b"\xff"}),
    "manifest-nan": lambda m: listed({**m, "studies/toy.json": b'{"name": "toy", "cells": [], "x": NaN}'}),
    "manifest-without-cells": lambda m: listed({**m, "studies/toy.json": b'{"name": "toy", "cells": 1}'}),
    "manifest-of-other-cells": lambda m: listed({**m, "studies/toy.json": b'{"name": "toy", "cells": []}'}),
    "manifest-of-another": lambda m: listed({**m, "studies/toy.json": b'{"name": "x", "cells": []}'}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_refused_before_anything_is_written(made, tmp_path, kind):
    refused(tmp_path, tar_of(HOSTILE[kind](made[1])))


def test_hostile_archives_are_made_as_good_ones_are(made, tmp_path):
    """Else the tests above could refuse for another reason than the one in their name."""
    for mode in ("w:gz", "w:xz"):
        (tmp_path / "good.tar.gz").write_bytes(tar_of(listed(made[1]), mode))
        assert restore(tmp_path / "good.tar.gz", Store(tmp_path / mode[2:])).new == 2
    (tmp_path / "good.tar.gz").write_bytes(as_xz(made[0]))
    assert restore(tmp_path / "good.tar.gz", Store(tmp_path / "again")).new == 2


def as_xz(raw, dict_size=1 << 20):
    """The same stream packed as .xz; reading it takes as much memory as the dictionary has bytes."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": dict_size}]
    return lzma.compress(gzip.decompress(raw), format=lzma.FORMAT_XZ, filters=filters)


STREAMS = {
    "nothing": lambda raw: b"",
    "text": lambda raw: b"words\n" * 1000,
    "not-packed": gzip.decompress,
    "cut": lambda raw: raw[: len(raw) // 2],
    "long-header": lambda raw: header_of(20_000_000),
    "huge-header": lambda raw: header_of(8**11 - 1),
    "many-headers": lambda raw: nested(20_000),
    "negative-size": lambda raw: stretched(raw, TEST, size="-1024"),
    "size-of-many-digits": lambda raw: stretched(raw, TEST, size="9" * 5000),
    "other-name": lambda raw: stretched(raw, TEST, path="../../evil"),
    "xz-cut": lambda raw: as_xz(raw)[:-200],
    "xz-header-alone": lambda raw: as_xz(raw)[:6],
    "xz-wants-memory": lambda raw: as_xz(raw, dict_size=1 << 29),
    "xz-long-header": lambda raw: as_xz(header_of(20_000_000)),
    "xz-inside-xz": lambda raw: as_xz(gzip.compress(as_xz(raw))),
    "sparse": lambda raw: stretched(raw, TEST, **{"GNU.sparse.map": "0,1", "GNU.sparse.size": "1"}),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_that_would_exhaust_or_mislead_its_reader_is_refused(made, tmp_path, kind):
    refused(tmp_path, STREAMS[kind](made[0]))


def test_an_archive_that_unpacks_to_too_much_or_holds_too_many_is_refused(made, tmp_path, monkeypatch):
    monkeypatch.setattr(unpacked, "RATIO_COUNTS_FROM", 1 << 20)
    zeros = {**made[1], f"objects/{KEY}/adapter/adapter.safetensors": bytes(30_000_000)}
    assert "unpacks to more than" in refused(tmp_path, tar_of(listed(zeros)))
    assert "unpacks to more than" in refused(tmp_path, tar_of(listed(zeros), "w:xz"))
    monkeypatch.setattr(unpacked, "MOST_MEMBERS", 3)
    assert "more than 3 members" in refused(tmp_path, tar_of(listed(made[1])))
    monkeypatch.setattr(unpacked, "MOST_MEMBERS", 30)
    monkeypatch.setattr(unpacked, "MOST_JSON_BYTES", 300)
    assert "more than 300 bytes" in refused(tmp_path, tar_of(listed(made[1])))


EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), st.binary(max_size=20)), min_size=1, max_size=4)


def edited(content, edits):
    for place, cut, put in edits:
        start = int(place * len(content))
        content = content[:start] + put + content[start + cut :]
    return content


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS, is_inside=st.booleans(), is_xz=st.booleans())
def test_changed_bytes_raise_only_our_own_errors_and_restore_nothing_that_differs(
    made, tmp_path_factory, edits, is_inside, is_xz
):
    """Of the packed bytes, or of those inside, which the packing's own checksum would hide."""
    raw, content = made
    folder = tmp_path_factory.mktemp("edited")
    plain = gzip.decompress(raw)
    pack = lzma.compress if is_xz else gzip.compress
    changed = pack(edited(plain, edits)) if is_inside else edited(pack(plain), edits)
    (folder / "a.tar.gz").write_bytes(changed)
    store = Store(folder / "runs")
    try:
        restore(folder / "a.tar.gz", store)
    except StoreError as problem:
        assert "\n" not in str(problem) and "a.tar.gz" in str(problem)
        assert not store.root.exists()
    else:
        assert store.open(KEY, "test.parquet").read_bytes() == content[TEST]
        assert store.get(KEY).to_json() == content[RECORD]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("format", "schema", "study", "is_light", "members", "name", "cells")


@settings(max_examples=80)
@given(changes=st.dictionaries(st.sampled_from(FIELDS), JSON, min_size=1, max_size=3))
def test_any_values_in_the_list_or_the_manifest_raise_only_our_own_errors(made, tmp_path_factory, changes):
    folder = tmp_path_factory.mktemp("values")
    manifest = json.loads(made[1]["studies/toy.json"]) | {k: v for k, v in changes.items() if k in ("name", "cells")}
    content = made[1] | {"studies/toy.json": json.dumps(manifest).encode()}
    head = {name: value for name, value in changes.items() if name not in ("name", "cells")}
    (folder / "a.tar.gz").write_bytes(tar_of(listed(content, **head)))
    try:
        restore(folder / "a.tar.gz", Store(folder / "runs"))
    except StoreError as problem:
        assert "\n" not in str(problem)
