"""Stores with keys of schema 1: read as they are, mapped by aliases, and never moved, rewritten or trained again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil

import pytest

from adapters_store import CorruptRecord, Store, StoreError, disk, key_of
from adapters_store.archive import archive
from adapters_store.garbage import garbage
from adapters_store.listing import listing
from adapters_store.measures import LOGME, WEIGHTS, baseline_keys, logme_inputs, weights_inputs
from adapters_store.record import ASSUMED, KNOWN
from adapters_store.restore import restore
from adapters_store.verify import verify
from harness.api import Study
from harness.preflight.smoke import records
from harness.preflight.why import why
from harness.run.grid import GridReport, steps_of
from harness.scoring.scorer import Scorer
from harness.study.backbones.migrate import Migration
from harness.study.cell import SCHEMA
from tasks.errors import BadInput, BadStudy
from tests.support.studies.fake_study import without_pictures
from tests.support.studies.made_up_records import keep
from tests.support.studies.old_keys import as_schema_1
from tests.support.studies.small_study import OVERRIDES, small_study
from tests.support.studies.tiny_backbones import tiny_backbone

MORE = ('controls=["self", "shuffled", "random"]', 'references=["finetuned"]')


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small study with controls, a reference and measures, trained today; tests copy it."""
    root = tmp_path_factory.mktemp("trained")
    study = small_study(root / "today", *MORE)
    report = study.run()
    assert report.is_complete, report.failed
    old = Store(root / "old")
    as_schema_1(study.store, old)
    first, second = baseline_keys(old.manifest("tiny")).values()
    old.put_measure(LOGME, logme_inputs(first, second), {"logme": 0.5}, 1.0)
    old.put_measure(WEIGHTS, weights_inputs(second, first), {"cosine": 0.1, "subspace": 0.2}, 1.0)
    for folder in (root / "today").glob("synthetic*"):
        shutil.copytree(folder, root / "old" / folder.name)
    return root


@pytest.fixture
def old(trained, tmp_path):
    return Store(shutil.copytree(trained / "old", tmp_path / "old"))


def content(store, *, but=()):
    """Every file of a store by its name, without folders of these keys."""
    files = (path for path in sorted(store.root.rglob("*")) if path.is_file() and not {*path.parts} & set(but))
    return {str(path.relative_to(store.root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def study_on(store):
    return small_study(store.root, *MORE)


def test_every_kind_of_record_gets_its_key_of_today_and_stays_where_it_is(old, trained):
    before = content(old)
    done = Migration(old).run()
    today = Store(trained / "today")
    assert (done.new, done.left) == ({KNOWN: len(before_records(old))}, {})
    assert set(old.aliases()) == today.records()
    assert content(old, but=(*old.aliases(), *measure_aliases(old))) == before
    for key in today.records():
        mine, theirs = old.get(key), today.get(key)
        assert (mine.spec, mine.results, mine.files) == (theirs.spec, theirs.results, theirs.files)
        assert (mine.provenance["identity"], mine.provenance["stored_as"]) == (KNOWN, old.stored_as(key))
        for name in mine.files:
            assert old.open(key, name).is_relative_to(old.root / "objects" / old.stored_as(key))


def before_records(store):
    return store.records()


def measure_aliases(store):
    return {path.parent.name for path in (store.root / "measures").rglob("alias.json")}


def test_after_a_migration_a_run_trains_nothing(old):
    Migration(old).run()
    study = study_on(old)
    report = GridReport()
    assert steps_of(study.plan, old, report) == []
    assert (report.failed, len(report.stored)) == ([], len(study.plan.cells))
    assert study.run().done == []
    assert verify(old).missing == {"tiny": []}


def test_a_second_migration_does_nothing(old):
    Migration(old).run()
    before = content(old)
    again = Migration(old).run()
    assert (sum(again.new.values()), again.measures, again.before) == (0, 0, len(old.records()))
    assert content(old) == before


@pytest.mark.parametrize("stop", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "kill"])
def test_a_migration_that_is_interrupted_at_any_write_goes_on(stop, trained, tmp_path, monkeypatch):
    whole = Store(shutil.copytree(trained / "old", tmp_path / "whole"))
    Migration(whole).run()
    writes = Stop(monkeypatch, stop)
    store, before = Store(shutil.copytree(trained / "old", tmp_path / "old")), content(Store(trained / "old"))
    stops = 0
    while stops < 100:
        writes.after(7 * stops % 31)  # each time a few writes come through before the next stop
        stops += 1
        try:
            Migration(store).run()
        except (StoreError, KeyboardInterrupt):
            continue
        break
    assert 5 < stops < 100
    assert content(store, but=("staging", *store.aliases(), *measure_aliases(store))) == before
    assert verify(store).damaged == []
    assert {key: alias.of for key, alias in store.aliases().items()} == {
        key: alias.of for key, alias in whole.aliases().items()
    }
    assert measure_aliases(store) == measure_aliases(whole)


class Stop:
    """Lets some writes and renames of the store through, and ends the next one."""

    def __init__(self, monkeypatch, stop) -> None:
        self.left = 0
        for name in ("write", "publish", "sync_folder"):
            monkeypatch.setattr(disk, name, self.counted(getattr(disk, name), stop))

    def after(self, count) -> None:
        self.left = count

    def counted(self, function, stop):
        def call(*arguments, **options):
            if self.left <= 0:
                raise stop
            self.left -= 1
            return function(*arguments, **options)

        return call


def test_reports_are_the_same_before_and_after_but_for_the_words_of_the_identity(old, tmp_path):
    manifest = old.manifest("tiny")
    before = pages(old, tmp_path / "before")
    Migration(old).run()
    assert old.manifest("tiny") == manifest
    after = pages(old, tmp_path / "after")
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == ["report.md"]
    lines = zip(before["report.md"].splitlines(), after["report.md"].splitlines(), strict=True)
    ((was, now),) = [pair for pair in lines if pair[0] != pair[1]]
    assert was == b"- backbone config and tokenizer: not in keys of schema 1 (see: store migrate) (16 cells)"
    assert now == b"- backbone config and tokenizer: known (16 cells)"


def pages(store, out):
    from analysis.report import report
    from harness.sharing.stored import stored_manifest

    with without_pictures():
        report(store, stored_manifest(store, "tiny"), out, draws=200)
    files = (path for path in sorted(out.rglob("*")) if path.suffix in (".md", ".csv"))
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def test_texts_are_scored_with_an_old_store_and_with_a_mapped_one(old):
    texts = ["that sounds so hard", "no"]
    before = Scorer(old, old.manifest("tiny")).score(texts)
    Migration(old).run()
    study_on(old).run()
    assert Scorer(old, old.manifest("tiny")).score(texts).equals(before)


def test_status_says_how_surely_the_backbone_is_known(old, command):
    def line():
        code, out, _ = command("status", "tiny", "--store", old.root)
        assert code == 0
        return [one for one in out.splitlines() if "tokenizer" in one]

    assert line() == ["backbone's config and tokenizer: 16 not in keys of schema 1 (see: store migrate)"]
    code, out, _ = command("store", "migrate", "--store", old.root)
    assert (code, out.splitlines()[0]) == (0, "aliases written: 16 known; 0 were there, 0 records need none")
    assert line() == ["backbone's config and tokenizer: 16 known"]


def test_a_run_on_a_store_that_is_not_mapped_is_refused_and_plan_says_why(old):
    study, before = study_on(old), content(old)
    with pytest.raises(BadInput, match=r"16 cells of study 'tiny' under keys of schema 1, .* store migrate --store"):
        study.run()
    assert content(old) == before
    (cause,) = why(study.plan, old, records(old))
    assert cause.cause == "stored with a key of schema 1: store migrate"


@pytest.fixture
def with_folder(trained, tmp_path):
    """An old store whose backbone is said to be a local folder, and that folder."""
    folder = tiny_backbone(tmp_path / "mine", "bert")
    today, old = Store(tmp_path / "today"), Store(tmp_path / "old")
    plain = small_study(trained / "today")
    study = Study(
        "tiny", store=today.root, data=plain.data, overrides=[*OVERRIDES, 'trainer="lanes"', f'backbone="{folder}"']
    )
    for cell in study.plan.cells:
        record = keep(Store(tmp_path / "made"), cell)
        made = {**record.provenance, "backbone": "mine"}
        with today.staging() as files:
            today.put(cell.key, dict(cell.spec), record.results, made, files)
    from harness.study.manifest import manifest_of

    today.write_manifest("tiny", manifest_of(study.plan))
    as_schema_1(today, old)
    return old, folder, [cell.key for cell in study.plan.cells]


def test_a_local_folder_is_assumed_to_be_as_it_was(with_folder):
    old, _, keys = with_folder
    assert Migration(old).run().new == {ASSUMED: 4}
    assert {alias.identity for alias in old.aliases().values()} == {ASSUMED}
    assert all(key in old for key in keys)


def test_records_on_a_folder_that_is_gone_or_has_other_weights_are_left_with_the_reason(with_folder, command, tmp_path):
    old, folder, _ = with_folder
    folder.rename(tmp_path / "moved")
    code, out, _ = command("store", "migrate", "--store", old.root)
    lines = [line for line in out.splitlines() if line.startswith("left")]
    assert (code, len(lines), old.aliases()) == (1, 4, {})
    assert all("backbone 'mine' with weights" in line and "--backbone" in line for line in lines)
    code, out, _ = command("store", "migrate", "--store", old.root, "--backbone", tmp_path / "moved")
    assert (code, len(old.aliases())) == (0, 4)
    code, _, err = command("store", "migrate", "--store", old.root, "--backbone", tmp_path / "nowhere")
    assert (code, len(err.splitlines())) == (2, 1)


def test_two_folders_with_the_same_weights_and_another_config_are_not_chosen_between(with_folder, tmp_path):
    old, folder, _ = with_folder
    (tmp_path / "elsewhere").mkdir()
    other = shutil.copytree(folder, tmp_path / "elsewhere" / "mine")
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    (other / "config.json").write_text(json.dumps({**config, "hidden_dropout_prob": 0.3}), encoding="utf-8")
    done = Migration(old, (str(other),)).run()
    assert sum("2 have these weights and differ in config or tokenizer" in why for why in done.left.values()) == 4
    assert old.aliases() == {}


def test_a_record_whose_intermediate_is_not_in_the_store_is_left(old):
    transfer = next(r for r in map(old.get, sorted(old.records())) if r.spec["intermediate_key"])
    below = transfer.spec["intermediate_key"]
    shutil.rmtree(old.root / "objects" / below)
    done = Migration(old).run()
    assert done.left[transfer.key] == f"its intermediate {below[:12]} is not in the store"
    assert all(alias.of != transfer.key for alias in old.aliases().values())


@pytest.mark.parametrize("composition", ["stack-trainable", "sequential"])
def test_other_compositions_and_library_cells_are_mapped_to_what_is_planned(composition, tmp_path):
    study = small_study(tmp_path / "today", f'composition="{composition}"', 'trainer="library"')
    for cell in study.plan.cells:
        keep(study.store, cell)
    old = Store(tmp_path / "old")
    as_schema_1(study.store, old)
    assert Migration(old).run().new == {ASSUMED: 4}  # these made-up records do not say on which backbone they stand
    assert set(old.aliases()) == {cell.key for cell in study.plan.cells}


def test_cells_trained_on_a_gpu_through_the_library_are_mapped_to_keys_of_a_gpu(tmp_path):
    study = small_study(tmp_path / "today", 'trainer="library"', "transfers=false").on("cuda")
    for cell in study.plan.cells:
        keep(study.store, cell, device="cuda (NVIDIA H200)")
    old = Store(tmp_path / "old")
    as_schema_1(study.store, old)
    Migration(old).run()
    assert set(old.aliases()) == {cell.key for cell in study.plan.cells}


def test_an_imported_adapter_is_found_by_either_key_and_by_its_name_once(old):
    from harness.study.intermediates.imported import imported_as, with_imported

    study = study_on(old)
    spec = {
        "schema": 1, "role": "imported", "target": "theirs", "intermediate": None, "intermediate_key": None,
        "backbone": {name: study.plan.backbone.identity()[name] for name in ("model_type", "weights_sha256")},
        "adapter": {"method": "seq_bn", "reduction_factor": 16, "non_linearity": "relu"}, "label": None,
        "origin": {"name": "theirs"},
    }  # fmt: skip
    with old.staging() as folder:
        old.put(key_of(spec), spec, {}, {"backbone": "random-tiny"}, folder)
    config = dataclasses.replace(study.config, imported={"theirs": key_of(spec)[:12]})
    from harness.study.intermediates.imported import imported_cells

    with pytest.raises(BadStudy, match=r"has a key of schema 1, .* store migrate"):
        imported_cells(config, study.registry, study.plan.backbone, old)
    Migration(old).run()
    (cell,) = imported_cells(config, study.registry, study.plan.backbone, old)
    assert cell.spec["schema"] == SCHEMA
    assert with_imported(config, old).imported == {"theirs": cell.key}
    assert [record.key for record in imported_as(old, "theirs")] == [cell.key]


def test_measures_that_name_records_are_found_by_the_new_keys(old):
    Migration(old).run()
    study_on(old).run()
    first, second = baseline_keys(old.manifest("tiny")).values()
    assert old.measure(LOGME, logme_inputs(first, second)).result == {"logme": 0.5}
    found = old.measure(WEIGHTS, weights_inputs(first, second))
    assert (found.result, found.inputs) == ({"cosine": 0.1, "subspace": 0.2}, weights_inputs(first, second))


def test_garbage_is_never_a_record_that_an_alias_names(old):
    Migration(old).run()
    (old.root / "studies" / "tiny.json").unlink()
    assert [one.kind for one in garbage(old, young=-1).leftovers if one.kind == "records"] == []
    shutil.rmtree(old.root / "objects" / next(iter(old.aliases())))
    assert [one.kind for one in garbage(old, young=-1).leftovers if one.kind == "records"] == ["records"]


def test_no_record_is_garbage_while_an_alias_cannot_be_read(old):
    Migration(old).run()
    (old.root / "studies" / "tiny.json").unlink()
    key = next(iter(old.aliases()))
    (old.root / "objects" / key / "alias.json").write_text("{}", encoding="utf-8")
    found = garbage(old, young=-1)
    assert ([one.kind for one in found.leftovers], len(found.unreadable)) == ([], 1)


def test_verify_and_get_name_an_alias_that_is_damaged_or_stands_for_nothing(old):
    Migration(old).run()
    first, second, *_ = sorted(old.aliases())
    gone = old.stored_as(first)
    shutil.rmtree(old.root / "objects" / gone)
    path = old.root / "objects" / second / "alias.json"
    path.write_bytes(path.read_bytes().replace(b"known", b"knowm"))
    damaged = verify(old).damaged
    assert any(first in line and gone in line for line in damaged)
    assert any(str(path) in line for line in damaged)
    for key in (first, second):
        assert key in old
        with pytest.raises(CorruptRecord, match=key):
            old.get(key)


def test_a_store_lists_each_record_once_and_counts_aliases(old):
    Migration(old).run()
    study_on(old).run()
    rows = {row.what: row for row in listing(old)}
    assert (rows["study"].planned, rows["study"].count, rows["records"].count, rows["aliases"].count) == (16, 16, 0, 16)
    assert len(list(records(old))) == 16
    found = verify(old)
    assert (found.records, found.aliases, found.damaged, found.unknown) == (16, 18, [], [])


@pytest.mark.parametrize("is_light", [False, True])
@pytest.mark.parametrize("is_run", [False, True], ids=["old manifest", "new manifest"])
def test_an_archive_takes_records_with_their_aliases_and_gives_both_back(is_light, is_run, old, tmp_path):
    Migration(old).run()
    if is_run:
        study_on(old).run()
    archive(old, "tiny", [], tmp_path / "tiny.tar.gz", is_light=is_light)
    there = Store(tmp_path / "there")
    done = restore(tmp_path / "tiny.tar.gz", there)
    assert done.new == 16
    assert {key: alias for key, alias in there.aliases().items()} == old.aliases()
    assert (verify(there).damaged, verify(there).missing) == ([], {"tiny": []})
    assert restore(tmp_path / "tiny.tar.gz", there).differing == {}
    if not is_light:
        report = GridReport()
        assert steps_of(study_on(old).plan, there, report) == []


def test_what_is_trained_under_an_aliased_key_is_not_kept(old, trained):
    Migration(old).run()
    today, key = Store(trained / "today"), next(iter(old.aliases()))
    record = today.get(key)
    with old.staging() as folder:
        kept = old.put(key, dict(record.spec), {**record.results, "test": -1.0}, record.provenance, folder)
    assert kept.results["test"] == record.results["test"]
    assert old.alias(key) is not None


def test_a_cell_that_was_trained_anew_before_the_migration_keeps_its_own_record(old, trained):
    today, key = Store(trained / "today"), sorted(Store(trained / "today").records())[0]
    shutil.copytree(today.root / "objects" / key, old.root / "objects" / key)
    done = Migration(old).run()
    assert (done.before, done.newer, old.alias(key)) == (1, 1, None)
    assert "identity" not in old.get(key).provenance
