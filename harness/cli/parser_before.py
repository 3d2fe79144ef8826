"""What can be typed before a launch: ``doctor``, ``prefetch``, and what ``plan`` and ``run`` take for it."""

from __future__ import annotations

import argparse


def why_option(plan: argparse.ArgumentParser) -> None:
    """What has changed since a study was run."""
    plan.add_argument("--why", action="store_true", help="print instead why cells must be trained, a line for a cause")
