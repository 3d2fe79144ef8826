"""One file with everything that breaks naive readers: its rows and their tokens come out as they should."""

from harness.training.inputs import InputFormat
from harness.training.tokenizer import load_tokenizer
from tasks.readers import read
from tasks.splits.loading import load
from tests.support.task_files import own_task, written

TEXTS = (
    'He said "no; never" and left',
    "two\r\nlines; and\na third",
    "so sad \U0001f622\U0001f468\u200d\U0001f469\u200d\U0001f467 caf\u00e9",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u202eback\u202c",
    "a [SEP] b </s> c <s> [CLS] <mask> d",
    "  spaces, tabs\tand\u00a0hard ones  ",
    "NUL-free \u2028 separators \x85 and \x1c too",
    "'=SUM(A1)' -- \\n is no line end",
)
ENTRY = """
id = "nasty"
files = ["nasty.csv"]
text = "the text"
label = "label"
kind = "binary"
delimiter = ";"
"""


def nasty(folder, copies=1):
    texts = [text if copy == 0 else f"{copy} {text}" for copy in range(copies) for text in TEXTS]
    cells = ['"' + text.replace('"', '""') + '"' for text in texts]
    lines = ["label;unused;the text", *(f"{'yes' if i % 2 else 'no'};;{cell}" for i, cell in enumerate(cells))]
    written(folder, b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\r\n\r\n", "nasty.csv")
    return own_task(folder, ENTRY), texts


def test_every_text_comes_back_as_it_was(tmp_path):
    task, texts = nasty(tmp_path)
    rows = read(task, tmp_path)
    assert [row.text for row in rows] == texts
    assert [row.label for row in rows] == [0, 1] * 4


def test_the_split_rows_are_the_same_texts(tmp_path):
    task, texts = nasty(tmp_path, copies=20)
    splits = load(task, tmp_path)
    assert sorted(row.text for row in (*splits.train, *splits.validation, *splits.test)) == sorted(texts)


def test_tokens_give_the_text_back_and_no_special_token_comes_from_it(tmp_path, tiny):
    task, texts = nasty(tmp_path)
    tokenizer = load_tokenizer(tiny)
    for form in ("pair", "tags"):
        for row, text in zip(read(task, tmp_path), texts, strict=True):
            (encoded,) = InputFormat(tokenizer, form, task.tags, 500).encode(row)
            assert [id for id in encoded.ids if id in tokenizer.reserved] == [encoded.ids[0], tokenizer.separator]
            assert tokenizer.backend.decode(list(encoded.ids[1:-1])) == text
