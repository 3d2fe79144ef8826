"""Check a results archive without any code of this project: ``python docs/check.py STUDY-results.tar.xz``.

From the stored test predictions (objects/KEY/test.parquet; studies/*.json: which cell a KEY is) come scores: macro-F1
over classes or labels, or Pearson's r. Gains are 100 x (mean over seeds of a transfer or control - that of its target
alone), differences of systems likewise. p_bh is from the RAW P OF THE TABLE. Exit code 1: off by over 1e-6.
"""

import io
import json
import sys
import tarfile

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control, pearsonr
from sklearn.metrics import f1_score

CELL, ROW, gaps = ["key", "role", "target"], ["target", "setting", "system"], []
WORDS = {"baseline": "adapter alone", "transfer": "adapter", "finetuned": "whole model"}  # of roles, in tables


def compare(what, computed, printed):
    """Print how many numbers were compared; what only one side has is infinitely far off."""
    computed, printed = computed.astype(float).align(printed.astype(float))
    gap = (computed - printed).abs().mask(computed.isna() & printed.isna(), 0).fillna(np.inf)
    gaps.append(gap.max() if len(gap) else 0)
    print(f"{what:35}{len(gap):5} compared, largest difference {gaps[-1]:.1e}")


with tarfile.open(sys.argv[1]) as tar:
    files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
study = json.loads(next(files[path] for path in files if path.startswith("studies/")))
tables = {path[14:-4]: pd.read_csv(io.BytesIO(files[path])) for path in files if path.startswith("report/tables/")}
study["cells"] = [cell for cell in study["cells"] if f"objects/{cell['key']}/test.parquet" in files]
for cell in study["cells"]:
    test = pd.read_parquet(io.BytesIO(files[f"objects/{cell['key']}/test.parquet"]))
    logits, true = test.filter(like="logit_").to_numpy(float), test.filter(regex="^label").to_numpy()
    if study["tasks"][cell["target"]]["metric"] == "pearson_r":
        cell["score"] = pearsonr(test.label, logits[:, 0]).statistic
    elif true.shape[1] > 1:  # several labels a row
        cell["score"] = f1_score(true, logits > 0, labels=np.flatnonzero(true.any(axis=0)), average="macro")
    else:
        cell["score"] = f1_score(true, logits.argmax(axis=1), labels=np.unique(true), average="macro")
    way = WORDS.get(cell["role"], cell["role"])
    cell["system"] = cell.get("system") or f"{way} on {cell['intermediate']}".removesuffix(" on None")
cells, printed = pd.DataFrame(study["cells"]), tables["cells"].query("status == 'done'")
compare("cells.csv: score", cells.set_index(CELL).score, printed.set_index(CELL).score)
means = cells.groupby(ROW).score.agg(lambda seeds: seeds.mean(skipna=False))
alone = means.xs("adapter alone", level="system").reindex(means.index.droplevel("system")).set_axis(means.index)
gains = pd.concat([tables["gains"].assign(control="adapter"), tables.get("controls")])
gains["system"] = [f"{way} on {task}" for way, task in zip(gains.control, gains.intermediate, strict=True)]
planned = means.index.isin(cells[cells.role.isin(["transfer", *gains.control])].set_index(ROW).index)
for name, computed in {"baseline": alone, "score": means, "points": 100 * (means - alone)}.items():
    compare(f"gains.csv, controls.csv: {name}", computed[planned], gains.set_index(ROW)[name])
p = tables["gains"].p.astype(float).dropna()
compare("gains.csv: p_bh", pd.Series(false_discovery_control(p), p.index), tables["gains"].p_bh.dropna())
pairs = tables.get("leaderboard_pairs", pd.DataFrame(columns=[*ROW[:2], "a", "b", "points"]))
a, b = (means.reindex(pairs.set_index([*ROW[:2], side]).index).to_numpy() for side in "ab")
compare("leaderboard_pairs.csv: points", pd.Series(100 * (a - b)), pairs.points)
sys.exit(int(max(gaps) > 1e-6))
