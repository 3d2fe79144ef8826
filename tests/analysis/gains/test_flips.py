"""Items that a transfer turned right or wrong, against counts made by hand from the stored predictions."""

from collections import Counter
from math import comb

import numpy as np
import pandas as pd
import pytest

from analysis.gains.flips import answers, by_class, by_group, by_seed, by_size, flips, over_seeds, sign_p
from tasks.errors import BadInput, UnknownTask
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("distress", "continuous"), FakeTask("felt", "multilabel"))
CLASSES = ["low", "middle", "high"]


@pytest.fixture
def study(tmp_path):
    return fake_study(tmp_path, TASKS, seeds=(1, 2), helpful=[("distress", "hope"), ("hope", "distress")])


def stored(study, intermediate, target, seed):
    store, manifest = study
    wanted = (intermediate, target, seed)
    key = next(c["key"] for c in manifest["cells"] if (c["intermediate"], c["target"], c["seed"]) == wanted)
    return pd.read_parquet(store.open(key, "test.parquet"))


def logits_of(frame):
    return frame[[name for name in frame if name.startswith("logit_")]].to_numpy()


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (1, 0), (5, 5), (9, 2), (3, 14), (40, 61)])
def test_the_exact_test_is_a_sum_of_binomials(better, worse):
    n, least = better + worse, min(better, worse)
    tail = sum(comb(n, k) for k in range(least + 1)) / 2**n
    assert sign_p(better, worse) == pytest.approx(min(1.0, 2 * tail))


def test_classes_are_counted_by_seed_class_and_change(study):
    found = flips(*study, "distress", "hope")
    for row in by_seed(found.items).itertuples():
        before, after = (stored(study, one, "hope", row.seed) for one in (None, "distress"))
        said = [logits_of(one).argmax(axis=1) for one in (before, after)]
        right = [one == before.label.to_numpy() for one in said]
        assert row.better == (~right[0] & right[1]).sum() > 0
        assert row.worse == (right[0] & ~right[1]).sum()
        assert row.error_after == pytest.approx(1 - right[1].mean())
        assert row.p == pytest.approx(sign_p(int(row.better), int(row.worse)))
    assert by_class(found).set_index("class").n.to_dict() == Counter(
        CLASSES[label] for seed in (1, 2) for label in stored(study, None, "hope", seed).label
    )


def test_answers_that_gave_way_are_a_small_confusion(study):
    found = flips(*study, "distress", "hope", seeds=[2])
    before, after = (stored(study, one, "hope", 2) for one in (None, "distress"))
    said = [logits_of(one).argmax(axis=1) for one in (before, after)]
    rows = zip(before.label, *said, strict=True)
    by_hand = Counter((CLASSES[true], CLASSES[a], CLASSES[b]) for true, a, b in rows if a != b)
    frame = answers(found)
    assert {tuple(one[:3]): one[3] for one in frame.itertuples(index=False)} == by_hand
    assert frame.n.is_monotonic_decreasing


def test_numbers_are_sorted_by_how_much_their_error_changed(study):
    found = flips(*study, "hope", "distress")
    changes = []
    for seed in (1, 2):
        before, after = (stored(study, one, "distress", seed) for one in (None, "hope"))
        label = before.label.to_numpy()
        changes.append(np.abs(logits_of(after)[:, 0] - label) - np.abs(logits_of(before)[:, 0] - label))
    by_hand = pd.Series(np.mean(changes, axis=0), stored(study, None, "distress", 1).id).sort_values()
    frame = over_seeds(found.items)
    assert list(frame.id[:3]) == list(by_hand.index[:3])
    assert list(frame.id[-3:]) == list(by_hand.index[-3:])
    assert frame.error_change.to_numpy() == pytest.approx(by_hand.to_numpy(), abs=1e-6)
    assert answers(found).empty
    assert by_class(found).n.sum() == 2 * 120


def test_several_labels_are_better_when_fewer_are_wrong(study):
    found = flips(*study, "hope", "felt", seeds=[1])
    before, after = (stored(study, one, "felt", 1) for one in (None, "hope"))
    true = before[["label_0", "label_1", "label_2"]].to_numpy()
    wrong = [((logits_of(one) > 0) != true) for one in (before, after)]
    fewer = wrong[1].sum(axis=1) - wrong[0].sum(axis=1)
    row = by_seed(found.items).iloc[0]
    assert (row.better, row.worse) == ((fewer < 0).sum(), (fewer > 0).sum())
    assert list(by_class(found).better) == list((wrong[0] & ~wrong[1]).sum(axis=0))
    assert list(by_class(found)["class"]) == CLASSES


def test_groups_are_counted_whole(study):
    found = by_group(flips(*study, "distress", "hope", seeds=[1]).items)
    assert len(found) == 24
    assert set(found.n) == {5}
    surplus = (found.better - found.worse).abs()
    assert surplus.is_monotonic_decreasing


def test_quarters_do_not_part_equal_numbers(study):
    items = flips(*study, "distress", "hope", seeds=[1]).items
    sizes = pd.Series(np.repeat([3, 3, 4, 9], 30), items.index)
    found = by_size(items, sizes, "words")
    assert list(found.words) == ["3 to 3", "4 to 4", "9 to 9"]
    assert found.n.sum() == 120
    assert list(by_size(items, sizes * 0, "words").words) == ["0 to 0"]


def test_unfinished_seeds_are_named_and_left_out(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS[:2], seeds=(1, 2))
    gone = next(c["key"] for c in manifest["cells"] if (c["role"], c["target"], c["seed"]) == ("baseline", "hope", 2))
    (store.root / "objects" / gone / "record.json").unlink()
    found = flips(store, manifest, "distress", "hope")
    assert found.unfinished == (2,)
    assert set(found.items.seed) == {1}
    with pytest.raises(BadInput, match="no seed of the transfer and of hope alone is finished"):
        flips(store, manifest, "distress", "hope", seeds=[2])


def test_an_imported_adapter_may_be_below(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS[:2], controls=("imported",))
    manifest["study"]["imported"] = {"glasswort_er": "f" * 64}
    found = flips(store, manifest, "glasswort_er", "hope")
    (key,) = (c["key"] for c in manifest["cells"] if (c["intermediate"], c["target"]) == ("glasswort_er", "hope"))
    logits = logits_of(pd.read_parquet(store.open(key, "test.parquet")))
    assert list(found.items.after) == [("low", "middle", "high")[place] for place in logits.argmax(axis=1)]
    with pytest.raises(UnknownTask, match="has no task 'glasswort_er'"):
        flips(store, manifest, "hope", "glasswort_er")


def test_a_system_may_stand_in_the_place_of_the_intermediate(tmp_path):
    systems, helpful = ("words", "floor"), [("words", "hope")]
    store, manifest = fake_study(tmp_path, TASKS[:2], seeds=(1, 2), systems=systems, helpful=helpful)
    found = flips(store, manifest, "words", "hope")
    assert found.is_system and not flips(store, manifest, "distress", "hope").is_system
    keys = {cell["seed"]: cell["key"] for cell in manifest["cells"]
            if (cell["target"], cell.get("system")) == ("hope", "words")}  # fmt: skip
    for seed, items in found.items.groupby("seed"):
        logits = logits_of(pd.read_parquet(store.open(keys[seed], "test.parquet")))
        assert list(items.after) == [("low", "middle", "high")[place] for place in logits.argmax(axis=1)]
    counts = found.items.change.value_counts()
    assert counts["better"] > 5 * counts.get("worse", 0)
    with pytest.raises(UnknownTask, match="did you mean 'words'"):
        flips(store, manifest, "word", "hope")


@pytest.mark.parametrize(
    ("pair", "options", "message"),
    [
        (("distres", "hope"), {}, "did you mean 'distress'"),
        (("hope", "hope"), {}, "plans no transfer hope -> hope"),
        (("distress", "hope"), {"setting": "half"}, "its settings are full"),
        (("distress", "hope"), {"seeds": [7]}, "seed 7 is not one of"),
    ],
)
def test_what_is_not_planned_is_refused(study, pair, options, message):
    with pytest.raises((BadInput, UnknownTask), match=message):
        flips(*study, *pair, **options)
