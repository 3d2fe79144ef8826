"""Ids by the tokenizers library alone, held against what transformers makes of the same files and rows."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.study.backbone import BadBackbone, resolve
from harness.training.inputs import InputFormat, pieces
from harness.training.tokenizer import Around, library_tokenizer, load_tokenizer
from tasks.task import Example, Turn
from tests.support.studies.tiny_backbones import TEXTS, tiny_backbone

TAGS = ("none", "separator", "post_reply", "dialogue", "listener", "question")
FORMATS = [("pair", "none"), *(("tags", style) for style in TAGS)]
TRUNCATIONS = ("head", "tail", "head+tail", "windows")
BACKBONES = ("random-tiny", "minilm", "bert", "roberta", "xlm-roberta", "camembert")
SPECIAL = ("<s>", "</s>", "<mask>", "<unk>", "<pad>", "[SEP]", "[CLS]", "[MASK]")
WORDS = (*TEXTS[:2], *SPECIAL, "CAFÉ", " ", "\n", "🙂", "a\u0301")
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=12), max_size=6).map(" ".join)
turns = st.lists(st.builds(Turn, st.sampled_from(["speaker", "listener"]), texts), max_size=4).map(tuple)
examples = st.builds(lambda context, text: Example("a", "g", "g", context, text, 0), turns, texts)


@pytest.fixture(scope="module")
def backbones(tmp_path_factory):
    root = tmp_path_factory.mktemp("tokens")
    folders = {kind: tiny_backbone(root / kind, kind) for kind in ("bert", "roberta", "xlm-roberta", "camembert")}
    resolved = {name: resolve(str(folder)) for name, folder in folders.items()}
    resolved["random-tiny"] = resolve("random-tiny")
    try:
        return resolved | {"minilm": resolve("minilm")}
    except BadBackbone:  # its package is an extra
        return resolved


def backbone_of(backbones, name):
    if name not in backbones:
        pytest.skip("the package with MiniLM is not installed")
    return backbones[name]


def ids_of(library, text):
    made = library(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    if set(made) & (set(library.all_special_ids) - {library.unk_token_id}):
        for token in library.all_special_tokens:
            text = text.replace(token, f"{token[0]} {token[1:]}")
        made = library(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    return made


def joined(library, parts):
    every = []
    for part in parts:
        every += [library.sep_token_id, *ids_of(library, part)] if every else ids_of(library, part)
    return every


def history_and_target(library, form, row):
    """A row's ids before they are cut, through transformers alone, one text at a time."""
    if form.name == "pair":
        return joined(library, [turn.text for turn in row.context]), ids_of(library, row.text)
    if form.tags == "none" or (form.tags == "separator" and not row.context):
        return [], ids_of(library, row.text)
    if form.tags == "separator":
        history = [*joined(library, [f"{turn.text} " for turn in row.context]), library.sep_token_id]
        return history, ids_of(library, f" {row.text}")
    said = [f"<{turn.speaker}> {turn.text} </{turn.speaker}>" for turn in row.context]
    if form.tags == "question":
        is_begun = row.context and row.context[-1].speaker == "listener"
        said = [*said[:-1], f"<listener> {row.context[-1].text}"] if is_begun else [*said, "<listener>"]
    tag = "listener" if form.tags == "listener" else "target"
    return ids_of(library, " ".join(said)), ids_of(library, f" <{tag}> {row.text} </{tag}>")


def by_the_library(library, form, row):
    """A row's windows through transformers alone: ids, segments, and what was cut."""
    history, target = history_and_target(library, form, row)
    is_pair = form.name == "pair" and bool(history)
    room = form.max_tokens - len(library.build_inputs_with_special_tokens([], [] if is_pair else None))
    is_cut = len(target) > room and form.truncation != "windows"
    for kept in pieces(target, room, form.truncation):
        left = history[max(0, len(history) - (room - len(kept))) :]
        parts = (left, kept) if is_pair else (left + kept, None)
        whole = library.build_inputs_with_special_tokens(*parts)
        segments = library.create_token_type_ids_from_sequences(*parts)
        yield tuple(whole), tuple(segments), len(left) < len(history), is_cut


def as_tuples(windows):
    return [(window.ids, window.segments, window.is_history_cut, window.is_target_cut) for window in windows]


@pytest.mark.parametrize("name", BACKBONES)
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(examples, min_size=1, max_size=4),
    form=st.sampled_from(FORMATS),
    truncation=st.sampled_from(TRUNCATIONS),
    most=st.integers(8, 40),
)
def test_rows_in_every_format_are_what_transformers_makes_of_them(name, backbones, rows, form, truncation, most):
    backbone = backbone_of(backbones, name)
    own = InputFormat(load_tokenizer(backbone), *form, most, truncation)
    made = [as_tuples(windows) for windows in own.encode_all(rows)]
    assert made == [list(by_the_library(library_tokenizer(backbone), own, row)) for row in rows]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text() | st.text(st.characters(max_codepoint=0x2FF)), max_size=4))
def test_the_bytes_of_a_text_have_the_ids_that_the_backend_gives_them(texts):
    tokenizer = load_tokenizer(resolve("random-tiny"))
    own = [encoding.ids for encoding in tokenizer.backend.encode_batch_fast(texts, add_special_tokens=False)]
    assert tokenizer.ids(texts) == own


@pytest.mark.parametrize("name", BACKBONES)
def test_special_tokens_are_those_of_transformers(name, backbones):
    backbone = backbone_of(backbones, name)
    own, library = load_tokenizer(backbone), library_tokenizer(backbone)
    assert isinstance(own.template, Around), "this one should need no transformers"
    assert list(own.words) == library.all_special_tokens
    assert own.reserved == set(library.all_special_ids) - {library.unk_token_id}
    assert (own.separator, own.padding) == (library.sep_token_id, library.pad_token_id)


@pytest.mark.parametrize("block", [1, 2, 3])
def test_a_row_is_the_same_whatever_stands_in_its_block(block, tiny, monkeypatch):
    form = InputFormat(load_tokenizer(tiny), "pair", "none", 30)
    rows = [Example("a", "g", "g", (Turn("speaker", "x" * i), Turn("listener", "warm")), "y" * i, 0) for i in range(9)]
    alone = [form.encode(row) for row in rows]
    monkeypatch.setattr("harness.training.inputs.BLOCK", block)
    assert form.encode_all(rows) == alone
    assert form.encode_all([]) == []


def changed(folder, name, change):
    values = json.loads((folder / name).read_text(encoding="utf-8")) if (folder / name).is_file() else {}
    change(values)
    (folder / name).write_text(json.dumps(values), encoding="utf-8")


OTHERWISE = {  # files of which transformers makes something else than the whole file says
    "case": ("bert", "tokenizer_config.json", lambda values: values.update(do_lower_case=False)),
    "accents": ("bert", "tokenizer_config.json", lambda values: values.update(strip_accents=False)),
    "a first space": ("roberta", "tokenizer_config.json", lambda values: values.update(add_prefix_space=True)),
    "padding by a plain word": ("bert", "tokenizer_config.json", lambda values: values.update(pad_token="warm")),
    "a plain word as a special one": (
        "roberta",
        "tokenizer_config.json",
        lambda values: values["added_tokens_decoder"]["4"].update(special=False),
    ),
    "new kind": ("bert", "tokenizer_config.json", lambda values: values.update(tokenizer_class="PreTrainedTokenizer")),
    "more tokens": ("bert", "added_tokens.json", lambda values: values.update({"[MASK]": 4})),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_files_that_say_more_than_the_whole_one_are_left_to_transformers(what, tmp_path):
    kind, name, change = OTHERWISE[what]
    folder = tiny_backbone(tmp_path / kind, kind)
    changed(folder, name, change)
    backbone = resolve(str(folder))
    own, library = load_tokenizer(backbone), library_tokenizer(backbone)
    assert not isinstance(own.template, Around)
    probe = Example("a", "g", "g", (Turn("speaker", "A warm CAFÉ <mask>"),), "é [MASK] warm", 0)
    form = InputFormat(own, "pair", "none", 40)
    assert as_tuples(form.encode(probe)) == list(by_the_library(library, form, probe))
    assert list(own.words) == library.all_special_tokens


def test_a_vocabulary_without_a_whole_file_is_left_to_transformers(tmp_path):
    folder = tiny_backbone(tmp_path / "model", "bert")
    (folder / "tokenizer.json").unlink()
    own = load_tokenizer(resolve(str(folder)))
    assert not isinstance(own.template, Around)
    assert own.ids(["a kind [SEP] neighbour"]) == [
        library_tokenizer(resolve(str(folder)))("a kind [SEP] neighbour", add_special_tokens=False,
                                                split_special_tokens=True)["input_ids"]
    ]  # fmt: skip


def test_the_words_of_special_tokens_that_a_vocabulary_holds_as_pieces_are_taken_apart(backbones):
    own = load_tokenizer(backbones["xlm-roberta"])
    assert all(own.reserved.isdisjoint(ids) for ids in own.ids([f"warm {word} bread" for word in own.words]))
