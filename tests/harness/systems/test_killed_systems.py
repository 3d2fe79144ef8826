"""A study whose system is killed between two epochs goes on where it was, and ends with the same predictions."""

import json
import signal

import pytest

from harness.systems.epochs import CHECKPOINT
from tests.support.faults.warm_start import completed

pytestmark = pytest.mark.slow
EPOCHS = 3
SETTINGS = ("transfers=false", "synthetic_rows=120", "max_train=32", "max_val=16", "max_test=16", "training.epochs=1")
SYSTEMS = {  # the study's tasks and settings of the system, by its name
    "bi-encoder": ('tasks=["epitome_er"]', "tokens=16"),
    "decoder": ('tasks=["epitome_er"]', 'weights="random-tiny"', "tokens=1500", "lora_rank=2", "patience=3"),
}
KEPT = {"bi-encoder": {"spans.parquet", "rationales.parquet"}}
LOGGING = """
import os, signal
from harness.systems import epochs
write = epochs.EpochCheckpoint.write
def logged(self, fitted, *parts):
    write(self, fitted, *parts)
    with open({log!r}, "a") as log:
        log.write(f"{{len(fitted.history)}}\\n")
    if len(fitted.history) == {deadly}:
        os.kill(os.getpid(), signal.SIGKILL)
epochs.EpochCheckpoint.write = logged
"""


def run(folder, name, *, deadly=0):
    """Run the study in a process that dies by SIGKILL after this epoch; its code, and the epochs that it trained."""
    tasks, *own = SYSTEMS[name]
    own += [f"epochs={EPOCHS}", "learning_rate=1e-3"]
    settings = [*SETTINGS, tasks, f'systems=["{name}"]', *(f"system.{name}.{value}" for value in own)]
    log = folder.with_suffix(f".{deadly}.log")
    words = ["run", "tiny", "--store", folder, "--threads", "1", "--quiet", *(f"--set={value}" for value in settings)]
    done = completed(words, patch=LOGGING.format(log=str(log), deadly=deadly))
    return done.returncode, [int(line) for line in log.read_text().split()], done.stderr


def contents(store):
    """Predictions, rationales, histories and weights of every record of a system."""
    records = [path.parent for path in store.glob("objects/*/record.json") if '"system"' in path.read_text()]
    return {
        (folder.name, path.relative_to(folder).as_posix()): path.read_bytes()
        for folder in records
        for path in folder.rglob("*")
        if path.is_file() and path.name != "record.json"
    }


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_that_is_killed_between_epochs_goes_on_and_predicts_the_same(name, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run(whole, name)[:2] == (0, [1, 2, 3])
    for epoch in (1, 2):
        code, trained, _ = run(killed, name, deadly=epoch)
        assert (code, trained) == (-signal.SIGKILL, [epoch])
        assert list(killed.glob(f"packs/**/{CHECKPOINT}")), "nothing is kept to go on from"
        assert contents(killed) == {}
    code, trained, err = run(killed, name)
    assert (code, trained) == (0, [3]), err
    expected = contents(whole)
    assert {name for _, name in expected} >= {"test.parquet", "history.json"} | KEPT.get(name, set())
    assert contents(killed) == expected
    ((_, history),) = [item for item in expected.items() if item[0][1] == "history.json"]
    assert [step["epoch"] for step in json.loads(history)] == [1, 2, 3]
    assert not list(killed.glob("packs/*"))
