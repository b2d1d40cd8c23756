"""Give memory back between two steps: collect garbage and empty the CUDA cache; with --zero-grad, drop the gradients as well."""

from __future__ import annotations

import argparse

from ..model import Result
from .base import Session, add_target

EXAMPLES = (
    ("", "collect garbage, empty the CUDA cache"),
    ("--zero-grad", "drop the gradients as well"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--zero-grad", action="store_true", help="also set the gradients to None, as optimizer.zero_grad() does"
    )


def run(args: argparse.Namespace, session: Session) -> Result:
    with session.job(args.target, args.timeout) as job:
        return job.free_memory(zero_grad=args.zero_grad, timeout=args.timeout)
