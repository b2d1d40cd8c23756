"""Show which collectives every rank issued, and who is missing or different: live, or from dump files; or check before a start."""

from __future__ import annotations

import argparse
import os

from ..model import Result
from . import before_a_start
from .base import Session
from .parser import PATH, TARGET, completed_by

EXAMPLES = (
    ("", "which collective each rank is in, and who is missing"),
    ("dumps/", "from the flight recorder's files, one a rank"),
    ("--preflight --hosts node2 node3", "the ways to other machines, before a start"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    target = parser.add_argument(
        "target",
        nargs="?",
        help="a job as for `attach`, or a flight-recorder dump, or a directory of them (one file a rank); none: the job attached to,"
        " else the only candidate there is",
    )
    completed_by(target, TARGET, PATH)
    before_a_start.add_arguments(parser)


def run(args: argparse.Namespace, session: Session) -> Result:
    if before_a_start.asked(args):
        return before_a_start.run(args)
    if args.target is not None and _is_dump(args.target):
        from ..questions.jobless import dumps

        return dumps.ask(args.target, timeout=args.timeout)
    with session.job(args.target, args.timeout) as job:
        return job.collectives(timeout=args.timeout)


def _is_dump(words: str) -> bool:
    """True for a file or directory; a number is a pid, and an agent's socket is a target."""
    return not words.isdigit() and (os.path.isfile(words) or os.path.isdir(words))
