"""Studies that cannot be planned, whatever part of them is wrong: refused in one line that names the field."""

from __future__ import annotations

import pytest

from harness.study.file import load_study
from tasks.errors import BadStudy

NO_LAYERS = r"is no list of different layers"
MERGED = "trainer=lanes; merged.row.best=2; merged.row.by=validation"
FUSED = "trainer=lanes; merged.row.rule=fusion"
LANES = "trainer=lanes; merged.row"
REFUSED = [
    # adapters and ways of training
    ("adapter.method=par_bn", "'par_bn' makes no stack .*first is ignored.* transfers = false"),
    ("adapter.method=prompt_tuning", "'prompt_tuning' makes no stack .*second is ignored"),
    ("adapter.method=lora", "'lora' makes no stack .*switches the intermediate off"),
    ("adapter={method = 'lora', reduction_factor = 8}", "method 'lora' has no such setting"),
    ("adapter.leave_out=3", rf"adapter.leave_out 3 {NO_LAYERS}, from 0, as in \[0, 1, 2\]"),
    ("adapter.leave_out=[0, 0]", rf"adapter.leave_out \[0, 0\] {NO_LAYERS}"),
    ("adapter.leave_out=[-1]", rf"adapter.leave_out \[-1\] {NO_LAYERS}"),
    ("adapter.leave_out=[true]", rf"adapter.leave_out \[True\] {NO_LAYERS}"),
    ("composition=parallel", "composition 'parallel' is not one of stack, stack-trainable, sequential"),
    ("references=['frozen']", "reference 'frozen' is not one of finetuned"),
    ("transfers=1", "transfers 1 is not true or false"),
    ("finetune_learning_rate=0", "learning_rate 0 is out of range"),
    ("controls=['self']; transfers=false", "controls stand beside transfers"),
    ("trainer=lanes; precision=bf16; adapter.method=compacter", "precision 'bf16' is for lanes"),
    ("trainer=library; precision=bf16", "precision 'bf16' is for lanes"),
    ("trainer=lanes; precision=bf16; references=['finetuned']", "precision 'bf16' is for lanes"),
    ("trainer=lanes; precision=bf16; adapter.non_linearity=gelu", "precision 'bf16' is for lanes"),
    # imported adapters
    ('imported.theirs="no"', "imported"),
    ("imported.theirs=123456", "imported"),
    ('imported.Theirs="abcdef"', "imported"),
    ("imported=3", "imported"),
    # systems
    ('systems=["majorty"]', "no system 'majorty' is known here; did you mean 'majority'"),
    ('systems=["tfidf"]; system.tfdif.reads="both"', r"\[system.tfdif\] is not among .*; did you mean 'tfidf'"),
    ('systems=["tfidf"]; system.tfidf.rate=1', "system.tfidf: system 'tfidf' has no setting 'rate'"),
    ('systems=["tfidf"]; system.tfidf.reads="all"', "system.tfidf: reads 'all' is not one of both, response, context"),
    ('systems=["tfidf"]; system.tfidf.tasks=["moods"]', r"system.tfidf.tasks \['moods'\] is not a list of the study's"),
    ('systems=["Words"]', "system 'Words': a name may hold only small letters"),
    ('systems=["tfidf"]; system=3', "system is a table of tables"),
    ('systems=["tfidf"]; system.tfidf=3', "system.tfidf is a table of fields"),
    # merged rows
    (f"{LANES}.parents=theirs", r"merged\.row: parents 'theirs'.*; say 'others', .*, or a list of tasks"),
    (f'{LANES}.parents=["nobody"]', r"merged\.row: parents names 'nobody', which is no task of the study"),
    (f"{LANES}.parents=[]", "is not a list of tasks"),
    (f"{LANES}.parents=3", "parents 3 is not a list of tasks"),
    (f'{LANES}.targets=["nobody"]', "targets names 'nobody'"),
    (f"{LANES}.targets=epitome_er", "targets 'epitome_er' is not a list of tasks"),
    (f'{LANES}.parents=["news_emotion", "news_emotion"]', "names something twice"),
    (f"{LANES}.rule=sum", r"merged\.row: rule 'sum' is not one of outputs, weights, ties"),
    (f"{LANES}.weights=data_similarty", "did you mean 'data_similarity'"),
    (f"{LANES}.by=validation", "by is there without best"),
    (f"{LANES}.best=2", "best is there without by"),
    (f"{MERGED}; merged.row.best=0", "best 0 is not a whole number from 1"),
    (f"{MERGED}; merged.row.by=luck", "by 'luck' is not one of validation"),
    (f'{LANES}.rule=["ties"]', "rule"),
    (f"{LANES}.keep=0.5", "keep is a share of what 'ties' keeps"),
    (f"{LANES}.rule=ties; merged.row.keep=0", "keep 0 is not a number above 0"),
    (f"{LANES}.rule=ties", "say start = 'shared'"),
    (f"{LANES}.rules=ties", r"merged\.row: unknown field 'rules'; did you mean 'rule'"),
    ("trainer=lanes; merged={news_emotion = {}}", r"merged\.news_emotion: 'news_emotion' is the name of a task"),
    ("trainer=lanes; merged={random = {}}", "'random' is the name of a control"),
    ("trainer=lanes; merged={Row = {}}", "only small letters"),
    (f"{MERGED}; transfers=false", "transfers = false"),
    (f"{MERGED}; trainer=library", "trained as lanes, and trainer = 'library'"),
    (f"{MERGED}; composition=sequential", "composition = 'sequential'"),
    (f"{MERGED}; adapter.method=double_seq_bn", "only adapters of method 'seq_bn' with relu"),
    (f"{MERGED}; start=alike", "start 'alike' is not one of task, shared"),
    (f"{MERGED}; merged=3", "merged is a table of tables"),
    # merges that are trained
    (f"{FUSED}; merged.row.weights=logme", r"merged\.row: 'fusion' learns what each .* leave weights out"),
    (f"{FUSED}; merged.row.learning_rate=0", "learning_rate 0 is not a number above 0"),
    (f"{FUSED}; merged.row.keep=0.5", "keep is a share of what 'ties' keeps"),
    (f"{FUSED}; transfers=false", "transfers = false"),
    (f"{FUSED}; composition=stack-trainable", "composition = 'stack-trainable'"),
    (f"{FUSED}; adapter.method=compacter", "only adapters of method 'seq_bn' with relu"),
    (f"{FUSED}; precision=bf16", "'fusion' is trained through the adapters library, and precision 'bf16' is for lanes"),
    (f"{FUSED}; adapter.leave_out=[0]", r"the library fuses in every layer; leave adapter\.leave_out out"),
    (f"{LANES}.rule=joint; precision=bf16", "'joint' is trained through the adapters library"),
    (f"{LANES}.rule=joint; merged.row.weights=logme", "'joint' learns what each parent counts"),
    (f"{LANES}.rule=joint; merged.row.learning_rate=1e-4", "learning_rate is a fusion's own, and the rule is another"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_a_study_that_cannot_be_planned_is_refused_in_one_line(changes, message):
    with pytest.raises(BadStudy, match=message) as problem:
        load_study("tiny", changes.split("; "))
    assert "\n" not in str(problem.value)
