"""``explain``: test rows by tokens and by vectors; on the terminal, a page, a figure, and not stored."""

import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
import torch

from harness.cli.systems import HOLDS_TEXTS, heading, html_of, pieces_of, strongest
from harness.scoring.explained import ExplainedRow
from harness.scoring.system_scorer import SystemScorer
from harness.systems.attributions import Attribution, vector_of
from tests.support.studies.small_study import small_study

pytest.importorskip("captum", reason="explain needs its extra")
NETWORKS = ("alone", "bi-encoder", "encoder")
SYSTEMS = (
    'tasks=["epitome_er", "news_empathy"]',
    'systems=["alone", "bi-encoder", "encoder", "tfidf"]',
    'system.alone.kind="clsn"',
    *(f'system.{name}.tasks=["epitome_er"]' for name in ("alone", "bi-encoder", "encoder", "tfidf")),
    *(f"system.{name}.epochs=1" for name in NETWORKS),
    *(f"system.{name}.tokens=40" for name in NETWORKS),
    "transfers=false",
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    study = small_study(tmp_path_factory.mktemp("explain") / "runs", *SYSTEMS)
    assert study.run().is_complete
    return study


def row_of(text="too <b>bad</b>", contributions=(0.0, 0.5, -1.0, 0.0), whole=1.0, empty=1.5):
    offsets = ((0, 0), (0, 3), (4, len(text)), (0, 0))
    return ExplainedRow(
        "7", text, "none", "seek", False, Attribution(offsets, np.array(contributions), 1, whole, empty)
    )


def explaining(study, system):
    """The command that explains test rows of a system of the study."""
    return ("systems", "explain", "tiny", "--store", study.store.root, "--system", system, "--task", "epitome_er")


def contents(store):
    return {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("system", NETWORKS)
def test_stored_test_rows_are_shown_with_their_texts_and_nothing_is_stored(study, command, system):
    before = contents(study.store)
    words = (*explaining(study, system), "--rows", 3)
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    texts = {row.id: row.text for row in study.plan.splits["epitome_er"].test}
    ids = re.findall(r"^row (\S+): ", out, re.MULTILINE)
    assert len(ids) == 3
    for id in ids:
        assert texts[id] in out
    assert contents(study.store) == before
    code, out, _ = command(*words, "--row", ids[2])
    assert re.findall(r"^row (\S+): ", out, re.MULTILINE) == [ids[2]]


def test_a_page_holds_every_text_whole_and_says_so(study, command, tmp_path):
    page = tmp_path / "own" / "page.html"
    words = explaining(study, "alone")
    code, out, err = command(*words, "--html", page)
    assert (code, out, err) == (0, f"{page}\n{HOLDS_TEXTS}\n", "")
    content = page.read_text(encoding="utf-8")
    assert HOLDS_TEXTS in content
    assert not re.search(r"<script|https?://|src=|@import|url\(", content)
    shown = [unescape(re.sub("<[^>]*>", "", part)) for part in re.findall(r'<p class="text">(.*?)</p>', content, re.S)]
    texts = {row.text for row in study.plan.splits["epitome_er"].test}
    assert len(shown) == 5
    assert set(shown) <= texts


def test_a_text_is_coloured_by_its_tokens_its_markup_is_text_and_what_does_not_add_up_is_said():
    row = row_of()
    assert [(piece.text, piece.share) for piece in pieces_of(row)] == [("too", 0.5), (" ", 0.0), ("<b>bad</b>", -1.0)]
    page = html_of("a & b", [row])
    assert "<b>" not in page
    assert 'background:rgb(220, 90, 20);color:black" title="-1.000">&lt;b&gt;bad&lt;/b&gt;</span>' in page
    assert "a &amp; b" in page
    assert strongest(row) == "for: too +0.50; against: <b>bad</b> -1.00"
    assert [piece.text for piece in pieces_of(row_of(contributions=(0.0,) * 4))] == ["too", " ", "<b>bad</b>"]
    assert "do not rely" not in heading(row_of())
    assert heading(row_of(whole=2.0)).endswith("tokens add up to -0.50, 200 % off the difference: do not rely on them")


def test_tokens_that_share_a_letter_are_one_part_with_their_sum():
    own = Attribution(((0, 0), (0, 1), (0, 1), (1, 4)), np.array([0.0, 0.25, 0.25, -2.0]), 1, 1.0, 2.5)
    row = ExplainedRow("7", "\u00e4rgh", "none", "seek", False, own)
    assert [(piece.text, piece.share) for piece in pieces_of(row)] == [("\u00e4", 0.25), ("rgh", -1.0)]
    assert strongest(row) == "for: \u00e4 +0.50; against: rgh -2.00"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--system", "alone", "--row", "nobody"), "--row nobody: not one of the 16 stored test rows of epitome_er"),
        (("--system", "alone", "--rows", "0"), "--rows 0: give a number from 1, or name rows by --row"),
        (("--system", "alone", "--json"), "--json: texts are shown on the terminal"),
        (("--system", "alone", "--out", "x"), "--out: texts are shown on the terminal"),
        (("--system", "alone", "--plane", "--row", "1"), "--plane draws all rows, without their texts"),
        (("--system", "tfidf"), "system 'tfidf' is of the kind 'tfidf', which has no embeddings of tokens"),
        (("--system", "alon"), "study 'tiny' has no system 'alon'; did you mean 'alone'?"),
        (("--system", "alone", "--task", "epitome"), "--task epitome: not a task of study 'tiny'; did you mean"),
        (
            ("--system", "alone", "--html", "{store}/page"),
            "inside the store, which holds no texts; give a file elsewhere",
        ),
    ],
)
def test_what_cannot_be_explained_is_refused_in_one_line(study, command, words, said):
    store, words = study.store.root, [word.format(store=study.store.root) for word in words]
    code, out, err = command("systems", "explain", "tiny", "--store", store, "--task", "epitome_er", *words)
    assert (code, out, len(err.splitlines()), (store / "page").exists()) == (2, "", 1, False)
    assert said in err


def test_without_its_extra_the_line_says_what_to_install(study, refused, monkeypatch):
    monkeypatch.setattr("harness.scoring.explained.find_spec", lambda name: None)
    assert "pip install 'empathy-transfer[explain]'" in refused(*explaining(study, "alone"))


@pytest.mark.parametrize("system", NETWORKS)
def test_a_map_has_every_test_row_with_its_classes_and_no_id(study, command, tmp_path, system):
    before = contents(study.store)
    words = (*explaining(study, system), "--plane")
    code, out, err = command(*words, "--quiet", "--out", tmp_path)
    assert (code, err) == (0, "")
    stem = tmp_path / "figures" / f"tsne-epitome_er-{system}"
    assert out.splitlines() == [f"{stem}.{ending}" for ending in ("csv", "png", "svg")]
    frame = pd.read_csv(f"{stem}.csv")
    assert list(frame) == ["x", "y", "gold", "predicted"]
    (cell,) = [cell for cell in study.plan.cells if cell.system == system]
    test = pd.read_parquet(study.store.open(cell.key, "test.parquet"))
    names = study.store.manifest("tiny")["tasks"]["epitome_er"]["classes"]
    assert frame.gold.tolist() == [names[label] for label in test.label]
    stored = test.filter(like="logit_").to_numpy()
    margin = np.sort(stored)[:, -1] - np.sort(stored)[:, -2]
    own = np.array([names[place] for place in stored.argmax(axis=1)])
    assert (frame.predicted.to_numpy() == own)[margin > 1e-4].all()
    assert frame[["x", "y"]].drop_duplicates().shape[0] > 8
    first = (stem.with_suffix(".png")).read_bytes()
    assert command(*words, "--quiet", "--out", tmp_path)[0] == 0
    assert stem.with_suffix(".png").read_bytes() == first
    assert contents(study.store) == before


def test_the_vectors_are_those_that_the_head_makes_logits_of(study):
    for system in NETWORKS:
        scorer = SystemScorer(study.store, study.store.manifest("tiny"), system, tasks=["epitome_er"])
        (fitted,) = scorer.fitted
        row = study.plan.splits["epitome_er"].test[0]
        vector, predicted = vector_of(fitted, row)
        logits = fitted.head(torch.tensor(vector)[None]).detach().numpy()
        np.testing.assert_allclose(logits, fitted.predict([row]).logits, atol=1e-5)
        assert predicted == logits.argmax()
