"""The page says what the report says: the same frames, numbers and words, and nothing that a row could be told by."""

from __future__ import annotations

import base64
import csv
import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from analysis.gains.cells import predictions
from analysis.page.document import document
from analysis.report import report
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.page_study import HISTORY, document_in, page_content

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"), FakeTask("felt", "multilabel"))


CONTROLS = ("self", "shuffled", "random", "control")
RANDOM = "random:random: an untrained adapter"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A store and manifest with controls, a missing pair, a collapsed and a constant cell."""
    return fake_study(
        tmp_path_factory.mktemp("study") / "store",
        TASKS,
        seeds=(1, 2),
        controls=CONTROLS,
        helpful=[("role", "hope"), ("hope", "distress")],
        constant=[("role", "distress")],
        absent=[("hope", "role"), ("random", "felt")],
        flags={("felt", "hope"): ["collapsed"]},
        missing_tasks={"condolence": "condolence.csv is not there"},
        history=HISTORY,
    )


@pytest.fixture(scope="module")
def out(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    report(*study, folder, draws=200)
    return folder


@pytest.fixture(scope="module")
def shown(out):
    return document_in((out / "report.html").read_text(encoding="utf-8"))


def table(path: Path):
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    return head, rows


def in_csv(value):
    """A value of the document as the CSV files write it."""
    return "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def agree(value, text):
    """Whether a value is what a CSV file has; 1 and 1.0 are the same number there."""
    return in_csv(value) == text or (text and not isinstance(value, bool | str) and float(text) == value)


@pytest.mark.parametrize("name", ["cells", "gains"])
def test_the_frames_of_the_page_are_those_beside_it_value_by_value(out, shown, name):
    head, rows = table(out / "tables" / f"{name}.csv")
    assert set(head) - set(shown[name]["columns"]) <= {"host", "wall_seconds"}
    places = [head.index(column) for column in shown[name]["columns"]]
    assert len(shown[name]["rows"]) == len(rows) > 0
    for values, texts in zip(shown[name]["rows"], rows, strict=True):
        for value, place in zip(values, places, strict=True):
            assert agree(value, texts[place]), (head[place], value, texts[place])


def test_the_squares_are_those_of_the_drawn_heatmaps(out, shown):
    assert [heatmap["metric"] for heatmap in shown["maps"]] == ["macro_f1", "multilabel_f1", "pearson_r"]
    for heatmap in shown["maps"]:
        head, rows = table(out / "figures" / f"heatmap-{heatmap['metric'].replace('_', '-')}-{heatmap['setting']}.csv")
        squares = {(square["row"], square["column"]): square for square in heatmap["squares"]}
        for drawn in (dict(zip(head, row, strict=True)) for row in rows):
            square = squares.pop((drawn["intermediate"], drawn["target"]))
            assert square["status"] == drawn["status"]
            for name in ("score", "points"):
                assert agree(square[name], drawn[name])
        assert {row.partition(":")[0] for row, _ in squares} == set(CONTROLS)


def test_numbers_are_written_with_the_decimals_of_the_report(out, shown):
    head, rows = table(out / "tables" / "gains.csv")
    pages = {page["id"]: page for page in shown["pages"]}
    for row in (dict(zip(head, row, strict=True)) for row in rows):
        page = pages[f"transfer/{row['intermediate']}/{row['target']}/{row['setting']}"]
        if row["n_seeds"] == "0":
            assert page["texts"] == {} and page["facts"] == []
            continue
        words = {
            "score": ("score", 3),
            "alone": ("baseline", 3),
            "points": ("points", 1),
            "p": ("p", 4),
            "p_bh": ("p_bh", 4),
        }
        for text, (name, digits) in words.items():
            assert page["texts"][text] == (f"{float(row[name]):.{digits}f}" if row[name] else "not defined")
        assert page["numbers"]["low"] == (float(row["low"]) if row["low"] else None)


def test_the_page_of_a_target_has_the_texts_of_its_pairs_by_their_gain(out, shown):
    head, rows = table(out / "tables" / "gains.csv")
    gains = {(row["intermediate"], row["target"]): row for row in (dict(zip(head, row, strict=True)) for row in rows)}
    pages = {page["id"]: page for page in shown["pages"]}
    for target in shown["targets"]:
        assert target["plan"] and "Sorted by their gain" in target["words"]
        assert {row["intermediate"] for row in target["rows"]} == {low for low, on in gains if on == target["target"]}
        known = []
        for row in target["rows"]:
            points, interval, p, verdict, flags = row["texts"]
            gain, texts = gains[row["intermediate"], target["target"]], pages[row["page"]]["texts"]
            assert [points, interval, p, verdict] == [
                texts.get(name, "") for name in ("points", "interval", "p_bh", "verdict")
            ]
            assert flags.split(", ") == gain["flags"].split(";")
            known.append(float(gain["points"] or "-inf"))
        assert known == sorted(known, reverse=True)


def words(text):
    return re.findall(r"[\w.]+", text)


def test_the_page_has_every_word_of_the_report_in_its_order(out, shown):
    said = []
    for part in shown["report"]:
        said.append(part["title"])
        for block in part["blocks"]:
            said += [run[0] for run in block.get("runs", ())] + block.get("head", [])
            said += [cell for row in block.get("rows", ()) for cell in row]
            said += [run[0] for item in block.get("items", ()) for run in item]
            said += [block[name] for name in ("text", "title", "file") if name in block]
    written = (out / "report.md").read_text(encoding="utf-8")
    assert words(" ".join(said)) == words(written)


def test_the_figures_of_the_paper_are_inside(out, shown):
    drawn = sorted((out / "paper-figures").glob("*.svg"))
    assert sorted(shown["figures"]) == [f"paper-figures/{path.stem}.png" for path in drawn] != []
    for path, packed in zip(drawn, map(shown["figures"].get, sorted(shown["figures"])), strict=True):
        assert gzip.decompress(base64.b64decode(packed)) == path.read_bytes()
    named = [block["file"] for part in shown["report"] for block in part["blocks"] if block["kind"] == "figure"]
    assert set(shown["figures"]) <= set(named)


def test_runs_name_their_provenance_among_all_facts_of_the_study(study, shown):
    store, _ = study
    runs = [run for page in shown["pages"] for run in page["runs"] if "made" in run]
    assert len(shown["made"]) < len(runs[0]["made"]) * len(runs) / 10
    for run in runs:
        facts = dict(shown["made"][place] for place in run["made"])
        made = store.get(run["key"])
        assert facts["code"] == made.provenance["code"] and facts["splits hash"] == made.spec["splits_hash"]


def test_counted_predictions_give_the_stored_scores(study, shown):
    store, manifest = study
    keys = {}
    for cell in manifest["cells"]:
        if cell["role"] == "transfer" and cell["key"] in store:
            keys.setdefault((cell["intermediate"], cell["target"]), []).append(cell["key"])
    for page in (page for page in shown["pages"] if page["role"] == "transfer" and page["counts"]):
        by_seed = [predictions(store, store.get(key)) for key in keys[page["intermediate"], page["target"]]]
        labels, chosen = (np.concatenate([getattr(cell, name) for cell in by_seed]) for name in ("labels", "decisions"))
        counts = page["counts"]
        if counts["kind"] == "multilabel":
            right = [four[3] for four in counts["counts"]]
            assert right == ((labels == 1) & (chosen == 1)).sum(axis=0).tolist()
            assert {sum(four) for four in counts["counts"]} == {len(labels)}
            continue
        pairs = list(zip(counts["counts"][::2], counts["counts"][1::2], strict=True))
        assert sum(count for _, count in pairs) + counts.get("left_out", 0) == len(labels) == 240
        if counts["kind"] == "confusion":
            size = len(counts["classes"])
            on_diagonal = sum(count for place, count in pairs if place // size == place % size)
            assert on_diagonal == (labels == chosen).sum()
        else:
            assert counts["low"] <= min(labels.min(), chosen.min()) + 1e-5
            assert counts["high"] >= max(labels.max(), chosen.max()) - 1e-5


def test_missing_cells_and_controls_are_shown_as_such_with_their_reason(shown):
    maps = {heatmap["metric"]: heatmap for heatmap in shown["maps"]}
    squares = {(square["row"], square["column"]): square for square in maps["macro_f1"]["squares"]}
    assert squares["hope", "role"]["hover"] == ["Title of hope \u2192 Title of role", "planned, not in the store"]
    assert squares["hope", "hope"]["status"] == "not_planned"
    assert squares[RANDOM, "hope"]["status"] == "control"
    assert squares[RANDOM, "hope"]["hover"][0].startswith("random: an untrained adapter")
    other = {(square["row"], square["column"]): square for square in maps["multilabel_f1"]["squares"]}
    assert other[RANDOM, "felt"]["status"] == "missing"
    assert [row["kind"] for row in maps["macro_f1"]["rows"]] == ["alone", *["transfer"] * 4, *["control"] * 4]
    assert shown["missing"] == {"condolence": "condolence.csv is not there"}
    (page,) = [page for page in shown["pages"] if page["id"] == "transfer/hope/role/full"]
    assert [run["why"] for run in page["runs"]] == ["planned, not in the store"] * 2
    assert page["counts"] is None


def test_no_row_id_no_group_and_no_host_is_in_a_page(out, study):
    page = (out / "report.html").read_text(encoding="utf-8").partition('id="document">')[2].partition("</script>")[0]
    ids = [f"{task.id}-{row}" for task in TASKS for row in range(task.rows)] + [f"g{group}" for group in range(24)]
    assert not [row_id for row_id in ids if f'"{row_id}"' in page]
    assert '"here"' not in page


def test_predictions_of_private_tasks_are_not_counted_and_have_no_changes(tmp_path):
    store, manifest = fake_study(tmp_path / "store", TASKS[:2], history=HISTORY)
    manifest["tasks"]["hope"]["private"] = True
    pages = document(*page_content(store, manifest, tmp_path))["pages"]
    assert {(page["target"], page["counts"] is None) for page in pages} == {("hope", True), ("role", False)}
    changes = {page["target"]: page["changes"] for page in pages if page["role"] == "transfer"}
    assert changes["hope"] is None and changes["role"] is not None


def test_histories_of_folds_are_kept_apart(tmp_path):
    study = fake_study(tmp_path / "store", TASKS[:2], history=[HISTORY, HISTORY[:2]])
    runs = [run for page in document(*page_content(*study, tmp_path))["pages"] for run in page["runs"]]
    assert all([len(fold) for fold in run["histories"]] == [4, 2] for run in runs)
    assert runs[0]["histories"][1] == [[1, 1.0, 0.1], [2, 0.5, 0.2]]
