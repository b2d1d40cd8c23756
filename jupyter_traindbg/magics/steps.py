"""Show the optimizer steps recorded since the attach: loss, learning rate, gradient norm, memory, and where the time went."""

from __future__ import annotations

import argparse

from ..model import Result
from .base import Session, add_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("--since", type=int, default=0, metavar="N", help="only steps after number N since the attach")
    parser.add_argument("--last", type=int, default=20, metavar="N", help="at most the last N (default 20; 0: all)")


def run(args: argparse.Namespace, session: Session) -> Result:
    with session.job(args.target, args.timeout) as job:
        return job.steps(since=args.since, last=args.last, timeout=args.timeout)
