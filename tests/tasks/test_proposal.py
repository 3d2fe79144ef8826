"""What the columns of a file suggest for its entry, and what a person's word changes."""

import tomllib

import pytest

from tasks.errors import BadRow
from tasks.proposal import entry_text, proposal, read_file, task_id


def propose(path, content, **given):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return proposal(read_file(path), given)


def table(header, *rows):
    return "\n".join([header, *rows]) + "\n"


TEXTS = [f"a reply of several words, number {i}" for i in range(12)]


def labelled(*labels, header="reply,kind"):
    return table(header, *(f'"{TEXTS[i]}",{labels[i % len(labels)]}' for i in range(12)))


KINDS = [
    (labelled("0", "1"), "binary"),
    (labelled("0", "1", "2"), "ordinal"),
    (labelled("3", "17", "40"), "multiclass"),
    (labelled("3", "17", "40", header="reply,level"), "ordinal"),
    (labelled(*(str(i * 7) for i in range(12))), "continuous"),
]


@pytest.mark.parametrize(("content", "kind"), KINDS)
def test_numbers_suggest_a_kind_by_how_many_they_are_and_what_they_are_called(tmp_path, content, kind):
    fields = propose(tmp_path / "f.csv", content)
    assert (fields["text"], fields["kind"]) == ("reply", kind)


def test_parts_are_told_by_name_and_by_what_they_hold(tmp_path):
    rows = [f'{i},{i // 3},"{TEXTS[i]}?","{TEXTS[i]}",{i % 2}' for i in range(12)]
    fields = propose(tmp_path / "f.csv", table("id,dialog_id,prompt,response,rating", *rows))
    columns = {"label": "rating", "text": "response", "context": "prompt", "group": "dialog_id", "row_id": "id"}
    assert fields == columns | {"kind": "binary"}


def test_columns_with_unusual_names_are_told_by_what_they_hold(tmp_path):
    fields = propose(tmp_path / "f.csv", labelled("a", "b", "c", header="wording,verdict"))
    assert (fields["text"], fields["label"], fields["kind"]) == ("wording", "verdict", "multiclass")


def test_a_column_whose_ids_repeat_is_no_id_and_one_whose_values_differ_no_group(tmp_path):
    rows = [f'{i % 3},{i},"{TEXTS[i]}",{i % 2}' for i in range(12)]
    fields = propose(tmp_path / "f.csv", table("id,user,text,label", *rows))
    assert "row_id" not in fields
    assert "group" not in fields


def test_what_is_given_wins(tmp_path):
    content = labelled("1", "2", "3")
    assert propose(tmp_path / "f.csv", content, kind="continuous")["kind"] == "continuous"
    assert propose(tmp_path / "f.csv", content, text="kind", label="reply")["label"] == "reply"
    for given, reason in (({"text": "replies"}, "did you mean 'reply'"), ({"group": "author"}, "author")):
        with pytest.raises(BadRow, match=reason):
            propose(tmp_path / "f.csv", content, **given)


def test_nothing_is_guessed_when_nothing_may_be(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(labelled("yes", "no"), encoding="utf-8")
    assert proposal(read_file(path), {"text": "reply"}, guessed=()) == {"text": "reply"}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("这是一个很好的回答", "zh"),
        ("これはとても良い答えです", "ja"),
        ("答えコレ良い", "ja"),
        ("это хороший ответ", "ru"),
        ("a réponse", None),
    ],
)
def test_a_script_that_few_languages_share_suggests_the_language(tmp_path, text, language):
    fields = propose(tmp_path / "f.csv", table("text,label", *(f"{text}{i},{i % 2}" for i in range(6))))
    assert fields.get("language") == language


@pytest.mark.parametrize(("content", "reason"), [(labelled("a"), "1 distinct labels"), ("reply,kind\n", "no rows")])
def test_a_label_that_never_changes_and_a_file_without_rows_are_refused(tmp_path, content, reason):
    with pytest.raises(BadRow, match=reason):
        propose(tmp_path / "f.csv", content)


def test_an_entry_reads_back_whatever_its_names_are(tmp_path):
    fields = {"files": ['a "b"\\c.csv'], "id": "x", "text": "r\u00e9ply\t1 \N{GRINNING FACE}", "label": ["a'b", "c"]}
    text = entry_text(fields)
    assert tomllib.loads(text) == fields
    assert text.startswith('id = "x"\nfiles =')


def test_an_id_is_made_of_the_files_name():
    assert task_id("My Replies (v2)") == "my_replies_v2"


def test_a_file_of_labels_alone_has_no_text(tmp_path):
    fields = propose(tmp_path / "f.csv", table("kind", *("ab"[i % 2] for i in range(12))), label="kind")
    assert fields == {"label": "kind", "kind": "binary"}


def test_a_column_that_names_one_set_only_splits_nothing(tmp_path):
    for sets, expected in ((["train"], None), (["train", "test"], "split")):
        rows = [f'"{TEXTS[i]}",{i % 2},{sets[i % len(sets)]}' for i in range(12)]
        assert propose(tmp_path / "f.csv", table("text,label,split", *rows)).get("split_column") == expected
