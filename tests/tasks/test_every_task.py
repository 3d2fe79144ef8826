"""Every built-in entry is complete, keeps its identity and reads its own format; the paper's tasks are rated."""

import hashlib
import json
import re
from collections import Counter

import pytest

from tasks.errors import BadRow
from tasks.ratings import arguments, constructs, ratings, themes
from tasks.registry import Registry
from tasks.splits.loading import load
from tasks.task import METRICS, classes_of
from tests.support.entry_files import write_all
from tests.support.task_files import refusal, written

REGISTRY = Registry.load()
TASKS = list(REGISTRY.tasks.values())
PAPER = {
    "condolence": "condolence",
    "conv": "conv_emoint conv_emopol conv_empathy",
    "empathy_hope": "empathy_hope",
    "empdial": "empdial_emo empdial_role",
    "empdial_ei": "empdial_ei",
    "empqt": "empdial_qact empdial_qint",
    "epitome": "epitome_er epitome_ex epitome_ip",
    "mi": "mi_adherent mi_behavior",
    "news": "news_distress news_emotion news_empathy",
}
EIGHTEEN = {name for names in PAPER.values() for name in names.split()}
ROWS = 400
# What of an entry decides rows and scores, as the first 12 digits of its sha256. A digit changes only when results do.
GOLDEN: dict[str, str] = {
    "annomi_behaviour": "c9bbf32c2003",
    "annomi_talk": "0cbf2b6cdc97",
    "casino_empathy": "f1c0adbc7ddf",
    "casino_strategy": "ce406d8e8357",
    "condolence": "27fc1e0ab151",
    "condolence_rounded": "8b7b0158c949",
    "control_question": "1ce6bb602393",
    "control_reply": "fec45667db99",
    "conv_emoint": "1adaeaf0bf6f",
    "conv_emopol": "f945afb71b45",
    "conv_empathy": "80380e970fcb",
    "dialogue_cause": "b99563bc3b0e",
    "dialogue_emotion": "4507d1e814df",
    "empathy_hope": "3e55f5525222",
    "empdial_ei": "6d4eb84f2dc5",
    "empdial_emo": "2a1b7017fe51",
    "empdial_qact": "6822a90e9a76",
    "empdial_qact_human": "ad4310f439f7",
    "empdial_qint": "88bb5dcf2faa",
    "empdial_qint_human": "ce17652c3f38",
    "empdial_role": "966fed566bde",
    "epitome_er": "6928745e4433",
    "epitome_er_ordinal": "a39b0bb8161d",
    "epitome_ex": "6b7a00b12ba9",
    "epitome_ex_ordinal": "bc1102fcacb2",
    "epitome_ip": "ecb3d81e3edb",
    "epitome_ip_ordinal": "f59b44be890b",
    "esconv_affirmation": "03f0bbe2150f",
    "esconv_disclosure": "e67b74327271",
    "esconv_information": "eebc701f899e",
    "esconv_question": "6308045ac088",
    "esconv_reflection": "d1ab18ffdaaf",
    "esconv_restatement": "f4b60a590c24",
    "esconv_strategy": "ec3e43afa283",
    "esconv_suggestions": "342d902d7397",
    "iempathize": "0c184188fbea",
    "iempathize_provide": "0b9e5d2f7e30",
    "iempathize_provide_all": "e49e431e2968",
    "iempathize_seek": "dcd307a6c8e3",
    "iempathize_seek_all": "2eed6d420246",
    "mi_adherent": "4f8c98310b43",
    "mi_behavior": "483266816e7c",
    "news_distress": "f1b42b0971ae",
    "news_emotion": "f2404efbc455",
    "news_empathy": "83f8388b5ae2",
    "positive_strategy": "dd0fcfeffdf3",
    "reframing_trap": "50466a53a06e",
    "tweet_emotion": "0d86fe946081",
    "tweet_hate": "86baef555e98",
    "tweet_irony": "6e74737b9f73",
    "tweet_offensive": "0e3d9eb1b853",
    "twittemp": "0b508dbd3401",
    "unhealthy_condescending": "38c2714a7b09",
    "unhealthy_sarcastic": "bfff161d6753",
}
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic")
    write_all(folder, TASKS, ROWS, seed=1)
    return folder


def identity(task):
    columns = sorted(item for item in task.columns.items() if item[0] != "annotators")  # which decide neither
    label = (task.label.column, task.label.kind, task.label.classes, task.label.minimum, task.label.maximum)
    parts = (task.id, task.dataset.family, task.files, task.reader, columns, label)
    text = json.dumps((*parts, task.metric, task.history, task.tags), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def test_the_identity_of_every_task_is_stable_and_none_is_gone():
    assert {task.id: identity(task) for task in TASKS} == GOLDEN


def test_the_eighteen_tasks_of_the_nine_datasets_are_there():
    assert {name: REGISTRY.task(name).dataset.id for name in EIGHTEEN} == {
        name: dataset for dataset, names in PAPER.items() for name in names.split()
    }
    assert len(EIGHTEEN) == 18


@every_task
def test_a_synthetic_file_loads_through_the_real_reader_with_every_class(task, synthetic):
    splits = load(task, synthetic)
    rows = (*splits.train, *splits.validation, *splits.test)
    assert len(rows) >= ROWS // 3 and splits.train and splits.validation and splits.test
    assert len({row.id for row in rows}) == len(rows)
    if task.label.classes:
        seen = {index for row in splits.train for index in classes_of(row.label)}
        assert seen == set(range(len(task.label.classes)))
    else:
        assert all(task.label.minimum <= row.label <= task.label.maximum for row in rows)
    assert any(row.context for row in rows) == (task.history != "none")
    assert {turn.speaker for row in rows for turn in row.context} <= {"speaker", "listener", "prompt"}


@every_task
def test_metadata_is_complete_with_a_citation_in_bibtex_and_the_metric_of_the_label(task):
    dataset = task.dataset
    for value in (task.title, task.description, dataset.title, dataset.licence, dataset.access, dataset.version):
        assert value.strip()
    assert task.title != task.id and task.description.endswith(".")
    assert [one.id for one in TASKS if one.title == task.title] == [task.id]
    assert dataset.url.startswith("https://") and dataset.language == "en"
    sources = {"reddit", "twitter", "crowdsourced", "forum", "transcripts", "textbooks", "news comments"}
    assert dataset.data_source in sources
    assert dataset.setting in {"conversation", "social_media", "essay"}
    assert task.metric == METRICS[task.label.kind]
    assert task.label.is_complete
    assert (task.label.kind == "continuous") == (task.label.minimum is not None and task.label.maximum is not None)
    citation = dataset.citation
    assert re.match(r"\s*@(inproceedings|article|misc)\{[\w-]+,", citation)
    assert citation.count("{") == citation.count("}")
    for entry in re.split(r"(?m)^@", citation)[1:]:
        assert all(re.search(rf"\b{field} = \{{.+\}}", entry) for field in ("title", "author", "year"))


def test_only_the_eighteen_have_the_papers_ratings_all_of_them_and_themes():
    rated = {(rating.task, rating.construct, rating.rater) for rating in ratings()}
    assert rated == {(task, construct, rater) for task in EIGHTEEN for construct in constructs() for rater in "AB"}
    argued = {task.id: task.theme for task in TASKS if task.theme in themes() and task.id not in EIGHTEEN}
    assert {name: why.partition(":")[0] for name, why in arguments().items()} == argued


@pytest.mark.parametrize("name", sorted(EIGHTEEN))
def test_training_holds_what_the_paper_prints(name):
    training = REGISTRY.task(name).training
    assert set(training) == {"epochs", "batch_size", "learning_rate"}
    assert 6 <= training["epochs"] <= 11 and 10 <= training["batch_size"] <= 54
    assert 2e-4 < training["learning_rate"] < 1e-3


def test_the_adherent_behaviours_are_nine_and_five():
    relabel = REGISTRY.task("mi_adherent").columns["relabel"]
    assert set(relabel) == set(REGISTRY.task("mi_behavior").label.classes)
    assert Counter(relabel.values()) == {"Adherent": 9, "Non-adherent": 5}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("my_task,links,C,3", "'link'"),
        ("my_task,link,C,6", "1 to 5"),
        ("my_task,link,C,many", "not a number"),
        ("my_task,link,C,nan", "1 to 5"),
        ("condolence,link,A,2", "muddy-waters.csv"),
    ],
)
def test_a_rating_that_cannot_be_is_refused_with_its_line(tmp_path, row, reason):
    table = written(tmp_path, f"task,construct,rater,value\n{row}\n") / "my.csv"
    message = refusal(ratings, [table], error=BadRow)
    assert f"{table}:2" in message and reason in message
