"""Answers that a server is to hold to a JSON schema: what is asked for, how they are read, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest

from harness.systems.prompted.asked import schema_of, spoken
from harness.systems.prompted.asking import most_tokens
from tests.harness.systems.prompted.test_prompted_studies import LEVELS, PRICED, no_names, prompted, record_of
from tests.support.studies.small_study import run_systems, system_cell_of
from tests.support.systems.fake_server import by_hash, fake_server

__all__ = ["no_names"]
SCHEMA = 'system.prompted.answers="schema"'
ONE = 'system.prompted.templates=["annotator"]'
RULE = by_hash(*LEVELS)


def in_json(prompt):
    return json.dumps({"answer": RULE(prompt)})


@pytest.fixture
def server():
    with fake_server(rule=in_json) as server:
        yield server


def test_a_call_asks_for_the_options_alone_and_the_answers_are_those_of_words(server, tmp_path):
    study = prompted(server, tmp_path / "runs", ONE, SCHEMA)
    run_systems(study)
    for body in server.bodies:
        schema = body["response_format"]["json_schema"]["schema"]
        assert body["response_format"]["type"] == "json_schema"
        assert schema["properties"]["answer"]["enum"] == list(
            study.plan.splits[system_cell_of(study).target].task.instruction.options
        )
        assert schema["required"] == ["answer"]
    assert server.bodies
    assert "unanswered" not in record_of(study).results
    with fake_server(rule=RULE) as other:
        words = prompted(other, tmp_path / "words", ONE)
        run_systems(words)
        assert not any("response_format" in body for body in other.bodies)
    frames = [pd.read_parquet(own.store.open(system_cell_of(own).key, "test.parquet")) for own in (study, words)]
    pd.testing.assert_frame_equal(*frames)


def test_the_way_of_answering_enters_keys_and_names_of_answers_only_where_it_is_set(server, tmp_path):
    server.rule = RULE
    plain = prompted(server, tmp_path / "runs", ONE)
    said = prompted(server, tmp_path / "runs", ONE, 'system.prompted.answers="text"')
    by_schema = prompted(server, tmp_path / "runs", ONE, SCHEMA)
    assert system_cell_of(plain).key == system_cell_of(said).key != system_cell_of(by_schema).key
    assert "answers" not in system_cell_of(plain).spec["config"]
    assert system_cell_of(by_schema).spec["config"]["answers"] == "schema"
    run_systems(plain)
    asked = len(server.prompts)
    run_systems(by_schema)
    assert len(server.prompts) == 2 * asked, "an answer in words is none by the schema"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"answer": "weak"}', "weak"),
        (' {\n "answer" : "no communication" }\n', "no communication"),
        ("weak", "weak"),
        ("I say weak.", "I say weak."),
        ('{"answer": "no communi', ""),
        ('{"level": "weak"}', ""),
        ('{"answer": ["weak"]}', ""),
        ("{" * 100_000, ""),
        ("", ""),
    ],
)
def test_an_answer_is_the_field_of_an_object_or_its_words_where_the_schema_was_overlooked(text, words):
    assert spoken(text) == words


def test_an_object_that_is_cut_is_no_answer_whatever_its_words_begin_with(server, tmp_path):
    server.rule = lambda prompt: '{"answer": "no communi' if len(prompt) % 2 else in_json(prompt)
    study = prompted(server, tmp_path / "runs", ONE, SCHEMA)
    run_systems(study)
    assert 0 < record_of(study).results["unanswered"]["test"] < 16


@pytest.mark.parametrize("status", ["400", "422"])
def test_a_server_that_takes_no_schema_is_named_with_the_next_step(status, server, tmp_path):
    server.fault = lambda number: status
    ((_, reason),) = prompted(server, tmp_path / "runs", ONE, SCHEMA).run().failed
    assert "\n" not in reason
    asked = "which asks for an answer by a JSON schema; set answers of the system to"
    assert f"refuses the call ({status}), {asked}" in reason
    ((_, other),) = prompted(server, tmp_path / "runs", ONE).run().failed
    assert "JSON schema" not in other


def test_the_most_that_a_call_can_cost_counts_the_schema(server, tmp_path):
    settings = {"response_format": schema_of(LEVELS)}
    assert most_tokens("abc", settings) == most_tokens("abc", {}) + len(json.dumps(settings["response_format"]))
    plans = [prompted(server, tmp_path / "runs", ONE, *PRICED, *more) for more in ((), (SCHEMA,))]
    from harness.preflight.estimate import sent

    plain, by_schema = (sent(study.plan, study.store)[0] for study in plans)
    assert by_schema.calls == plain.calls
    expected = plain.calls * len(json.dumps(settings["response_format"])) / 4
    np.testing.assert_allclose(by_schema.tokens - plain.tokens, expected, atol=1)
