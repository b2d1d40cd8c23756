"""What the verbs that change a setting have in common: ``[TARGET] [VALUE]``, and wishes that exclude each other. Not a verb itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ..actions import tuning
from ..errors import UsageError
from ..job import Job
from ..model import Changed, Result
from .base import Session, add_target

TARGET_OR_VALUE = "alone, a whole number is a pid and any other number is the value (write 2.0 for 2)"


def add_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """All that `run` understands; `what` is the setting in words."""
    add_value(parser, f"the {what} to pin, whatever the schedule does")
    parser.add_argument(
        "--scale", type=float, metavar="X", help=f"multiply the scheduled {what} by X; the schedule goes on"
    )
    parser.add_argument("--hold", action="store_true", help=f"pin the {what} where it is")
    add_taking_back(parser, f"the {what}")
    parser.add_argument(
        "--group", type=int, action="append", metavar="I", help="only this param group, from 0; may be repeated"
    )
    add_optimizer(parser)
    parser.add_argument("--force", action="store_true", help="allow a value more than 100 times off the present one")


def add_value(parser: argparse.ArgumentParser, what: str) -> None:
    """``[target] [value]``."""
    add_target(parser)
    parser.add_argument("value", nargs="?", help=f"{what}; {TARGET_OR_VALUE}")


def add_taking_back(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--release", action="store_true", help=f"give {what} back to the training's own code")
    parser.add_argument("--undo", action="store_true", help=f"take the last change of {what} back")


def add_optimizer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--optimizer", type=int, action="append", metavar="I", help="only this optimizer, from 0; may be repeated"
    )


def run(
    args: argparse.Namespace, session: Session, setting: str, change: Callable[[Job], Callable[..., Changed]]
) -> Result:
    """Do what the words ask for to `setting`, by the method that `change` gives; show how things are where they ask for nothing.

    What makes no sense raises `UsageError` before any job is looked for.
    """
    target, value = target_and_value(args)
    at_most_one(
        {
            "a value": value is not None,
            "--scale": args.scale is not None,
            "--release": args.release,
            "--undo": args.undo,
        }
    )
    at_most_one(
        {"--hold": args.hold, "--scale": args.scale is not None, "--release": args.release, "--undo": args.undo}
    )
    at_most_one({"--undo": args.undo, "--group": args.group is not None})
    at_most_one({"--undo": args.undo, "--optimizer": args.optimizer is not None})
    where = {"group": args.group, "optimizer": args.optimizer}
    hold = args.hold and value is None
    changes = value is not None or args.scale is not None or args.hold
    if changes:
        tuning.hold_or_scale(setting, value=value, scale=args.scale, hold=hold, force=args.force, **where)
    tuning.release(setting, **where)
    with session.job(target, args.timeout) as job:
        if changes:
            return change(job)(value, scale=args.scale, hold=hold, force=args.force, timeout=args.timeout, **where)
        if args.release:
            return job.release(setting, timeout=args.timeout, **where)
        return job.undo(setting, timeout=args.timeout) if args.undo else job.lr(timeout=args.timeout)


def target_and_value(args: argparse.Namespace) -> tuple[str | None, float | None]:
    """The two positional words, of which one alone may be either. Raises `UsageError`."""
    target, value = args.target, args.value
    if value is None and target is not None and not target.isdigit() and _is_number(target):
        target, value = None, target
    if value is None:
        return target, None
    if not _is_number(value):
        raise UsageError(f"{value!r} is not a number", "give a number such as 1e-4")
    return target, float(value)


def at_most_one(wishes: dict[str, bool]) -> None:
    """Raise `UsageError` where several of `wishes`, which exclude each other, are there."""
    there = [name for name, is_there in wishes.items() if is_there]
    if len(there) > 1:
        raise UsageError(f"{' and '.join(there)} exclude each other", "give one of them")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
