"""Show the optimizer steps recorded since the attach, of all ranks or of one (--rank): loss, lr, norm, memory, where the time went."""

from __future__ import annotations

import argparse
import dataclasses

from ..errors import UsageError
from ..language import text
from ..model import Result, Steps
from ..words.ranks import compact_ranks
from .base import Session, add_target
from .parser import whole_number

EXAMPLES = (
    ("", "the last 20"),
    ("--rank 3", "of rank 3 alone: its latest steps, one by one, its loss, where its time went"),
    ("--last 0", "all that are kept, up to 8192"),
    ("--since 100", "those after the 100th since the attach"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("--rank", type=whole_number, metavar="N", help="only those of rank N, one by one")
    parser.add_argument(
        "--since",
        type=whole_number,
        metavar="N",
        help="only steps after number N since the attach (default: those of this run; 0: of earlier ones in this process, too)",
    )
    parser.add_argument(
        "--last", type=whole_number, default=20, metavar="N", help="at most the last N (default 20; 0: all)"
    )


def run(args: argparse.Namespace, session: Session) -> Result:
    with session.job(args.target, args.timeout) as job:
        this_run = args.since is None
        steps = job.steps(since=args.since or 0, last=args.last, this_run=this_run, timeout=args.timeout)
    return steps if args.rank is None else _of_rank(steps, args.rank)


def _of_rank(steps: Steps, rank: int) -> Steps:
    """Raises `UsageError` where the job has no such rank."""
    ranks = tuple(one for one in steps.ranks if one.rank == rank)
    silent = tuple(one for one in steps.silent if one.rank == rank)
    if not ranks and not silent:
        there = [one.rank for one in steps.ranks] + [one.rank for one in steps.silent if one.rank is not None]
        raise UsageError(
            text("there is no rank {rank}; the job has {ranks}", rank=rank, ranks=compact_ranks(there)),
            text("`%steps` shows all of them"),
        )
    return dataclasses.replace(steps, ranks=ranks, silent=silent)
