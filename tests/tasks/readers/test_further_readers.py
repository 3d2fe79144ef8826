"""Readers for questions, interviews, emotional support, chats and labels joined with texts, on lines written here."""

import ast
import io
import json
import tokenize
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import BadEntry, MissingData
from tasks.readers import read, read_task
from tasks.readers.labels import value_of
from tasks.registry import Registry
from tasks.synthetic import write
from tasks.task import Turn
from tests.support.task_files import refusal, written

REGISTRY = Registry.load()
QACT, QINT = REGISTRY.task("empdial_qact"), REGISTRY.task("empdial_qint")
MI, ADHERENT = REGISTRY.task("mi_behavior"), REGISTRY.task("mi_adherent")
HOPE, STRATEGY, QUESTION = (REGISTRY.task(name) for name in ("empathy_hope", "esconv_strategy", "esconv_question"))
REPLY, ASKED = REGISTRY.task("control_reply"), REGISTRY.task("control_question")
TURNS = (
    "conv_id,utterance_idx,context,prompt,speaker_idx,utterance,set_id,utterance_split,question_count,"
    "labeled_question_idx,act_list,intent_list,act_source,intent_source\n"
)


def labels(task, data):
    return [task.label.classes[int(row.label)] for row in read(task, data)]


@pytest.fixture
def dialogue(tmp_path):
    rows = (
        "c1,1,sad,It rained_comma_ hard.,7,Oh_comma_ rain.,train,\"['Oh_comma_ rain.']\",-1,,,,,",
        'c1,2,sad,It rained_comma_ hard.,8,I see. Wet? Cold?,train,"[\'I see.\', \'Wet?\', ""Cold?""]",2,"[1, 2]",'
        "\"['Request information', 'Irony']\",\"['Express interest', 'Support']\","
        "\"['manual', 'QBERT']\",\"['mturk', 'SBERT']\"",
        "c1,3,sad,It rained_comma_ hard.,7,Yes.,train,\"['Yes.']\",-1,,,,,",
        "c2,2,sad,Other,9,Why?,train,\"['Why?']\",1,[0],['Irony'],['Motivate'],['mturk'],['QBERT']",
    )
    return written(tmp_path, TURNS + "\n".join(rows) + "\n", QACT.files[0])


def test_each_labelled_question_is_a_row_after_what_came_before_it(dialogue):
    first, second, third = read(QACT, dialogue)
    opening = (Turn("prompt", "It rained, hard."), Turn("speaker", "Oh, rain."))
    assert (first.id, first.group, first.text) == ("c1:2:0", "c1", "Wet?")
    assert first.context == (*opening, Turn("listener", "I see."))
    assert (second.id, second.text) == ("c1:2:1", "Cold?")
    assert second.context == (*opening, Turn("listener", "I see. Wet?"))
    assert third.context == (Turn("prompt", "Other"),)
    assert labels(QACT, dialogue) == ["Request information", "Irony", "Irony"]
    assert labels(QINT, dialogue) == ["Express interest", "Support", "Motivate"]


def test_human_questions_are_those_that_people_labelled(dialogue):
    assert [row.id for row in read(REGISTRY.task("empdial_qact_human"), dialogue)] == ["c1:2:0", "c2:2:0"]
    assert [row.id for row in read(REGISTRY.task("empdial_qint_human"), dialogue)] == ["c1:2:0"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[1, 2]", "[1]", "differ in length"),
        ("[1, 2]", "[1, 9]", "names a sentence"),
        ("[1, 2]", "[1, True, 2]", "differ in length"),
        ("[1, 2]", "1 and 2", "holds no list"),
        ("'Irony']\"", "'Sarcasm']\"", "'Sarcasm' is not one of"),
        ("c1,2,", "c1,two,", "utterance_idx 'two'"),
    ],
)
def test_lists_that_do_not_fit_are_refused_with_their_line(dialogue, old, new, reason):
    file = dialogue / QACT.files[0]
    file.write_text(file.read_text().replace(old, new))
    message = refusal(read, QACT, dialogue)
    assert f"{file}:3" in message and reason in message


def test_without_the_full_file_the_test_set_is_read_and_that_is_said(tmp_path):
    text = "Oh, rain. \n I see. Wet? Cold?"
    content = f'index,id,utterance_truncated,type,intent\n0,a-b-2-2,"{text}",Irony,Support\n'
    data = written(tmp_path, content, "empqt/derived/test_set.csv")
    (row,), notes = read_task(QACT, data)[1:]
    assert (row.id, row.group, row.text) == ("a-b:2:1", "a-b", "Cold?")
    assert row.context == (Turn("speaker", "Oh, rain."), Turn("listener", "I see. Wet?"))
    assert "test_set.csv" in notes[0] and "ed_annotated.csv" in notes[0]
    with pytest.raises(MissingData):
        read(REGISTRY.task("empdial_qact_human"), data)


def test_both_files_of_questions_name_the_same_rows(tmp_path):
    write(tmp_path, ["empqt"], rows=90, seed=3)
    full = {row.id: row for row in read(QINT, tmp_path)}
    (tmp_path / QINT.files[0]).unlink()
    for row in read(QINT, tmp_path):
        assert row == full[row.id]._replace(context=full[row.id].context[1:], after=())


SESSIONS = (
    "dialog_id,author,text,final agreed label\n"
    "1,speaker,first post,\n1,listener,hello,Other\n1,listener,why so?,Open Question\n1,speaker,second post,\n"
    "1,listener,do this,Direct\n1,listener,hm,-\n2,listener,no post yet,Affirm\n2,listener,well,\n"
)


def test_interviews_keep_agreed_codes_after_the_latest_post_and_before_every_later_sentence(tmp_path):
    data = written(tmp_path, SESSIONS, MI.files[0])
    rows = read(MI, data)
    assert [(row.id, row.text) for row in rows] == [("1:3", "why so?"), ("1:5", "do this"), ("2:1", "no post yet")]
    assert [row.context for row in rows] == [(Turn("speaker", "first post"),), (Turn("speaker", "second post"),), ()]
    later = [("speaker", "second post"), ("listener", "do this"), ("listener", "hm")]
    assert [[*row.after] for row in rows] == [later, later[2:], [("listener", "well")]]
    assert labels(MI, data) == ["Open Question", "Direct", "Affirm"]
    assert labels(ADHERENT, data) == ["Adherent", "Non-adherent", "Adherent"]


def hope_files(texts):
    yes, no = "Supportive", "Not Supportive"
    rows = f"111,{yes},{no},{yes},{yes}\n222,{no},{no},{no},{no}\n333,{yes},{yes},{yes},{yes}\n"
    head = "tweet_id,annotation1,annotation2,annotation3,gold_label\n"
    return {HOPE.files[0]: head + rows, HOPE.files[1]: "tweet_id,text\n" + texts}


def test_tweets_get_their_texts_by_id_and_the_lost_ones_are_counted(tmp_path):
    for name, content in hope_files('333,"be safe,\nall"\n111,pray\n').items():
        written(tmp_path, content, name)
    _, rows, notes = read_task(HOPE, tmp_path)
    assert [(row.id, row.text, row.label) for row in rows] == [("111", "pray", 1), ("333", "be safe,\nall", 1)]
    assert [row.marks for row in rows] == [(1, 0, 1), (1, 1, 1)]
    assert notes == ("1 of 3 rows have no text; left out",)
    with pytest.raises(BadEntry, match="labels, texts"):
        read(replace(HOPE, files=HOPE.files[:1]), tmp_path)


def test_a_strategy_alone_is_a_yes_or_no_of_every_turn(tmp_path):
    write(tmp_path, ["esconv"], rows=120, seed=1)
    every = read(QUESTION, tmp_path)
    questions = {row.id for row in every if row.label == 1}
    assert questions == {row.id for row in read(STRATEGY, tmp_path) if row.label == 0}
    assert len(every) > len(read(STRATEGY, tmp_path))


CHATS = (
    "1 your persona: i row .\n2 hi\thello ?\n3 how\tfine .\n4 ok\tyes\n"
    "1 partner's persona: i ski .\n2 yo\thm .\n3 so\tdo you ?\n1 lone\tgood\n2 last\t?\n"
)


def test_every_second_reply_changes_places_with_the_neighbouring_chats_and_questions_lose_their_marks(tmp_path):
    rows = read(REPLY, written(tmp_path, CHATS, REPLY.files[0]))
    assert [(row.context[0].text, row.text, row.label) for row in rows] == [
        ("hi", "hello ?", 1), ("how", "do you ?", 0), ("ok", "yes", 1), ("yo", "hm .", 1), ("so", "fine .", 0),
        ("lone", "good", 1), ("last", "?", 1),
    ]  # fmt: skip
    assert len({row.group for row in rows}) == 3 and len({row.block for row in rows}) == 2
    rows = read(ASKED, written(tmp_path, CHATS, ASKED.files[0]))
    assert [(row.text, row.label) for row in rows] == [
        ("hello", 1), ("fine .", 0), ("yes", 0), ("hm .", 0), ("do you", 1), ("good", 0),
    ]  # fmt: skip


lists = st.lists(st.text() | st.sampled_from(["", ", ", "a, b", "don't"]) | st.integers()).map(repr)
cells = st.text(alphabet="[]', \"\\ab01\uff11\n\0", max_size=12)


@settings(max_examples=400, deadline=None)
@given(lists | cells | cells.map("[{}]".format))
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_lists_in_cells_are_what_python_reads(cell):
    try:
        expected = ast.literal_eval(cell)
    except (ValueError, SyntaxError):
        expected = None
    if repr(value_of(cell)) != repr(expected):  # names side by side are names of their own, as numpy prints them
        tokens = [token.type for token in tokenize.generate_tokens(io.StringIO(cell).readline) if token.string.strip()]
        assert (
            cell.lstrip()[0] == "[" and {*tokens[1:-1]} == {tokenize.STRING} and len(value_of(cell)) == len(tokens) - 2
        )


TESTED, FLAT_FILES = "empqt/derived/test_set.csv", QUESTION.columns["fallback_files"]
FLAT = "1.0 0 0 hi EOS 1.0 1 1 [Questions] why?\n"
OTHER_SHAPES = (
    {"dialog": 1},
    [{"situation": "s"}],
    [{"dialog": [{"speaker": "nurse", "annotation": {}, "content": "x"}]}],
    [{"dialog": [{"speaker": "seeker", "annotation": [], "content": "x"}]}],
    [{"dialog": [{"speaker": "supporter", "annotation": {"strategy": "Other"}}]}],
    *([[]], 7),
)


@pytest.mark.parametrize(
    ("task", "files", "reason"),
    [
        (QACT, {TESTED: "index,id,utterance_truncated,type,intent\n0,a-b,Why?,Irony,Support\n"}, ":2: the id"),
        (MI, {MI.files[0]: SESSIONS.replace("listener,hello", "robot,hello")}, ":3: author"),
        (MI, {MI.files[0]: SESSIONS.replace("Direct", "Command")}, ":6:"),
        (HOPE, hope_files("1.11E+02,pray\n"), "none of the 3 ids"),
        (HOPE, hope_files("111,a\n111,b\n"), ":3: tweet_id occurs a second time"),
        *((STRATEGY, {STRATEGY.files[0]: json.dumps(value)}, "ESConv.json: conversation 0") for value in OTHER_SHAPES),
        (STRATEGY, {STRATEGY.files[0]: "[\n{,]"}, "ESConv.json:2: not valid JSON"),
        *(
            (QUESTION, dict.fromkeys(FLAT_FILES, f"{FLAT}{line}\n"), "devWithStrategy_short.tsv:2")
            for line in ("hello", "1.0 0 3 only the seeker", "1.0 1 3 no strategy", "1.0 1 x [Other] text")
        ),
        *(
            (REPLY, {REPLY.files[0]: f"1 a\tb\n{line}\n"}, ":2:")
            for line in ("no number\tx", "3 no tab", "3 \tempty", "0 zero\tx")
        ),
    ],
)
def test_what_no_reader_can_use_is_refused_in_one_line_with_its_place(tmp_path, task, files, reason):
    for name, content in files.items():
        written(tmp_path, content, name)
    assert reason in refusal(read, task, tmp_path)


def test_labels_may_be_renamed_dropped_and_joined(tmp_path):
    task = replace(
        REGISTRY.task("iempathize"),
        files=("my.csv",),
        label=replace(REGISTRY.task("iempathize").label, classes=("a", "b", "c")),
        columns={"text": "text", "relabel": {"0": "a", "1": "b"}, "relabel_rest": "c", "drop_labels": ("9",)},
    )
    data = written(tmp_path, "text,label\nx,0\ny,1\nz,2\nw,9\nv,a\n", "my.csv")
    assert labels(task, data) == ["a", "b", "c", "c"]


@pytest.mark.parametrize(("name", "positive", "other"), [("seek", "1", "2"), ("provide", "2", "1")])
def test_of_two_ways_to_count_the_other_class_one_drops_it_and_one_calls_it_negative(tmp_path, name, positive, other):
    dropping, counting = (REGISTRY.task(f"iempathize_{name}{ending}") for ending in ("", "_all"))
    data = written(tmp_path, f"text,label\nx,0\ny,{positive}\nz,{other}\n", dropping.files[0])
    assert labels(dropping, data) == ["0", positive]
    assert labels(counting, data) == ["0", positive, "0"]
    assert dropping.dataset.family == counting.dataset.family
