"""Studies that cannot be planned, whatever part of them is wrong: refused in one line that names the field."""

import dataclasses

import pytest

from harness.study.file import check, load_study
from tasks.errors import BadStudy

MERGED = "trainer=lanes; merged.row.best=2; merged.row.by=validation"
FUSED = "trainer=lanes; merged.row.rule=fusion"
LANES = "trainer=lanes; merged.row"
REFUSED = [
    # fields of a study and their ranges
    ('backbon="x"', "unknown field 'backbon'; did you mean 'backbone'"),
    ("limit=250", "unknown field 'limit'; did you mean 'max_train, max_val and max_test, or --limit'"),
    ("training.epoch=1", "'training.epoch'; did you mean 'training.epochs'"),
    ('tasks=["epitome_er", "epitome_er"]', "names something twice: epitome_er"),
    ('tasks="epitome_er"', "tasks 'epitome_er' is not a list of texts"),
    ("training.epochs=0", "epochs 0 is not a whole number from 1"),
    ("training.learning_rate=-1", "learning_rate -1 is not a number above 0"),
    ('settings=["quarter"]', "settings\\[0\\] 'quarter' is not one of full, half"),
    *((f'settings=["{odd}"]', "nor a share such as 25%") for odd in ("025%", "0%", "100%")),
    *((f"{name}=[]", f"{name} is empty, so that nothing would be trained") for name in ("seeds", "settings")),
    ("seeds=[1, 2]; baseline_seeds=[1, 3]", "lacks seed 2 of `seeds`"),
    ("seeds=[1, 2]; self_seeds=[2, 3]", "lacks seed 1 of `seeds`; .* add it"),
    ('controls=["selves"]', "controls\\[0\\] 'selves' is not one of self, shuffled, random; did you mean 'self'"),
    ('targets=["epitom_er"]', "targets: epitom_er is not among the study's tasks; did you mean 'epitome_er'"),
    ("task.nobody.epochs=1", "is not among the study's tasks"),
    ('adapter={method = "pfeiffer"}', "adapter.method 'pfeiffer' is not one of seq_bn"),
    ('name="../up"', "is not a name; use small letters"),
    *((f"{name}=3", f"{name} 3 is not a table") for name in ("training", "analysis")),
    ("analysis.outcom=1", "'analysis.outcom'; did you mean 'analysis.outcome'"),
    ('analysis.cells="some"', "analysis.cells 'some' is not one of all, not collapsed"),
    ("analysis.draws=9", "analysis.draws 9 is not a whole number from 19"),
    ("analysis.margin=0", "analysis.margin 0 is not a number above 0"),
    ('analysis.questions=["pairs"]', r"analysis.questions\[0\] 'pairs' is not one of .*; did you mean 'pair'"),
    *(
        (f'analysis.questions=["ratings", "pair"]; analysis.{name}', "of gains in points, weighed by inverse variance")
        for name in ('outcome="ranks"', 'weights="equal"')
    ),
    ('keep="none"', "keep 'none' is not one of all, adapters, baselines"),
    ('slurm.partion="x"', "'slurm.partion'; did you mean 'slurm.partition'"),
    # schedulers
    ('slurm.partition="low\\n#SBATCH --wrap=evil"', r"slurm\.partition "),
    ("slurm.time=0", r"slurm\.time "),
    ('slurm.extra={"qos\\n" = "x"}', r"slurm\.extra "),
    ('slurm.extra={qos = "x\\ny"}', r"slurm\.extra "),
    ('slurm.extra={dependency = "3"}', "dependency is what this project sets itself"),
    ('slurm.setup=["one\\ntwo"]', r"slurm\.setup[ \[]"),
    ("ray.gpus=-0.5", r"ray\.gpus "),
    # adapters and ways of training
    ("adapter.method=par_bn", "'par_bn' makes no stack .*first is ignored.* transfers = false"),
    ("adapter.method=prompt_tuning", "'prompt_tuning' makes no stack .*second is ignored"),
    ("adapter.method=lora", "'lora' makes no stack .*switches the intermediate off"),
    ("adapter={method = 'lora', reduction_factor = 8}", "method 'lora' has no such setting"),
    ("adapter.leave_out=[0, 0]", "adapter.leave_out names something twice: 0, 0"),
    ("composition=parallel", "composition 'parallel' is not one of stack, stack-trainable, sequential"),
    ("references=['frozen']", r"references\[0\] 'frozen' is not one of finetuned"),
    ("transfers=1", "transfers 1 is not true or false"),
    ("controls=['self']; transfers=false", "controls stand beside transfers"),
    ("trainer=lanes; precision=bf16; adapter.method=compacter", "precision 'bf16' is for lanes"),
    ("trainer=lanes; precision=bf16; references=['finetuned']", "precision 'bf16' is for lanes"),
    ("trainer=lanes; precision=bf16; adapter.non_linearity=gelu", "precision 'bf16' is for lanes"),
    # losses
    ("loss=focal", "loss 'focal' is not a table"),
    ("loss.kind=focl", "loss.kind 'focl' is not one of cross-entropy, focal, ldam; did you mean 'focal'"),
    ("loss.kind=focal; loss.gama=2", "unknown field 'loss.gama'; did you mean 'loss.gamma'"),
    ("loss.kind=focal; loss.gamma=7", "loss.gamma 7 is not a number from 0 to 5"),
    ("loss.kind=focal; loss.scale=3", "loss.scale is a number of 'ldam', and the loss is 'focal'; leave it out"),
    ("loss.gamma=2", "loss.gamma is a number of 'focal', and the loss is 'cross-entropy'; leave it out"),
    ("loss.kind=focal; loss.tasks=[]", r"loss.tasks \[\] is not a list of the study's own tasks"),
    ('loss.kind=focal; loss.tasks=["epitom_er"]', r"loss.tasks \['epitom_er'\] is not a list of the study's own tasks"),
    ("loss.kind=ldam; loss.beta=0.9", "loss.beta acts from epoch loss.deferred_from on; set that too"),
    ("loss.kind=ldam; loss.deferred_from=2; loss.beta=1", "loss.beta 1 is not a number from 0 to below 1"),
    # values of another kind
    ("backbone=2020-02-29", r"backbone datetime.* is not a text"),
    ('tasks=["../x"]', r"tasks\[0\] '\.\./x' is not an id; it may hold only"),
    ("training.learning_rate=1" + "0" * 400, "learning_rate 1.* is not a number above 0"),
    ("extends=demo", "extends another in its file only"),
    # imported adapters
    ("imported.theirs=123456", "imported"),
    ('imported.Theirs="abcdef"', "imported"),
    # systems
    ('systems=["majorty"]', "no system 'majorty' is known here; did you mean 'majority'"),
    ('systems=["tfidf"]; system.tfdif.reads="both"', r"\[system.tfdif\] is not among .*; did you mean 'tfidf'"),
    ('systems=["tfidf"]; system.tfidf.rate=1', "system.tfidf: unknown field 'rate'"),
    ('systems=["tfidf"]; system.tfidf.reads="all"', "system.tfidf: reads 'all' is not one of both, response, context"),
    ('systems=["tfidf"]; system.tfidf.tasks=["moods"]', r"system.tfidf.tasks \['moods'\] is not a list of the study's"),
    (
        'systems=["tfidf"]; system.tfidf.seeds=[1, 7]',
        r"system.tfidf.seeds \[1, 7\] is not a list of the study's own seeds",
    ),
    ('systems=["Words"]', "systems\\[0\\] 'Words' is not a name of small letters"),
    ('systems=["tfidf"]; system.tfidf=3', "system.tfidf 3 is not a table"),
    # merged rows
    (f"{LANES}.parents=theirs", r"merged\.row: parents 'theirs'.*; say 'others', .*, or a list of tasks"),
    (f'{LANES}.parents=["nobody"]', r"merged\.row: parents names 'nobody', which is no task of the study"),
    (f"{LANES}.parents=[]", "is not a list of tasks"),
    (f'{LANES}.targets=["nobody"]', "targets names 'nobody'"),
    (f'{LANES}.parents=["news_emotion", "news_emotion"]', "names something twice"),
    (f"{LANES}.rule=sum", r"merged\.row: rule 'sum' is not one of outputs, weights, ties"),
    (f"{LANES}.weights=data_similarty", "did you mean 'data_similarity'"),
    (f"{LANES}.by=validation", "by is there without best"),
    (f"{LANES}.best=2", "best is there without by"),
    (f"{MERGED}; merged.row.by=luck", "by 'luck' is not one of validation"),
    (f"{LANES}.keep=0.5", "keep is a share of what 'ties' keeps"),
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
    (f"{MERGED}; merged=3", "merged 3 is not a table of tables"),
    # merges that are trained
    (f"{FUSED}; merged.row.weights=logme", r"merged\.row: 'fusion' learns what each .* leave weights out"),
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


def test_a_study_that_code_has_made_is_held_to_what_fields_say():
    study = load_study("tiny")
    for name, value in (("start", "x"), ("precision", "fp64"), ("max_tokens", -1)):
        with pytest.raises(BadStudy, match=f"code: {name} {value!r} is not"):
            check(dataclasses.replace(study, **{name: value}), "code")
