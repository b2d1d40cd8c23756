"""Show where a step goes, by rank, and why the job is slow: what to mend first, by line, and what that would save."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from ..language import text
from ..model import Result
from ..questions import slow as question
from ..questions.slow import SECONDS, STEPS
from .base import Session, add_target
from .parser import whole_number

EXAMPLES = (
    ("", "of the job attached to, else of the only one there is"),
    ("4711", "of this process"),
    ("torchrun:4711", "of all ranks of this launcher: who holds the others up, and where"),
    ("--steps 5 --seconds 120", "of a job whose steps take long"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--steps",
        type=whole_number,
        default=STEPS,
        metavar="N",
        help=f"watch until N steps have passed, 2 s at least (default {STEPS})",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"watch S seconds at most (default {SECONDS:g})",
    )


def deadline_s(args: argparse.Namespace) -> float:
    return question.deadline_s(seconds=args.seconds)


def run(args: argparse.Namespace, session: Session) -> Result:
    """Raises `UsageError` where nothing is to be watched."""
    if not args.steps or not 0 < args.seconds < float("inf"):
        raise UsageError(text("nothing would be watched"), text("`%slow --steps 20 --seconds 10` is the default"))
    with session.job(args.target, args.timeout) as job:
        return job.slow(steps=args.steps, seconds=args.seconds, timeout=args.timeout)
