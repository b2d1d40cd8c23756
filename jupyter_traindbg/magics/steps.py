"""Show the optimizer steps recorded since the attach: loss, learning rate, gradient norm, memory, and where the time went."""

from __future__ import annotations

import argparse

from ..model import Result
from .base import Session, add_target

EXAMPLES = (
    ("", "the last 20"),
    ("--last 0", "all that are kept, up to 8192"),
    ("--since 100", "those after the 100th since the attach"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--since",
        type=int,
        metavar="N",
        help="only steps after number N since the attach (default: those of this run; 0: of earlier ones in this process, too)",
    )
    parser.add_argument("--last", type=int, default=20, metavar="N", help="at most the last N (default 20; 0: all)")


def run(args: argparse.Namespace, session: Session) -> Result:
    with session.job(args.target, args.timeout) as job:
        this_run = args.since is None
        return job.steps(since=args.since or 0, last=args.last, this_run=this_run, timeout=args.timeout)
