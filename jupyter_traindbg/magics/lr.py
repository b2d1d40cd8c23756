"""Show every optimizer and param group: scheduled learning rate, weight decay, momentum, scheduler and its next values."""

from __future__ import annotations

import argparse

from ..model import Result
from .base import Session, add_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)


def run(args: argparse.Namespace, session: Session) -> Result:
    with session.job(args.target, args.timeout) as job:
        return job.lr(timeout=args.timeout)
