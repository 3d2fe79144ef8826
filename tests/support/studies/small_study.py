"""Two tasks on the random backbone and their cells as steps, one of which may be broken; for tests of engines."""

import dataclasses
import os
import signal

from adapters_store import key_of
from harness.api import Study
from harness.engines.remote import Launch, RemotePack
from harness.run.grid import Step
from harness.study.cell import make_cell
from harness.study.plan import Pack

ONE, TWO = "news_emotion", "news_empathy"
OVERRIDES = (f'tasks=["{ONE}", "{TWO}"]', "max_train=16", "max_val=16", "max_test=16", "training.epochs=1")


def small_study(store, *overrides):
    return Study("tiny", store=store, overrides=[*OVERRIDES, 'trainer="lanes"', *overrides])


def marking_study(store, *overrides):
    """A study that is trained here, with two systems; one of them, on epitome_er alone, marks rationales."""
    changes = ('tasks=["epitome_er", "news_empathy"]', 'systems=["bi-encoder", "tfidf"]')
    changes += ('system.bi-encoder.tasks=["epitome_er"]', "system.bi-encoder.epochs=1", "system.bi-encoder.tokens=12")
    study = small_study(store, *changes, *overrides)
    assert study.run().is_complete
    return study


def run_systems(study, **options):
    """Run the cells of a study's systems, and none of the adapters beside them."""
    report = study.run(only_keys=[cell.key for cell in study.plan.cells if cell.system], **options)
    assert report.is_complete, report


def cell_of(study, target, intermediate=None, seed=1):
    plan = study.plan
    options = {"seed": seed, "setting": "full", "intermediate": intermediate}
    return make_cell(study.config, plan.backbone, plan.splits[target], **options)


def steps_of(study, *, broken=False):
    """Two baselines and a transfer on each, in steps; with ``broken``, the first baseline has a metric that is none."""
    made = {name: cell_of(study, name) for name in (ONE, TWO)}
    if broken:
        spec = dict(made[ONE].spec) | {"metric": "none"}
        made[ONE] = dataclasses.replace(made[ONE], spec=spec, key=key_of(spec))
    packs = {name: Pack((cell,)) for name, cell in made.items()}
    steps = [Step(pack) for pack in packs.values()]
    for target, other in ((TWO, ONE), (ONE, TWO)):
        steps.append(Step(Pack((cell_of(study, target, made[other]),)), frozenset([packs[other].id])))
    return steps


def cells_of(steps):
    return [cell for step in steps for cell in step.pack.cells]


class Deadly(Launch):
    """Jobs whose process dies, every time, when it trains the first task alone."""

    def job(self, pack):
        job = super().job(pack)
        is_victim = (pack.target, pack.cells[0].intermediate) == (ONE, None)
        return (
            Dying(**{field.name: getattr(job, field.name) for field in dataclasses.fields(job)}) if is_victim else job
        )


class Dying(RemotePack):
    """A pack that kills the process that runs it."""

    def __call__(self, job):
        os.kill(os.getpid(), signal.SIGKILL)


def system_cell_of(study):
    """The only cell of a system in a study."""
    (cell,) = [cell for cell in study.plan.cells if cell.system]
    return cell
