"""The page says what the report says, from the frames and words that the report has, and nothing breaks out of it."""

import base64
import csv
import gzip
import hashlib
import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.gains.cells import predictions
from analysis.gains.flips import by_class, flips, sign_p
from analysis.page.document import LIBRARY, SCRIPTS, assemble, document, embed
from analysis.page.parts import FEWEST, doubts_of, leaders
from analysis.report import report
from analysis.sections.gains import verdict
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.page_study import HISTORY, SILENT, document_in, page_content

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


def table(path):
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
        for text, digits in {"score": 3, "alone": 3, "points": 1, "p": 4, "p_bh": 4}.items():
            number = row["baseline" if text == "alone" else text]
            assert page["texts"][text] == (f"{float(number):.{digits}f}" if number else "not defined")
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
            *shown_texts, flags = row["texts"]
            gain, texts = gains[row["intermediate"], target["target"]], pages[row["page"]]["texts"]
            assert shown_texts == [texts.get(name, "") for name in ("points", "interval", "p_bh", "verdict")]
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


# Doubts about curves, changed answers and verdicts: hand cases, and the slower definitions of the commands.


@pytest.mark.parametrize(
    ("losses", "scores", "best", "doubts"),
    [
        ([1.0, 0.5, 0.4], [0.5, 0.7, 0.6], 2, []),
        ([1.0, 0.5, 0.4], [0.5, 0.6, 0.7], 3, ["last"]),
        ([1.0, 0.5, 0.55], [0.5, 0.7, 0.6], 2, []),
        ([1.0, 0.5, 0.551], [0.5, 0.7, 0.6], 2, ["rising"]),
        ([1.0, 0.5, 0.4], [0.3, 0.2, 0.2], 1, ["floor"]),
        ([1.0, None, 0.4], [0.5, 0.7, 0.6], 2, ["undefined"]),
        ([1.0, 0.5, 0.4], [None, None, None], 1, ["undefined"]),
        ([1.0], [0.7], 1, []),
    ],
)
def test_a_curve_is_doubted_for_what_is_seen_in_it(losses, scores, best, doubts):
    history = [[epoch, *row] for epoch, row in enumerate(zip(losses, scores, strict=True), start=1)]
    assert doubts_of([history], best, 0.3) == doubts


def test_of_folds_each_has_its_own_best_epoch():
    falling, rising = [[1, 1.0, 0.7], [2, 0.9, 0.6]], [[1, 1.0, 0.6], [2, 0.9, 0.7]]
    assert doubts_of([falling, falling], None, 0.3) == []
    assert doubts_of([falling, rising], None, 0.3) == ["last"]
    assert doubts_of([], None, 0.3) == []


def test_changed_answers_are_those_of_the_command(study, shown):
    store, manifest = study
    pages = [page for page in shown["pages"] if page["role"] == "transfer" and page["changes"]]
    assert len(pages) == 11
    for page in pages:
        made = flips(store, manifest, page["intermediate"], page["target"])
        changes, items = page["changes"], made.items
        assert changes["seeds"] == [1, 2]
        expected = by_class(made)
        if made.metric == "pearson_r":
            sums = [str(len(items)), str((items.change == "better").sum()), str((items.change == "worse").sum())]
            assert [list(map(str, changes["rows"][0]))] == [["all", *sums]]
        else:
            columns = expected[["class", "n", "better", "worse"]].itertuples(index=False)
            assert sorted(changes["rows"]) == sorted([str(name), *map(int, counts)] for name, *counts in columns)
        better, worse = (sum(row[place] for row in changes["rows"]) for place in (2, 3))
        assert changes["p"] == sign_p(better, worse)
        assert changes["command"] == (
            f"empathy-transfer systems flips {manifest['name']} {page['intermediate']} {page['target']} --show 5"
        )


def test_the_table_of_answers_moves_by_the_difference_of_both_tables(shown):
    tables = {page["id"]: page["counts"] for page in shown["pages"]}
    pages = [page for page in shown["pages"] if page["role"] == "transfer" and (page["changes"] or {}).get("moved")]
    assert {page["target"] for page in pages} == {"hope", "role"}
    for page in pages:
        size = len(page["counts"]["classes"])
        dense = []
        for name in (page["id"], f"baseline/-/{page['target']}/full"):
            flat = np.zeros(size * size, dtype=int)
            flat[tables[name]["counts"][::2]] = tables[name]["counts"][1::2]
            dense.append(flat.reshape(size, size))
        assert page["changes"]["moved"] == (dense[0] - dense[1]).tolist()
        right = sum(row[2] - row[3] for row in page["changes"]["rows"])
        assert np.trace(page["changes"]["moved"]) == right, "a row that is turned right joins the diagonal"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "gain, survives family-wise correction"),
        ({"points": -6.1, "p_max_grid": 0.05}, "harm, survives family-wise correction"),
        ({"p_bh": 0.037, "p_max_grid": 0.28}, "suggestive gain: FDR 0.037, but family-wise 0.280"),
        (
            {"p_bh": 0.037, "p_max_grid": 1.0},
            "suggestive gain: FDR 0.037, but it takes no part in the family-wise test",
        ),
        ({"p_bh": 0.051, "significant": False}, "inconclusive"),
        ({"p": np.nan, "p_bh": np.nan, "p_max_grid": np.nan, "significant": False}, "not tested"),
        ({"points": np.nan, "significant": False}, "not tested"),
        ({"n_seeds": 0, "points": np.nan, "significant": False}, "not run"),
        ({"contaminated": True}, "gain, survives family-wise correction; doubtful, since contaminated"),
        ({"collapsed": pd.NA, "contaminated": False}, "gain, survives family-wise correction"),
    ],
)
def test_a_pair_has_its_verdict_in_words(changed, words):
    gain = {"n_seeds": 3, "points": 6.1, "p": 0.001, "p_bh": 0.01, "p_max_grid": 0.04, "significant": True}
    assert verdict(gain | {"collapsed": False, "contaminated": False} | changed) == words


# The page as a file: it loads nothing, no text breaks out of it, it stays small, its library is the one noted.

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "analysis" / "page" / "assets"
NASTY = "</script><script>alert(1)</script><!--\u2028\u2029&amp;"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page in which every text that a study provides tries to break out."""
    folder = tmp_path_factory.mktemp("page")
    tasks = (FakeTask("hope"), FakeTask("role"))
    store, manifest = fake_study(folder / "store", tasks, history=HISTORY, missing_tasks={NASTY: NASTY})
    manifest["study"]["title"] = f"<b>{NASTY}"
    for field in ("title", "dataset", "family", "theme"):
        manifest["tasks"]["hope"][field] = NASTY
    manifest["tasks"]["hope"]["classes"] = [NASTY, "<img src=x>", "high"]
    return assemble(document(*page_content(store, manifest, folder)))


def test_no_text_of_a_study_breaks_out_of_a_page(page):
    assert len(re.findall("<script", page)) == len(re.findall("</script", page)) == 3
    assert "<img" not in page and "<!--" not in page
    assert "<title>&lt;b&gt;&lt;/script&gt;" in page
    shown = document_in(page)
    assert shown["tasks"][0]["title"] == NASTY
    assert shown["missing"] == {NASTY: NASTY}


def test_embedded_texts_come_back_as_they_were():
    text = embed({"text": NASTY, "others": "\u00e9 \U0001f600 \\u003c"})
    assert not set("<>&\u2028\u2029") & set(text)
    assert document_in(f'<script type="application/json" id="document">{text}</script>')["text"] == NASTY
    with pytest.raises(ValueError, match="Out of range"):
        embed({"number": float("nan")})


def test_only_the_scripts_of_the_page_may_run(page):
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert rules["script-src"].split() == [f"'sha256-{digest}'" for digest in digests]
    assert len(digests) == 2
    assert "unsafe-eval" not in policy and "connect-src" not in policy


def test_a_page_refers_to_nothing_that_is_loaded(page):
    library = (FOLDER / "vendor" / LIBRARY).read_text(encoding="utf-8")
    own = page.replace(library, "")
    assert "http" not in own.replace("http-equiv", "")
    assert set(re.findall(r'\b(?:src|href|action)="([^"]*)"', own)) <= {"data:,", "#content"} | set(
        re.findall(r'href="(#/[a-z]*)"', own)
    )
    assert "@import" not in own and "url(" not in own


def test_own_scripts_never_make_html_or_code_from_texts():
    for name in SCRIPTS:
        text = (FOLDER / "scripts" / name).read_text(encoding="utf-8")
        makers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|fetch\("
        assert not re.search(makers, text)
        assert len(text.splitlines()) < 300
    assert {str(path.relative_to(FOLDER / "scripts")) for path in (FOLDER / "scripts").rglob("*.js")} == set(SCRIPTS)


def test_what_explains_gains_is_the_headline_and_no_bars_where_none_are_drawn(tmp_path):
    study = fake_study(tmp_path / "store", (FakeTask("hope"), FakeTask("role")))
    results, shown = page_content(*study, tmp_path)
    shown = replace(shown, answer=replace(SILENT, facts={"headline": "it is so"}))
    assert document(results, shown)["importance"] == {"headline": "it is so", "paper": None}


def test_the_plotting_library_is_the_one_that_notice_names():
    digest = hashlib.sha256((FOLDER / "vendor" / LIBRARY).read_bytes()).hexdigest()
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    head = (FOLDER / "vendor" / LIBRARY).read_text(encoding="utf-8")[:200]
    (version,) = re.findall(r"v(\d+\.\d+\.\d+)", head)
    assert f"plotly.js-cartesian-dist-min {version}" in notice
    assert digest in notice
    assert "MIT License" in (FOLDER / "vendor" / "plotly-LICENSE.txt").read_text(encoding="utf-8")


# The leaderboard of intermediates: its ranks against slow loops, and its intervals where the truth is known.

NO = float("nan")


def slow_advantages(points, targets):
    """The advantage of every intermediate over these targets, some of them several times, by loops."""
    advantages = []
    for row in points:
        differences = []
        for target in targets:
            known = [other[target] for other in points if np.isfinite(other[target])]
            if np.isfinite(row[target]):
                differences.append(row[target] - sum(known) / len(known))
        advantages.append(sum(differences) / len(differences) if differences else NO)
    return advantages


def slow_rank(values, place):
    """1 more than the number of larger values, and half of the others that are equal."""
    larger = sum(value > values[place] + 1e-9 for value in values)
    equal = sum(abs(value - values[place]) <= 1e-9 for value in values) - 1
    return 1 + larger + equal / 2


def grid(rows, columns, seed=0):
    points = np.random.default_rng(seed).normal(scale=3, size=(rows, columns))
    points[range(min(rows, columns)), range(min(rows, columns))] = NO  # no task is learned on top of itself
    return points


@pytest.mark.parametrize("shape", [(2, 2), (4, 5), (6, 6)])
def test_ranks_and_advantages_are_those_of_slow_loops(shape):
    points = grid(*shape)
    board = leaders(points, [str(column) for column in range(shape[1])], draws=20)
    expected = slow_advantages(points, range(shape[1]))
    assert board.advantage.to_numpy() == pytest.approx(expected)
    assert board["rank"].tolist() == [slow_rank(expected, place) for place in range(shape[0])]
    assert board["mean"].to_numpy() == pytest.approx(np.nanmean(points, axis=1))
    assert board.n.tolist() == np.isfinite(points).sum(axis=1).tolist()


def test_intervals_are_the_quantiles_over_all_resamples():
    points = grid(3, FEWEST, seed=4)
    board = leaders(points, [f"target {column}" for column in range(FEWEST)], draws=40_000)
    ranks = []
    for picked in itertools.product(range(FEWEST), repeat=FEWEST):
        advantages = slow_advantages(points, picked)
        if all(np.isfinite(advantages)):
            ranks.append([slow_rank(advantages, place) for place in range(3)])
    low, high = np.quantile(ranks, [0.025, 0.975], axis=0, method="inverted_cdf")
    assert board.low.tolist() == low.tolist() and board.high.tolist() == high.tolist()
    assert (high > low).any()


def test_targets_of_one_unit_are_drawn_together():
    points = np.repeat(grid(4, 6, seed=1), 3, axis=1)
    apart, together = ([str(column // size) for column in range(18)] for size in (1, 3))
    widths = [(board.high - board.low).sum() for board in (leaders(points, units) for units in (apart, together))]
    assert widths[0] < widths[1]


def test_few_targets_have_ranks_without_intervals():
    board = leaders(grid(3, FEWEST - 1), [str(column) for column in range(FEWEST - 1)])
    assert board["rank"].notna().all() and board.low.isna().all() and board.high.isna().all()


def test_an_intermediate_without_any_gain_has_no_rank():
    points = grid(3, 6)
    points[1] = NO
    board = leaders(points, list("abcdef"))
    assert board.loc[1, ["advantage", "rank", "low"]].isna().all()
    assert sorted(board["rank"].dropna()) == [1.0, 2.0]


@pytest.mark.parametrize("size", [2, 6])
def test_a_study_has_its_intermediates_ranked_with_counts_of_significant_gains(tmp_path, size):
    tasks = [FakeTask(f"task_{place}") for place in range(size)]
    store, manifest = fake_study(tmp_path / "store", tasks, helpful=[("task_1", "task_0")])
    for name, task in manifest["tasks"].items():
        task["family"] = "one" if size == 6 else name
    (board,) = document(*page_content(store, manifest, tmp_path))["leaderboards"]
    assert board["resampled"] == ("targets" if size == 6 else "")
    ranks = [row["rank"] for row in board["rows"]]
    assert len(ranks) == size and ranks == sorted(ranks)
    assert ranks[0] == (1 if size == 6 else 1.5), "of two tasks each is the only intermediate of the other"
    *_, targets, gains, harms = next(row["texts"] for row in board["rows"] if row["intermediate"] == "task_1")
    assert (targets, gains) == (str(size - 1), "1") and int(harms) < size
