"""Show all learning rates and schedules, or change them from one step on: pin (1e-4, --hold), --scale, --release, --undo."""

from __future__ import annotations

import argparse

from ..model import Result
from . import tuning
from .base import Session

EXAMPLES = (
    ("", "what every group uses, and what the schedule does next"),
    ("--scale 0.1", "a tenth of what the schedule says, from one step on, on all ranks"),
    ("1e-4 --group 0", "pin the first param group"),
    ("--undo", "take the last change back"),
    ("--release", "give it back to the schedule"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    tuning.add_arguments(parser, "learning rate")


def run(args: argparse.Namespace, session: Session) -> Result:
    return tuning.run(args, session, "lr", lambda job: job.set_lr)
