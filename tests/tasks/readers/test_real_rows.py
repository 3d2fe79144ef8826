"""The real files give the published rows, labels and scores; skipped where the raw data is not at hand."""

import csv
import os
import re
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tasks.errors import MissingData
from tasks.metrics import macro_f1, pearson_r
from tasks.rationales import placed, token_f1
from tasks.readers import read
from tasks.registry import Registry
from tasks.splits.loading import load

SHARED = Path(os.environ.get("EMPATHY_SHARED", Path(__file__).parents[4] / "shared"))
DATA, TABLES, PREDICTIONS = SHARED / "data", SHARED / "paper/tables", SHARED / "paper/baseline_predictions"
pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not DATA.is_dir(), reason="no raw data; set EMPATHY_SHARED to the folder that holds data/"),
]

REGISTRY = Registry.load()
COUNTS = {
    "epitome_er": 3_023,
    "epitome_ex": 3_023,
    "epitome_ip": 3_023,
    "news_empathy": 1_000,
    "news_distress": 1_000,
    "news_emotion": 1_000,
    "conv_empathy": 11_176,
    "conv_emoint": 11_176,
    "conv_emopol": 11_176,
    "empdial_ei": 53_414,
    "empdial_emo": 82_391,
    "empdial_role": 82_391,
}
# The question tasks are read from their test set; ESConv from its two flat files of 2,985 and 2,775 turns.
MORE = {
    "control_question": (5_554, 2_247),
    "control_reply": (3_582, 4_219),
    "empdial_qact": (759, 275, 202, 74, 114, 40, 13, 22, 1),
    "empdial_qint": (898, 304, 86, 43, 61, 19, 18, 16, 19, 12, 19, 5),
    "epitome_er_ordinal": (2_007, 866, 150),
    "epitome_ex_ordinal": (2_551, 103, 369),
    "epitome_ip_ordinal": (1_588, 114, 1_321),
    "esconv_affirmation": (4_856, 904),
    "esconv_disclosure": (5_184, 576),
    "esconv_information": (5_384, 376),
    "esconv_question": (4_611, 1_149),
    "esconv_reflection": (5_313, 447),
    "esconv_restatement": (5_394, 366),
    "esconv_strategy": (1_149, 366, 447, 576, 904, 926, 376),
    "esconv_suggestions": (4_834, 926),
    "iempathize": (2_995, 1_046, 966),
    "iempathize_provide": (2_995, 966),
    "iempathize_provide_all": (4_041, 966),
    "iempathize_seek": (2_995, 1_046),
    "iempathize_seek_all": (3_961, 1_046),
}
PLAIN = {
    "casino",
    "annomi",
    "reframing",
    "positive_frames",
    "tweeteval",
    "reccon",
    "unhealthy",
}  # see test_real_families
READ_PLAINLY = tuple(name for name, task in REGISTRY.tasks.items() if task.dataset.id in PLAIN)
ABSENT = sorted(set(REGISTRY.tasks) - set(COUNTS) - set(MORE) - set(READ_PLAINLY))
# The paper prints News' shares over nested sets of the 1,000 essays; its validation set is all of them.
WHOLE = {"news_empathy": "val", "news_distress": "val", "news_emotion": "val"}
# The paper's rows are some 7 % fewer than the files hold, so these 32 shares are only near.
POINTS = {"empdial_emo": 0.1}
SWAPPED = {"Speaker": "listener", "Listener": "speaker"}
SCORES = {
    "epitome_er": "0.82",
    "epitome_ex": "0.79",
    "empathy_hope": "0.92",
    "mi_adherent": "0.83",
    "empdial_emo": "0.39",
    "empdial_role": "0.95",
    "empdial_qact": "0.61",
    "empdial_qint": "0.39",
    "condolence": "0.43",
    "news_empathy": "0.92",
    "news_distress": "0.71",
    "conv_emoint": "0.75",  # printed as .74; the published predictions give .75
    "conv_emopol": "0.75",  # printed as .73; the published predictions give .75
}


@cache
def rows(name):
    return read(REGISTRY.task(name), DATA)


@cache
def splits(name):
    return load(REGISTRY.task(name), DATA)


def table(name):
    with (TABLES / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def everywhere(one):
    return {row.block: name for name in ("train", "validation", "test") for row in getattr(one, name)}


@pytest.mark.parametrize("name", COUNTS)
def test_the_published_number_of_rows_is_met(name):
    assert len(rows(name)) == COUNTS[name]


@pytest.mark.parametrize("name", MORE)
def test_the_rows_of_every_class_are_as_counted(name):
    counts = Counter(row.label for row in rows(name))
    assert tuple(counts[index] for index in range(REGISTRY.task(name).label.n_outputs)) == MORE[name]


def test_what_stands_in_for_a_missing_file_is_said():
    assert "empqt/derived/test_set.csv" in splits("empdial_qact").warnings[0]
    assert "testWithStrategy_short.tsv" in splits("esconv_strategy").warnings[0]
    assert not any("there" in warning for warning in splits("iempathize").warnings)


def test_published_ids_of_questions_are_those_of_our_rows():
    with (SHARED / "paper/splits/empqt_val_test.csv").open(encoding="utf-8") as file:
        turns = [(one["conv_id"], one["utterance_idx"], one["target_num"]) for one in csv.DictReader(file)]
    of_turns, published = {":".join(turn[:2]) for turn in turns}, {":".join(turn) for turn in turns}
    ours = [row.id for row in rows("empdial_qint") if row.id.rpartition(":")[0] in of_turns]
    assert len(ours) == 306 and set(ours) <= published


@pytest.mark.parametrize("name", [name for name in COUNTS if REGISTRY.task(name).label.kind != "continuous"])
def test_label_shares_equal_the_printed_ones(name):
    classes = REGISTRY.task(name).label.classes
    counts = Counter(classes[int(row.label)] for row in rows(name))
    printed = [one for one in table("tables10_12_label_distributions.csv") if one["task_id"] == name]
    assert len(printed) == len(classes)
    for one in printed:
        share = 100 * counts[SWAPPED.get(one["label"], one["label"])] / len(rows(name))
        assert share == pytest.approx(float(one[f"{WHOLE.get(name, 'all')}_pct"]), abs=POINTS.get(name, 0.05) + 1e-9)


@pytest.mark.parametrize("name", [name for name in COUNTS if REGISTRY.task(name).label.kind == "continuous"])
def test_label_statistics_equal_the_printed_ones(name):
    labels = np.array([row.label for row in rows(name)])
    found = {
        "min": labels.min(),
        "median": np.median(labels),
        "max": labels.max(),
        "mean": labels.mean(),
        "std": labels.std(ddof=1),
    }
    for one in table("table9_regression_stats.csv"):
        if one["task_id"] == name:
            assert found[one["statistic"]] == pytest.approx(float(one[WHOLE.get(name, "all")]), abs=0.0051)


@pytest.mark.parametrize("name", ABSENT)
def test_a_task_without_files_says_how_to_get_them(name):
    with pytest.raises(MissingData) as caught:
        load(REGISTRY.task(name), DATA)
    assert REGISTRY.task(name).dataset.access in str(caught.value)


@pytest.mark.parametrize("name", (*COUNTS, *MORE, *READ_PLAINLY))
def test_splits_are_near_80_10_10_with_each_row_in_one_at_most_and_have_every_class_of_the_paper(name):
    loaded = splits(name)
    parts = (loaded.train, loaded.validation, loaded.test)
    sizes, ids = np.array([len(part) for part in parts]), [row.id for part in parts for row in part]
    assert np.abs(sizes / sizes.sum() - [0.8, 0.1, 0.1]).max() < 0.016
    assert (0.994 if name in COUNTS else 0.98) * len(rows(name)) <= len(ids) == len(set(ids)) <= len(rows(name))
    if name in COUNTS:
        assert not [warning for warning in loaded.warnings if warning.startswith("no ")]


@pytest.mark.parametrize("family", ["wassa", "epitome", "empathetic_dialogues"])
def test_siblings_agree_on_the_split_of_every_block(family):
    agreed: dict[str, str] = {}
    for name in COUNTS:
        if REGISTRY.task(name).dataset.family == family:
            assert all(agreed.setdefault(block, split) == split for block, split in everywhere(splits(name)).items())
    assert set(agreed.values()) == {"train", "validation", "test"}


def test_news_and_conv_share_their_articles():
    assert {row.block for row in rows("news_empathy")} == {row.block for row in rows("conv_empathy")}


def test_every_conversation_alternates_and_starts_with_the_speaker():
    for row in rows("conv_empathy"):
        assert [turn.speaker for turn in row.context] == [
            ("speaker", "listener")[i % 2] for i in range(len(row.context))
        ]


@pytest.mark.parametrize("name", SCORES)
def test_the_metric_gives_the_published_score(name):
    with (PREDICTIONS / f"{name}.csv").open(encoding="utf-8") as file:
        pairs = [(float(one["actual"]), float(one["predicted"])) for one in csv.DictReader(file)]
    metric = pearson_r if REGISTRY.task(name).label.kind == "continuous" else macro_f1
    assert f"{metric(*zip(*pairs, strict=True)):.2f}" == SCORES[name]


def test_metadata_and_training_settings_equal_the_printed_ones():
    settings = {one["task_id"]: one for one in table("table4_hyperparameters.csv")}
    for one in table("tasks.csv"):
        task, printed = REGISTRY.task(one["task_id"]), settings[one["task_id"]]
        assert (task.title, task.theme) == (one["task_name"].rstrip("."), one["theme"])
        assert (task.dataset.id, task.dataset.data_source) == (one["dataset_id"], one["data_source"])
        assert task.dataset.setting == one["language_setting"]
        assert task.label.n_outputs in (int(one["num_labels"]), 2)
        trained = [float(task.training[field]) for field in ("epochs", "batch_size", "learning_rate")]
        assert trained == [float(printed[field]) for field in ("epoch", "batch_size", "learning_rate")]


@pytest.mark.parametrize(
    ("task", "spans", "verbatim", "aligned"),
    [("epitome_er", 1_209, 1_197, 1_198), ("epitome_ip", 1_591, 1_460, 1_575), ("epitome_ex", 517, 509, 516)],
)
def test_spans_of_epitome_find_their_place_in_the_response(task, spans, verbatim, aligned):
    rows = read(REGISTRY.task(task), DATA)
    assert sum(len(row.rationale) for row in rows) == spans
    assert sum(span.strip() in row.text for row in rows for span in row.rationale) == verbatim
    assert spans - sum(placed(row.text, row.rationale).unplaced for row in rows) == aligned


@pytest.mark.parametrize(
    ("task", "every", "no"), [("epitome_er", 0.850, 0.667), ("epitome_ip", 0.913, 0.533), ("epitome_ex", 0.939, 0.845)]
)
def test_constant_rationales_score_what_every_table_of_rationales_has_to_print(task, every, no):
    gold = []
    for row in read(REGISTRY.task(task), DATA):
        spans = placed(row.text, row.rationale).spans
        words = [word.span() for word in re.finditer(r"\S+", row.text)]
        gold.append(np.array([any(a < end and start < b for start, end in spans) for a, b in words], dtype=bool))
    assert token_f1(gold, [np.ones_like(marks) for marks in gold], "epitome") == pytest.approx(every, abs=5e-4)
    assert token_f1(gold, [np.zeros_like(marks) for marks in gold], "micromodels") == pytest.approx(no, abs=5e-4)


def test_conversations_of_esconv_are_put_together_from_lines_of_five_turns_but_for_sixteen():
    questions, (_, note) = rows("esconv_question"), splits("esconv_question").warnings[:2]
    assert (len(questions), len({row.group for row in questions})) == (5_760, 421)
    assert note.startswith("16 of 421 conversations cannot be rebuilt whole from their overlapping lines: 28 turns")
    assert "0 read differently" in note
    interrupted = Counter[str]()
    for row, following in pairwise(questions):
        if row.group == following.group:
            texts = [turn.text for turn in row.after]
            number = int(following.id.rpartition(":")[2]) - int(row.id.rpartition(":")[2])
            is_whole = len(texts) >= number and texts[number - 1] == following.text
            assert is_whole or len(texts) < number
            interrupted[row.group] += not is_whole
    assert sum(count > 0 for count in interrupted.values()) == 15  # one more lacks only its first turn


@pytest.mark.parametrize(("name", "last"), [("conv_empathy", 487), ("empdial_emo", 24_853), ("control_reply", 1_000)])
def test_nothing_follows_the_last_turn_of_a_conversation_and_no_other(name, last):
    assert sum(not row.after for row in rows(name)) == last == len({row.group for row in rows(name)})
