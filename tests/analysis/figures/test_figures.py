import numpy as np
import pandas as pd
import pytest

from analysis.figures.heatmaps import Square, colour_limit, figure_title, heatmap, squares
from analysis.gains.baselines import baselines
from analysis.gains.gains import gains
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))


@pytest.fixture
def full(tmp_path):
    """Squares of a study with a missing, a collapsed and a significant cell."""
    pair = ("distress", "hope")
    study = fake_study(
        tmp_path / "store", TASKS, helpful=[("role", "hope")], flags={pair: ["collapsed"]}, absent=[("hope", "role")]
    )
    frames = (frame(*study, draws=1000) for frame in (gains, baselines))
    return squares(*frames, study[1], metric="macro_f1", setting="full")


def _texts(frame):
    figure = heatmap(frame, title="a title", metric="macro_f1", limit=5.0)
    return [text.get_text() for text in figure.axes[0].texts]


def test_there_is_a_square_for_every_row_and_column(full):
    assert list(dict.fromkeys(full.intermediate)) == ["", "hope", "role", "distress"]
    assert list(dict.fromkeys(full.column)) == ["Title of hope", "Title of role"]
    assert len(full) == 8
    status = full.set_index(["intermediate", "target"]).status
    assert status["", "hope"] == "baseline"
    assert status["hope", "hope"] == "not_planned"
    assert status["hope", "role"] == "missing"
    assert status["role", "hope"] == "done"


def test_squares_show_score_and_marks(full):
    square = full.set_index(["intermediate", "target"]).loc[("role", "hope")]
    assert square.is_significant
    assert f"{square.score:.2f}*".removeprefix("0") in _texts(full)
    assert sum("\u2020" in text for text in _texts(full)) == 1
    assert sum("*" in text for text in _texts(full)) == full.is_significant.sum()
    assert len(_texts(full)) == 8 - 2 - 1  # nothing is written for the task on itself or the missing cell


def test_the_legend_tells_only_what_occurs(full):
    def legend(frame):
        figure = heatmap(frame, title="", metric="macro_f1", limit=5.0)
        return " ".join(text.get_text() for text in figure.legends[0].get_texts())

    assert "* p(BH) <= .05" in legend(full)
    assert "collapsed" in legend(full)
    assert "not in the store" in legend(full)
    assert "not in the store" not in legend(full[full.status != "missing"])
    assert "not defined" not in legend(full)


def test_colours_are_centred_and_end_where_the_bar_says():
    points = pd.Series([1.0] * 99 + [-90.0])
    assert colour_limit(points) == 1.0
    assert colour_limit(pd.Series([np.nan])) == 1.0
    assert colour_limit(pd.Series([-8.0] * 5)) == 8.0


def test_the_colour_bar_names_the_limit(full):
    figure = heatmap(full, title="", metric="macro_f1", limit=5.0)
    mesh = figure.axes[0].collections[0]
    assert mesh.get_clim() == (-5.0, 5.0)
    assert "scale ends at 5.0 (95th percentile)" in figure.axes[1].get_ylabel()


def test_texts_of_eighteen_by_eighteen_do_not_overlap():
    names = [f"a task with a rather long title {place:02d}" for place in range(18)]
    rows = [Square("", name, "alone", name, "baseline", 0.5) for name in names]
    rows += [Square(i, t, i, t, "done", 0.5, 3.0, True, True) for i in names for t in names]
    figure = heatmap(pd.DataFrame(rows), title="big", metric="macro_f1", limit=5.0)
    figure.canvas.draw()
    axes = figure.axes[0]
    square = axes.transData.transform([(0, 0), (1, 1)])
    width, height = np.abs(square[1] - square[0])
    boxes = [text.get_window_extent() for text in axes.texts]
    assert max(box.width for box in boxes) < width
    assert max(box.height for box in boxes) < height
    labels = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert min(label.x0 for label in labels) >= 0
    assert max(label.height for label in labels) < height


def test_a_task_that_is_an_intermediate_alone_has_a_row_and_no_column_in_a_heatmap(tmp_path):
    _, manifest = study = fake_study(tmp_path, TASKS)
    of_pairs, of_targets = (frame(*study, draws=50) for frame in (gains, baselines))
    onto_hope = of_pairs[of_pairs.target == "hope"]
    shown = squares(onto_hope, of_targets, manifest, metric="macro_f1", setting="full")
    assert set(shown.target) == {"hope"} and list(shown.intermediate) == ["", "role", "distress"]
    assert squares(onto_hope, of_targets, manifest, metric="pearson_r", setting="full").empty


@pytest.mark.parametrize(("tasks", "n_axes", "begin"), [(TASKS[:1], 1, "Scores in"), (TASKS, 2, "Gains in")])
def test_a_heatmap_has_a_scale_and_speaks_of_gains_where_there_are_any(tmp_path, tasks, n_axes, begin):
    study = fake_study(tmp_path, tasks)
    of_pairs, of_targets = (frame(*study, draws=100) for frame in (gains, baselines))
    title = figure_title(of_pairs, study[1], metric="macro_f1", setting="full")
    shown = squares(of_pairs, of_targets, study[1], metric="macro_f1", setting="full")
    assert len(heatmap(shown, title=title, metric="macro_f1", limit=1.0).axes) == n_axes
    assert title.startswith(begin)
