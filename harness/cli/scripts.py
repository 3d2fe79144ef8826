"""``run --dry-run``: the scripts of the jobs that a run would submit."""

from __future__ import annotations

import argparse

from harness.api import planned_device
from harness.cli.study import study_of
from harness.cli.table import print_json
from harness.engines.cluster import check_package
from harness.engines.options import Slurm, options_of
from harness.grid import GridReport, steps_of
from tasks.errors import BadInput


def show_scripts(options: argparse.Namespace) -> int:
    """Print what would be handed to sbatch, and submit nothing; BadInput for an engine that has no scripts."""
    if options.engine != "slurm":
        raise BadInput(
            f"--dry-run prints the job scripts of --engine slurm; --engine {options.engine} has none. What would be "
            f"trained is shown by: empathy-transfer plan {options.study}"
        )
    check_package("slurm")
    from harness.engines.slurm_scripts import scripts

    study = study_of(options)
    study.on(planned_device(study.config, options.engine, options.device))
    plan = study.plan.only(options.only_target) if options.only_target else study.plan
    steps = steps_of(plan, study.store, GridReport())
    wanted = options_of(Slurm, study.config.slurm, study.config.name)
    texts = list(scripts(wanted, study.launch(options.device, options.threads), steps))
    if options.json:
        print_json({"scripts": texts})
    else:
        print("\n".join(texts) if texts else "nothing to submit: the store has every cell")
    return 0
