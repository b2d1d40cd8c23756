"""Show the memory of every rank: resident and CUDA, who holds what, its curve, and whether it keeps growing."""

from __future__ import annotations

import argparse

from ..model import Result
from .base import Session, add_target

EXAMPLES = (
    ("", "of the job attached to, else of the only one there is"),
    ("torchrun:4711", "of all ranks of this launcher"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)


def run(args: argparse.Namespace, session: Session) -> Result:
    with session.job(args.target, args.timeout) as job:
        return job.memory(timeout=args.timeout)
