"""Forms in which data come, a small made-up file each in ``forms``: the entry that is proposed, or what is asked.

A form that is added is one file and one line of FORMS: the fields that must be proposed (None: must not be), how many
rows the entry then reads, and what a person is told to look at; or, for ASKED, what the refusal names.
"""

from pathlib import Path

import pytest

from tasks.errors import BadInput
from tasks.proposal import entry_text, label_candidates, proposal, read_file, remarks
from tasks.readers import read_task
from tasks.registry import tasks_of

FOLDER = Path(__file__).parent / "forms"
REPLY = {"text": "reply", "label": "tone"}
TURNS = {"reader": "turns", "group": "conversation", "turn": "turn", "speaker": "speaker"}
FORMS = {
    "agreement.csv": ({"kind": "ordinal", "classes": ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"]}, 25, "steps of a scale"),
    "annotations_long.csv": ({"annotator": "annotator", "row_id": "item", "text": "text", "label": "rating", "kind": "ordinal"}, 12, ""),
    "batches_of_annotators.csv": ({"annotator": "rater", "row_id": "sentence_id", "text": "sentence", "label": "verdict"}, 12, ""),
    "backslashes.csv": (REPLY | {"escape": "\\", "kind": "binary"}, 24, "not grouped"),
    "capitals_in_a_scale.csv": ({"kind": "ordinal", "classes": ["low", "medium", "high"], "relabel": {"Medium": "medium"}}, 24, ""),
    "chinese.csv": ({"text": "text", "language": "zh", "kind": "binary"}, 24, ""),
    "codes.csv": ({"label": "code", "kind": "multiclass"}, 24, ""),
    "dashes.csv": ({"label": "code", "kind": "multiclass"}, 24, "'-' is 33 % of the labels"),
    "decimal_comma.csv": ({"label": "score", "kind": "continuous", "decimal": ",", "delimiter": ";"}, 24, ""),
    "do_not_know.csv": ({"label": "how_often", "kind": "multiclass", "classes": None}, 24, ""),
    "essays.csv": ({"group": "article_id", "row_id": "essay_id", "text": "essay", "label": "empathy", "kind": "continuous"}, 24, ""),
    "exchanges.csv": ({"group": "exchange_id", "label": "tone"}, 24, ""),
    "file_order.csv": ({"reader": "turns", "group": "dialogue_id", "speaker": "speaker", "turn": None, "label": "act"}, 24, ""),
    "frequency.csv": ({"kind": "ordinal", "classes": ["never", "rarely", "sometimes", "often", "always"]}, 25, ""),
    "from_zero.csv": ({"label": "Empathy", "kind": "ordinal", "classes": None}, 24, 'for a measurement write kind = "continuous"'),
    "gaps.csv": ({"label": "label", "kind": "binary", "drop_labels": [""]}, 16, ""),
    "list_of_names.csv": ({"label": "feelings", "kind": "multilabel", "separator": "[]"}, 24, ""),
    "listed.jsonl": ({"label": "feelings", "kind": "multilabel", "separator": "[]"}, 24, ""),
    "low_to_high.csv": ({"label": "intensity", "kind": "ordinal", "classes": ["low", "medium", "high"]}, 24, ""),
    "merged_cells.csv": ({"reader": None, "group": None}, 24, "turn and speaker may be of dialogues: give every row its"),
    "mixed_truth.jsonl": ({"label": "helpful"}, 24, "true or false and 1 or 0 stand in one column"),
    "nested.jsonl": ({"text": "post.body", "label": "kind.name", "row_id": "id"}, 24, ""),
    "not_available.csv": ({"label": "kind", "kind": "multiclass"}, 24, "'n/a' is 50 % of the labels"),
    "nul.csv": (REPLY | {"kind": "binary"}, 24, "NUL characters"),
    "percent.csv": ({"label": "warmth", "kind": "continuous"}, 24, ""),
    "pipes.csv": ({"label": "moods", "kind": "multilabel", "separator": "|"}, 24, ""),
    "post_and_reply.csv": ({"text": "response_post", "context": "seeker_post", "group": "sp_id", "label": "level", "kind": "ordinal"}, 24, ""),
    "semicolons.csv": (REPLY | {"delimiter": ";"}, 24, ""),
    "sep_line.csv": (REPLY | {"delimiter": None, "kind": "binary"}, 24, ""),
    "session_quality.csv": ({"group": "session_id", "label": "quality"}, 24, "every session_id has one quality alone"),
    "set_beside_label.csv": ({"label": "label", "split_column": "set"}, 24, ""),
    "stars.csv": ({"label": "stars", "kind": "ordinal"}, 25, ""),
    "tabs.csv": (REPLY | {"delimiter": "\t"}, 24, ""),
    "threads.jsonl": ({"reader": "turns", "group": "thread", "speaker": "author", "text": "body", "label": "sentiment"}, 24, ""),
    "times_of_messages.csv": ({"reader": "turns", "group": "chat", "turn": "sent_at", "speaker": "sender", "label": "act"}, 24, ""),
    "trailing_commas.csv": ({"text": "text", "label": "label", "kind": "binary"}, 24, ""),
    "transcript.csv": ({"reader": "turns", "group": "transcript_id", "turn": "utterance_id", "speaker": "interlocutor", "label": "behaviour", "only": ["helper"]}, 12, ""),
    "truth.csv": ({"label": "is_kind", "kind": "binary"}, 24, ""),
    "turn_in_id.csv": ({"reader": None, "group": None}, 24, "speaker may be of dialogues: give every row its dialogue in a column"),
    "turns.csv": (TURNS | {"text": "utterance", "label": "strategy", "only": ["helper"], "drop_labels": [""]}, 12, ""),
    "turns_as_decimals.csv": ({"reader": "turns", "group": "dialogue_id", "turn": "turn", "speaker": "speaker"}, 24, ""),
    "turns_by_annotators.csv": ({"reader": "turns", "group": "session_id", "turn": "turn_number", "speaker": "role", "annotator": "coder", "label": "code"}, 12, ""),
    "two_essays_of_a_pair.csv": ({"reader": None, "group": "conversation_id", "text": "essay", "label": "emotion"}, 24, "speaker_id"),
    "two_texts.csv": ({"text": "hypothesis", "label": "relation"}, 24, "texts that are not read: premise"),
    "unnamed_index.csv": ({"text": "text", "label": "label"}, 24, ""),
    "utf16.csv": (REPLY | {"encoding": "utf-16"}, 24, ""),
    "western.csv": (REPLY | {"encoding": "cp1252"}, 24, ""),
    "windows.csv": (REPLY | {"encoding": None, "kind": "binary"}, 24, ""),
    "writers_first.csv": ({"group": "story_id", "label": "mood"}, 24, "author_id"),
    "writers_and_articles.csv": ({"group": "article_id", "label": "distress", "kind": "continuous"}, 24, "writer_id"),
}  # fmt: skip
ASKED = {
    "annotators_wide.csv": "ann_1 (binary), ann_2 (binary), ann_3 (binary)",
    "chat_logs.json": "column 'chat_logs' holds lists of objects with text, by",
    "columns_of_zero_and_one.csv": "hostile (binary), dismissive (binary), healthy (binary)",
    "emotions_of_raters.csv": "admiration (binary), anger (binary), neutral (binary)",
    "list_in_list.json": "an item of the array is a list of 4 objects",
    "list_of_dialogues.json": "column 'dialog' holds lists of objects with who, said, act",
    "means_and_split.csv": "V (continuous), A (continuous), D (continuous)",
    "object_of_dialogues.json": "an object of 4 lists of objects",
    "one_object.json": "an object of 2 values",
    "ratings_without_text.csv": "V (continuous), A (continuous), D (continuous)",
}


def test_there_are_forty_forms_and_each_file_has_its_line():
    assert {path.name for path in FOLDER.iterdir()} == {*FORMS, *ASKED}
    assert len(FORMS) + len(ASKED) >= 40


@pytest.mark.parametrize("name", FORMS)
def test_the_entry_that_is_right_is_proposed_and_reads_the_file(name, tmp_path):
    expected, count, remark = FORMS[name]
    file = read_file(FOLDER / name)
    fields = proposal(file, {"id": "form", "files": [name]})
    assert {field: fields.get(field) for field in expected} == expected
    assert remark in "\n".join(remarks(file, fields))
    (tmp_path / "form.toml").write_text(entry_text(fields), encoding="utf-8")
    (task,) = tasks_of(tmp_path / "form.toml")
    assert len(read_task(task, FOLDER).rows) == count


@pytest.mark.parametrize("name", ASKED)
def test_what_cannot_be_guessed_is_asked_by_name(name):
    try:
        file = read_file(FOLDER / name)
        fields = proposal(file, {"id": "form", "files": [name]})
    except BadInput as refusal:
        assert ASKED[name] in str(refusal) and "\n" not in str(refusal)
        return
    assert "label" not in fields or "text" not in fields
    assert ASKED[name] in label_candidates(file)


def test_several_labels_of_several_annotators_are_named_as_not_combined():
    file = read_file(FOLDER / "emotions_of_raters.csv")
    fields = proposal(file, {"id": "form", "label": ["admiration", "anger", "neutral"]})
    assert fields["kind"] == "multilabel"
    assert "a text has a row of each rater_id, which several labels do not combine" in "\n".join(remarks(file, fields))
