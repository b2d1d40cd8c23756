"""Record a few steps of all ranks by torch's profiler, without a line of code: operators, lines, one trace of all ranks for Perfetto."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from ..language import text
from ..model import Result
from ..questions import profile as question
from ..questions.profile import SECONDS, STEPS
from .base import Session, add_target
from .parser import PATH, completed_by, whole_number

EXAMPLES = (
    ("", "of the job attached to, else of the only one there is"),
    ("torchrun:4711 --trace run.json.gz", "of all ranks of this launcher, as one trace for https://ui.perfetto.dev"),
    ("--steps 1 --seconds 120", "of a job whose steps take long"),
    ("4711 --sample", "which lines take the time; torch's profiler stays out"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--steps", type=whole_number, default=STEPS, metavar="N", help=f"record N steps (default {STEPS})"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"wait S seconds for them at most (default {SECONDS:g})",
    )
    trace = parser.add_argument(
        "--trace", metavar="FILE", help="write one Chrome trace of all ranks: .json or .json.gz"
    )
    completed_by(trace, PATH)
    parser.add_argument(
        "--sample",
        action="store_true",
        help="only look at the lines of the program, for 2 s; torch's profiler stays out",
    )


def deadline_s(args: argparse.Namespace) -> float:
    return question.deadline_s(seconds=args.seconds)


def run(args: argparse.Namespace, session: Session) -> Result:
    """Raises `UsageError` where nothing is to be recorded."""
    if not args.steps or not 0 < args.seconds < float("inf"):
        raise UsageError(text("nothing would be recorded"), text("`%profile --steps 5 --seconds 30` is the default"))
    with session.job(args.target, args.timeout) as job:
        return job.profile(
            steps=args.steps, seconds=args.seconds, sample=args.sample, trace=args.trace, timeout=args.timeout
        )
