"""Write one zip with everything that a maintainer would ask for: logs, stacks, findings, GPUs, versions, configuration; without secrets."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Sequence

from .. import commands, report
from ..errors import AmbiguousTarget, TraindbgError, UsageError
from ..language import text
from ..model import Report, Result, named_launcher
from ..report import Subject, opening
from .base import Session
from .diagnose import is_log
from .parser import PATH, TARGET, completed_by

_STDIN_BYTES = 2 << 30

EXAMPLES = (
    ("", "of the job attached to, else of the only one there is"),
    ("4711 train.log", "with its log"),
    ("--machine", "of this machine alone"),
    ("4711 --open", "and open it in the browser"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    target = parser.add_argument(
        "target",
        nargs="*",
        help="a running or dead job as for `attach` (a pid, torchrun:PID, kernel:NOTEBOOK ...), and logs: files, directories, patterns,"
        " or - for standard input; none: the job attached to, else the only candidate there is, else this machine",
    )
    completed_by(target, TARGET, PATH)
    output = parser.add_argument(
        "-o", "--output", metavar="ZIP", help="where to write it (default traindbg-report-DATE-TIME.zip, here)"
    )
    config = parser.add_argument(
        "--config", action="append", default=[], metavar="FILE", help="a configuration file to add; several times"
    )
    for action in (output, config):
        completed_by(action, PATH)
    parser.add_argument("--machine", action="store_true", help="report on this machine alone, whatever runs on it")
    parser.add_argument(
        "--open", action="store_true", help="unpack it beside the zip and open its index.html in the browser"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the zip")


def run(args: argparse.Namespace, session: Session) -> Result:
    made = _made(args, session)
    return opening.opened(made, notebook=commands.magics_are_here()) if args.open else made


def _made(args: argparse.Namespace, session: Session) -> Report:
    logs = [word for word in args.target if is_log(word)]
    targets = [word for word in args.target if not is_log(word)]
    if len(targets) > 1:
        raise UsageError(
            text("a report is of one job, not of {targets}", targets=text(" and ").join(targets)),
            text("name one of them, and as many logs as you like"),
        )
    if args.machine and targets:
        raise UsageError(
            text("--machine is for a report without a job"), text("leave it away, or {target}", target=targets[0])
        )
    output = args.output or report.default_name()
    with tempfile.TemporaryDirectory(prefix="traindbg-") as folder:
        named = [_spooled(folder) if log == "-" else log for log in logs]
        if args.machine or (logs and not targets):
            subject = Subject(", ".join("standard input" if log == "-" else log for log in logs) or "this machine")
            return _write(output, subject, named, args)
        return _of_job(session, targets[0] if targets else None, output, named, args)


def _of_job(session: Session, target: str | None, output: str, logs: Sequence[str], args: argparse.Namespace) -> Report:
    with contextlib.ExitStack() as until_written:
        try:
            job = until_written.enter_context(session.job(target, args.timeout))
        except AmbiguousTarget as e:
            raise AmbiguousTarget(
                e.cause, text("give --machine, or name one of them"), candidates=e.candidates
            ) from None
        except UsageError:
            raise
        except TraindbgError as e:
            return _write(output, _remains(target, e), logs, args)
        return job.report(output, logs=logs, configs=args.config, force=args.force, timeout=args.timeout)


def _remains(target: str | None, error: TraindbgError) -> Subject:
    """What is left of a job that cannot be attached to: perhaps a process that is half dead, perhaps nothing but this machine."""
    if target is None:
        return Subject(problem=text("no job was named, and {why}", why=error.cause))
    pids = {0: int(target)} if target.isdigit() and os.path.exists(f"/proc/{target}") else {}
    return Subject(target, pids, named_launcher(target), problem=error.cause)


def _write(output: str, subject: Subject, logs: Sequence[str], args: argparse.Namespace) -> Report:
    return report.write(output, subject, logs=logs, configs=args.config, force=args.force, timeout=args.timeout)


def _spooled(folder: str) -> str:
    """Standard input as a file, so that several parts can read it; of more than 2 GiB, that much."""
    path = os.path.join(folder, "standard-input.log")
    with open(path, "wb") as f:
        left = _STDIN_BYTES
        while left > 0 and (chunk := sys.stdin.buffer.read(min(left, 1 << 20))):
            left -= f.write(chunk)
    return path
