"""A study whose systems ask no server connects to nothing."""

from __future__ import annotations

import subprocess
import sys

WATCHED = """
import json, socket, sys
seen = []
reaches = {"socket.connect", "socket.getaddrinfo", "socket.sendto"}
sys.addaudithook(lambda event, values: seen.append(event) if event in reaches else None)
@WORK@
print(json.dumps(seen), file=sys.stderr)
"""
RUN = """
from harness.cli.main import main
assert main({arguments!r}) == 0
"""
CONNECT = """
with socket.socket() as here, socket.socket() as there:
    here.bind(("127.0.0.1", 0)); here.listen(); there.connect(here.getsockname())
"""
STUDY = """
name = "quiet"
tasks = ["epitome_er", "news_empathy"]
backbone = "random-tiny"
data = "synthetic"
synthetic_rows = 200
max_train = 40
systems = ["majority", "encoder"]

[training]
epochs = 1

[system.encoder]
epochs = 1
tokens = 48
"""


def seen(work, folder):
    program = WATCHED.replace("@WORK@", work)
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1]


def test_a_connection_would_be_seen(tmp_path):
    assert seen(CONNECT, tmp_path) == '["socket.connect"]'


def test_a_study_that_prompts_no_server_connects_to_nothing(tmp_path):
    (tmp_path / "quiet.toml").write_text(STUDY, encoding="utf-8")
    arguments = ["run", "quiet.toml", "--store", str(tmp_path / "runs"), "--quiet"]
    assert seen(RUN.format(arguments=arguments), tmp_path) == "[]"
