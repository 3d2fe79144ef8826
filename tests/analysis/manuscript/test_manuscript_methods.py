"""The methods of ten studies, sentence by sentence: each is there where the records have its fact, and only then."""

import dataclasses
import re

import pytest

from analysis.figures.heatmaps import heatmaps
from analysis.manuscript.frames import data_sets, stored_study, write_data
from analysis.manuscript.methods import checklist, methods
from analysis.manuscript.references import DATA, licences, uses_of
from analysis.sections.blocks import markdown
from analysis.sections.gains import gains as gains_section
from analysis.sections.study import provenance
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.page_study import with_frames

TASKS = (FakeTask("epitome_er", rows=30, groups=15), FakeTask("news_empathy", "continuous", rows=30, groups=15))
TRAINING = {"epochs": 4, "batch_size": 8, "learning_rate": 0.002, "weight_decay": 0.0, "warmup": 0.0, "clip": 1.0}
LANES = {
    "adapter": {"method": "seq_bn", "non_linearity": "relu", "reduction_factor": 16},
    "training": TRAINING,
    "input_format": "pair",
    "max_tokens": 32,
    "class_weights": "none",
    "truncation": "head",
    "trainer": "lanes",
    "precision": "fp32",
    "shared_noise": True,
    "retry_collapsed": False,
}


def specs(composition="stack", **changed):
    """What every spec of a study has, with the composition of its transfers."""

    def spec_of(target, role):
        of_target = changed.get("by_task", {}).get(target, {})
        spec = {**LANES, **{name: value for name, value in changed.items() if name != "by_task"}, **of_target}
        if role == "finetuned":
            spec |= {"adapter": None, "trainer": "library", "training": {**TRAINING, "learning_rate": 2e-5}}
        return {**spec, "composition": None if role in ("baseline", "finetuned") else composition}

    return spec_of


STUDIES = {
    "lanes": {"spec_of": specs(), "synthetic": True, "study": {"max_tokens": 32}},
    "masks of their own": {
        "spec_of": specs(shared_noise=False, training={**TRAINING, "warmup": 0.1, "weight_decay": 0.01}),
        "seeds": (1, 2),
    },
    "one of three seeds": {"spec_of": specs(), "study": {"seeds": [1, 2, 3]}},
    "library": {"spec_of": specs(trainer="library", shared_noise=True), "baseline_seeds": (1, 2, 3)},
    "both trained": {"spec_of": specs("stack-trainable", input_format="tags"), "settings": ("full", "half")},
    "one after the other": {
        "spec_of": specs(
            "sequential",
            by_task={"news_empathy": {"training": {**TRAINING, "epochs": 10}, "class_weights": "balanced"}},
        ),
    },
    "losses for rare classes": {
        "spec_of": specs(
            by_task={
                "epitome_er": {"loss": {"kind": "focal", "gamma": 5.0}},
                "news_empathy": {"label": {"kind": "continuous", "classes": []}},
            }
        ),
    },
    "margins": {
        "spec_of": specs(
            loss={"kind": "ldam", "largest_margin": 0.5, "scale": 30.0, "deferred_from": 3, "beta": 0.9999},
        ),
    },
    "old records": {},
    "controls": {
        "spec_of": specs(retry_collapsed=True, precision="bf16"),
        "controls": ("self", "random"),
        "references": ("finetuned",),
    },
    "unfinished": {
        "spec_of": specs(training={**TRAINING, "epochs": 1, "clip": 0.5}),
        "absent": [("epitome_er", "news_empathy"), ("news_empathy", "epitome_er")],
        "cut": {"rows": 100, "history": 0, "target": 0, "windows": 100},
        "missing_tasks": {"condolence": "no data"},
        "synthetic": True,
    },
}


@pytest.fixture(scope="module", params=STUDIES)
def subject(request, tmp_path_factory):
    """One of the studies, as a manuscript sees it."""
    options = dict(STUDIES[request.param])
    more = {"baseline_seeds": list(options.get("baseline_seeds", ()))} | options.pop("study", {})
    store, manifest = fake_study(tmp_path_factory.mktemp("methods"), TASKS, study=more, **options)
    return stored_study(store, manifest)


class Facts:
    """What a study's manifest and records say, asked without the code that writes the methods."""

    def __init__(self, subject):
        self.study, self.manifest = subject.study, subject.stored.manifest
        self.records = [one for one in subject.stored.records if one.spec.get("role") != "finetuned"]
        self.references = len(subject.stored.records) - len(self.records)
        self.specs = [one.spec for one in self.records]
        self.gains = subject.stored.gains[subject.stored.gains.p.notna()]
        self.roles = {cell["role"] for cell in self.manifest["cells"]}
        self.cut = [one.results["cut"]["test"] for one in self.records]

    def has(self, field, *values):
        known = [spec[field] for spec in self.specs if spec.get(field) is not None]
        return any(value in values for value in known) if values else bool(known)

    def losses(self):
        return {spec["loss"]["kind"] for spec in self.specs if "loss" in spec}

    def trained(self, field):
        return {spec["training"][field] for spec in self.specs if field in spec["training"]}


# Every sentence that methods can hold, and when it has to be there.
SENTENCES = [
    (r"^The texts are synthetic", lambda f: f.manifest["synthetic"]),
    (r"^Tasks: \[\[StudyTasks\]\]", lambda f: True),
    (r"^Splits are clean", lambda f: f.study["splits"] == "clean"),
    (r"^Transfers between tasks, themes and ratings follow an earlier design", lambda f: True),
    (r"^Left out for want of data: condolence\.", lambda f: bool(f.manifest["missing"])),
    (r"^For every task an adapter of the kind seq_bn", lambda f: True),
    (r"^A cell trains \[\[StudyTrainedParametersLeast\]\] parameters\.", lambda f: True),
    (r"was stacked on it; only the target's adapter and head were trained\.", lambda f: f.has("composition", "stack")),
    (r"stacked on that of the intermediate task, and both", lambda f: f.has("composition", "stack-trainable")),
    (r"started from the weights of the intermediate's", lambda f: f.has("composition", "sequential")),
    (r"^As controls.*adapter of another seed; on an adapter that was not trained\.$", lambda f: "random" in f.roles),
    (r"^As a reference.*learning rate of 2e-05\.$", lambda f: f.references > 0),
    (r"^Training used AdamW", lambda f: True),
    (r"rate fell linearly to 0\.", lambda f: f.trained("warmup") == {0.0}),
    (r"rose linearly over the first 10\.0 % of the steps and then fell", lambda f: f.trained("warmup") == {0.1}),
    (r"^Training used.*at the last step\.$", lambda f: not f.trained("warmup")),
    (r"^Epochs: (4|1); rows", lambda f: len(f.trained("epochs")) == 1),
    (r"^Epochs: 4 \(Title of epitome_er.*\), 10 \(Title of news_empathy", lambda f: len(f.trained("epochs")) == 2),
    (r"; no weight decay", lambda f: f.trained("weight_decay") == {0.0}),
    (r"; weight decay: 0\.01", lambda f: f.trained("weight_decay") == {0.01}),
    (r"clipped to a norm of 1\.", lambda f: f.trained("clip") == {1.0}),
    (r"clipped to a norm of 0\.5\.", lambda f: f.trained("clip") == {0.5}),
    (r"^The weights of the epoch with the best validation score were kept\.", lambda f: max(f.trained("epochs")) > 1),
    (
        r"^Loss of a row: focal loss at gamma 5 \[@lin-etal-2017-focal\] \(Title of epitome_er\), "
        r"squared error \(Title of news_empathy\)\.$",
        lambda f: f.losses() == {"focal"},
    ),
    (
        r"^Loss of a row: LDAM loss at largest margin 0\.5, scale 30 \[@cao-etal-2019-learning\], from epoch 3 on with "
        r"classes weighed by effective numbers of rows at beta 0\.9999 \[@cui-etal-2019-class\]\.$",
        lambda f: f.losses() == {"ldam"},
    ),
    (r"^Classes were weighed.*: Title of news_empathy\.", lambda f: f.has("class_weights", "balanced")),
    (r"^A training that came to nothing.*0 of \d+\.$", lambda f: f.has("retry_collapsed", True)),
    (
        r"the project's own batched implementation.*checked against the adapters library",
        lambda f: f.has("trainer", "lanes"),
    ),
    (r"^Cells were trained with the adapters library.*one at a time\.", lambda f: f.has("trainer", "library")),
    (
        r"^The cells of one target.*start from the same weights.*under the same dropout masks",
        lambda f: f.has("trainer", "lanes") and f.has("shared_noise", True) and not f.has("composition", "sequential"),
    ),
    (
        r"^The cells of one target, seed and share of data see .*same dropout",
        lambda f: f.has("composition", "sequential"),
    ),
    (r"^The cells of one target.*dropout masks of its own\.", lambda f: f.has("shared_noise", False)),
    (r"^A row's earlier turns are the first segment", lambda f: f.has("input_format", "pair")),
    (r"^Roles and the text to be judged were marked", lambda f: f.has("input_format", "tags")),
    (r"^An input has at most 32 tokens\.", lambda f: f.has("max_tokens", 32)),
    (
        r"earliest part of the history was left out: 4\.0 % of Title of epitome_er, 4\.0 % of Title of news_empathy\.",
        lambda f: f.has("max_tokens") and any(one["history"] for one in f.cut),
    ),
    (
        r"^Texts that were longer by themselves were cut, which kept their first tokens: 2\.0 % of",
        lambda f: f.has("max_tokens") and any(one["target"] for one in f.cut),
    ),
    (r"^No row was longer\.", lambda f: f.has("max_tokens") and not any(one["history"] for one in f.cut)),
    (r"^Computing precision: fp32\.", lambda f: f.has("precision", "fp32")),
    (r"^Computing precision: bf16\.", lambda f: f.has("precision", "bf16")),
    (r"^Cells were trained with seed 1\.$", lambda f: f.study["seeds"] == [1] and not f.study["baseline_seeds"]),
    (r"^Cells were trained with seeds 1, 2\.$", lambda f: f.study["seeds"] == [1, 2]),
    (r"^Cells were trained with seeds 1, 2, 3\.$", lambda f: f.study["seeds"] == [1, 2, 3]),
    (r"^A transfer has 1 of them so far\.$", lambda f: f.study["seeds"] == [1, 2, 3]),
    (
        r"^Cells were trained with seed 1; targets alone with seeds 1, 2, 3\.$",
        lambda f: bool(f.study["baseline_seeds"]),
    ),
    (r"^Targets were also trained on a share .*\(half\)", lambda f: "half" in f.study["settings"]),
    (r"^Of \[\[StudyCellsPlanned\]\] planned", lambda f: True),
    (r"^A gain is the score of a transfer less", lambda f: True),
    (r"^Single gains are not tested", lambda f: f.gains.empty),
    (r"paired draws.*: \[\[StudyDraws\]\] of each gain\.", lambda f: f.gains.draws.nunique() == 1),
    (r"and \[\[StudyDrawsMost\]\] of the \[\[StudyGainsDrawnMore\]\] gains", lambda f: f.gains.draws.nunique() == 2),
    (r"^They hold the spread between seeds", lambda f: (f.gains.n_seeds > 1).any()),
    (
        r"^A transfer with a single seed is taken to vary",
        lambda f: ((f.gains.n_seeds == 1) & (f.gains.n_baseline_seeds > 1)).any(),
    ),
    (
        r"^They are conditional on one training run",
        lambda f: len(f.gains) > 0 and (f.gains.n_baseline_seeds == 1).all(),
    ),
    (r"^Over the \[\[StudyPairsTested\]\] gains that have a p", lambda f: len(f.gains) > 0),
    (r"^Of these gains", lambda f: len(f.gains) > 0),
    (r"^Raters \(\[\[StudyRaters\]\]\) judged every task; agreement", lambda f: True),
    (r"^Whether ratings explain gains cannot be said", lambda f: True),
]


def sentences(text):
    return re.split(r"(?<=[.\]])\s+(?=[A-Z])", text)


def test_every_sentence_is_there_where_the_records_have_its_fact_and_only_then(subject):
    facts, text = Facts(subject), [one for _, part in methods(subject, uses_of(subject)) for one in sentences(part)]
    for pattern, holds in SENTENCES:
        assert any(re.search(pattern, one) for one in text) == bool(holds(facts)), (pattern, text)
    unknown = [one for one in text if not any(re.search(pattern, one) for pattern, _ in SENTENCES)]
    assert not unknown


def test_made_up_texts_cite_no_data_and_have_no_licences(subject):
    is_synthetic = subject.stored.manifest["synthetic"]
    assert any(one.kind == DATA for one in uses_of(subject)) != is_synthetic
    assert bool(licences(subject)) != is_synthetic
    assert (data_sets(subject).licence == "").all() == is_synthetic


def test_the_checklist_has_the_settings_of_the_records_and_the_draws_of_the_gains(subject):
    answers, facts = dict(checklist(subject)), Facts(subject)
    assert (f"learning rate: {LANES['training']['learning_rate']:g}" in answers["Which training settings?"]) == bool(
        facts.trained("clip")
    )
    if len(facts.gains):
        assert ("StudyDrawsMost" in answers["Which tests?"]) == (facts.gains.draws.nunique() == 2)
    assert "warm-up" not in answers["Which training settings?"]


def test_gains_that_were_drawn_more_often_are_counted_in_the_text_and_the_report(tmp_path):
    store, manifest = fake_study(tmp_path / "store", TASKS, spec_of=specs())
    subject = stored_study(store, manifest)
    drawn = subject.stored.gains.assign(draws=[10_000, 100_000])
    subject = dataclasses.replace(subject, stored=with_frames(subject.stored, gains=drawn))
    text = dict(methods(subject, uses_of(subject)))["Gains and tests"]
    assert "[[StudyDrawsMost]] of the [[StudyGainsDrawnMore]] gains" in text
    run = write_data(subject, tmp_path / "data")[1]["run"].set_index("fact").value
    assert (run.draws, run.draws_most, run.gains_drawn_more) == (10_000, 100_000, 1)
    page = markdown([gains_section(subject.stored)])
    assert "from 10000 paired draws (of 1 gain 100000" in page
    assert page.count("100000") == 1


def test_the_papers_of_systems_are_cited_and_words_and_majorities_are_nobodys(tmp_path):
    subject = stored_study(*fake_study(tmp_path, TASKS, spec_of=specs(), systems=("clsn", "tfidf")))
    uses = [use for use in uses_of(subject) if use.kind == "system"]
    assert [(use.name, use.keys) for use in uses] == [("clsn", ("jiang-etal-2023-empathy",))]
    sentence = "Systems other than adapters were given the same rows: clsn [@jiang-etal-2023-empathy]."
    assert sentence in dict(methods(subject, uses_of(subject)))["Models"]


def test_the_cells_of_systems_count_among_trainings_hours_and_devices_and_floors_do_not(tmp_path):
    store, manifest = fake_study(tmp_path / "store", TASKS, systems=("clsn", "tfidf"), references=("finetuned",))
    for cell in manifest["cells"]:
        cell["role"] = "floor" if cell.get("system") == "tfidf" else cell["role"]
    subject = stored_study(store, manifest)
    run = write_data(subject, tmp_path / "data")[1]["run"].set_index("fact").value
    assert (run.cells_planned, run.cells_finished, run.hours) == (8, 8, pytest.approx(8 * 1.5 / 3600))
    answers, page = dict(checklist(subject)), markdown([provenance(subject.stored)])
    assert answers["On which devices?"] == "cpu (8 trainings)" and "devices: cpu (8 cells)" in page
    assert answers["Which weights of the backbone (sha256)?"] == f"{'f' * 64} (6 trainings)"


def test_a_study_without_transfers_says_so_and_how_its_systems_are_tested(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, systems=("clsn",))
    cells = [cell for cell in manifest["cells"] if cell["role"] != "transfer"]
    subject = stored_study(store, manifest | {"cells": cells})
    text, answers = dict(methods(subject, uses_of(subject))), dict(checklist(subject))
    tests = text["Gains and tests"]
    assert "are not tested, since no transfer is planned. On the leaderboard all ways" in tests
    assert "groups of test items [@field-welsh-2007-bootstrapping]; p values" in tests
    assert tests.endswith("step-down maximum [@westfall-young-1993-resampling].")
    assert "cannot be said: no transfer is planned." in text["What explains a gain"]
    assert answers["Which tests?"].startswith("Single gains are not tested. On the leaderboard")
    captions = [figure.caption for figure in heatmaps(subject.stored)]
    assert captions[0] == "Targets alone, scored by macro-F1; the number is the score."
    assert write_data(subject, tmp_path / "data")[1]["run"].set_index("fact").value.collapsed_pairs == 0
