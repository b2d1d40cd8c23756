"""List what can be attached to, here or on other hosts: pid, rank, framework, age, whether an agent answers, and why not where not."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from ..language import text
from ..model import Result, Targets, parse_target
from .base import Session
from .parser import ELSEWHERE, completed_by

EXAMPLES = (
    ("", "all of this machine"),
    ("ssh:node1,node2", "what runs on two other machines"),
    ("slurm:4242", "what runs in a job of Slurm, on all of its nodes"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The hosts."""
    where = "ssh:HOST,HOST: hosts that ssh reaches; slurm:JOB: the nodes of a job; none: this machine"
    completed_by(parser.add_argument("hosts", nargs="?", metavar="WHERE", help=where), ELSEWHERE)


def run(args: argparse.Namespace, session: Session) -> Result:
    from ..attach.discover import targets

    if args.hosts is None:
        return Targets(tuple(targets()))
    from ..spread.remote import targets_on

    named = parse_target(args.hosts)
    if named is None or not named.remote or named.id:
        raise UsageError(
            text("{hosts!r} names no hosts", hosts=args.hosts),
            text("write `traindbg targets ssh:HOST,HOST` or `traindbg targets slurm:JOB`"),
        )
    return targets_on(named, args.timeout)
