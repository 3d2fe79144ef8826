"""Protocols: siblings are cut alike, no unit lies on two sides, and shares and folds are what they say."""

import pytest

from harness.study.file import load_study
from harness.study.plan import make_plan
from tasks.errors import BadInput, BadStudy
from tasks.registry import Registry
from tasks.splits.contamination import contacts
from tasks.splits.loading import load
from tasks.splits.protocol import Protocol

SIBLINGS = ("epitome_er", "epitome_ip", "epitome_ex")
SHARES, FOLDS = Protocol((0.75, 0.05, 0.2)), Protocol(folds=5)


def splits_of(data, protocol, names=SIBLINGS):
    registry = Registry.load()
    return [load(registry.task(name), data, protocol.name) for name in names]


def ids(rows):
    return {row.id for row in rows}


@pytest.mark.parametrize("protocol", [SHARES, FOLDS, Protocol((0.6, 0.2, 0.2), unit="row")], ids=lambda p: p.name)
def test_siblings_are_cut_alike_and_no_row_is_on_two_sides(protocol, data):
    first, *others = splits_of(data, protocol)
    assert len(first.test) == sum(len(splits.test) for splits in first.folds or (first,))  # of folds every row
    for other in others:
        for one, two in zip(first.folds or (first,), other.folds or (other,), strict=True):
            assert ids(one.test) == ids(two.test)
            kept = [ids((*splits.train, *splits.validation)) for splits in (one, two)]
            assert not (kept[0] | kept[1]) & ids(one.test)
    for splits in first.folds or (first,):
        parts = (splits.train, splits.validation, splits.test)
        assert sum(map(len, parts)) == len(set().union(*map(ids, parts)))
        if protocol.unit == "group":
            assert not {row.group for row in splits.test} & {row.group for row in (*splits.train, *splits.validation)}


def test_shares_are_met_on_average_and_by_row_more_closely(data):
    (splits,) = splits_of(data, Protocol((0.6, 0.2, 0.2), unit="row"), ["news_empathy"])
    kept = [len(part) for part in (splits.train, splits.validation, splits.test)]
    total = sum(kept) + sum(map(len, splits.dropped))
    for size, share in zip(kept, (0.6, 0.2, 0.2), strict=True):
        assert abs(size / total - share) < 0.1
    assert not splits.folds


def test_repeats_cut_anew_begin_with_the_single_cut_and_siblings_agree_on_each(data):
    repeats = Protocol((0.75, 0.05, 0.2), repeats=3)
    first, *others = splits_of(data, repeats)
    (single,) = splits_of(data, SHARES, SIBLINGS[:1])
    assert first.folds[0].content_hash == single.content_hash
    assert (first.train, first.test, first.names) == (single.train, single.test, single.names)
    assert first.is_repeated
    tests = [frozenset(ids(fold.test)) for fold in first.folds]
    assert len(set(tests)) == 3
    for other in others:
        assert [frozenset(ids(fold.test)) for fold in other.folds] == tests


@pytest.mark.parametrize("protocol", [SHARES, FOLDS, Protocol((0.5, 0.25, 0.25), unit="row", repeats=10)])
def test_a_protocol_is_read_from_its_name(protocol):
    assert Protocol.of(protocol.name) == protocol
    assert Protocol.of("clean") is None
    assert (SHARES.name, FOLDS.name) == ("shares-0.75-0.05-0.2-group", "folds-5-group")


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({}, "give either shares"),
        ({"shares": (0.75, 0.05, 0.2), "folds": 5}, "give either shares"),
        ({"shares": (0.7, 0.05, 0.2)}, "three numbers above 0 that add up to 1"),
        ({"shares": (0.8, 0.2)}, "three numbers above 0 that add up to 1"),
        ({"folds": 1}, "folds 1 is not a whole number from 2 to 20"),
        ({"folds": 5, "repeats": 2}, "repeats 2 is for shares, and there are folds"),
    ],
)
def test_what_cuts_nothing_is_refused(fields, refusal):
    with pytest.raises(BadInput, match=refusal):
        Protocol(**fields)


def test_a_study_says_its_protocol_and_only_its_cells_are_others(data):
    overrides = ['tasks=["epitome_er", "epitome_ip"]', 'data="files"', "transfers=false"]
    plain = load_study("tiny", overrides)
    cut = load_study("tiny", [*overrides, "protocol.shares=[0.75, 0.05, 0.2]"])
    assert (plain.splits, cut.splits) == ("clean", SHARES.name)
    plans = [make_plan(study, Registry.load(), data) for study in (plain, cut)]
    for one, two in zip(*(plan.cells for plan in plans), strict=True):
        assert one.key != two.key
        assert two.spec["splits"] == SHARES.name
        assert {name for name in one.spec if one.spec[name] != two.spec[name]} == {"splits", "splits_hash"}


@pytest.mark.parametrize(
    ("overrides", "refusal"),
    [
        (["protocol.shares=[0.75, 0.2]"], "shares .* are not three numbers"),
        (["protocol.shares=0.75"], "protocol.shares 0.75 is not a list of numbers"),
        (["protocol.repeat=10"], "unknown field 'protocol.repeat'"),
        (["protocol.folds=5", 'splits="as-published"'], r"splits 'as-published' and \[protocol\] are two ways"),
        (
            ["protocol.shares=[0.6, 0.2, 0.2]", "protocol.repeats=0"],
            "protocol.repeats 0 is not a whole number from 1 to",
        ),
        (["protocol.folds=5", "protocol.unit='post'"], "protocol.unit 'post' is not one of group, row"),
        (["protocol=5"], "protocol 5 is not a table"),
    ],
)
def test_what_a_study_says_wrongly_of_its_protocol_is_refused_in_one_line(overrides, refusal):
    with pytest.raises(BadStudy, match=refusal):
        load_study("real-small", overrides)


def test_a_sibling_s_adapter_of_the_first_repeat_is_marked_for_what_later_repeats_test(data):
    er, ip, _ = splits_of(data, Protocol((0.75, 0.05, 0.2), repeats=3))
    (onto_itself, from_sibling) = contacts({"er": er, "ip": ip}, [("er", "er"), ("er", "ip")])
    assert onto_itself.same_row == onto_itself.same_group == 0
    tested_later = {row.id for fold in er.folds for row in fold.test} & ids(ip.train)
    assert from_sibling.same_row == len(tested_later) > 0
