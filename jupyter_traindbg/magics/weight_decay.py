"""Change the weight decay from one step on: pin it (0.05, --hold), --scale, --release, --undo; without any of them, show it."""

from __future__ import annotations

import argparse

from ..model import Result
from . import tuning
from .base import Session

EXAMPLES = (
    ("", "what every group uses"),
    ("0.05", "pin it, from one step on, on all ranks"),
    ("--scale 0.1", "a tenth of it"),
    ("--undo", "take the last change back"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    tuning.add_arguments(parser, "weight decay")


def run(args: argparse.Namespace, session: Session) -> Result:
    return tuning.run(args, session, "weight_decay", lambda job: job.set_weight_decay)
