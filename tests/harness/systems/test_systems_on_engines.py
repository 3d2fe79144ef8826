"""Systems that train networks whole, by options or by a server: their records are equal on every engine."""

import pytest

from tests.harness.systems.test_own_systems import assert_same_predictions, engine, run_on
from tests.support.studies.small_study import run_systems, small_study
from tests.support.systems.fake_server import MODEL, fake_server

__all__ = ["engine"]
pytest.importorskip("peft")
SYSTEMS = (
    'tasks=["epitome_er"]',
    "transfers=false",
    'systems=["encoder", "clsn", "seq2seq", "decoder", "prompted", "ranked"]',
    *(f"system.{name}.{setting}" for name in ("encoder", "clsn") for setting in ("epochs=1", "tokens=48")),
    *(f'system.{name}.weights="random-tiny"' for name in ("seq2seq", "decoder", "ranked")),
    *(f"system.{name}.{setting}" for name in ("seq2seq", "decoder") for setting in ("epochs=1", "tokens=1500")),
    'system.ranked.kind="prompted"',
    f'system.prompted.model="{MODEL}"',
    *(f'system.{name}.templates=["annotator"]' for name in ("prompted", "ranked")),
)


@pytest.fixture(scope="module")
def server():
    with fake_server("no communication", "weak", "strong") as server:
        yield server


def studied(root, server):
    return small_study(root, *SYSTEMS, f'system.prompted.url="{server.url}"')


@pytest.fixture(scope="module")
def done(tmp_path_factory, server):
    """The study after a run in this process."""
    study = studied(tmp_path_factory.mktemp("here") / "runs", server)
    run_systems(study)
    return study


def test_every_engine_gives_the_records_of_a_run_here(engine, done, server, store):
    study = studied(store.root, server)
    cells = [cell for cell in study.plan.cells if cell.system]
    run_on(engine, study, cells)
    assert_same_predictions(cells, store, done.store)
