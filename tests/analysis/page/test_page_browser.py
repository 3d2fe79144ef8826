"""The page in a real browser: what readers do with mouse, keyboard, paper and phone, and that nothing leaves it."""

import os
import re
from pathlib import Path

import pytest

from analysis.report import report
from tests.support.firefox import PROGRAM, firefox
from tests.support.studies.fake_study import FakeTask, fake_study, without_pictures
from tests.support.studies.page_study import BOLD, HISTORY, SCRIPT, TASKS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WIDE, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}
ARROW = "\u2192"


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory):
    return Path(os.environ.get("EMPATHY_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))


@pytest.fixture
def opened(browser, address):
    """A function that opens the page offline; whatever it logs as an error or asks for elsewhere fails the test."""
    contexts, complaints = [], []

    def opened(viewport=WIDE, at="", **options):
        context = browser.new_context(viewport=viewport, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
        page.goto(address + at)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def come_to(page, plot):
    """Scroll to a plot, which is drawn when it comes near."""
    page.locator(plot).first.evaluate("node => node.scrollIntoView({ block: 'center', behavior: 'instant' })")
    page.locator(plot).first.locator(".main-svg").first.wait_for()


def labels(page):
    """The rows of the drawn heatmap from the top."""
    come_to(page, "#map .plot")
    return page.locator("#map .ytick text").all_text_contents()


def square(page, row, column):
    """Where a square of the picture is, in pixels, by its place from the top and the left."""
    come_to(page, "#map .plot")
    return page.evaluate(
        """([row, column]) => {
            const node = document.querySelector("#map .plot"), box = node.getBoundingClientRect();
            const { xaxis, yaxis } = node._fullLayout;
            return [box.left + xaxis._offset + xaxis.c2p(column), box.top + yaxis._offset + yaxis.c2p(row)];
        }""",
        [row, column],
    )


def go(page, how):
    """Change the address by this piece of script and wait until the page has followed it."""
    page.evaluate(f"new Promise((done) => {{ addEventListener('hashchange', () => done(), {{ once: true }}); {how} }})")


def is_narrow_enough(page):
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_tasks_are_sorted_in_the_picture_and_in_the_table(opened):
    page = opened()
    study = labels(page)
    assert [study[0], len(study)] == ["baseline (no intermediate)", 1 + len(TASKS) + 4]
    page.get_by_role("combobox", name="Sort tasks by").select_option("name")
    byname = labels(page)
    assert byname[1:9] == sorted(study[1:9]) != study[1:9]
    assert byname[9:] == study[9:], "controls stay where they are"
    page.get_by_role("combobox", name="Sort tasks by").select_option("theme")
    assert labels(page)[1:9] != byname[1:9]
    page.get_by_role("combobox", name="Sort tasks by").select_option(label="rating: all constructs")
    assert labels(page)[8] == "Title of felt", "tasks without ratings come last"
    page.get_by_role("button", name="Table", exact=True).click()
    assert page.locator(".grid tbody th").nth(8).text_content() == "Title of felt"


def test_hovering_tells_of_a_square_and_a_click_opens_its_page_and_back_returns(opened):
    page = opened()
    page.mouse.move(*square(page, 1, 1))
    said = page.locator("#map .hoverlayer .hovertext")
    said.wait_for()
    for words in (SCRIPT, "score", "target alone", "95 % interval", "p (BH)"):
        assert words in said.text_content()
    scrolled = page.evaluate("window.scrollY")
    page.mouse.click(*square(page, 1, 1))
    page.wait_for_url(re.compile("#/cell/transfer/empathy_hope/empdial_role/full$"))
    heading = page.locator("#cell h1")
    heading.wait_for()
    assert heading.text_content() == f"{SCRIPT} \u2192 {BOLD}"
    assert heading.evaluate("node => node === document.activeElement")
    assert not page.locator("#overview").is_visible()
    go(page, "history.back()")
    assert page.locator("#overview").is_visible()
    assert abs(page.evaluate("window.scrollY") - scrolled) < 3


def test_the_map_tells_of_its_squares_and_leads_to_pairs_and_targets(opened):
    page = opened()
    places = page.locator("#glance-map .layer-ground rect.opens")
    assert places.count() == len(TASKS) * (len(TASKS) - 1)
    places.first.hover()
    assert ARROW in page.locator("#glance-map .detail").text_content()
    shown = [page.locator("#glance-map .layer-squares rect").count()]
    places.first.click()
    page.locator("#cell h1").wait_for()
    assert "transfer" in page.url
    page.locator("#cell .also a").filter(has_text="all intermediates of").click()
    page.wait_for_url(re.compile("#/target/"))
    assert page.locator("#cell h1").text_content().endswith(": all intermediates")
    assert page.locator("#cell .plan").count() == 1
    assert page.locator("#cell tbody tr").count() == len(TASKS) - 1
    go(page, "location.hash = '#/maps'")
    assert page.locator("#glance-map .layer-squares rect").count() == shown[0] > 20
    texts = page.evaluate(
        """() => [...document.querySelectorAll("#glance-map text")].map((node) => {
            const box = node.getBBox();
            return [node.textContent, box.width, Number(node.getAttribute("textLength"))];
        })"""
    )
    assert all(abs(width - planned) < 1 for _, width, planned in texts), "letters as wide as they were planned"


@pytest.mark.parametrize("at", ["", "#/target/empathy_hope"])
def test_a_phone_shows_the_whole_legend_of_a_figure(opened, at):
    page = opened(PHONE, at)
    figure = page.locator("#cell" if at else "#glance-map")
    words = figure.locator(".legend li")
    assert words.count() > 3 and "interval" in " ".join(words.all_text_contents())
    boxes = [words.nth(place).bounding_box() for place in range(words.count())]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"] for box in boxes)
    assert len({box["y"] for box in boxes}) > 2, "in lines"
    assert figure.locator(".plan").get_by_text("half-width").count() == 0
    if at:
        assert figure.locator(".plan").bounding_box()["width"] <= PHONE["width"]


def test_texts_of_a_study_stay_texts(opened):
    page = opened()
    assert SCRIPT in labels(page) and "Role <b>in bold</b> &amp; more" in labels(page)
    for at in ("#/cell/transfer/empathy_hope/empdial_role/full", "#/cell/baseline/-/empathy_hope/full", "#/report"):
        go(page, f"location.hash = '{at}'")
        assert page.evaluate("typeof broken") == "undefined"
    assert page.locator("main script, main i").count() == 0
    assert "its file <i>is not there</i>" in page.locator("#not-here").text_content()


@pytest.mark.parametrize(
    "at, shown",
    [
        ("transfer/empathy_hope/empdial_role/full", "confusion"),
        ("transfer/news_empathy/news_distress/full", "bins"),
        ("baseline/-/epitome_er/full", "confusion"),
    ],
)
def test_a_link_opens_a_cell_with_curves_predictions_and_provenance(opened, at, shown):
    page = opened(at=f"#/cell/{at}")
    for plot in ("[data-curve] >> nth=0", "[data-curve] >> nth=-1", f"[data-counts={shown}]"):
        come_to(page, plot)
    assert page.locator("[data-curve] .scatterlayer .trace").count() >= 2
    assert page.locator(f"[data-counts={shown}] .heatmaplayer image").count() == 1
    assert page.locator("#cell").get_by_text("backbone weights, sha256").is_visible()
    assert page.locator("#cell").get_by_text("abc123").is_visible()


def test_cells_that_are_missing_controls_or_unknown_have_a_page_that_says_so(opened):
    page = opened(at="#/cell/transfer/empathy_hope/epitome_er/full")
    assert "planned, but not in the store" in page.locator("#cell .lead").text_content()
    go(page, "location.hash = '#/cell/random/random/empathy_hope/full'")
    assert "an untrained adapter" in page.locator("#cell h1").text_content()
    go(page, "location.hash = '#/cell/transfer/felt/empathy_hope/full'")
    assert "at or below the majority-class score (r: 0)" in page.locator("#cell").text_content()
    go(page, "location.hash = '#/cell/transfer/empathy_hope/news_distress/full'")
    assert "is not defined" in page.locator("#cell .lead").text_content()
    go(page, "location.hash = '#/cell/of/nobody'")
    assert page.locator("#cell h1").text_content() == "There is no such cell"


def test_the_table_of_cells_filters_and_sorts(opened):
    page = opened(at="#/cells")
    rows = page.locator("#cell-table tbody tr")
    planned = rows.count()
    assert page.locator("#cell-count").text_content() == f"{planned} of {planned} cells"
    page.get_by_role("searchbox", name="Find").fill("in bold")
    assert 0 < rows.count() < planned
    assert all("in bold" in text for text in rows.all_text_contents())
    page.get_by_role("combobox", name="Kind").select_option("random")
    assert rows.count() == 1
    page.get_by_role("combobox", name="Kind").select_option("")
    page.get_by_role("searchbox", name="Find").fill("")
    page.get_by_role("combobox", name="Show").select_option("missing")
    assert rows.all_text_contents()[0].count("planned, not in the store") == rows.count() == 1
    page.get_by_role("combobox", name="Show").select_option("")
    page.get_by_role("button", name="Score", exact=True).click()
    texts = page.locator("#cell-table tbody td:nth-child(6)").all_text_contents()
    scores = [float(text) for text in texts if text and text != "not defined"]
    assert scores == sorted(scores, reverse=True) and len(scores) > 40
    assert page.locator("th[aria-sort=descending]").count() == 1
    page.locator("#cell-table").get_by_role("button", name=re.compile("^Score")).click()
    assert page.locator("th[aria-sort=ascending]").count() == 1
    page.get_by_role("button", name="95 % interval", exact=True).click()
    ends = page.locator("#cell-table tbody td:nth-child(8)").all_text_contents()
    lows = [float(text.partition(" to ")[0]) for text in ends if " to " in text]
    assert lows == sorted(lows, reverse=True) and len(lows) > 10
    rows.first.get_by_role("link").click()
    page.locator("#cell h1").wait_for()
    assert not page.locator("#overview").is_visible()


def test_the_figures_of_the_paper_are_seen_without_their_files(opened):
    from playwright.sync_api import expect

    page = opened(at="#/report")
    page.locator("#report-text summary").filter(has_text="The paper's figures").click()
    images = page.locator("#report-text figure img")
    expect(page.locator("#report-text figure img:not([src])")).to_have_count(0)  # they are unpacked meanwhile
    widths = images.evaluate_all(
        "nodes => Promise.all(nodes.map((node) => node.decode().then(() => node.alt && node.naturalWidth)))"
    )
    assert len(widths) > 2 and min(widths) > 100


def test_intermediates_are_ranked_with_a_line_for_each_interval(opened):
    page = opened(at="#/intermediates")
    rows = page.locator("#leaderboards tbody tr")
    assert rows.count() == len(TASKS)
    assert page.locator("#leaderboards .ranks line:not(.all)").count() == len(TASKS)
    rows.first.get_by_role("link").click()
    page.wait_for_url(re.compile("#/cell/baseline/-/"))


def test_everything_is_reached_by_keyboard(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.get_by_role("button", name="Table", exact=True).press("Enter")
    page.locator(".grid [tabindex='0']").focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.locator(".grid [tabindex='0']").count() == 1
    detail = page.locator("#map .detail").text_content()
    assert SCRIPT in detail and "gain" in detail
    page.keyboard.press("Enter")
    page.locator("#cell h1").wait_for()
    assert page.locator("#cell h1").text_content() == f"{SCRIPT} \u2192 {BOLD}"
    go(page, "history.back()")
    assert page.evaluate("document.activeElement.getAttribute('href')").endswith(
        "transfer/empathy_hope/empdial_role/full"
    )


def test_doubtful_curves_are_a_click_away_and_can_be_filtered(opened):
    page = opened()
    link = page.locator("#curve-link")
    shown = int(re.search(r"\((\d+) doubtful\)", link.text_content())[1])
    link.click()
    links = page.locator("#curve-wall a")
    assert links.count() == shown > 0
    assert page.locator("#curve-count").text_content().startswith(f"{shown} of ")
    assert page.locator("#curve-wall a[tabindex='0']").count() == 1
    page.get_by_role("combobox", name="Which curves").select_option("all")
    assert links.count() > shown or "all curves" in page.locator("#curve-controls").text_content()
    links.first.focus()
    page.keyboard.press("ArrowRight")
    assert links.nth(1).evaluate("node => node === document.activeElement")
    page.keyboard.press("Enter")
    page.locator("#cell h1").wait_for()
    assert page.locator("[data-curve=validation]").is_visible()


def test_a_plot_in_a_fold_is_drawn_when_that_is_opened(opened):
    page = opened()
    assert page.locator("#importance .main-svg").count() == 0
    page.locator("#importance summary").first.click()
    come_to(page, "#importance .plot")
    assert page.locator("#importance .plot .main-svg").count() > 0


def test_changed_answers_of_a_pair_are_two_clicks_away(opened):
    page = opened()
    page.locator("#glance-words .also a").filter(has_text=BOLD).click()
    page.locator("#cell tbody tr a").filter(has_text=SCRIPT).click()
    page.get_by_role("heading", name="Changed answers").wait_for()
    assert page.locator("#cell .verdict").text_content().startswith("Verdict: ")
    assert "systems flips fake empathy_hope empdial_role" in page.locator("#cell pre").text_content()
    moved = page.get_by_role("region", name="Change of the table of answers")
    assert moved.locator("td.better").count() > 0


def test_the_map_is_walked_by_keyboard_and_has_one_stop(opened):
    page = opened()
    stops = page.locator("#glance-map svg [tabindex='0']")
    assert stops.count() == 1
    stops.focus()
    first = stops.get_attribute("aria-label")
    page.keyboard.press("ArrowDown")
    assert stops.count() == 1 and stops.get_attribute("aria-label") != first
    assert stops.get_attribute("aria-label").split(". ")[0] in page.locator("#glance-map .detail").text_content()
    page.keyboard.press("Enter")
    page.locator("#cell h1").wait_for()
    assert "transfer" in page.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["1400", "390"])
def test_it_is_seen_on_a_desk_and_on_a_phone_by_day_and_night(opened, screenshots, scheme, viewport):
    page = opened(viewport, color_scheme=scheme)
    name = f"{viewport['width']}-{scheme}"
    assert is_narrow_enough(page)
    page.screenshot(path=screenshots / f"{name}-overview.png", full_page=True)
    for part in ("transfer/empathy_hope/empdial_role/full", "transfer/news_empathy/news_distress/full"):
        go(page, f"location.hash = '#/cell/{part}'")
        assert is_narrow_enough(page)
        page.screenshot(path=screenshots / f"{name}-{part.split('/')[1]}.png", full_page=True)


def test_the_button_changes_the_colours_of_page_and_plots(opened):
    page = opened(color_scheme="light")
    come_to(page, "#map .plot")
    seen = "getComputedStyle(document.body).backgroundColor + document.querySelector('#map .ytick text').style.fill"
    light = page.evaluate(seen)
    page.get_by_role("button", name="Dark colours").click()
    dark = page.evaluate(seen)
    assert light.split(")")[0] != dark.split(")")[0] and light.split(")")[1] != dark.split(")")[1]
    page.get_by_role("button", name="Light colours").click()
    assert page.evaluate(seen) == light


def test_paper_is_light_and_has_every_metric_and_all_that_is_folded(opened, screenshots):
    from playwright.sync_api import expect

    page = opened(color_scheme="dark")
    page.emulate_media(media="print")
    expect(page.locator("#importance details:not([open])")).to_have_count(0)  # the page forbids a string as a script
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for name in (".top", "#map-controls", "#cells", "#curves", "#report", ".help"):
        assert not page.locator(name).is_visible()
    captions = " ".join(page.locator("#map .one > .caption").all_text_contents())
    assert all(f"scored by {metric}" in captions for metric in ("macro-F1", "Pearson r"))
    page.emulate_media(media="screen")
    expect(page.locator("#map .one")).to_have_count(1)
    page.pdf(path=screenshots / "print.pdf", format="A4")
    assert (screenshots / "print.pdf").read_bytes().startswith(b"%PDF")


def test_eighteen_by_eighteen_tasks_print_on_at_most_seven_pages(browser, tmp_path):
    tasks = [FakeTask(f"task_{place:02}", ("continuous", "multiclass")[place % 2]) for place in range(18)]
    store, manifest = fake_study(tmp_path / "store", tasks, controls=("self", "shuffled", "random"), history=HISTORY)
    with without_pictures():
        written = report(store, manifest, tmp_path / "out", draws=50).page
    page = browser.new_page(viewport=WIDE)
    page.goto(written.with_suffix(".html").as_uri())
    printed = page.pdf(format="A4")
    page.close()
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 7


@pytest.mark.parametrize("width", [1400, 900, 700])  # the last is half a desk's, or its letters at 200 %
def test_a_heading_that_a_link_leads_to_is_below_the_bar(opened, width):
    page = opened({"width": width, "height": 450}, at="#/maps")
    heading, bar = page.locator("#maps-heading").bounding_box(), page.locator(".top").bounding_box()
    assert heading["y"] >= bar["y"] + bar["height"], "of an address that is opened"
    for part in ("why", "cells", "caveats", "maps"):
        go(page, f"location.hash = '#/{part}'")
        heading, bar = page.locator(f"#{part}-heading").bounding_box(), page.locator(".top").bounding_box()
        assert heading["y"] >= bar["y"] + bar["height"], part


# What axe-core says of the page in two browsers, on a light desk and a dark phone.

SIGHTS = pytest.mark.parametrize(
    ("size", "scheme"), [((1400, 900), "light"), ((390, 844), "dark")], ids=["1400-light", "390-dark"]
)
CELLS = (
    "transfer/empathy_hope/empdial_role/full",
    "transfer/news_empathy/news_distress/full",
    "transfer/empdial_role/felt/full",
    "transfer/empathy_hope/epitome_er/full",
    "baseline/-/epitome_er/full",
)
PLACES = ("", "#/target/empathy_hope", "#/target/news_empathy", "#/curves", *(f"#/cell/{cell}" for cell in CELLS))
UNFOLDED = "document.querySelectorAll('details').forEach((fold) => { fold.open = true; });"
ASKED = "axe.run(document, { resultTypes: ['violations', 'passes'] })"
FITS = "document.documentElement.scrollWidth <= window.innerWidth"


@pytest.fixture(scope="module")
def axe():
    """The script of axe-core."""
    script = os.environ.get("EMPATHY_AXE")
    if not script:
        pytest.skip("EMPATHY_AXE has to name axe.min.js of axe-core; .ci/browser fetches it")
    return Path(script).read_text(encoding="utf-8")


def judge(results):
    """Rules that are broken, each with the first place, and how many rules held."""
    return [(rule["id"], rule["nodes"][0]["html"]) for rule in results["violations"]], len(results["passes"])


@SIGHTS
def test_axe_finds_no_violation_on_any_kind_of_page_in_chromium(browser, address, axe, size, scheme):
    context = browser.new_context(viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme)
    page, passed = context.new_page(), 0
    for at in PLACES:
        page.goto("about:blank")
        page.goto(address + at)
        page.evaluate(axe)
        page.evaluate(UNFOLDED)
        violations, held = judge(page.evaluate(ASKED))
        assert (at, violations) == (at, [])
        passed += held
    context.close()
    assert passed > 100


@SIGHTS
def test_axe_finds_no_violation_on_any_kind_of_page_in_firefox(address, axe, size, scheme, tmp_path):
    if PROGRAM is None:
        pytest.skip("needs Debian's package firefox-esr")
    passed = 0
    with firefox(tmp_path, scheme) as window:
        window.resize(*size)
        for at in PLACES:
            window.show(address + at)
            assert window.run("return [innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]") == [
                size[0],
                scheme == "dark",
            ]
            violations, held = judge(window.run(f"{axe}; {UNFOLDED} return {ASKED}"))
            assert (at, violations) == (at, [])
            assert window.run(f"return {FITS}"), at
            passed += held
        assert window.complaints(address) == []
    assert passed > 100
