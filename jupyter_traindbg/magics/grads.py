"""Scan the gradients, parameter by parameter: norms, NaN and Inf, zeros; or catch the first module that makes a NaN."""

from __future__ import annotations

import argparse

from ..model import Result
from .base import Session, add_target

EXAMPLES = (
    ("", "norms, NaN and zeros after one step, the same on all ranks"),
    ("--first-nan", "wait for the first module that makes a NaN, and name it"),
    ("--detail", "greatest value and zeros of every gradient"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--detail", action="store_true", help="greatest value and zeros of every gradient, also the finite ones"
    )
    parser.add_argument(
        "--first-nan",
        action="store_true",
        help="watch one step and name the first module, in execution order, whose output is not finite",
    )


def run(args: argparse.Namespace, session: Session) -> Result:
    with session.job(args.target, args.timeout) as job:
        return job.grads(detail=args.detail, first_nan=args.first_nan, timeout=args.timeout)
