"""What the columns of a file suggest for its entry, and what a person's word changes."""

import tomllib

import pytest

from tasks.errors import BadRow
from tasks.proposal import entry_text, path_in_entry, proposal, read_file, remarks, task_id
from tasks.readers import read_task
from tasks.readers.labels import names_in_list
from tasks.registry import tasks_of


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


def many(*labels, header="text;label", then=()):
    """So many rows that the first 2,000 have these labels, in turn, and the last ones those of ``then``."""
    cells = [labels[i % len(labels)] for i in range(2100)] + list(then) * 40
    return table(header, *(f"{TEXTS[i % 12]} again {i};{cell}" for i, cell in enumerate(cells)))


def dialogues(header, cells, count=30):
    """Dialogues of three turns: ``cells`` makes a row of dialogue, turn and row number."""
    return table(header, *(cells(d, t, 3 * d + t) for d in range(count) for t in range(3)))


def dated(d, t, _):
    return f"d{d},03/03/2024,{'ab'[t % 2]},{WORDS[t]},{MOVES[t % 2]}"


def lined(d, t, n):
    return f"{n},d{d},{t},{WORDS[t]} of {n},{MOVES[t % 2]}"


def helped(d, t, _):
    return f"d{d},{t},helper{d},{WORDS[t]},{MOVES[d % 2]}" if t else f"d{d},{t},client,{WORDS[t]},"


MOVES, WORDS = ("ask", "tell"), [text.replace(",", "") for text in TEXTS]
READ = [  # what a file holds, how many rows are read, what has to be proposed, and what a person has to be told
    (many("ask", "tell", "warm", then=["n/a"]), 2140, {"kind": "multiclass"}, "'n/a' is 2 % of the labels"),
    (many("joy", "anger", "fear", then=["joy,anger"]), 2140, {"kind": "multilabel", "separator": ","}, "parted at ','"),
    (many("neg", then=["pos"]), 2140, {"kind": "binary"}, ""),
    (many("0", "2", "4,11"), 2100, {"kind": "continuous", "decimal": ","}, "'4,11' as 4.11: if it parts thousands"),
    (many("3_4", "0_1", "2_2"), 2100, {"kind": "multiclass"}, ""),
    (many("1", "2", "3", "NA"), 1575, {"kind": "ordinal", "drop_labels": ["NA"]}, "'NA' is 25 % of the labels"),
    (many("1,5", "2,0", "3,5", "NA"), 1575, {"kind": "continuous", "decimal": ",", "drop_labels": ["NA"]}, ""),
    (many("['joy', 'fear']", "['joy']", "['calm']", "NA"), 1575, {"kind": "multilabel", "separator": "[]"}, "left out"),
    (many("['joy' 'fear']", "['joy']", "['calm']"), 2100, {"kind": "multilabel", "separator": "[]"}, ""),
    (many("joy,fear", "joy", "fear", ""), 2100, {"kind": "multilabel", "drop_labels": None}, "25 % of the rows have"),
    (many("0", "1", then=["0.0", "1.0"]), 2180, {"kind": "binary", "relabel": {"0.0": "0", "1.0": "1"}}, ""),
    (many("1", "2", "3", "2.0"), 2100, {"kind": "ordinal", "relabel": {"2.0": "2"}}, ""),
    (many(*map(str, range(20))), 2100, {"kind": "continuous"}, "whole numbers 0 to 19 without a gap"),
    (dialogues("dialogue_id,timestamp,speaker,text,label", dated), 90, {"reader": "turns", "turn": None}, "timestamp"),
    (dialogues("line,dialogue_id,turn,text,label", lined), 90, {"reader": "turns", "turn": "turn"}, ""),
    (dialogues("dialogue_id,turn,speaker,text,label", helped), 60, {"only": None, "drop_labels": [""]}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("content", "count", "expected", "remark"), READ)
def test_labels_and_turns_are_read_as_the_whole_file_has_them_or_a_person_is_told(
    tmp_path, content, count, expected, remark
):
    (tmp_path / "f.csv").write_text(content)
    file = read_file(tmp_path / "f.csv")
    fields = proposal(file, {"id": "form", "files": ["f.csv"]})
    assert {name: fields.get(name) for name in expected} == expected
    assert remark in "\n".join(remarks(file, fields))
    (tmp_path / "form.toml").write_text(entry_text(fields))
    (task,) = tasks_of(tmp_path / "form.toml")
    assert len(read_task(task, tmp_path).rows) == count


def test_columns_of_annotators_are_combined_and_their_gaps_are_no_class(tmp_path):
    names = ["annotator_1", "annotator_2", "annotator_3"]
    rows = [f"{WORDS[i]},{i % 2},{'NA' if i == 4 else 1},0" for i in range(12)]
    fields = propose(tmp_path / "f.csv", table("text," + ",".join(names), *rows), label=names)
    assert {name: fields[name] for name in ("kind", "combine", "drop_labels")} == {
        "kind": "binary", "combine": "majority", "drop_labels": ["NA"],
    }  # fmt: skip
    rated = table("text,a1,a2", *(f"{WORDS[i]},{1 + i % 5},{'NA' if i == 4 else 3}" for i in range(12)))
    assert propose(tmp_path / "g.csv", rated, label=["a1", "a2"])["combine"] == "mean"


def test_a_file_beside_its_entry_is_not_mistaken_for_one_of_the_data_folder(tmp_path):
    mine, data = tmp_path / "mine", tmp_path / "data"
    for folder in (mine, data):
        folder.mkdir()
    (mine / "train.csv").write_text(labelled("warm", "cold"))
    assert path_in_entry(mine / "train.csv", mine, data) == "train.csv"
    (data / "train.csv").write_text(labelled("up", "down"))
    name = path_in_entry(mine / "train.csv", mine, data)
    (mine / "t.toml").write_text(
        entry_text({"id": "t", "files": [name], "text": "reply", "label": "kind", "kind": "binary"})
    )
    (task,) = tasks_of(mine / "t.toml")
    assert read_task(task, data).task.label.classes == ("cold", "warm")


def test_open_quotes_and_guessed_encodings_are_told(tmp_path):
    lines = ['"she said\twarm', "calm words\tcold", 'and so on"\twarm', *(f"{text}\tcold" for text in TEXTS)]
    (tmp_path / "f.tsv").write_text(table("text\tlabel", *lines))
    file = read_file(tmp_path / "f.tsv")
    told = "\n".join(remarks(file, proposal(file, {"text": "text", "label": "label"})))
    assert "1 cell of several lines that would be rows by themselves" in told and "cp1252" not in told
    (tmp_path / "g.csv").write_bytes(labelled("да", "нет").encode("cp1251"))
    file = read_file(tmp_path / "g.csv")
    assert "read as cp1252 (Western European), which is a guess" in "\n".join(remarks(file, proposal(file, {})))


def test_a_first_line_that_is_a_row_is_told_and_ids_are_no_texts(tmp_path):
    rows = [f"p{i},{WORDS[i]},{MOVES[i % 2]}" for i in range(12)]
    fields = propose(tmp_path / "f.csv", table("post,comment,label", *rows))
    assert fields["text"] == "comment"
    for header in ("p99,words,ask", "post,so many words that they are a text of their own,label"):
        (tmp_path / "g.csv").write_text(table(header, *rows))
        file = read_file(tmp_path / "g.csv")
        assert "the first line looks like a row" in "\n".join(remarks(file, proposal(file, {})))


def test_names_that_numpy_prints_side_by_side_are_names_of_their_own():
    assert names_in_list("['anger' 'joy']") == names_in_list("['anger', 'joy']") == ("anger", "joy")
    assert names_in_list("['it\\'s' \"b\"\n 'c d']") == ("it's", "b", "c d")
    assert names_in_list("['a', ' ']") == ("a", " ")
