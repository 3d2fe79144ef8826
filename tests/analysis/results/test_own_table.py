"""Somebody else's table of scores, read as results, and what is said of what it cannot tell."""

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.importance.grid import Specification, grid_of
from analysis.importance.question import of_own_table
from analysis.results.published import results
from analysis.results.results import read_own_table
from analysis.sections.answers import ratings as ratings_section
from analysis.sections.answers import write_answers
from analysis.sections.importance import guarded_answer, paper_answer, ratings_table
from harness.cli.main import main
from tasks.errors import BadRow, MissingData

HEAD = "intermediate,target,score,baseline"


@pytest.fixture
def write(tmp_path):
    def write(*lines, name="grid.csv"):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path / name

    return write


@pytest.fixture
def published_files(tmp_path):
    """The paper's scores, ratings and facts as three plain tables."""
    found = results()
    columns = {"gains": ["intermediate", "target", "score", "baseline", "metric"], "ratings": list(found.ratings)}
    columns["tasks"] = [name for name in found.tasks if name != "metric"]
    for name, chosen in columns.items():
        getattr(found, name)[chosen].to_csv(tmp_path / f"{name}.csv", index=False)
    return [tmp_path / f"{name}.csv" for name in ("gains", "ratings", "tasks")]


def tiny(names="abcdefgh", seeds=(1,)):
    """Rows of a grid of made-up scores."""
    rng = np.random.default_rng(5)
    alone = {(name, seed): rng.uniform(0.4, 0.6) for name in names for seed in seeds}
    return [
        f"{below},{above},{alone[above, seed] + rng.normal() / 50:.4f},{alone[above, seed]:.4f},{seed}"
        for below in names
        for above in names
        for seed in seeds
        if below != above
    ]


def test_the_papers_tables_brought_as_files_are_the_same_grid(published_files):
    asked = Specification(weights="equal")
    brought, own = (grid_of(one, asked) for one in (read_own_table(*published_files).results, results()))
    order = [brought.tasks.index(name) for name in own.tasks]
    assert np.array_equal(brought.mask[np.ix_(order, order)], own.mask)
    assert brought.outcome[np.ix_(order, order)] == pytest.approx(own.outcome, abs=1e-9)
    assert brought.kinds == own.kinds


def test_seeds_are_averaged_and_their_spread_is_pooled_within_a_target(write):
    rows = ["a,c,.60,.50,1", "a,c,.64,.52,2", "b,c,.50,.50,1", "b,c,.56,.52,2", "b,a,.7,.7,1"]
    gains = read_own_table(write(f"{HEAD},seed", *rows)).results.gains.set_index(["intermediate", "target"])
    one = gains.loc[("a", "c")]
    assert (one.score, one.baseline, one.n_seeds) == (pytest.approx(0.62), pytest.approx(0.51), 2)
    assert (one.gain, one.percent) == (pytest.approx(0.11), pytest.approx(100 * 0.11 / 0.51))
    # gains of a > c are .10 and .12 (variance .0002), of b > c 0 and .04 (variance .0008): pooled .0005, over 2 seeds
    assert one.standard_error == pytest.approx(np.sqrt(0.0005 / 2))
    assert gains.standard_error[("b", "c")] == pytest.approx(np.sqrt(0.0005 / 2))
    assert np.isnan(gains.standard_error[("b", "a")])
    assert gains.p.isna().all()


def test_of_a_negative_correlation_there_is_no_percentage(write):
    gains = read_own_table(write(HEAD, "a,b,.3,-.2", "b,a,.3,.2")).results.gains.set_index("target")
    assert gains.gain["b"] == pytest.approx(0.5)
    assert np.isnan(gains.percent["b"])
    assert gains.percent["a"] == pytest.approx(50)


def test_what_a_table_cannot_tell_is_said(write):
    limits = read_own_table(write(f"{HEAD},note", "a,b,.5,.5,x", "b,a,,.4,y", "c,a,.3,.4,z")).limits
    said = "\n".join(limits)
    for part in (
        "needs the predictions behind the scores",
        "no pair has two seeds that differ",
        "1 of 4 possible pairs are not in the table",
        "1 of 3 rows with no score",
        "Columns that are not used: note",
        "Families of 3 of 3 tasks",
    ):
        assert part in said, part


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["intermediate,target,scores,baseline", "a,b,.5,.5"], r"grid.csv:1: no column 'score'; did you mean 'scores'"),
        ([HEAD], r"grid.csv:1: there is no row below the header"),
        ([HEAD, "a,b,.5,.5", "a,a,.5,.5"], r"grid.csv:3: a is its own intermediate"),
        ([HEAD, ",b,.5,.5"], r"grid.csv:2: intermediate is empty"),
        ([HEAD, "a,b,good,.5"], r"grid.csv:2: score 'good' is not a number"),
        ([HEAD, "a,b,71.2,70"], r"grid.csv:2: score 71.2 is not between -1 and 1; divide percentages by 100"),
        ([HEAD, "a,b,.5,.5", "a,b,.6,.5"], r"grid.csv:3: a > b without a seed is at .*grid.csv:2 too"),
        ([HEAD, "a,b,.5,.5", "c,b,.6,.4"], r"grid.csv:3: baseline 0.4 of b is 0.5 at .*grid.csv:2"),
        ([f"{HEAD},metric", "a,b,.5,.5,pearson"], r"grid.csv:2: unknown metric 'pearson'; did you mean 'pearson_r'"),
        ([f"{HEAD},metric", "a,b,.5,.5,macro_f1", "c,b,.6,.5,"], r"grid.csv:3: metric '' of b is 'macro_f1' at"),
        ([HEAD, "a,b,.5"], r"grid.csv:2: 3 cells where the first line has 4"),
    ],
)
def test_a_row_that_cannot_be_used_is_one_line_with_its_place(write, lines, message):
    with pytest.raises(BadRow, match=message) as problem:
        read_own_table(write(*lines))
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["task,construct,rater,value", "x,link,A,3"], "rates no task of the table of scores"),
        (["task,construct,rater,value", "a,link,A,high"], r"r.csv:2: value 'high' is not a number"),
        (["task,construct,rater,value", "a,link,A,3", "a,link,A,4"], r"r.csv:3: A rated a on link at .*r.csv:2 too"),
        (["task,construct,value", "a,link,3"], "no column 'rater'"),
        (["task,famly", "a,x"], r"t.csv:1: unknown column 'famly'; did you mean 'family'"),
        (["task,samples", "a,2.5"], r"t.csv:2: samples '2.5' is not a whole number"),
        (["task,theme", "a,odd"], r"t.csv:2: theme 'odd' is not one of direct"),
        (["task,family", "a,x", "a,y"], r"t.csv:3: task a stands above too"),
    ],
)
def test_ratings_and_facts_that_cannot_be_used_are_refused(write, lines, message):
    grid, is_of_ratings = write(HEAD, "a,b,.5,.5"), "construct" in lines[0]
    file = write(*lines, name="r.csv" if is_of_ratings else "t.csv")
    with pytest.raises(BadRow, match=message):
        read_own_table(grid, *((file,) if is_of_ratings else (None, file)))


def test_ratings_and_facts_of_other_tasks_are_reported(write):
    ratings = write("task,construct,rater,value", "a,warmth,A,30", "z,warmth,A,1", name="r.csv")
    facts = write("task,family,samples", "a,one,10", "y,one,5", name="t.csv")
    found = read_own_table(write(HEAD, "a,b,.5,.5"), ratings, facts)
    assert list(found.results.ratings.task) == ["a"]
    said = "\n".join(found.limits)
    assert "Ratings of tasks that are not in the table of scores: z" in said
    assert "Facts of tasks that are not in the table of scores: y" in said
    assert "Facts of 1 of 2 tasks (b)" in said


def test_the_example_of_the_documentation_is_read(tmp_path):
    text = (Path(__file__).parents[3] / "docs" / "what-explains-gains.md").read_text(encoding="utf-8")
    blocks = text.split("## Any table of scores")[1].split("## ")[0].split("```")[1::2]
    assert sum(len(block.strip().splitlines()) for block in blocks) == 10
    files = [tmp_path / f"{number}.csv" for number in range(3)]
    for file, block in zip(files, blocks, strict=True):
        file.write_text(block.lstrip(), encoding="utf-8")
    found = read_own_table(*files)
    assert (len(found.results.gains), len(found.results.ratings)) == (3, 2)
    assert found.results.tasks.family.tolist() == ["semeval", "semeval", "emotion"]


def test_a_file_that_is_not_there_is_one_line(tmp_path, capsys):
    with pytest.raises(MissingData, match="no such file"):
        read_own_table(tmp_path / "none.csv")
    assert main(["study", "analyze", str(tmp_path / "none.csv")]) == 2
    assert main(["study", "analyze", "published", "--ratings", "r.csv"]) == 2
    assert "--ratings goes with a table of scores" in capsys.readouterr().err


def test_a_table_without_anything_else_is_analyzed_and_told_what_is_missing(write, tmp_path, capsys):
    grid = write(f"{HEAD},seed", *tiny())
    assert main(["study", "analyze", str(grid), "--json", "--quiet", "--out", str(tmp_path / "out")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["headline"] == "nothing can be said: no task has ratings"
    page = (tmp_path / "out" / "analysis.md").read_text(encoding="utf-8")
    assert "What cannot be known here" in page
    assert "nan" not in page.lower()
    answer = paper_answer(of_own_table(read_own_table(grid), tmp_path / "paper"), lambda *step: None)
    assert "no feature is known of every task" in answer.lines[0]


def test_ratings_of_any_construct_are_analyzed(write, tmp_path):
    values = "".join(f"{name},warmth,A,{10 * place}\n" for place, name in enumerate("abcdefgh"))
    ratings = write("task,construct,rater,value", values.strip(), name="r.csv")
    found = read_own_table(write(f"{HEAD},seed", *tiny(seeds=(1, 2))), ratings)
    assert found.results.errors == "those of the spread over seeds"
    question = of_own_table(found, tmp_path / "out")
    answer = guarded_answer(question, lambda *step: None)
    assert "ratings (Warmth) explain gains" in answer.lines[1]
    assert "not tested" not in [row["verdict"] for row in answer.facts["slopes"] if row["construct"] == "warmth"]
    page = write_answers(question, [ratings_section(question)]).read_text(encoding="utf-8")
    assert "| warmth |" in page
    assert (ratings_table(found.results).warmth_A == [10.0 * place for place in range(8)]).all()
