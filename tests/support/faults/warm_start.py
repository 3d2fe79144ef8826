"""Commands in processes of their own that need not load torch first: each is forked from a process that has.

A drill starts a command dozens of times, and loading the libraries takes longer than the trainings of its study. What
is forked has a number, a memory, signals and an exit code of its own: killing it is what killing the command is. Tests
of the start itself, of workers or of sessions start the command as a person does.
"""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

LOADED = [
    "adapters.heads",
    "adapters.models.auto.adapter_model",
    "adapters.models.bert.mixin_bert",
    "harness.cli.run",
    "harness.run.pack",
    "harness.systems.system",
    "harness.training.lanes.train",
    "harness.training.library",
    "pyarrow.parquet",
    "sklearn.feature_extraction.text",
    "transformers.models.bert.modeling_bert",
    "transformers.trainer_utils",
]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(LOADED)


class Command:
    """``empathy-transfer`` with these words; ``patch`` is code that runs before it, and reads its own words first.

    Like ``subprocess.Popen`` in ``pid``, ``poll``, ``wait``, ``send_signal`` and ``returncode``.
    """

    def __init__(self, words, *, patch="", patch_words=()):
        self._folder = TemporaryDirectory()
        spoken = ["empathy-transfer", *map(str, (*patch_words, *words))]
        self._process = CONTEXT.Process(target=_command, args=(spoken, patch, self._folder.name))
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self):
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self):
        """What it has written to standard output and standard error, when it has ended."""
        self.wait()
        out, err = ((Path(self._folder.name) / name).read_text() for name in ("out", "err"))
        self._folder.cleanup()
        return out, err


def completed(words, *, check=False, **options):
    """Run a command to its end, like ``subprocess.run`` with its output captured as text."""
    command = Command(words, **options)
    out, err = command.communicate()
    done = subprocess.CompletedProcess(list(words), command.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _command(words, patch, folder):
    for number, name in ((1, "out"), (2, "err")):
        opened = os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = words
    exec(patch, {})
    from harness.cli.main import main

    sys.exit(main())
