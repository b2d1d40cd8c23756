"""Show what every worker of a Ray cluster does: its state in words, the line that it is at, whom it waits for; those in trouble first."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import resource
import time

from ..errors import TraindbgError, UsageError
from ..language import text
from ..model import RayWorkers
from .base import Session, add_ray_address, ray_address

EVERY_S = 2.0
MOST_CPU_SHARE = 0.01
"""Of all this machine's CPUs, for watching: the workers that are looked at want them, too."""
OLD = "This is an older look, since the last one failed"

EXAMPLES = (
    ("", "every worker of the cluster here, those in trouble first"),
    ("--watch", "refresh in place"),
    ("--progress self.games", "with a counter of each worker"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_ray_address(parser)
    parser.add_argument("--job", metavar="ID", help="one job, by its id or submission id (default: all that run)")
    parser.add_argument(
        "--progress",
        metavar="NAMES",
        help="counters to show for each worker, separated by commas: self.games,self.moves (an agent reads them)",
    )
    parser.add_argument(
        "--tier",
        type=int,
        choices=(0, 1, 2),
        help="how far to go: 0 the cluster's own word, 1 stacks from each node, 2 an agent in every worker (default: 1, and 2 for those "
        "that a stack tells too little of)",
    )
    parser.add_argument("--watch", action="store_true", help="refresh in place, until interrupted or --for is over")
    parser.add_argument(
        "--every",
        type=float,
        dest="every_s",
        metavar="S",
        help=f"refresh so often (default {EVERY_S:g}, or more seldom where that takes over a hundredth of this machine's CPUs)",
    )
    parser.add_argument("--for", type=float, dest="for_s", metavar="S", help="watch for so many seconds")


def run(args: argparse.Namespace, session: Session) -> RayWorkers:
    if (args.every_s is not None and args.every_s <= 0) or (args.for_s is not None and args.for_s <= 0):
        raise UsageError(
            text("--every and --for are seconds, more than none"), text("leave them out, or give positive numbers")
        )
    address = ray_address(args, session)
    if not args.watch:
        return _look(address, args, verdict=True)
    ends = None if args.for_s is None else time.monotonic() + args.for_s
    seen: RayWorkers | None = None
    with session.live() as show, contextlib.suppress(KeyboardInterrupt):
        while seen is None or ends is None or time.monotonic() < ends:
            began, cpu_s, first = time.monotonic(), _cpu_s(), seen is None
            seen = _again(seen, address, args)
            show(seen, line(seen))
            # What the first look takes is imports, for the most part.
            every_s = args.every_s or _usual_every_s(0.0 if first else _cpu_s() - cpu_s)
            left_s = every_s - (time.monotonic() - began)
            if ends is not None:
                left_s = min(left_s, ends - time.monotonic())
            time.sleep(max(0.0, left_s))
    if seen is None:
        raise KeyboardInterrupt  # before there was anything to tell
    return seen


def _cpu_s() -> float:
    """Of this process and of those that it has started and seen end: py-spy reads the stacks."""
    ours, theirs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return ours.ru_utime + ours.ru_stime + theirs.ru_utime + theirs.ru_stime


def _usual_every_s(cpu_s: float) -> float:
    """How often to look where one look takes `cpu_s`."""
    return max(EVERY_S, cpu_s / (MOST_CPU_SHARE * len(os.sched_getaffinity(0))))


def _again(before: RayWorkers | None, address: str, args: argparse.Namespace) -> RayWorkers:
    """The next look; the one before, and why, where the cluster did not answer this time."""
    try:
        return _look(address, args, verdict=False)
    except TraindbgError as e:
        if before is None:
            raise
        kept = [note for note in before.notes if not note.startswith(OLD)]
        return dataclasses.replace(before, notes=(f"{OLD}: {e}", *kept))


def _look(address: str, args: argparse.Namespace, *, verdict: bool) -> RayWorkers:
    from ..ray import diagnosing, report

    ends = time.monotonic() + args.timeout
    progress = [name for name in (args.progress or "").replace(",", " ").split() if name]
    cluster, workers = report.gather(address, job=args.job, progress=progress, tier=args.tier, timeout=args.timeout)
    if not verdict or args.tier == 0:
        return workers
    return diagnosing.verdict(address, cluster, workers, ends - time.monotonic())


def line(seen: RayWorkers) -> str:
    """What a look says in one line, for a pipe: how many are in which state, and who is in trouble."""
    counts: dict[str, int] = {}
    for row in seen.workers:
        if row.kind != "driver":
            counts[row.state] = counts.get(row.state, 0) + 1
    states = ", ".join(f"{n} {state}" for state, n in sorted(counts.items(), key=lambda item: -item[1])) or "no workers"
    worst = [row for row in seen.workers if row.trouble > 1]
    places = "; ".join(f"{row.who} {row.where if isinstance(row.where, str) else row.state}" for row in worst[:3])
    more = f" and {len(worst) - 3} more" if len(worst) > 3 else ""
    return f"{states}; in trouble: {places}{more}" if worst else f"{states}; nobody in trouble"
