"""Take the agent out of a job: every hook, thread and file, also where others are attached to it."""

from __future__ import annotations

import argparse

from ..model import Result
from .base import Session, add_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)


def run(args: argparse.Namespace, session: Session) -> Result:
    return session.detach(args.target, args.timeout)
