"""Show what every thread of every rank is doing: file and line, running or waiting for what; identical ranks together."""

from __future__ import annotations

import argparse

from ..model import Result
from .base import Session, add_target

EXAMPLES = (
    ("", "of the job attached to, else of the only one there is"),
    ("4711", "of this process and its children"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--no-children", action="store_true", help="leave out DataLoader workers and other child processes"
    )


def run(args: argparse.Namespace, session: Session) -> Result:
    with session.job(args.target, args.timeout) as job:
        return job.stacks(children=not args.no_children, timeout=args.timeout)
