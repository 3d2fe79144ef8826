import re
from collections import Counter
from contextlib import nullcontext

import pytest

from adapters_store import Store
from adapters_store.roles import CONTROLS
from analysis.report import report
from tests.support.studies.fake_study import FakeTask, fake_study, without_pictures

CLASSIFICATION = (FakeTask("hope"), FakeTask("role"))
BOTH = (*CLASSIFICATION, FakeTask("distress", "continuous"))


def _page(tmp_path, *study, are_drawn=False, title="", **options):
    """The text of a report; its figures are made, and turned into pictures only where a test looks at one."""
    store, manifest = fake_study(tmp_path / "store", *study, **options)  # type: ignore[arg-type]
    manifest["tasks"]["hope"]["title"] = title or manifest["tasks"]["hope"]["title"]
    with nullcontext() if are_drawn else without_pictures():
        page = report(store, manifest, tmp_path / "out", draws=300).page
    assert page == tmp_path / "out" / "report.md"
    return page.read_text()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The report of two tasks by real data, and its folder."""
    root = tmp_path_factory.mktemp("two")
    return _page(root, CLASSIFICATION), root / "out"


@pytest.fixture(scope="module")
def flagged(tmp_path_factory):
    """The report of made-up data of which a task is lost and a cell collapsed, with its pictures, and its folder."""
    root, lost = tmp_path_factory.mktemp("flagged"), {"condolence": "condolence.csv is not there; ask its authors"}
    options = {"missing_tasks": lost, "flags": {("hope", "role"): ["collapsed"]}, "synthetic": True}
    return _page(root, BOTH, are_drawn=True, **options), root / "out"


@pytest.fixture(scope="module")
def less_data(tmp_path_factory):
    """The report of two seeds and of a quarter of the training data beside all, and its folder."""
    root = tmp_path_factory.mktemp("less_data")
    return _page(root, BOTH, seeds=(1, 2), settings=("full", "25%")), root / "out"


def _check_whole(page, out):
    """No page has a NaN, and every link leads somewhere."""
    assert not re.search(r"\bnan\b|<NA>|\bNone\b|\binf\b", page)
    for link in re.findall(r"\]\((.+?)\)", page):
        assert (out / link).is_file()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"constant": [("hope", "distress"), (None, "role"), (None, "distress")]}, "9 of 9 finished"),
        ({"absent": [("hope", "role"), (None, "distress")]}, "2 of 9 planned cells are missing"),
        (
            {"controls": CONTROLS, "constant": [("self", "distress")], "absent": [("random", "hope")]},
            "1 of 24 planned cells are missing",
        ),
        (
            {"references": ("finetuned",), "constant": [("finetuned", "distress")], "absent": [("finetuned", "hope")]},
            "11 of 12 finished",
        ),
        (
            {"absent": [(a, b) for b in ("hope", "role", "distress") for a in (None, "hope", "role", "distress")]},
            "0 of 9 finished",
        ),
    ],
)
def test_no_page_has_a_nan_every_link_leads_somewhere_and_missing_cells_are_counted(tmp_path, options, said):
    page = _page(tmp_path, BOTH, **options)
    _check_whole(page, tmp_path / "out")
    assert said in page


def test_a_page_names_what_was_studied(flagged):
    page, out = flagged
    _check_whole(page, out)
    for part in ("A made-up study", "Title of hope", "fakes", "seq_bn", "clean", "random-tiny", "torch 2.0", "f" * 64):
        assert part in page
    assert "| condolence | condolence.csv is not there; ask its authors |" in page
    assert "conditional on one training run" in page
    assert "what another seed would give" in page
    assert "9 of 9 finished" in page
    assert "at most: train 400\n" in page
    assert "points over full" not in page  # all training data, and nothing to compare them with


def test_synthetic_data_are_announced_and_real_ones_are_not(flagged, two):
    assert "SYNTHETIC DATA" in flagged[0]
    assert "SYNTHETIC DATA" in (flagged[1] / "figures" / "heatmap-macro-f1-full.svg").read_text()
    assert "SYNTHETIC" not in two[0]


def test_a_page_holds_every_answer_and_figure_with_its_reason_where_there_is_none(less_data):
    page, out = less_data
    _check_whole(page, out)
    for part in ("Ratings", "What explains a gain", "Themes", "Less data", "The paper's figures"):
        assert f"\n## {part}" in page, part
    assert "Figures 9 and 10: not measured" in page
    assert "points over full" in page and "heatmap-macro-f1-25pct.png" in page
    assert (out / "paper-figures" / "figure-3-themes.png").is_file()
    assert (out / "tables" / "table-4-training.csv").is_file()


def test_there_is_no_heatmap_of_a_metric_that_no_task_has(two):
    assert [path.name for path in sorted((two[1] / "figures").glob("heatmap*.svg"))] == ["heatmap-macro-f1-full.svg"]


def test_counts_are_given_with_and_without_collapsed_cells(flagged):
    page, _ = flagged
    assert re.search(r"macro-F1 \| full \| all \| 4 \| 4 ", page)
    assert re.search(r"macro-F1 \| full \| without collapsed \| 3 \| 3 ", page)
    assert "| collapsed | at or below the majority-class score (r: 0) | 1 |" in page
    assert "Title of hope -> Title of role, seed 1, full" in page


def test_a_test_set_of_one_class_or_one_group_can_be_reported_and_a_bar_in_a_title_breaks_no_table(tmp_path):
    flag = "class_missing_in_test:low"
    tasks = (FakeTask("hope", only_class=1), FakeTask("role", groups=1))
    page = _page(tmp_path, tasks, flags={(None, "hope"): [flag]}, title="hope | despair")
    assert f"| {flag} | a class has no test row and is not averaged | 1 |" in page
    assert "hope \\| despair" in page
    assert "not defined" in page
    assert "few_groups" in page


def test_a_study_of_one_task_plans_no_transfer(tmp_path):
    assert "The study plans no transfer." in _page(tmp_path, CLASSIFICATION[:1])


def test_equal_stores_give_equal_reports(tmp_path):
    store, manifest = fake_study(tmp_path / "store", CLASSIFICATION)
    for name in ("one", "two"):
        report(store, manifest, tmp_path / name, draws=100)
    written = (path for path in (tmp_path / "one").rglob("*") if path.is_file())
    names = sorted(path.relative_to(tmp_path / "one").as_posix() for path in written)
    some = {"report.md", "report.html", "about.json", "tables/gains.csv", "paper-figures/figure-3-themes.png"}
    assert some <= set(names)
    assert {name.split("/")[0] for name in names if "/" in name} == {"tables", "figures", "paper-figures"}
    assert not [name for name in names if "/" not in name and not name.startswith(("report.", "about."))]
    page = (tmp_path / "one" / "report.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"!\[[^\]]*\]\(([^)]*)\)", page))
    assert shown and shown <= set(names)
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_page_tells_of_every_kind_of_label_and_of_what_was_cut(tmp_path):
    kinds = (FakeTask("hope"), FakeTask("felt", "multilabel"), FakeTask("level", "ordinal"))
    page = _page(tmp_path, kinds, seeds=(1, 2), constant=[("hope", "level"), (None, "felt")])
    assert "multilabel F1" in page
    assert "quadratic-weighted kappa" in page
    assert "| 4.0 % | 2.0 % |" in page
    assert "left out of whatever explains gains by ratings: Title of felt." in page
    assert not re.search(r"\bnan\b|<NA>|\bNone\b", page)


def test_controls_have_a_table_of_their_own_and_stay_out_of_all_others(tmp_path):
    page = _page(tmp_path, BOTH, controls=CONTROLS)
    whole, _, rest = page.partition("## Controls")
    controls, _, after = rest.partition("## Heatmaps")
    assert "24 of 24 finished (baseline 3, transfer 6, self 3, shuffled 3, random 3, control 3, imported 3)" in whole
    for name in ("permuted labels", "an untrained adapter", "self: the target itself", "control: chat"):
        assert controls.count(name) == 2 + 3, name
        assert name not in whole + after
    assert "over the 6 gains" in whole
    squares = (tmp_path / "out" / "figures" / "heatmap-macro-f1-full.csv").read_text()
    assert "random" not in squares and "chat" not in squares
    assert {"controls.csv", "control_means.csv"} <= {path.name for path in (tmp_path / "out" / "tables").iterdir()}


def test_a_whole_model_is_a_line_among_the_baselines_alone(tmp_path, two):
    page = _page(tmp_path, CLASSIFICATION, references=("finetuned",))
    assert page.count("| whole model |") == 2
    plain, _ = two
    for begin, end in (("## Gains", "## Appendix"), ("## Gains by correction", "## Flags")):
        part = page.partition(begin)[2].partition(end)[0]
        assert part and part == plain.partition(begin)[2].partition(end)[0]


def test_a_report_reads_every_record_at_most_once_and_checks_every_file_at_most_once(tmp_path, monkeypatch):
    store, manifest = fake_study(tmp_path / "store", CLASSIFICATION, seeds=(1, 2), controls=CONTROLS)
    reads: Counter[tuple[str, ...]] = Counter()
    get, checked = Store.get, Store.open

    def counted_get(self, key):
        reads[(key,)] += 1
        return get(self, key)

    def counted_open(self, key, name):
        reads[key, name] += 1
        return checked(self, key, name)

    monkeypatch.setattr(Store, "get", counted_get)
    monkeypatch.setattr(Store, "open", counted_open)
    with without_pictures():
        report(store, manifest, tmp_path / "out", draws=50)
    assert {key for key, *name in reads if not name} == {cell["key"] for cell in manifest["cells"]}
    assert set(reads.values()) == {1}
