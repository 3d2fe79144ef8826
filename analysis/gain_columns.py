"""The columns of the frame of gains, each with its type and meaning."""

from __future__ import annotations

from analysis.frames import Declared

_OVER = "over all gains of the study that have a p, every setting among them"

COLUMNS = {
    "intermediate": Declared("str", "task whose adapter is below"),
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "intermediate_version": Declared("str", "version of the intermediate's entry"),
    "version": Declared("str", "version of the target's entry"),
    "metric": Declared("str", "metric of the target, as tasks.metrics names it"),
    "n_seeds": Declared("int64", "training runs behind the score; 0: planned but not finished"),
    "n_baseline_seeds": Declared("int64", "training runs behind the baseline"),
    "baseline": Declared("float64", "test score of the target alone, in the same setting"),
    "score": Declared("float64", "test score of the transfer"),
    "points": Declared("float64", "100 (score - baseline)"),
    "fisher_z": Declared("float64", "difference of mean atanh r; of correlations only"),
    "percent": Declared("float64", "100 (score - baseline) / baseline; undefined where the baseline is below .05"),
    "low": Declared("float64", "lower end of the 95 % interval of points"),
    "high": Declared("float64", "its upper end"),
    "standard_error": Declared("float64", "of points, through groups of test items and through seeds"),
    "seed_error": Declared("float64", "the part of it through seeds; 0 if conditional on one training run"),
    "df": Declared("float64", "degrees of freedom of the standard error (Satterthwaite)"),
    "draws": Declared("Int64", "resampled test sets behind low, high and every p"),
    "p": Declared("float64", "two-sided, that the true gain is 0; not corrected"),
    "p_bh": Declared("float64", f"p after Benjamini and Hochberg {_OVER}: bounds the share of false discoveries"),
    "p_by": Declared(
        "float64", f"p after Benjamini and Yekutieli {_OVER}: the same, however gains depend on each other"
    ),
    "p_holm": Declared("float64", f"p after Holm {_OVER}: bounds the probability of one false discovery"),
    "p_max_target": Declared("float64", "p after the step-down maximum over the gains of the same target and setting"),
    "p_max_grid": Declared("float64", f"p after the step-down maximum {_OVER}"),
    "significant": Declared("bool", "p_bh is at most .05"),
    "full_baseline": Declared("float64", "test score of the target alone with all its training data"),
    "points_over_full": Declared("float64", "100 (score - full_baseline)"),
    "low_over_full": Declared("float64", "lower end of its 95 % interval"),
    "high_over_full": Declared("float64", "its upper end"),
    "standard_error_over_full": Declared("float64", "of points_over_full"),
    "df_over_full": Declared("float64", "its degrees of freedom"),
    "p_over_full": Declared("float64", "two-sided, that the true gain over the full baseline is 0; not corrected"),
    "conditional": Declared("str", "training runs that the inference holds for"),
    "collapsed": Declared("boolean", "score or baseline is at or below what always the commonest answer scores"),
    "contaminated": Declared("boolean", "test items are training material; undefined: not measured"),
    "dead_intermediate": Declared("boolean", "switching the intermediate off hardly moves the logits"),
    "liveness": Declared("float64", "how far switching the intermediate off moves a logit"),
    "n_test": Declared("Int64", "rows of the test split"),
    "n_groups": Declared("Int64", "groups that its rows fall into"),
    "flags": Declared("str", "what is unusual, by semicolons"),
}
CORRECTIONS = ("p_bh", "p_by", "p_holm", "p_max_target", "p_max_grid")
