"""The paper's own numbers as finished results, and our rows beside them."""

import numpy as np
import pytest

from analysis.results.published import COLUMNS, PublishedTask, audit, missing, published_task, table
from analysis.results.results import GAINS, RATINGS, TASKS, Results
from tasks.registry import Registry
from tests.support.studies.fake_study import FakeTask, fake_study

TIE = 1e-9


def test_all_of_it_is_there(published):
    scores = table("tables7_8_scores")
    is_r = scores.target.isin(published.tasks.task[published.tasks.metric == "pearson_r"])
    assert (len(published.tasks), published.tasks.dataset.nunique(), published.tasks.family.nunique()) == (18, 9, 6)
    assert (len(scores), int((scores.intermediate == scores.target).sum()), len(published.gains)) == (324, 18, 306)
    assert scores.score[~is_r].sum() == pytest.approx(146.46, abs=TIE)
    assert scores.score[is_r].sum() == pytest.approx(74.50, abs=TIE)


def test_ratings_are_those_of_table_2(published):
    columns = published.ratings.pivot_table(index="task", columns=["construct", "rater"], values="value")
    assert published.ratings.value.sum() == 347
    sums = columns.sum()[[(one, rater) for one in ("definition", "link", "conduciveness") for rater in "AB"]]
    assert sums.tolist() == [58, 64, 58, 50, 52, 65]


def test_sizes_add_up_to_those_of_table_1():
    sizes = table("table1_dataset_sizes")
    assert [sizes[one].sum() for one in ("samples", "vocab_size", "total_tokens")] == [184_939, 134_926, 17_325_710]


def test_every_printed_spelling_names_one_of_the_tasks(published):
    names = table("task_names")
    by_name = dict(zip(names.printed, names.task, strict=True))
    assert set(names.task) == set(published.tasks.task)
    assert names.printed.is_unique
    assert [by_name[one] for one in ("QAct. Manual", "News Dis", "EmpDial EI.")] == [
        "empdial_qact",
        "news_distress",
        "empdial_ei",
    ]


def test_a_baseline_is_the_diagonal(published):
    scores = table("tables7_8_scores").set_index(["intermediate", "target"]).score
    for one in published.gains.itertuples():
        assert one.baseline == scores[one.target, one.target]
        assert one.gain == pytest.approx(one.score - one.baseline)
    assert not (published.gains.intermediate == published.gains.target).any()


def test_percent_changes_are_those_of_the_paper(published):
    percent, gain = published.gains.percent, published.gains.gain
    assert (percent.mean(), percent.std()) == pytest.approx((-3.58, 9.09), abs=0.01)
    assert (percent.min(), percent.max()) == pytest.approx((-89.74, 19.72), abs=0.01)
    assert [(gain > TIE).sum(), (gain.abs() <= TIE).sum(), (gain < -TIE).sum()] == [41, 42, 223]


def test_few_cells_hold_most_of_the_spread(published):
    squares = ((published.gains.percent - published.gains.percent.mean()) ** 2).sort_values(ascending=False)
    shares = squares.cumsum() / squares.sum()
    assert (shares.iloc[0], shares.iloc[4]) == pytest.approx((0.295, 0.565), abs=5e-4)


def test_shares_of_labels_and_splits_add_up():
    labels = table("tables10_12_label_distributions")
    parts = ["train_pct", "val_pct", "test_pct"]
    assert labels.groupby("task_id")[["all_pct", *parts]].sum().stack().between(99.8 - TIE, 100.1 + TIE).all()
    splits = table("tables9_12_splits").set_index("task_id")
    assert splits[parts].sum(axis=1).between(99.8 - TIE, 100.1 + TIE).all()
    weights = splits.loc[labels.task_id, parts].to_numpy()
    weighted = (labels[parts].to_numpy() * weights).sum(axis=1) / weights.sum(axis=1)
    assert np.abs(weighted - labels.all_pct).max() <= 0.08 + TIE


def test_the_tasks_are_those_of_the_registry(published):
    for one in published.tasks.itertuples():
        task = Registry.load().task(one.task)
        assert (one.family, one.dataset, one.metric) == (task.dataset.family, task.dataset.id, task.metric)
        assert (one.theme, one.data_source, one.setting) == (task.theme, task.dataset.data_source, task.dataset.setting)


def test_the_two_failed_trainings_and_the_leaking_targets_are_marked(published):
    frame = published.gains
    assert sorted(frame.score[frame.collapsed]) == [0.04, 0.4]
    assert set(frame.target[frame.contaminated.fillna(False)]) == {"news_distress", "news_emotion", "news_empathy"}


def test_a_stored_study_gives_results_of_the_same_form(tmp_path, published):
    tasks = [FakeTask("epitome_er"), FakeTask("one"), FakeTask("two", kind="continuous")]
    store, manifest = fake_study(tmp_path, tasks, absent=[("one", "two")], settings=("full", "half"))
    found = Results.of(store, manifest, setting="half", draws=200)
    for name, declared in (("gains", GAINS), ("tasks", TASKS), ("ratings", RATINGS)):
        ours, theirs = getattr(found, name), getattr(published, name)
        assert list(ours) == list(theirs) == list(declared)
        assert ours.dtypes.equals(theirs.dtypes)
    assert len(found.gains) == 6
    assert found.gains.score.isna().sum() == 1
    assert found.gains.dropna(subset=["score"]).standard_error.gt(0).all()
    assert found.tasks.n_labels.tolist() == [3, 3, 1]
    assert set(found.ratings.task) == {"epitome_er"}
    assert found.title("one") == "Title of one"


# The audit calls rows exact, close or different; the printed tables are whole and speak of our classes.

REGISTRY = Registry.load()
PAPER = [
    *("condolence", "conv_emoint", "conv_emopol", "conv_empathy", "empathy_hope", "empdial_ei", "empdial_emo"),
    *("empdial_qact", "empdial_qint", "empdial_role", "epitome_er", "epitome_ex", "epitome_ip", "mi_adherent"),
    *("mi_behavior", "news_distress", "news_emotion", "news_empathy"),
]
SHARES = {"yes": 60.0, "no": 40.0}
NUMBERS = {"min": 1.0, "median": 2.0, "max": 5.0, "mean": 2.4, "std": 1.52}


def printed(labels, rows=100, is_number=False):
    return PublishedTask("toy", rows, dict.fromkeys(COLUMNS, labels), is_number, "a known reason", (80.0, 10.0, 10.0))


def answers(yes, of):
    return ["yes"] * yes + ["no"] * (of - yes)


@pytest.mark.parametrize(
    ("yes", "of", "verdict"),
    [(60, 100, "exact"), (600, 1000, "shares exact"), (63, 100, "close"), (64, 100, "differs")],
)
def test_shares_decide(yes, of, verdict):
    found = audit(printed(SHARES), {"all": answers(yes, of)})
    assert found.verdict == verdict and found.rows == of
    assert (found.note == "") is (verdict == "exact")


def test_a_known_split_counts_too_and_the_furthest_number_is_named():
    found = audit(printed(SHARES), {"all": answers(60, 100), "test": answers(13, 20)})
    assert found.verdict == "differs" and found.columns == ("all", "test")
    assert found.furthest == "test yes: 65.0, printed 60.0"


def test_a_class_that_is_not_printed_is_no_share_of_print_and_one_that_is_missing_counts():
    assert audit(printed({"yes": 100.0}), {"all": answers(60, 100)}).verdict == "differs"
    assert audit(printed({**SHARES, "maybe": 3.0}), {"all": answers(60, 100)}).verdict == "close"


def test_statistics_decide_for_numbers():
    values = [1.0, 2.0, 2.0, 2.0, 5.0]
    assert audit(printed(NUMBERS, 5, True), {"all": values}).verdict == "exact"
    assert audit(printed(NUMBERS, 5, True), {"all": [*values[:4], 4.9]}).verdict == "close"
    assert audit(printed(NUMBERS, 5, True), {"all": [*values[:4], 4.0]}).verdict == "differs"


def test_missing_data_is_a_line_of_its_own():
    line = missing(printed(SHARES), "ask its authors")
    assert (line.verdict, line.rows, line.published_rows, line.note) == ("data missing", None, 100, "ask its authors")


def test_the_papers_eighteen_tasks_and_no_others_are_printed():
    found = [id for id, task in REGISTRY.tasks.items() if published_task(id, task.dataset.id)]
    assert found == PAPER


@pytest.mark.parametrize("name", PAPER)
def test_printed_numbers_are_whole_and_name_our_classes(name):
    task = REGISTRY.task(name)
    found = published_task(name, task.dataset.id)
    assert found is not None and found.rows > 1000
    assert sum(found.shares) == pytest.approx(100, abs=0.3)
    for labels in found.labels.values():
        if found.is_number:
            assert set(labels) == set(NUMBERS)
        else:
            assert set(labels) == set(task.label.classes)
            assert sum(labels.values()) == pytest.approx(100, abs=1.0)
