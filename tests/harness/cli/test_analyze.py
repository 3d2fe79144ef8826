"""The commands ``analyze`` and ``figures`` on the paper's tables and on a store, and what they write."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pandas as pd
import pytest

from analysis.figures.paper_figures import paper_figures, percent_squares
from analysis.gains.gains import gains
from analysis.importance.question import of_grids
from analysis.ratings.agreement import differences
from analysis.ratings.themes import MARGIN
from analysis.results import study_results
from analysis.results.published import results, table
from analysis.results.results import Results
from analysis.sections.answers import half_data, ratings, themes, write_answers
from analysis.sections.importance import ratings_table, score_matrix
from harness.cli.main import main, parser
from tasks.errors import BadInput
from tests.support.studies.fake_study import FakeTask, fake_study


def answered(question):
    """The sections of all answers but what explains gains."""
    return [section for section in (ratings(question), themes(question), half_data(question)) if section]


SCORES = ("table-7-macro-f1", "table-8-pearson-r")
DATA = ("table-1-sizes", "table-4-training", "table-9-numbers", "table-10-12-labels", "table-9-12-splits")
RATED = ("table-2-ratings", "table-3-agreement", "table-5-themes")


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory):
    out = tmp_path_factory.mktemp("published")
    with redirect_stdout(StringIO()) as told, redirect_stderr(StringIO()) as shown:
        assert main(["study", "analyze", "published", "--json", "--out", str(out)]) == 0
    (out / "told.json").write_text(told.getvalue(), encoding="utf-8")
    assert "of 5: slopes" in shown.getvalue()
    with redirect_stderr(StringIO()) as said:
        assert main(["figures", "published", "--out", str(out)]) == 0
    assert "Figures 9 and 10 need a study" in said.getvalue()
    return out


def stored(tmp_path, **changes):
    """Results by setting of a small stored study with a gap, a control task and a correlation that does not exist."""
    tasks = [FakeTask("epitome_er"), FakeTask("one", only_class=1), FakeTask("two", kind="continuous")]
    options = {"settings": ("full", "half"), "absent": [("one", "two")], "constant": [("epitome_er", "two")]}
    store, manifest = fake_study(tmp_path / "runs", tasks, **{**options, **changes})
    return Results.by_setting(store, manifest, gains(store, manifest, draws=200))


def test_an_analysis_of_the_papers_tables_has_their_numbers_verdicts_and_frames(analyzed):
    page = (analyzed / "analysis.md").read_text(encoding="utf-8")
    for value in ("0.8562", "0.8324", "0.4569", "0.7220", "0.8700", "0.9068", "0.0370", "0.76 to 0.97 | <0.0001 |"):
        assert value in page
    assert "APPROXIMATION" in page
    assert "nan" not in page.lower()
    told = json.loads((analyzed / "told.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert told["page"] == str(analyzed / "analysis.md")
    assert len(told["tables"]) >= 5
    assert (told["mode"], told["declared"]) == ("guarded", None)
    verdicts = {row["construct"]: row["verdict"] for row in told["slopes"]}
    assert verdicts == dict.fromkeys(("definition", "link", "conduciveness"), "not supported")
    assert len(told["choices"]) == 9 * 3
    for name in ("slopes", "profile", "choices"):
        frame = pd.read_csv(analyzed / "tables" / f"mixed_{name}.csv")
        assert len(pd.read_parquet(analyzed / "tables" / f"mixed_{name}.parquet")) == len(frame) > 0


def test_the_tables_hold_what_the_paper_prints(analyzed):
    assert {path.stem for path in (analyzed / "tables").glob("table-*.csv")} >= {*SCORES, *DATA, *RATED}
    printed = table("tables7_8_scores").set_index(["intermediate", "target"]).score
    for name in SCORES:
        written = pd.read_csv(analyzed / "tables" / f"{name}.csv").set_index("intermediate").stack()
        assert (written == printed[written.index]).all()
        assert len(written) in (216, 108)
    rated = pd.read_csv(analyzed / "tables" / "table-2-ratings.csv").drop(columns=["task", "title"])
    assert (rated.shape, rated.to_numpy().sum()) == ((18, 6), 347)


def test_every_figure_of_print_is_a_png_a_vector_and_a_csv(analyzed):
    folder = analyzed / "paper-figures"
    stems = {path.stem for path in folder.glob("figure-*")}
    assert {stem.split("-")[1] for stem in stems} >= {"2", "3", "6", "7", "8"}
    for stem in stems:
        assert {path.suffix for path in folder.glob(f"{stem}.*")} == {".csv", ".png", ".svg"}
    assert "APPROXIMATION" in (folder / "figure-3-themes.svg").read_text(encoding="utf-8")
    assert "p(BH)" not in (folder / "figure-6-percent-macro-f1.svg").read_text(encoding="utf-8")


def test_a_second_analysis_gives_the_same_bytes_and_prints_its_verdicts(analyzed, tmp_path, capsys):
    assert main(["study", "analyze", "published", "--quiet", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "Not preregistered" in printed.out
    assert "not published" in printed.out
    for title in ("Definition", "Link", "Conduciveness"):
        assert f"{title}: not supported: " in printed.out
    for path in [*sorted(tmp_path.glob("*.csv")), tmp_path / "analysis.md"]:
        assert path.read_bytes() == (analyzed / path.name).read_bytes(), path.name


def test_squares_are_all_pairs_and_the_targets_alone():
    squares = percent_squares(results(), "pearson_r")
    assert squares.status.value_counts().to_dict() == {"done": 102, "baseline": 6, "not_planned": 6}
    assert squares.set_index(["intermediate", "target"]).percent["news_empathy", "news_distress"] == pytest.approx(
        19.718, abs=1e-3
    )


def test_the_commands_work_on_a_stored_study(tmp_path, capsys):
    stored(tmp_path)
    options = ["--store", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main(["study", "analyze", "fake", *options]) == 0
    assert main(["figures", "fake", *options]) == 0
    assert "figure-3-themes.png" in capsys.readouterr().out
    assert {"heatmap-macro-f1-full.png", "figure-7-percent-pearson-r.png"} <= {
        path.name for path in (tmp_path / "out").glob("*/*")
    }


@pytest.mark.parametrize("command", ["report", "report --public", "figures", "study analyze", "study paper"])
def test_exact_gains_are_computed_where_they_are_asked_for_and_kept_apart(command, tmp_path, capsys, monkeypatch):
    tasks = (FakeTask("hope"), FakeTask("role"), FakeTask("polarity"))
    fake_study(tmp_path / "runs", tasks, seeds=(18,), helpful=[("role", "hope")])
    computed = []

    def with_few_draws(*study, draws, **options):
        computed.append(options.get("exact", False))
        return gains(*study, draws=draws // 50, **options)

    def stop(study):
        raise BadInput(f"maxima of {set(drawn(study).draws_of_maxima.tolist())} draws")

    drawn = study_results.StudyResults.gains.func
    monkeypatch.setattr(study_results, "gains", with_few_draws)
    monkeypatch.setattr(study_results.StudyResults, "gains", property(stop))
    where = ["--store", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    for _ in range(2):
        assert main([*command.split(), "fake", "--exact", *where]) == 2
        assert "maxima of {2000} draws" in capsys.readouterr().err
    assert computed == [True], "computed once and then read"
    assert main([*command.split(), "fake", *where]) == 2
    assert "maxima of {200} draws" in capsys.readouterr().err
    assert computed == [True, False]


@pytest.mark.parametrize("command", ["figures", "study analyze", "study paper"])
def test_what_is_no_study_has_no_exact_gains(command, capsys):
    assert main([*command.split(), "published", "--exact"]) == 2
    assert capsys.readouterr().err.strip().endswith("of a stored study; 'published' is none, leave it out")


def test_gaps_of_a_study_are_told_and_drawn(tmp_path):
    by_setting = stored(tmp_path)
    question = of_grids(by_setting, tmp_path / "out")
    page = write_answers(question, answered(question)).read_text(encoding="utf-8")
    assert "## Less data" in page
    assert "Without ratings: " in page
    assert "nan" not in page.lower()
    assert list(pd.read_csv(tmp_path / "out" / "tables" / "theme_counts.csv").panel.unique()) == [
        "full",
        "half",
        "half against full",
    ]
    squares = percent_squares(by_setting["full"], "pearson_r").set_index("intermediate")
    assert squares.status.drop("").to_dict() == {"epitome_er": "undefined", "one": "missing", "two": "not_planned"}
    drawn = [files for figure in paper_figures(question) for files in figure.write(tmp_path / "out")]
    assert all(path.stat().st_size > 5000 for one in drawn for path in (one.png, one.svg))


def test_a_study_whose_pairs_are_all_missing_is_analyzed(tmp_path):
    pairs = [(a, b) for a in ("epitome_er", "one", "two") for b in ("epitome_er", "one", "two")]
    by_setting = stored(tmp_path, absent=pairs, constant=[], settings=("full",))
    question = of_grids(by_setting, tmp_path / "out")
    page = write_answers(question, answered(question)).read_text(encoding="utf-8")
    assert "cannot be compared" in page
    assert score_matrix(question.results, "macro_f1").drop(columns="intermediate").notna().sum().sum() == 0
    assert [figure.write(tmp_path / "out") for figure in paper_figures(question)]


def test_tasks_without_ratings_or_themes_are_no_error(tmp_path):
    tasks = [FakeTask("one"), FakeTask("two")]
    store, manifest = fake_study(tmp_path / "runs", tasks)
    for task in manifest["tasks"].values():
        task["theme"] = ""
    by_setting = Results.by_setting(store, manifest, gains(store, manifest, draws=100))
    question = of_grids(by_setting, tmp_path / "out")
    page = write_answers(question, answered(question)).read_text(encoding="utf-8")
    assert "nothing can be said about what they explain" in page
    assert "No task of these results has a theme" in page
    assert len(ratings_table(by_setting["full"])) == len(differences(by_setting["full"])) == 0
    assert [figure.write(tmp_path / "out") for figure in paper_figures(question)]


def test_made_up_data_say_so(tmp_path):
    by_setting = stored(tmp_path, synthetic=True)
    question = of_grids(by_setting, tmp_path / "out")
    assert write_answers(question, answered(question)).read_text(encoding="utf-8").startswith("# SYNTHETIC DATA: ")
    assert all(one.title.startswith("SYNTHETIC DATA: ") for one in paper_figures(question))
    drawn = [files for one in paper_figures(question) for files in one.write(tmp_path)]
    assert all("SYNTHETIC DATA" in files.svg.read_text(encoding="utf-8") for files in drawn)


def test_the_margin_that_help_names_is_the_one_of_the_analysis(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["study", "analyze", "--help"])
    assert f"or else {MARGIN:g})" in " ".join(capsys.readouterr().out.split())
