"""A finished study of made-up predictions in which one task is somebody's own: its rows are on disk, with texts."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adapters_store import Store
from tasks.registry import Registry
from tasks.splits.loading import Splits, load
from tests.support.studies.fake_study import FakeTask, fake_study

SECRET = "quarrelsome"
TITLE = "Gravel in the voice"
CLASSES = ("quillfeather", "ravenstone", "thistledown")
DATASET, FAMILY, SOURCE, RATER = "ward_diaries", "ward_people", "night shifts at Hollowmere", "Ottoline"
TEXT = "bramblewick"  # a word of every text
WORDS = (SECRET, TITLE, *CLASSES, DATASET, FAMILY, SOURCE, RATER, TEXT, "case-", "person-")
ENTRY = f"""
id = "{SECRET}"
title = "{TITLE}"
dataset = "{DATASET}"
family = "{FAMILY}"
data_source = "{SOURCE}"
files = ["secret.csv"]
text = "words"
context = "before"
label = "label"
kind = "multiclass"
row_id = "case"
group = "person"
"""
PUBLIC = (FakeTask("epitome_er"), FakeTask("news_empathy", "continuous"), FakeTask("conv_empathy", "ordinal"))


@dataclass(frozen=True)
class LoadedTask(FakeTask):
    """A fake task with the ids, groups and labels of rows that are on disk."""

    splits: Splits | None = field(default=None, compare=False)

    def test(self) -> pd.DataFrame:
        """Test rows as ``FakeTask`` has them; the truth lies in the middle of the label's range."""
        assert self.splits
        rows = self.splits.test
        labels = np.array([row.label for row in rows])
        columns = {"id": [row.id for row in rows], "group": [row.group for row in rows], "label": labels}
        return pd.DataFrame({**columns, "truth": labels - 1.0})


def secret_study(folder: Path, *, private: bool = False, **options: Any) -> tuple[Store, dict[str, Any]]:
    """The store in ``folder``/runs and its manifest; entry and raw file lie in ``folder``/entries and ``folder``."""
    (folder / "entries").mkdir()
    lines = [
        f"case-{i},person-{i // 3},well {i},{'slow ' * (i % 7)}{TEXT} words {i},{CLASSES[i % 3]}" for i in range(240)
    ]
    (folder / "secret.csv").write_text("\n".join(["case,person,before,words,label", *lines]) + "\n", encoding="utf-8")
    (folder / "entries" / "secret.toml").write_text(ENTRY + f"private = {str(private).lower()}\n", encoding="utf-8")
    ratings = "".join(f"{SECRET},{name},{RATER},4\n" for name in ("definition", "link"))
    (folder / "entries" / "ratings.csv").write_text("task,construct,rater,value\n" + ratings, encoding="utf-8")
    splits = load(Registry.load([folder / "entries"]).task(SECRET), folder)
    groups = len({row.group for row in splits.test})
    secret = LoadedTask(SECRET, rows=len(splits.test), groups=groups, splits=splits)
    store, manifest = fake_study(folder / "runs", (*PUBLIC[:2], secret, PUBLIC[2]), **options)
    facts = {"title": TITLE, "dataset": DATASET, "family": FAMILY, "data_source": SOURCE, "classes": list(CLASSES)}
    facts |= {"private": private, "splits_hash": splits.content_hash, "warnings": [f"no row is {CLASSES[1]}"]}
    manifest["tasks"][SECRET] |= facts
    for place, task in enumerate(PUBLIC):
        manifest["tasks"][task.id] |= {"private": False, "splits_hash": f"{place:064d}"}
    manifest["study"] |= {"registry": [str(folder / "entries")], "data": "files", "synthetic_rows": 2400}
    store.write_manifest("fake", manifest)
    return store, manifest
