"""The uncertainty map: chance draws little, planted gains stand out, texts are legible, and the CSV says it all."""

from itertools import combinations
from statistics import NormalDist

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgba

from analysis.figures.boards import board_words
from analysis.figures.drawing import luminance, plain_text_settings
from analysis.figures.forest import forest_frame, forest_words
from analysis.figures.heatmaps import heatmap
from analysis.figures.heatmaps import squares as heatmap_squares
from analysis.figures.plan import (
    SETTINGS,
    SMALLEST,
    WORDS,
    Box,
    Stroke,
    TextLabel,
    drawn,
    outline,
    plain_plan,
    text_width,
    wrapped,
)
from analysis.figures.uncertainty_map import (
    BRACKETS,
    FILLED,
    LIMIT,
    colour_of,
    map_frame,
    map_plan,
    map_title,
    map_words,
    name_lines,
    share_of_place,
)
from analysis.results.study_results import StudyResults
from tests.analysis.gains.test_baselines import RESPONSE
from tests.analysis.gains.test_baselines import WORDS as LEARNED_WORDS
from tests.support.made_up_gains import made_up_gains, made_up_manifest
from tests.support.studies.fake_study import FakeTask, fake_study

LONG = "A task with a title that is much longer than there is room for, number"
HOSTILE = "Costs $5 \\badmacro{$ a day $$, red\x1b[31m bell\x07 turned\u202e over " + "x" * 140
A_PAGE = (454.0, 700.0)  # points: 16 cm, and what a page of A4 leaves above a caption


def plan_of(n, seed=1, planted=(10.0, -9.0), missing=2, order="family", **facts):
    manifest = made_up_manifest(n, **facts)
    most = n * (n - 1)
    gains = made_up_gains(
        manifest, np.random.default_rng(seed), planted=planted[: most // 2], missing=missing if most > 20 else 0
    )
    frame = map_frame(gains, manifest, setting="full", order=order)
    return map_plan(frame, map_title(gains, manifest, "full")), frame, gains


def squares(plan):
    """The areas of the squares, in the order of the frame's rows that have one."""
    return np.array([box.width * box.height for box in plan.layers["squares"]])


def overlap(first, second):
    """Whether two turned rectangles of corners [4, 2] share more than an edge: no side of either keeps them apart."""
    for corners in (first, second):
        for side in (corners[1] - corners[0], corners[2] - corners[1]):
            a, b = first @ side, second @ side
            if min(a.max(), b.max()) - max(a.min(), b.min()) < 1e-6 * (side @ side) ** 0.5:
                return False
    return True


def contrasts(plan):
    """Of every text the smallest ratio of luminances (WCAG 2) to the paper and to the fills that it stands on."""
    marks, ratios = plan.marks(), []
    boxes = [(place, mark) for place, mark in enumerate(marks) if isinstance(mark, Box) and mark.fill]
    sides = np.array([(box.x, box.y, box.x + box.width, box.y + box.height) for _, box in boxes]).reshape(-1, 4)
    depths = np.array([place for place, _ in boxes])
    for place, label in enumerate(marks):
        if isinstance(label, TextLabel):
            corners = outline(label)
            is_met = (sides[:, :2] < corners.max(axis=0)).all(axis=1) & (sides[:, 2:] > corners.min(axis=0)).all(axis=1)
            met = [boxes[number][1].fill for number in np.flatnonzero(is_met & (depths < place))]
            inks = luminance(np.array([to_rgba(colour) for colour in (label.colour, "#ffffff", *dict.fromkeys(met))]))
            light, dark = np.maximum(inks[1:], inks[0]), np.minimum(inks[1:], inks[0])
            ratios.append((label.text, float(((light + 0.05) / (dark + 0.05)).min())))
    return ratios


def check_legible(plan):
    """Every text inside the figure, of at least 6 points, apart from all others, and 4.5:1 against what is below it."""
    corners = [outline(label) for label in plan.labels()]
    for label, own in zip(plan.labels(), corners, strict=True):
        assert label.size >= SMALLEST, label
        assert own.min() >= 0 and (own.max(axis=0) <= (plan.width, plan.height)).all(), label
    boxes = np.array([[*own.min(axis=0), *own.max(axis=0)] for own in corners])
    for a, b in combinations(range(len(boxes)), 2):
        is_near = (boxes[a, :2] < boxes[b, 2:]).all() and (boxes[b, :2] < boxes[a, 2:]).all()
        assert not is_near or not overlap(corners[a], corners[b]), (plan.labels()[a], plan.labels()[b])
    assert min(ratio for _, ratio in contrasts(plan)) >= 4.5


def sizes_by_hand(gains):
    """Areas at two degrees of freedom, where P(|t| > x) = 1 - x / sqrt(x^2 + 2)."""
    normal, sizes = NormalDist(), []
    for gain in gains.itertuples():
        t = 4.302652729911275 * abs(gain.points) / ((gain.high - gain.low) / 2)
        p = 1 - t / (t**2 + 2) ** 0.5
        sizes.append(min(normal.inv_cdf(1 - p / 2) / normal.inv_cdf(0.975) / 3, 1.0))
    return np.array(sizes)


@pytest.mark.parametrize("n", [2, 18, 60])
@pytest.mark.parametrize("facts", [{}, {"title": LONG, "metrics": ("macro_f1",)}], ids=["short", "long, one metric"])
def test_two_to_sixty_tasks_are_legible_on_a_page(n, facts):
    plan, frame, _ = plan_of(n, **facts)
    assert plan.width <= A_PAGE[0] and plan.height <= A_PAGE[1]
    check_legible(plan)
    names = {label.text for label in plan.labels()}
    assert len(names & set(frame.row)) == n or "title" in facts
    metrics = {"macro-F1", "Pearson r"} if not facts else {"macro-F1"}
    assert metrics == {label.text for label in plan.labels() if label.is_bold and label.anchor == "middle"}


def test_names_of_families_are_broken_between_their_parts_before_they_are_cut():
    room = text_width("empathetic", SMALLEST) + 1.0
    assert name_lines("epitome", room) == ["epitome"]
    assert name_lines("empathetic dialogues", room) == ["empathetic", "dialogues"]
    assert name_lines("empathetic_dialogues", 3 * room) == ["empathetic_dialogues"]
    assert name_lines("empathetic_dialogues", room, most=1) == ["empathe\u2026"]
    assert name_lines("a b c d e f g h i j k l m n o", room)[0].endswith("\u2026"), "no more than two lines"
    assert name_lines("empathetic dialogues", 12.0) == [], "too little to say something"
    assert name_lines("", room) == name_lines(" ", room) == []
    plan = plan_of(6)[0]
    texts = [label.text for label in plan.layers["brackets"] if isinstance(label, TextLabel)]
    assert texts.count("empathetic") == texts.count("dialogues") == 2, "of a single task, above and at the left"
    assert not any("\u2026" in text for text in texts)


@pytest.mark.parametrize("words", [map_words, forest_words, board_words])
def test_what_a_figure_shows_is_told_in_whole_sentences_with_and_without_a_title(words):
    frame = map_frame(made_up_gains(made_up_manifest(4), np.random.default_rng(1)), made_up_manifest(4), setting="full")
    frame = frame.assign(kind="transfer", panel=frame.column, rank=1, score=0.5, is_tied=True)
    alone = words(frame, "")
    assert alone.startswith(("The map has ", "The figure has ")) and alone.endswith(".")
    assert words(frame, "A title\nin lines") == f"A title in lines. {alone}"


ALONE = ("empathetic_dialogues", "motivational interviewing", "condolence", "empathy hope", "wassa", "Task 5")


@pytest.mark.parametrize(("n", "sizes"), [(12, (1, 1, 1, 1, 1, 1)), (18, (5, 3, 1, 1, 1, 1)), (18, (1, 4, 1, 2, 2, 1))])
def test_no_name_of_a_family_is_cut_on_maps_of_up_to_eighteen_tasks(n, sizes):
    """Families of one task have a bracket of one place, over which their names stand upright, broken at their parts."""
    manifest = made_up_manifest(n)
    families = [name for name, size in zip(ALONE, sizes, strict=True) for _ in range(size)][::-1]
    for place, task in enumerate(manifest["tasks"].values()):
        task["family"] = families[place] if place < len(families) else "wassa"
    gains = made_up_gains(manifest, np.random.default_rng(4), planted=(8.0,))
    plan = map_plan(map_frame(gains, manifest, setting="full"), "title")
    assert plan.width <= A_PAGE[0] and plan.height <= A_PAGE[1]
    check_legible(plan)
    beside = {label.text for label in plan.labels() if label.anchor == "end" and not label.turn}
    assert {row["title"] for row in manifest["tasks"].values()} <= beside, "every row has its whole name"
    texts = [label.text for label in plan.layers["brackets"] if isinstance(label, TextLabel)]
    assert not any("\u2026" in text for text in texts)
    for name in set(families) - {"Task 5"}:
        for part in name.replace("_", " ").split():
            assert sum(part in text.split() for text in texts) >= 2, "at the left and above"


def test_a_family_named_as_its_only_task_is_not_named_twice():
    manifest = made_up_manifest(6)
    for place, task in enumerate(manifest["tasks"].values()):
        task["family"] = "wassa" if place < 4 else task["title"].lower()
    gains = made_up_gains(manifest, np.random.default_rng(4))
    plan = map_plan(map_frame(gains, manifest, setting="full"), "title")
    brackets = plan.layers["brackets"]
    assert {label.text for label in brackets if isinstance(label, TextLabel) and not label.is_bold} == {"wassa"}
    assert sum(isinstance(mark, Stroke) for mark in brackets) == 2 + 4 + 3, "metrics, families above, families beside"


def test_hostile_titles_are_drawn_as_texts():
    plan, _, _ = plan_of(4, title=HOSTILE)
    check_legible(plan)
    assert not set("\x1b\x07\u202e") & set("".join(label.text for label in plan.labels()))
    drawn(plan).canvas.draw()


def test_the_printer_writes_texts_where_the_plan_has_measured_them():
    plan, _, _ = plan_of(18)
    figure = drawn(plan)
    figure.set_dpi(200)
    with plain_text_settings("test"), mpl.rc_context(SETTINGS):
        figure.canvas.draw()
        extents = [text.get_window_extent() for text in figure.axes[0].texts]
    to_points = figure.axes[0].transData.inverted()
    for extent, label in zip(extents, plan.labels(), strict=True):
        box = to_points.transform(extent)
        own = outline(label)
        assert np.allclose(np.sort(box[:, 0]), [own[:, 0].min(), own[:, 0].max()], atol=0.35 * label.size), label
        assert box.min() >= -0.5 and (box.max(axis=0) <= (plan.width + 0.5, plan.height + 0.5)).all(), label


def test_the_area_is_the_gain_over_the_half_width_and_the_colour_is_alike_for_all():
    many = 1e9
    assert share_of_place(2.0, 1.0, 3.0, many) == pytest.approx(2 / 3)
    assert share_of_place(-1.0, -3.0, 1.0, many) == pytest.approx(1 / 6)
    assert share_of_place(5.0, 4.0, 6.0, many) == share_of_place(50.0, 40.0, 60.0, many) == 1.0
    assert share_of_place(5.0, np.nan, np.nan, many) == share_of_place(0.0, -1.0, 1.0, many) == 0.0
    assert share_of_place(2.0, 0.0, 4.0, 2.0) == pytest.approx(1 / 3), "the interval ends at 0, whatever the seeds"
    assert share_of_place(2.0, 1.0, 3.0, 2.0) < share_of_place(2.0, 1.0, 3.0, 20.0) < 2 / 3
    assert colour_of(LIMIT) == colour_of(4 * LIMIT) != colour_of(0.5 * LIMIT)
    assert colour_of(0.0) == colour_of(-0.0)
    plan, frame, gains = plan_of(18)
    done = gains[gains.points.notna()].set_index(["intermediate", "target"])
    drawn_pairs = frame[frame["size"] > 0].set_index(["intermediate", "target"])
    two = map_frame(gains.assign(df=2.0), made_up_manifest(18), setting="full").set_index(["intermediate", "target"])
    assert np.allclose(sizes_by_hand(done), two["size"][done.index], atol=1e-9)
    place = plan.layers["ground"][0]
    assert np.allclose(squares(plan), (FILLED * place.width) ** 2 * drawn_pairs["size"], rtol=0.02, atol=0.05)
    fills = [box.fill for box in plan.layers["squares"]]
    assert fills == [colour_of(points) for points in drawn_pairs.points]


def test_numbers_frames_and_marks_stand_where_they_should():
    plan, frame, gains = plan_of(18, missing=3)
    sure = gains[(gains.low > 0) | (gains.high < 0)]
    assert len(plan.layers["numbers"]) == len(sure) > 2
    frames = [mark for mark in plan.layers["marks"] if type(mark).__name__ == "Box"]
    assert len(frames) == gains.significant.sum() >= 2
    assert len(plan.layers["marks"]) - len(frames) == 6, "three are collapsed, three contaminated"
    statuses = frame.status.value_counts().to_dict()
    assert statuses == {"done": 18 * 17 - 6, "same task": 18, "missing": 3, "undefined": 3}
    words = " ".join(label.text for label in plan.layers["legend"] if isinstance(label, TextLabel))
    for meaning in ("collapsed", "contaminated", "not finished", "no value", "half-width", "3 or more", "10"):
        assert meaning in words
    clean = plan_of(18, missing=0)[0]
    words = " ".join(label.text for label in clean.layers["legend"] if isinstance(label, TextLabel))
    assert not any(meaning in words for meaning in ("collapsed", "contaminated", "not finished", "no value"))


def test_harms_are_told_from_gains_without_colour():
    plan, frame, _ = plan_of(18)
    points = frame.points[frame["size"] > 0]
    harms = [box for box, gain in zip(plan.layers["squares"], points, strict=True) if gain < 0]
    assert len(harms) > 100
    middles = {(round(bar.x + bar.to_x, 1), round(2 * bar.y, 1)) for bar in plan.layers["bars"]}
    signed = [label for label in plan.layers["numbers"] if label.text.startswith("\u2212")]
    for box in harms:
        middle = (round(2 * box.x + box.width, 1), round(2 * box.y + box.height, 1))
        near = [label for label in signed if abs(2 * label.x - middle[0]) < 0.3 and abs(2 * label.y - middle[1]) < 6]
        has_bar = any(abs(x - middle[0]) < 0.3 and abs(y - middle[1]) < 0.3 for x, y in middles)
        assert has_bar or near or box.width < 2.6, box


def test_every_gain_is_a_dot_of_its_column_and_of_its_row():
    plan, frame, _ = plan_of(18)
    dots = [mark for mark in plan.layers["marginals"] if type(mark).__name__ == "Dot"]
    assert len(dots) == 2 * (frame.status == "done").sum()
    beyond = [dot for dot in dots if dot.radius == 1.5]
    assert len(beyond) == 2 * (frame.points.abs() > LIMIT).sum()


def test_tasks_stand_by_metric_family_and_median():
    _, frame, gains = plan_of(18)
    columns = frame.drop_duplicates("target")
    assert list(dict.fromkeys(columns.metric)) == ["macro_f1", "pearson_r"]
    assert columns.metric.is_monotonic_increasing
    for _, part in columns.groupby("metric"):
        families = list(part.column_family)
        assert len(set(families)) == sum(a != b for a, b in zip(families, ["", *families[:-1]], strict=True))
    _, frame, gains = plan_of(18, order="median")
    medians = gains.groupby("intermediate").points.median()[frame.drop_duplicates("intermediate").intermediate]
    assert medians.is_monotonic_decreasing
    assert not (frame.row_family != "").any()


def test_a_study_without_an_interval_or_a_gain_is_drawn():
    manifest = made_up_manifest(3)
    gains = made_up_gains(manifest, np.random.default_rng(4))
    unknown = gains.assign(low=np.nan, high=np.nan, p=np.nan, p_bh=np.nan, significant=False)
    plan = map_plan(map_frame(unknown, manifest, setting="full"), "no intervals")
    check_legible(plan)
    assert plan.layers["squares"] == [] and len([m for m in plan.layers["ground"] if type(m).__name__ == "Dot"]) == 6
    nothing = gains.assign(n_seeds=0, points=np.nan, low=np.nan, high=np.nan, significant=False)
    check_legible(map_plan(map_frame(nothing, manifest, setting="full"), "nothing"))


def test_the_page_gets_every_mark_of_the_plan():
    plan, _, _ = plan_of(6)
    plain = plain_plan(plan)
    above = plan._replace(layers={name: layer for name, layer in plan.layers.items() if name != "legend"})
    assert sum(map(len, plain["layers"].values())) == len(above.marks())
    texts = [fields[3] for layer in plain["layers"].values() for fields in layer if fields[0] == "s"]
    assert texts == [label.text for label in above.labels()]
    assert plain["height"] == plan.foot >= max(outline(label)[:, 1].max() for label in above.labels())
    keys = [mark for _, marks, _ in plain["legend"] for mark in marks]
    words = sum(len(wrapped(text, WORDS, plan.width - 60)) for _, _, text in plain["legend"])
    assert len(keys) + words == len(plan.layers["legend"]), "a mark of a key, or a line of words"
    used = {fields[5] for marks in (*plain["layers"].values(), keys) for fields in marks if fields[0] == "b"}
    fills = {mark.fill for mark in plan.marks() if type(mark).__name__ == "Box"}
    assert {plain["colours"][place] for place in used} == fills
    assert "6 intermediates by 6 targets" in plain["alt"] and "Largest" in plain["alt"]


# A target that has not learned alone: no figure gives its gains a mark of significance, and each says so.

HOPE, ROLE = FakeTask("hope", rows=300, groups=60), FakeTask("role", rows=300, groups=60)


def results_of(root, last):
    """Two tasks that help each other; the baselines of those in ``last`` are best at the last of their epochs."""
    history = [{"epoch": epoch} for epoch in (1, 2, 3, 4)]
    study = fake_study(
        root / "store",
        (HOPE, ROLE),
        systems=LEARNED_WORDS,
        study=RESPONSE,
        history=history,
        helpful=[("role", "hope"), ("hope", "role")],
        best_epoch={((None, target), 1): 4 for target in last},
    )
    return study, StudyResults.of(*study)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("one"), ["hope"])


def test_no_figure_marks_a_gain_that_may_not_be_claimed_and_each_says_so_in_the_title_of_the_target(study):
    (_, manifest), results = study
    assert dict(zip(results.learned.target, results.learned.has_learned, strict=True)) == {"hope": False, "role": True}
    assert results.gains.significant.all()
    frame = map_frame(results.gains, manifest, setting="full")
    shown = frame[frame.intermediate != frame.target].set_index("target")
    assert dict(shown.is_significant) == {"hope": False, "role": True}
    assert dict(shown.column) == {"hope": "(Title of hope)", "role": "Title of role"}
    assert BRACKETS in {label.text for label in map_plan(frame, "a title").labels()}
    frame = heatmap_squares(results.gains, results.baselines, manifest, metric="macro_f1", setting="full")
    assert {"Title of hope (not learned)", "Title of role"} == set(frame.column)
    figure = heatmap(frame, title="a title", metric="macro_f1", limit=5.0)
    assert sum("*" in text.get_text() for text in figure.axes[0].texts) == 1
    frame = forest_frame(results, "full")
    assert set(frame.panel) == {"Title of hope (not learned)", "Title of role"}
    assert set(frame[frame.is_significant].target) == {"role"}


@pytest.mark.parametrize("doubt", ["collapsed", "contaminated"])
def test_a_pair_in_doubt_has_no_frame_on_the_map(tmp_path, doubt):
    (_, manifest), results = results_of(tmp_path, [])
    gains = results.gains.assign(**{doubt: (results.gains.target == "hope").astype("boolean")})
    frame = map_frame(gains, manifest, setting="full")
    shown = frame[frame.intermediate != frame.target].set_index("target")
    assert dict(shown.is_significant) == {"hope": False, "role": True}
    assert dict(shown[f"is_{doubt}"]) == {"hope": True, "role": False}
