"""Draw a picture: the loss or the learning rate over all recorded steps, gradients, memory, collectives, a flame graph, or a log."""

from __future__ import annotations

import argparse
import difflib
import re

from ..errors import UsageError
from ..job import DEADLINE_S
from ..language import text
from ..model import Picture, Result
from ..pictures import OF_JOBS, write
from ..questions.jobless import log
from .base import Session
from .diagnose import is_log
from .parser import PATH, TARGET, completed_by, meant

EXAMPLES = (
    ("", "the loss, with what was done to the job"),
    ("lr", "the scheduled learning rate, and what the steps used"),
    ("memory 4711", "who holds what of which device, of another job"),
    ("profile", "where the training thread is, line by line, as a flame graph"),
    ("train.log", "what a log tells, line by line: who, when, the cause"),
    ("loss -o loss.svg", "written to a file"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    of = parser.add_argument("of", nargs="?", help=f"{', '.join(OF_JOBS)} (default loss)")
    completed_by(of, *OF_JOBS, TARGET, PATH)
    target = parser.add_argument(
        "target",
        nargs="*",
        help="a job as for `attach` (none: the job attached to, else the only candidate there is), or a log: files, directories, patterns",
    )
    completed_by(target, TARGET, PATH)
    output = parser.add_argument("-o", "--output", metavar="FILE", help="write it there: .svg, .png or .pdf")
    completed_by(output, PATH)


def deadline_s(args: argparse.Namespace) -> float:
    """A log of gigabytes takes longer to read than a job to answer."""
    _, targets = _asked(args)
    return log.DEADLINE_S if targets and all(map(is_log, targets)) else DEADLINE_S


def run(args: argparse.Namespace, session: Session) -> Result:
    of, targets = _asked(args)
    if args.output is not None:
        write.check(args.output)
    picture = _drawn(of, targets, args, session)
    return picture if args.output is None else write.write(picture, args.output)


def _asked(args: argparse.Namespace) -> tuple[str | None, list[str]]:
    """What is to be drawn, where that is said, and of whom."""
    of = args.of if args.of in OF_JOBS else None
    return of, args.target if of == args.of else [args.of, *args.target]


def _drawn(of: str | None, targets: list[str], args: argparse.Namespace, session: Session) -> Picture:
    if targets and all(map(is_log, targets)):
        if of is not None:
            raise UsageError(
                text("of a log there is one picture, not {of}", of=of),
                f"`%plot {' '.join(targets)}`",
            )
        picture: Picture = log.ask(targets, timeout=args.timeout).plot()
        return picture
    if of is None and targets and re.fullmatch("[a-z_]+", targets[0]) and targets[0] != "self":
        near = difflib.get_close_matches(targets[0], OF_JOBS, 1)
        raise UsageError(
            text("there is no picture of {of!r}", of=targets[0]),
            meant(
                f"%plot {' '.join([*near, *targets[1:]])}" if near else None,
                text("there are {names}", names=text(", ").join(OF_JOBS)),
            ),
        )
    if len(targets) > 1:
        raise UsageError(
            text("of one job at a time, not of {targets}", targets=text(" and ").join(targets)),
            text("name one of them"),
        )
    with session.job(targets[0] if targets else None, args.timeout) as job:
        return job.plot(of or "loss", timeout=args.timeout).about(session.named)
