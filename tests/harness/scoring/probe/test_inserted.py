"""Sentences in replies of everyday talk: how conversations are read and drawn, and what is counted."""

import pytest

from adapters_store.measures import SENTENCES as KIND
from analysis.results.probes import INSERTED, wilson
from harness.scoring.probe import inserted
from harness.scoring.probe.inserted import SENTENCES, exchanges, personachat, ubuntu, with_sentence
from tasks.errors import BadInput
from tests.support.studies.small_study import small_study

ER = "epitome_er"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten dialogues in the format of ParlAI, and a log of three conversations, one of them of three people."""
    root = tmp_path_factory.mktemp("talk")
    lines = []
    for dialogue in range(10):
        lines.append("1 your persona: i like trains .")
        lines += [f"{turn + 2} ask {dialogue} {turn}\tanswer {dialogue} {turn}\t\ta|b" for turn in range(3)]
    (root / "valid_self_original_no_cands.txt").write_text("\n".join(lines) + "\n")
    log = ("[10:00] <ann> how", "[10:01] <bob> so", "=== eve joined", "[10:02] <ann> thanks", "[10:03] <cy> hm")
    log += ("[10:04] <dee> ah", "[10:05] <eve> oh", "[10:06] <cy> alone")
    (root / "day.ascii.txt").write_text("\n".join(log) + "\n")
    (root / "day.annotation.txt").write_text("0 0 -\n0 1 -\n1 3 -\n4 4 -\n4 5 -\n5 6 -\n7 7 -\n2 2 -\n")
    return root


def test_dialogues_are_read_in_turn_without_personas_and_candidates(folder):
    said = [list(dialogue) for dialogue in personachat(folder) if dialogue]
    assert len(said) == 10
    assert [message.text for message in said[3]][:3] == ["ask 3 0", "answer 3 0", "ask 3 1"]
    assert not any("persona" in message.text or "|" in message.text for dialogue in said for message in dialogue)


def test_of_a_log_only_conversations_of_two_people_are_read_whatever_lies_between(folder):
    assert [[tuple(message) for message in said] for said in ubuntu(folder)] == [
        [("ann", "how"), ("bob", "so"), ("ann", "thanks")]
    ]


def test_a_reply_is_drawn_from_each_conversation_with_what_was_said_before(folder):
    drawn = exchanges("PersonaChat", folder, 6, 1)
    assert len({row.id for row in drawn}) == 6
    for row in drawn:
        assert row.context[-1].speaker == "speaker"
        assert row.context[-1].text.split()[1] == row.text.split()[1]
    assert drawn == exchanges("PersonaChat", folder, 6, 1) != exchanges("PersonaChat", folder, 6, 2)
    assert len(exchanges("Ubuntu", folder, 6, 1)) == 1


def test_a_sentence_stands_at_either_end_of_the_reply_and_the_rest_stays(folder):
    talk = exchanges("PersonaChat", folder, 10, 1) * 20
    changed = with_sentence(talk, SENTENCES[ER], 3)
    first = [row.text.startswith(SENTENCES[ER]) for row in changed]
    assert 60 < sum(first) < 140
    for row, new in zip(talk, changed, strict=True):
        (sentence,) = {new.text.replace(row.text, "").strip()} & set(SENTENCES[ER])
        assert new == row._replace(text=new.text)
        assert sentence
    assert all(any(sentence in row.text for row in changed) for sentence in SENTENCES[ER])


def test_a_corpus_that_is_not_there_is_named_with_how_to_get_it(tmp_path):
    with pytest.raises(BadInput, match=r"no conversation of Ubuntu; put the \.ascii\.txt"):
        exchanges("Ubuntu", tmp_path, 5, 1)
    with pytest.raises(BadInput, match="no such folder"):
        exchanges("Ubuntu", tmp_path / "nowhere", 5, 1)


def test_the_interval_of_a_share_is_wilsons():
    from scipy.stats import binomtest

    for hits, count in ((997, 1000), (0, 10), (10, 10), (3, 7)):
        by_scipy = binomtest(hits, count).proportion_ci(method="wilson")
        assert wilson(hits, count) == pytest.approx((by_scipy.low, by_scipy.high), abs=1e-12)


def test_replies_are_counted_by_what_was_put_in_and_kept_as_counts(folder, tmp_path, monkeypatch):
    systems = ('systems=["majority", "counts"]', 'system.counts.kind="tfidf"', "transfers=false")
    study = small_study(tmp_path / "runs", f'tasks=["{ER}", "epitome_ip", "news_empathy"]', *systems)
    study.run(device="cpu")
    probed = study.probe(conversations=folder, device="cpu", systems=["majority", "counts"])
    frame = probed.inserted
    assert list(frame) == list(INSERTED)
    assert set(frame.corpus) == {"PersonaChat", "Ubuntu"}
    of_talk = frame[(frame.corpus == "PersonaChat") & (frame.system == "counts")]
    assert of_talk.groupby("target").inserted.agg(list).to_dict() == {
        ER: ["nothing", "one of three"],
        "epitome_ip": ["nothing", "one of three", "always the same"],
    }
    assert (frame.n[frame.corpus == "PersonaChat"] == 10).all()
    assert frame.empathetic[frame.system == "majority"].isin([0, 1, 10]).all()
    assert "three mechanisms" in probed.missing["news_empathy, sentences"]
    stored = [measure.result for measure in study.store.measures() if measure.kind == KIND]
    assert all(isinstance(count, int) for result in stored for count in result.values())
    monkeypatch.setattr(inserted, "scorer_of", None)
    again = study.probe(conversations=folder, device="cpu", systems=["majority", "counts"])
    assert again.inserted.equals(frame)
