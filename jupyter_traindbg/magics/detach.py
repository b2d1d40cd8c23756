"""Take the agent out of a job: every hook, thread and file, also where others are attached to it."""

from __future__ import annotations

import argparse

from ..model import Result
from .base import Session, add_target

EXAMPLES = (
    ("", "from the job attached to"),
    ("4711 --force", "from one rank alone, where the others are gone"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--force",
        action="store_true",
        help="also from one rank alone, whose learning rate then goes back to the schedule without the others'",
    )


def run(args: argparse.Namespace, session: Session) -> Result:
    return session.detach(args.target, args.timeout, force=args.force)
