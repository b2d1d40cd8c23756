"""Say what is wrong with a job, or what its logs and dumps tell of: who is to blame, where, why, and what to do; root cause first."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import stat
from collections.abc import Sequence

from ..errors import FORMS, NoTarget, UsageError
from ..job import DEADLINE_S
from ..language import text
from ..model import Diagnosis, RayWorkers, Result, is_cluster, may_mean_a_target, parse_cluster
from ..questions.jobless import launcher, log, sent
from .base import Session
from .parser import PATH, TARGET, completed_by

EXAMPLES = (
    ("", "what is wrong with the job attached to, else with the only one there is"),
    ("torchrun:4711", "of all ranks of this launcher"),
    ("'logs/*.log'", "what the logs of a run tell, one file a rank"),
    (
        "'dumps/rank*.txt'",
        "what dumps of stacks tell (py-spy, pystack, faulthandler, gdb), with logs and flight recorders beside them",
    ),
    ("--follow train.log", "read on while the job writes it"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    target = parser.add_argument(
        "target",
        nargs="*",
        help=f"a running job: {FORMS}, or the address of a Ray cluster; or a log, or dumps of stacks: a file, "
        "several (the ranks of one job), a directory, a pattern, or - for standard input; none: the job attached to, "
        "else the only candidate there is",
    )
    completed_by(target, TARGET, PATH)
    parser.add_argument(
        "--follow",
        action="store_true",
        help="follow the log while the job writes it, until it ends, is interrupted, or --for is over",
    )
    parser.add_argument("--for", type=float, dest="for_s", metavar="S", help="follow for so many seconds")
    parser.add_argument(
        "--every", type=float, dest="every_s", default=1.0, metavar="S", help="look so often (default 1)"
    )
    parser.add_argument("--pid", type=int, help="the process that writes the log, where that cannot be seen from here")


def deadline_s(args: argparse.Namespace) -> float:
    """A log, or dumps of a thousand ranks, take longer to read than a job to answer."""
    return log.DEADLINE_S if args.target and all(is_log(target) for target in args.target) else DEADLINE_S


def run(args: argparse.Namespace, session: Session) -> Result:
    targets: list[str] = args.target
    if args.follow:
        return _follow(targets, args, session)
    if targets and all(is_log(target) for target in targets):
        return sent.ask(targets, timeout=args.timeout)
    if len(targets) > 1:
        raise UsageError(
            text("of running jobs one can be diagnosed at a time"), text("several targets can only be logs or dumps")
        )
    target = targets[0] if targets else None
    if target is not None and is_ray(target):
        return _of_ray(target, args.timeout, session)
    try:
        with session.job(target, args.timeout) as job:
            return job.diagnose(timeout=args.timeout)
    except NoTarget:
        seen = launcher.ask(target, timeout=args.timeout)  # its ranks have ended, or were not started yet
        if seen is None:
            raise
        return seen


def _of_ray(target: str, timeout: float, session: Session) -> Result:
    """Of one job, or of all of the cluster that run; of the last one where none does. Trainers among its workers also as ranks."""
    from ..ray.diagnosing import diagnose
    from ..ray.job import RayJob

    session.named = named = str(parse_cluster(target))

    def ranks(left_s: float, workers: RayWorkers) -> Diagnosis | None:
        with session.job(named, left_s) as job:
            return job.diagnose_training(workers, timeout=left_s) if isinstance(job, RayJob) else None

    return diagnose(named, timeout, ranks=ranks)


def _follow(targets: Sequence[str], args: argparse.Namespace, session: Session) -> Result:
    from ..questions.jobless import log_follow

    if len(targets) != 1 or not is_log(targets[0]):
        raise UsageError(text("--follow needs one log"), text("name the file that the job is writing"))
    if args.every_s <= 0 or (args.for_s is not None and args.for_s <= 0):
        raise UsageError(
            text("--every and --for are seconds, more than none"), text("leave them out, or give positive numbers")
        )
    seen = None
    with session.live() as show, contextlib.suppress(KeyboardInterrupt):
        for seen in log_follow.ask(targets[0], pid=args.pid, every_s=args.every_s, for_s=args.for_s):
            show(seen, log_follow.line(seen))
    if seen is None:
        raise KeyboardInterrupt  # before there was anything to tell
    return seen


def is_ray(target: str) -> bool:
    """Whether `target` means a Ray job or cluster; a file of the name of an address comes first."""
    return is_cluster(target) and (may_mean_a_target(target) or not os.path.exists(target))


def is_log(target: str) -> bool:
    """Whether `target` means a file, of a log or a dump: ``-``, what exists and is no socket, a pattern, or what can only be a path."""
    if target == "-":
        return True
    if may_mean_a_target(target) or is_ray(target):
        return False
    try:
        return not stat.S_ISSOCK(os.stat(os.path.expanduser(target)).st_mode)
    except (OSError, ValueError):
        return any(c in target for c in "*?[") or re.search(r"\.(?:log|txt|out|err|ipynb|gz)$", target) is not None
