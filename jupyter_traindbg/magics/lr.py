"""Show all learning rates and schedules, or change them from one step on: pin (1e-4, --hold), --scale, --release, --undo."""

from __future__ import annotations

import argparse

from ..model import Result
from . import tuning
from .base import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    tuning.add_arguments(parser, "learning rate")


def run(args: argparse.Namespace, session: Session) -> Result:
    return tuning.run(args, session, "lr", lambda job: job.set_lr)
