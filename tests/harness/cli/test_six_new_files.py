"""Six files with oddities, from ``tasks new`` to the cells of a planned grid, or to the next step in a message."""

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.study.file import load_study
from harness.study.plan import make_plan
from tasks.registry import Registry

Command = Callable[..., tuple[int, str, str]]
COUNT = 120
WORDS = (("whatever", "so what"), ("I am so sorry", "I hear you"))
LABELS = ("no", "yes")


def text(number: int) -> str:
    return f"{WORDS[number % 2][number // 2 % 2]} about {number}"


def escaped(folder: Path) -> str:
    rows = (f'"she said \\"{text(i)}\\", then left",{LABELS[i % 2]}\n' for i in range(COUNT))
    with gzip.open(folder / "escaped.csv.gz", "wt") as file:
        file.write("text,label\n" + "".join(rows))
    return "escaped.csv.gz"


def nested(folder: Path) -> str:
    posts = ({"user": {"id": f"u{i // 3}"}, "post": {"body": text(i)}, "warm": {"yes": i % 2}} for i in range(COUNT))
    (folder / "nested.jsonl").write_text("".join(json.dumps(post) + "\n" for post in posts))
    return "nested.jsonl"


def german(folder: Path) -> str:
    rows = [
        f"{text(i)} \u2013 f\u00fcr dich;{i % 2 * 2},{i % 10};{'' if i % 5 else f'{i % 2 * 2},5'}" for i in range(COUNT)
    ]
    (folder / "german.csv").write_bytes("\r\n".join(["beitrag;a1;a2", *rows]).encode("cp1252"))
    return "german.csv"


def array(folder: Path) -> str:
    labels = ["Yes" if i % 40 == 1 else "" if i % 50 == 7 else LABELS[i % 2] for i in range(COUNT)]
    rows = [{"reply": text(i), "verdict": label} for i, label in enumerate(labels)]
    (folder / "array.json").write_text(json.dumps(rows, indent=1))
    return "array.json"


def crossed(folder: Path) -> str:
    rows = [
        {"reply": {"text": text(i)}, "label": LABELS[i % 2], "person": f"p{i % 60 // 2}", "article": f"a{i % 60 // 3}"}
        for i in range(COUNT)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "crossed.parquet")
    return "crossed.parquet"


def few(folder: Path) -> str:
    rows = "".join(f"{text(i)}\t{LABELS[i % 2]}\n" for i in range(12))
    with zipfile.ZipFile(folder / "few.zip", "w") as archive:
        archive.writestr("few.tsv", "text\tlabel\n" + rows)
    return "few.zip"


# What writes the file, the flags of `tasks new`, what the entry or message then holds, what is added to the entry.
FILES = {
    "escaped": (escaped, (), 'escape = "\\\\"', ""),
    "nested": (nested, ("--group", "user.id"), 'label = "warm.yes"', ""),
    "german": (german, ("--label", "a1,a2"), 'decimal = ","', ""),
    "array": (array, (), 'to join them, write relabel = { "Yes" = "yes" }', 'relabel = { "Yes" = "yes" }\n'),
    "crossed": (crossed, ("--group", "person"), 'text = "reply.text"', 'block = "article"\n'),
    "few": (few, ("--split", "cv5"), 'split = "cv5"', ""),
}


@pytest.fixture
def mine(tmp_path: Path, command: Command) -> Path:
    """A folder of entries that ``tasks new`` has written, each with what its message asked for."""
    for name, (write, flags, expected, added) in FILES.items():
        file = tmp_path / write(tmp_path)
        code, out, err = command(
            "tasks", "new", file, "--id", name, *flags, "--registry", tmp_path / "mine", "--data", tmp_path / "none",
            "--skip-training",
        )  # fmt: skip
        assert code == 0, err
        assert expected in out, name
        with (tmp_path / "mine" / f"{name}.toml").open("a") as entry:
            entry.write(added)
    return tmp_path / "mine"


def test_each_of_six_new_files_has_its_row_and_its_column_in_a_grid(mine: Path) -> None:
    entry = mine / "array.toml"
    entry.write_text(entry.read_text().replace('"multiclass"', '"binary"'))
    study = mine / "study" / "six.toml"
    study.parent.mkdir()
    study.write_text(f'extends = "tiny"\ndata = "files"\ntasks = {json.dumps(list(FILES))}\nregistry = ["{mine}"]\n')
    plan = make_plan(load_study(str(study)), Registry.load([mine]), mine)
    pairs = {(cell.intermediate, cell.target) for cell in plan.cells}
    assert pairs == {(one, other) for one in (None, *FILES) for other in FILES if one != other}
    assert plan.splits["array"].task.label.classes == ("no", "yes")
    assert any("groups stand in several blocks" in warning for warning in plan.splits["crossed"].warnings)
    assert any("Krippendorff" in warning for warning in plan.splits["german"].warnings)
    assert len(plan.splits["few"].folds) == 5


def test_what_cannot_be_read_names_the_next_step(tmp_path: Path, refused: Command) -> None:
    nested(tmp_path)
    common = ("--registry", tmp_path / "mine", "--data", tmp_path / "none", "--skip-training")
    assert "no column 'post'; did you mean 'post.body'?" in refused(
        "tasks", "new", tmp_path / "nested.jsonl", "--text", "post", *common
    )
    (tmp_path / "sheet.xlsx").write_bytes(b"PK")
    assert "save its sheet as .csv" in refused("tasks", "new", tmp_path / "sheet.xlsx", *common)
    assert not list(tmp_path.glob("mine/*"))


def test_an_error_names_the_entry_that_was_asked_for_and_nothing_is_left(tmp_path, refused):
    path, registry = tmp_path / "elsewhere" / "deep" / "replies.csv", tmp_path / "own" / "my-tasks"
    path.parent.mkdir(parents=True)
    path.write_text("reply,kind\n" + "".join(f"Reply number {i} here.,{'ab'[i % 2]}\n" for i in range(30)))
    registry.parent.mkdir()
    options = ("--registry", registry, "--data", tmp_path / "none", "--skip-training")
    error = refused("tasks", "new", path, *options)
    assert not list(registry.iterdir())
    assert f"{registry / 'replies.toml'}: files '" in error and ".part" not in error and error.count("\n") == 1


def test_at_a_terminal_enter_to_every_question_writes_the_entry_that_a_pipe_gets(tmp_path, monkeypatch, printed):
    rows = [f'r{i},{("train", "dev", "test")[i % 3]},"A reply of several words ({i}).",{("warm", "cold")[i % 2]}' for i in range(90)]  # fmt: skip  # noqa: E501
    (tmp_path / "replies.csv").write_text("\n".join(["reply_id,part,reply,tone", *rows]) + "\n")
    entries = []
    for name, is_terminal in (("pipe", False), ("terminal", True)):
        monkeypatch.setattr("sys.stdin.isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr("sys.stdout.isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr("builtins.input", lambda question: "")
        options = ("--registry", tmp_path / name, "--data", tmp_path, "--skip-training")
        out = printed("tasks", "new", tmp_path / "replies.csv", *options)
        entries.append((tmp_path / name / "replies.toml").read_text())
    assert entries[0] == entries[1]
    assert 'row_id = "reply_id"' in entries[0] and 'split_column = "part"' in entries[0]
    assert "look at   not grouped: rows count as independent" in out
