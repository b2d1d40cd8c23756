"""Attach to a running training job and stay attached. In a notebook the other magics then ask this job."""

from __future__ import annotations

import argparse

from ..model import Result
from .base import Session, add_target

EXAMPLES = (
    ("", "the only training there is"),
    ("4711", "this process, prepared or not"),
    ("torchrun:4711", "all ranks that this launcher started"),
    ("kernel:train.ipynb", "another notebook's kernel, busy in a cell or not"),
    ("ray:auto", "the job that runs in this machine's Ray cluster"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)


def run(args: argparse.Namespace, session: Session) -> Result:
    return session.attach(args.target, args.timeout)
