"""The page of the paper's printed scores: all that scores tell, and nothing of what they do not."""

import json
import os
import re
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.importance.mixed_test import SIGNED
from analysis.importance.question import of_published
from analysis.page.document import Report, assemble, scores_document, write_page
from analysis.report import write_scores_report
from analysis.results.published import results, table
from analysis.sections.blocks import Heading, Section, Text
from analysis.sections.importance import ImportanceReport
from analysis.sections.in_short import sentences_of_scores

WIDE, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}
BLANK = ImportanceReport((), Section("What explains a gain", [Text("Not asked here.")]), {"headline": "not asked here"})


def content_of(folder):
    """What the page says, but for the answer to what explains gains, which takes long."""
    sections = Section("", [Heading("Printed scores")]), BLANK.section
    return Report("Printed scores", of_published(folder), BLANK, sections)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return scores_document(content_of(tmp_path_factory.mktemp("published")))


@pytest.fixture(scope="module")
def printed():
    """Score by (intermediate, target) as the paper's Tables 7 and 8 have it."""
    scores = table("tables7_8_scores")
    return {(row.intermediate, row.target): row.score for row in scores.itertuples()}


def test_every_square_is_a_printed_score_and_a_difference_of_two(shown, printed):
    squares = [square for heatmap in shown["maps"] for square in heatmap["squares"]]
    pairs = [square for square in squares if square["status"] == "done"]
    alone = [square for square in squares if square["status"] == "baseline"]
    assert (len(pairs), len(alone)) == (306, 18)
    for square in pairs:
        score, base = printed[square["row"], square["column"]], printed[square["column"], square["column"]]
        assert square["score"] == score
        assert square["points"] == pytest.approx(100 * score - 100 * base, abs=1e-7)
        assert float(square["points_text"]) == round(100 * score - 100 * base)
    assert all(square["score"] == printed[square["column"], square["column"]] for square in alone)
    marked = {(square["row"], square["column"]) for square in pairs if "\u2020" in square["marks"]}
    assert marked == set(table("collapsed")[["intermediate", "target"]].itertuples(index=False, name=None))


def test_nothing_is_said_of_what_scores_do_not_tell(shown):
    for name in ("plans", "pages", "made", "doubts", "missing"):
        assert not shown[name], name
    assert shown["cells"]["rows"] == shown["gains"]["rows"] == []
    squares = [square for heatmap in shown["maps"] for square in heatmap["squares"]]
    assert all(square["page"] is None and "*" not in square["marks"] for square in squares)
    hover = " ".join(text for square in squares for text in square["hover"])
    assert not re.search(r"95 %|p \(BH\)|p \.?\d|significant", hover)
    (board,) = shown["leaderboards"]
    assert not board["tested"] and all(len(row["texts"]) == 5 for row in board["rows"])
    json.dumps(shown, allow_nan=False)
    assert "printed scores" in assemble(shown)


def test_every_target_has_its_intermediates_sorted_in_whole_points_without_intervals(shown, printed):
    assert {page["target"] for page in shown["targets"]} == {target for _, target in printed}
    for page in shown["targets"]:
        target, alone = page["target"], printed[page["target"], page["target"]]
        rows = {row["intermediate"]: row["texts"] for row in page["rows"]}
        assert rows.keys() == {other for other, on in printed if on == target and other != target}
        for name, (score, points, _) in rows.items():
            assert float(score) == printed[name, target]
            assert re.fullmatch(r"[+-]?\d+", points) and int(points) == round(100 * (printed[name, target] - alone))
        gains = [int(points) for _, points, _ in rows.values()]
        assert gains == sorted(gains, reverse=True)
        assert page["plan"] is None and page["head"] == ["intermediate", "score", "points", "flags"]
        assert "There are no intervals" in page["words"] and f" {alone:.2f} ".replace(" 0.", " .") in page["words"]
    flags = {
        (row["intermediate"], page["target"]) for page in shown["targets"] for row in page["rows"] if row["texts"][2]
    }
    assert flags >= set(table("collapsed")[["intermediate", "target"]].itertuples(index=False, name=None))


def test_the_leaderboard_is_that_of_the_printed_differences(shown, printed):
    targets = {target for _, target in printed}
    gains = {pair: score - printed[pair[1], pair[1]] for pair, score in printed.items() if pair[0] != pair[1]}
    means = {target: sum(gain for pair, gain in gains.items() if pair[1] == target) / 17 for target in targets}
    ahead = {name: 100 * sum(gains[name, own] - means[own] for own in targets - {name}) / 17 for name in targets}
    (board,) = shown["leaderboards"]
    ranked = [row["intermediate"] for row in board["rows"]]
    assert set(ranked) == targets
    assert all(ahead[first] >= ahead[then] - 1e-9 for first, then in pairwise(ranked))
    assert board["rows"][0]["texts"][2] == f"{ahead[ranked[0]]:+.1f}"


def test_the_sentences_count_directions_and_test_nothing(tmp_path, printed):
    said = sentences_of_scores(of_published(tmp_path), BLANK)
    ends = [round(100 * score) - round(100 * printed[pair[1], pair[1]]) for pair, score in printed.items()]
    higher, lower = sum(end > 0 for end in ends), sum(end < 0 for end in ends)
    assert f"{higher} transfers score higher than the target alone, {lower} lower" in said[1]
    assert f" {306 - higher - lower} alike" in said[1]
    assert f", {max(ends):+d} points, not tested." in said[2] and f", {min(ends):+d} points, not tested." in said[3]
    assert not any("significant" in text or "interval 9" in text for text in said)
    assert "18 tasks of 6 families" in said[0] and results().tasks.family.nunique() == 6


def test_a_slope_of_printed_scores_says_what_its_errors_are(tmp_path):
    slope = {"question": SIGNED, "verdict": "not supported", "detectable": 1.5}
    answer = ImportanceReport((), BLANK.section, {**BLANK.facts, "slopes": [slope]})
    (said,) = (text for text in sentences_of_scores(of_published(tmp_path), answer) if "A slope of 1.5" in text)
    assert said.endswith("by standard errors that are approximated from the scores.")


@pytest.mark.slow
def test_the_report_of_printed_scores_writes_one_page_beside_its_text(tmp_path):
    written = write_scores_report(of_published(tmp_path))
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert {"report.md", "report.html", "about.json", "tables/gains.csv"} <= names
    text, page = written.page.read_text(encoding="utf-8"), written.page.with_suffix(".html").read_text(encoding="utf-8")
    for sentence in written.sentences:
        assert sentence in text and json.dumps(sentence)[1:-1].replace(">", "\\u003e") in page
    figures = json.loads(re.search(r'id="document">(.*?)</script>', page, re.DOTALL)[1])["figures"]
    assert {name for name in figures if "figure-6" in name or "figure-7" in name} <= names and len(figures) == 5


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_page(content_of(folder), (), folder / "report.html")
    return (folder / "report.html").as_uri()


def check(page):
    """No violation of accessibility on what is shown, where axe-core is."""
    if script := os.environ.get("EMPATHY_AXE"):
        page.evaluate(Path(script).read_text(encoding="utf-8"))
        results = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        assert [(rule["id"], rule["nodes"][0]["html"]) for rule in results["violations"]] == []


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["1400", "390"])
def test_the_page_of_printed_scores_has_no_part_that_needs_cells(browser, address, viewport):
    context = browser.new_context(viewport=viewport, offline=True)
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    for name in ("glance", "curves", "cells"):
        assert page.locator(f"#{name}").count() == 0
    for link in page.locator("nav a").all():
        assert page.locator(f"#{link.get_attribute('href')[2:]}").count() == 1
    assert page.locator("#leaderboards tbody tr").count() == 18
    assert "significant" not in page.locator("#intermediates").text_content()
    links = page.locator("#target-links a")
    assert links.count() == 18
    first = links.first.text_content()
    links.first.click()
    page.locator("#cell h1").wait_for()
    assert page.locator("#cell h1").text_content() == f"{first}: all intermediates"
    assert page.locator("#cell tbody tr").count() == 17 and page.locator("#cell svg, #cell tbody a").count() == 0
    assert "no intervals" in page.locator("#cell").text_content()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    check(page)
    page.go_back()
    page.locator("#leaderboards").wait_for()
    page.get_by_role("combobox", name="Targets scored by").select_option(label="Pearson r, full")
    page.get_by_role("button", name="Table", exact=True).click()
    assert page.locator(".grid td").count() > 18 * 6 and page.locator(".grid a").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    check(page)
    context.close()
    assert complaints == []
