"""Files of five kinds go from file to a trained row and column; a task that is added trains nothing else."""

import csv
import io
import json
import random
from pathlib import Path

import pytest

from adapters_store import Store
from harness.cli.main import main

CUES = {"warm": ("glad", "kind", "gentle"), "cold": ("harsh", "stern", "bitter"), "plain": ("table", "train", "window")}
FILLER = ("the", "then", "so", "and", "well", "again", "here", "now", "often", "perhaps")
ZH = {"好": ("温暖", "感谢", "理解"), "坏": ("冷淡", "生气", "拒绝")}
ZH_FILLER = ("今天", "我们", "他们", "一起", "说话", "回家", "这个", "那个")


def words(rng, cue, count=9):
    return " ".join([rng.choice(FILLER) for _ in range(count)] + [rng.choice(CUES[cue])])


def three_classes(rng):
    names = list(CUES)
    return ["reply", "tone"], [[words(rng, names[i % 3]), names[i % 3]] for i in range(60)]


def several_labels(rng):
    rows = []
    for i in range(80):
        chosen = [name for bit, name in enumerate(CUES) if (i + 1) >> bit & 1] or ["plain"]
        rows.append([" ".join(words(rng, name, 4) for name in chosen), *(int(name in chosen) for name in CUES)])
    return ["reply", *CUES], rows


def scale(rng):
    rows = []
    for i in range(100):
        level = i % 5 + 1
        rows.append([" ".join(rng.choice(CUES["warm" if k < level else "cold"]) for k in range(1, 6)), level])
    return ["essay", "rating"], rows


def long_texts(rng):
    rows = []
    for i in range(40):
        cue = ("warm", "cold")[i % 2]
        rows.append([f"{words(rng, cue, 1500)} {words(rng, cue, 1500)}", cue])
    return ["essay", "kind"], rows


def chinese(rng):
    rows = []
    for i in range(60):
        label = list(ZH)[i % 2]
        rows.append(["".join([*(rng.choice(ZH_FILLER) for _ in range(8)), rng.choice(ZH[label])]), label])
    return ["text", "label"], rows


FILES = {"tones": three_classes, "moods": several_labels, "grades": scale, "novels": long_texts, "answers": chinese}
FLAGS = {"moods": ["--label", "warm,cold,plain"]}
KINDS = {"tones": "multiclass", "moods": "multilabel", "grades": "ordinal", "novels": "binary", "answers": "binary"}
STUDY = """
tasks = {tasks}
registry = ["{registry}"]
backbone = "random-tiny"
max_tokens = 64
floors = false
max_train = 48
max_val = 24
max_test = 24
[training]
epochs = 1
batch_size = 16
learning_rate = 2e-3
"""


def write_file(folder, name):
    header, rows = FILES[name](random.Random(7))
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    path = folder / f"{name}.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the five files and, made by `tasks new`, their entries."""
    folder = tmp_path_factory.mktemp("new")
    for name in FILES:
        file = write_file(folder, name)
        options = ["--registry", folder / "entries", "--data", folder / "none", "--skip-training"]
        assert main([str(one) for one in ["tasks", "new", file, *FLAGS.get(name, []), *options]]) == 0
    return folder


def run(place, names, store, *options):
    """Run a study of these tasks; returns how many cells it trained and how many were stored."""
    study = place / "mine.toml"
    study.write_text(STUDY.format(tasks=json.dumps(names), registry=place / "entries"), encoding="utf-8")
    code = main(["run", str(study), "--store", str(store), "--data", str(place / "none"), "--quiet", *options])
    assert code == 0
    return study


@pytest.fixture(scope="module")
def store(place, tmp_path_factory):
    """The store after a study of two tasks, of three, and of all five, with the keys after each."""
    root = tmp_path_factory.mktemp("store") / "runs"
    keys = []
    for count in (2, 3, 5):
        run(place, list(FILES)[:count], root)
        keys.append({path.parent.name for path in root.glob("objects/*/record.json")})
    return root, keys


def test_every_entry_has_at_most_ten_lines_and_the_right_kind(place):
    for name, kind in KINDS.items():
        lines = (place / "entries" / f"{name}.toml").read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 10
        assert f'kind = "{kind}"' in lines
    assert 'language = "zh"' in (place / "entries" / "answers.toml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_new_task_has_a_trained_row_and_column_and_one_that_is_added_trains_nothing_else(store):
    root, (two, three, five) = store
    assert (len(two), len(three), len(five)) == (4, 9, 25)
    assert two < three < five
    kept, cells = Store(root), Store(root).manifest("mine")["cells"]
    for name in FILES:
        row = [cell for cell in cells if cell["intermediate"] == name]
        column = [cell for cell in cells if cell["target"] == name]
        assert (len(row), len(column)) == (4, 5)
        for cell in row + column:
            results = kept.get(cell["key"]).results
            assert results["n_train"] >= 30
            assert cell["intermediate"] is None or (results["intermediate_unchanged"] and results["liveness"] > 0)


def test_an_entry_by_hand_and_the_registry_option_are_enough(tmp_path, printed):
    """The worked example of docs/adding-a-task.md, with its own entry."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "adding-a-task.md").read_text(encoding="utf-8")
    entry = page.split("```toml\n", 1)[1].split("```", 1)[0]
    assert len(entry.splitlines()) <= 10
    folder = tmp_path / "my-tasks"
    folder.mkdir()
    write_file(folder, "tones").rename(folder / "replies.csv")
    (folder / "tones.toml").write_text(entry, encoding="utf-8")
    options = ["--registry", folder, "--store", tmp_path / "runs", "--limit", 32, "--quiet", "--json"]
    study = ["tiny", "--set", 'tasks=["tones", "epitome_er"]', "--set", "training.epochs=1"]
    assert len(json.loads(printed("run", *study, *options))["done"]) == 4


def test_the_dry_training_shows_that_a_file_trains(tmp_path, printed):
    file = write_file(tmp_path, "tones")
    options = ["--registry", tmp_path / "entries", "--data", tmp_path]
    out = printed("tasks", "new", file, *options)
    assert "rows      train 4" in out
    assert "labels    cold" in out
    assert "dry training: 4" in out
    assert "It trains" in out


MISTAKES = [
    (["nothing.csv"], "no file nothing.csv"),
    (["{tones}", "--text", "replly"], "did you mean 'reply'"),
    (["{tones}", "--kind", "binary"], "3 distinct labels"),
    (["{tones}", "--id", "epitome_er"], "there is a task 'epitome_er' already"),
    (["{tones}", "--id", "../tones"], "only small letters"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_line_and_leaves_no_entry(tmp_path, refused, arguments, message):
    file = write_file(tmp_path, "tones")
    given = [one.format(tones=file) for one in arguments]
    assert message in refused("tasks", "new", *given, "--registry", tmp_path / "entries", "--data", tmp_path)
    assert list(tmp_path.rglob("*.toml")) + list(tmp_path.rglob("*.draft")) == []


def test_an_entry_that_is_there_is_never_replaced(tmp_path, printed, refused):
    file = write_file(tmp_path, "tones")
    options = ["--registry", str(tmp_path), "--data", str(tmp_path), "--skip-training"]
    printed("tasks", "new", file, *options)
    assert "exists" in refused("tasks", "new", file, *options)


def test_at_a_terminal_a_person_has_the_last_word(tmp_path, capsys, monkeypatch):
    answers = iter(["feelings", "", "", "", "-", "-"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    file = write_file(tmp_path, "tones")
    options = ["--registry", str(tmp_path), "--data", str(tmp_path), "--skip-training"]
    assert main(["tasks", "new", str(file), *options]) == 0
    entry = (tmp_path / "feelings.toml").read_text(encoding="utf-8").splitlines()
    assert entry == [
        'id = "feelings"',
        'files = ["tones.csv"]',
        'text = "reply"',
        'label = "tone"',
        'kind = "multiclass"',
    ]
    assert "tone: 3 distinct; cold, plain, warm" in capsys.readouterr().out


def test_what_follows_from_the_label_is_that_of_the_label_that_a_person_names(tmp_path, monkeypatch):
    rows = [f"a text of words {number};{number % 5};{1 + number / 8:g}".replace(".", ",") for number in range(60)]
    (tmp_path / "mine.csv").write_text("\n".join(["text;level;distress", *rows]))
    answers = iter(["", "", "distress", "", "-", "-"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    options = ["--registry", str(tmp_path), "--data", str(tmp_path), "--skip-training"]
    assert main(["tasks", "new", str(tmp_path / "mine.csv"), *options]) == 0
    entry = (tmp_path / "mine.toml").read_text(encoding="utf-8")
    assert 'label = "distress"\nkind = "continuous"\n' in entry and 'decimal = ","' in entry
