"""Rescue in a Ray cluster: interrupt a method, kill an actor, stop a job, release what dead jobs left. Without --yes nothing is changed."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from ..language import text
from ..model import RayRescued
from .base import Session, add_ray_address, ray_address

ACT_S, LOOK_S = 30.0, 10.0
"""To act, the cluster may have to be joined first; and a job gets some seconds to end by itself before it is killed."""

EXAMPLES = (
    ("--leftovers", "what dead jobs left behind; nothing is changed"),
    ("--interrupt Collector[17]", "what ending its method would do"),
    ("--interrupt Collector[17] --yes", "do it"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_ray_address(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--interrupt",
        metavar="WHO",
        help="end the method that a worker runs, and leave its actor alive; WHO is its name, Collector[17], its actor id or its pid",
    )
    what.add_argument(
        "--kill-actor", metavar="WHO", help="kill an actor for good, named or not; WHO as for --interrupt"
    )
    what.add_argument("--stop-job", metavar="JOB", help="stop a job, by its submission id or job id")
    what.add_argument(
        "--leftovers",
        action="store_true",
        help="detached actors and placement groups of jobs that have ended (also without an option)",
    )
    parser.add_argument("--method", metavar="NAME", help="with --interrupt: only methods of that name")
    parser.add_argument(
        "--release",
        nargs="*",
        metavar="ID",
        help="with --leftovers: remove them, all or those named here by id or name",
    )
    parser.add_argument("--yes", action="store_true", help="do it; without this nothing is changed")


def deadline_s(args: argparse.Namespace) -> float:
    return ACT_S if args.yes else LOOK_S


def run(args: argparse.Namespace, session: Session) -> RayRescued:
    from ..actions.ray_rescue import rescue

    acts = args.interrupt or args.kill_actor or args.stop_job
    if args.release is not None and acts:
        raise UsageError(text("--release is for --leftovers"), text("one rescue at a time: look at its result first"))
    if args.yes and not acts and args.release is None:
        raise UsageError(
            text("--yes confirms something, and nothing is to be done"),
            text("add --release to remove what dead jobs left"),
        )
    return rescue(
        ray_address(args, session),
        interrupt=args.interrupt,
        method=args.method,
        kill_actor=args.kill_actor,
        stop_job=args.stop_job,
        release=args.release,
        yes=args.yes,
        timeout=args.timeout,
    )
