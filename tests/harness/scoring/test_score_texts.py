"""Texts out of files: every line is scored or listed with a reason, in bounded memory, and goes on when interrupted."""

import io
import json
import re
import sys

import pandas as pd
import pyarrow.parquet as pq
import pytest

from harness.scoring import parts
from harness.scoring.answers import COLUMNS
from harness.scoring.parts import CUT, listed_path, score_all
from harness.scoring.texts import NO_TEXT, UNDECODED, TextFile
from tasks.errors import BadInput

BAD_BYTES = UNDECODED.format(encoding="utf-8")


def fake(lines):
    """Two tasks that count letters; a text with an x is cut by the second."""
    rows = [
        (line.id, task, str(len(line.text)), float(len(line.text)), None, "", task == "b" and "x" in line.text)
        for line in lines
        for task in ("a", "b")
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def silent(done):
    """Watch nothing."""


def found(file, **options):
    return [(line.id, line.text, line.context, line.problem) for line in TextFile(str(file), **options).lines()]


def test_lines_tables_json_and_parquet_give_the_same_texts(tmp_path):
    rows = [("1", "so, hard", "before"), ("2", "über\nzwei", "")]
    frame = pd.DataFrame(rows, columns=["id", "text", "said"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "a.parquet")
    wanted = [(*row, "") for row in rows]
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.parquet"):
        assert found(tmp_path / name, context="said", id="id") == wanted
    (tmp_path / "plain").write_text("so, hard\r\nüber\n\nend")
    assert found(tmp_path / "plain") == [
        ("0", "so, hard", "", ""),
        ("1", "über", "", ""),
        ("2", "", "", NO_TEXT),
        ("3", "end", "", ""),
    ]


def test_a_column_without_a_name_is_none_that_was_named_and_blank_lines_are_no_rows(tmp_path):
    (tmp_path / "a.csv").write_text(",text,\n\n7,so hard,angry reply\n\n8,so be it,\n")
    assert found(tmp_path / "a.csv") == [("0", "so hard", "", ""), ("1", "so be it", "", "")]
    (tmp_path / "a.jsonl").write_text('{"": "angry reply", "text": "so hard"}\n')
    assert found(tmp_path / "a.jsonl") == [("0", "so hard", "", "")]


@pytest.mark.parametrize(
    ("name", "content", "refusal"),
    [
        ("a.csv", "id;text\n17;so hard\n", "one column, 'id;text': are cells parted by ';'"),
        ("a.jsonl", '{"text": "so", "said": ["a", "b"]}\n', "a.jsonl:1: column 'said' holds a list of turns"),
    ],
)
def test_what_would_be_read_as_one_text_is_refused(tmp_path, name, content, refusal):
    (tmp_path / name).write_text(content)
    context = "said" if "said" in content else ""
    with pytest.raises(BadInput, match=re.escape(refusal)):
        found(tmp_path / name, context=context)
    with pytest.raises(BadInput, match=re.escape(refusal)):
        score_all(TextFile(str(tmp_path / name), context=context), fake, tmp_path / "out.csv", {}, silent)
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing is left in the way of the next command"


def test_a_part_without_a_sound_text_takes_no_column_from_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.scoring.parts.PART_CHARACTERS", 1)
    (tmp_path / "in.csv").write_text('text\n""\nso hard\n')

    def score(lines):
        sound = [line for line in lines if not line.problem]
        frame = pd.DataFrame({"id": [line.id for line in sound], "is_cut": False})
        return frame.assign(rationale="[]") if sound else frame

    for ending in ("csv", "parquet"):
        out = tmp_path / f"out.{ending}"
        score_all(TextFile(str(tmp_path / "in.csv")), score, out, {}, silent)
        frame = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
        assert frame.astype(str).to_dict("list") == {"id": ["1"], "is_cut": ["False"], "rationale": ["[]"]}


def test_a_pipe_is_read_as_lines_or_as_what_is_said(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"text\nso\n")))
    assert [text for _, text, _, _ in found("-")] == ["text", "so"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"text\nso\n")))
    assert [text for _, text, _, _ in found("-", form="csv")] == ["so"]


def test_rows_that_cannot_be_read_come_with_a_reason_and_the_others_whole(tmp_path):
    (tmp_path / "a.csv").write_bytes(
        b"\xef\xbb\xbfid,text\n1,good\n2,caf\xe9\n3,\n4,nul\0here\n5,too,many\n6,caf\xc3\xa9\n"
    )
    assert found(tmp_path / "a.csv", id="id") == [
        ("1", "good", "", ""),
        ("2", "", "", BAD_BYTES),
        ("3", "", "", NO_TEXT),
        ("4", "", "", BAD_BYTES),
        ("4", "", "", "has 3 cells, the header 2"),
        ("6", "café", "", ""),
    ]
    (tmp_path / "one.csv").write_text("reply\nso\n\nand\n")
    assert found(tmp_path / "one.csv") == [("0", "so", "", ""), ("1", "", "", NO_TEXT), ("2", "and", "", "")]
    (tmp_path / "a.jsonl").write_bytes(
        b'{"text": "good"}\n{"text": 3}\nnot json\n\n{"text": "a\\ud800"}\n{"txt": "x"}\n'
    )
    assert [problem for *_, problem in found(tmp_path / "a.jsonl")] == [
        "",
        "has no text 'text'",
        "is not a JSON object",
        NO_TEXT,
        BAD_BYTES,
        "has no text 'text'",
    ]
    (tmp_path / "b.jsonl").write_text('{"text": "a", "before": "x"}\n{"text": "b"}\n')
    assert found(tmp_path / "b.jsonl", context="before") == [("0", "a", "x", ""), ("1", "b", "", "")]
    for named in ("context", "id", "group"):
        with pytest.raises(BadInput, match=r"b.jsonl: no column 'befor'; did you mean 'before'\?; it has"):
            found(tmp_path / "b.jsonl", **{named: "befor"})
    (tmp_path / "old.csv").write_bytes(b"text\ncaf\xe9\n")
    assert found(tmp_path / "old.csv", encoding="cp1252") == [("0", "café", "", "")]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, r"in\.csv: is empty; the first line names the columns"),
        ("text,id\na,1\n", {"text": "txt"}, r"no column 'txt'; did you mean 'text'.*it has 'text, id'"),
        ("text,id\na,1\n", {"context": "said"}, "no column 'said'"),
        ("one,two\na,1\n", {}, "which column holds the texts. Say --text, one of 'one, two'"),
        ("text,text\na,b\n", {}, "has 2 columns 'text'"),
        ("text\na\n", {"encoding": "utf-9"}, "--encoding 'utf-9' is not known"),
        ("text\na\n", {"form": "xml"}, "--format 'xml' is not one of csv, tsv"),
        ("text\na\n", {"form": "lines", "id": "id"}, "is read as a text a line, so it has no column for --id"),
        ("text\na\n", {"encoding": "utf-16"}, "is not utf-16; say --encoding"),
        ("text\na\n", {"form": "parquet"}, "cannot be read as parquet"),
    ],
)
def test_what_no_text_can_be_found_in_is_refused_in_one_line(tmp_path, content, options, message):
    (tmp_path / "in.csv").write_text(content)
    with pytest.raises(BadInput, match=message) as problem:
        found(tmp_path / "in.csv", **options)
    assert "\n" not in str(problem.value)


def test_a_quote_that_is_left_open_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.scoring.texts.LONGEST_FIELD", 100)
    (tmp_path / "in.csv").write_text('text\nfine\n"open\n' + "so it goes on\n" * 50)
    with pytest.raises(BadInput, match=r"in\.csv:\d+: .*limit.*is a quote left open"):
        found(tmp_path / "in.csv")


@pytest.fixture
def many(tmp_path, monkeypatch):
    """A file of seven texts, two of which cannot be scored whole, in parts of three."""
    monkeypatch.setattr(parts, "PART", 3)
    (tmp_path / "in.csv").write_text("id,text\n0,aa\n1,\n2,x\n3,bbbb\n4,c\n5,dd\n6,e\n")
    return TextFile(str(tmp_path / "in.csv"), id="id")


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_results_are_tidy_in_every_format_and_what_is_missing_is_listed(many, tmp_path, name):
    out = tmp_path / name
    summary = score_all(many, fake, out, {}, silent)
    read = {".csv": pd.read_csv, ".jsonl": lambda path: pd.read_json(path, lines=True), ".parquet": pd.read_parquet}
    frame = read[out.suffix](out)
    assert list(frame.columns) == list(COLUMNS)
    assert frame["id"].astype(int).tolist() == [0, 0, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert frame["value"].tolist() == [2, 2, 1, 1, 4, 4, 1, 1, 2, 2, 1, 1]
    assert (summary.texts, summary.scored, dict(summary.listed)) == (7, 6, {NO_TEXT: 1, CUT: 1})
    listed = pd.read_csv(listed_path(out))
    assert listed[["id", "why"]].to_numpy().tolist() == [[1, NO_TEXT], [2, CUT]]
    assert listed["where"].tolist() == [f"{many.file}:3", f"{many.file}:4"]
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", name, "out.listed.csv"}


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_an_interrupted_scoring_goes_on_and_ends_with_the_same_bytes(many, tmp_path, name):
    score_all(many, fake, tmp_path / f"whole-{name}", {}, silent)
    asked = []

    def dying(lines):
        asked.append([line.id for line in lines])
        if len(asked) == 2:
            raise KeyboardInterrupt
        return fake(lines)

    out = tmp_path / name
    with pytest.raises(KeyboardInterrupt):
        score_all(many, dying, out, {}, silent)
    assert not out.exists()
    heard = []
    score_all(many, dying, out, {}, heard.append)
    assert asked == [["0", "2"], ["3", "4", "5"], ["3", "4", "5"], ["6"]]
    assert heard == [3, 6, 7]
    assert out.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()


def test_only_the_same_scoring_goes_on(many, tmp_path):
    def broken(lines):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_all(many, broken, tmp_path / "out.csv", {"precision": "fp32"}, silent)
    with pytest.raises(BadInput, match=r"out\.csv\.part is of another scoring"):
        score_all(many, fake, tmp_path / "out.csv", {"precision": "bf16"}, silent)


def test_nothing_is_overwritten_and_an_empty_file_leaves_nothing(many, tmp_path):
    (tmp_path / "there.csv").write_text("mine")
    with pytest.raises(BadInput, match="is there already"):
        score_all(many, fake, tmp_path / "there.csv", {}, silent)
    with pytest.raises(BadInput, match=r"end it in one of \.csv, \.jsonl, \.parquet"):
        score_all(many, fake, tmp_path / "out.txt", {}, silent)
    (tmp_path / "none.csv").write_text("text\n")
    with pytest.raises(BadInput, match="has no text"):
        score_all(TextFile(str(tmp_path / "none.csv")), fake, tmp_path / "out.csv", {}, silent)
    assert not list(tmp_path.glob("out*"))


def test_a_file_of_bad_rows_only_is_listed_whole(tmp_path):
    (tmp_path / "in.jsonl").write_text("no\nno\n")
    summary = score_all(TextFile(str(tmp_path / "in.jsonl")), fake, tmp_path / "out.parquet", {}, silent)
    assert (summary.texts, summary.scored) == (2, 0)
    assert pq.read_schema(tmp_path / "out.parquet").names == list(COLUMNS)
    assert len(pd.read_csv(tmp_path / "out.listed.csv")) == 2


def test_parts_do_not_name_texts(many, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(parts.shutil, "rmtree", kept.append)
    score_all(many, fake, tmp_path / "out.csv", {}, silent)
    (folder,) = kept
    assert json.loads((folder / "0.json").read_text())["texts"] == 3
    assert all(b"bbbb" not in path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize(("name", "first"), [("a.csv", 2), ("a.jsonl", 1), ("a.parquet", 1), ("a.txt", 1)])
def test_every_text_says_in_which_row_of_the_file_it_stands(tmp_path, name, first):
    file = tmp_path / name
    texts = {"a.csv": "text\nso\n\nend\n", "a.jsonl": '{"text": "so"}\nno\n{"text": "end"}\n', "a.txt": "so\n\nend\n"}
    if name in texts:
        file.write_text(texts[name])
    else:
        pd.DataFrame({"text": ["so", None, "end"]}).to_parquet(file)
    lines = list(TextFile(str(file)).lines())
    assert [line.where for line in lines] == [f"{file}:{first + place}" for place in range(3)]
    assert [bool(line.problem) for line in lines] == [False, True, False]


@pytest.mark.parametrize("spreadsheet", [False, True])
def test_texts_that_a_spreadsheet_would_compute_are_counted_or_marked(tmp_path, spreadsheet):
    (tmp_path / "a.csv").write_text('id,text\n"=1+1",so\n-2,as\n+x,\n')
    texts, out = TextFile(str(tmp_path / "a.csv"), text="text", id="id"), tmp_path / "scores.csv"
    summary = score_all(texts, fake, out, {}, silent, spreadsheet=spreadsheet)
    ids = pd.read_csv(out, dtype=str)["id"].tolist()
    assert ids == (["'=1+1"] * 2 if spreadsheet else ["=1+1"] * 2) + ["-2"] * 2
    assert summary.formulas == (0 if spreadsheet else 2)
    assert pd.read_csv(listed_path(out), dtype=str)["id"].tolist() == ["'+x" if spreadsheet else "+x"]
