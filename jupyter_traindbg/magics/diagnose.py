"""Say what is wrong with a job that hangs, fails or crawls: who is to blame, where, by what evidence, and what to do; root cause first."""

from __future__ import annotations

import argparse

from ..errors import NoTarget
from ..job import diagnose_launcher
from ..model import Result
from .base import Session, add_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)


def run(args: argparse.Namespace, session: Session) -> Result:
    try:
        with session.job(args.target, args.timeout) as job:
            return job.diagnose(timeout=args.timeout)
    except NoTarget:
        seen = diagnose_launcher(args.target, args.timeout)  # its ranks have ended, or were not started yet
        if seen is None:
            raise
        return seen
