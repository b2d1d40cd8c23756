"""What the verbs that change a setting have in common: ``[TARGET] [VALUE]``, and wishes that exclude each other. Not a verb itself."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator

from ..actions import tuning
from ..errors import CannotAttach, TargetGone, UnknownTarget, UsageError
from ..job import Job
from ..language import later, text
from ..model import Changed, Result, Setting
from .base import Session, add_target

TARGET_OR_VALUE = "alone, a whole number is a pid and any other number is the value (write 2.0 for 2)"
MOST_MEANT = 1000
"""A greater whole number is hardly meant as a value."""
NUMBERS: dict[Setting, str] = {
    "lr": later("give the learning rate as a number such as 1e-4, or a target: `%targets` shows what there is"),
    "weight_decay": later(
        "give the weight decay as a number such as 0.01, or a target: `%targets` shows what there is"
    ),
    "clip_norm": later("give the norm as a number such as 1.0, or a target: `%targets` shows what there is"),
}


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
    args: argparse.Namespace, session: Session, setting: Setting, change: Callable[[Job], Callable[..., Changed]]
) -> Result:
    """Do what the words ask for to `setting`, by the method that `change` gives; show how things are where they ask for nothing.

    What makes no sense raises `UsageError` before any job is looked for.
    """
    target, value = target_and_value(args)
    at_most_one(
        {
            text("a value"): value is not None,
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
    with job_of(args, session, target, setting) as job:
        if changes:
            return change(job)(value, scale=args.scale, hold=hold, force=args.force, timeout=args.timeout, **where)
        if args.release:
            return job.release(setting, timeout=args.timeout, **where)
        if args.undo:
            return job.undo(setting, timeout=args.timeout)
        return job.lr(setting=setting, timeout=args.timeout)


@contextlib.contextmanager
def job_of(args: argparse.Namespace, session: Session, target: str | None, setting: Setting) -> Iterator[Job]:
    """The job to ask. A bare word that names none may have been meant as a value: the error says how that is written."""
    try:
        with session.job(target, args.timeout) as job:
            yield job
    except (CannotAttach, TargetGone) as e:
        if target is None or args.value is not None or not target.isdigit() or int(target) > MOST_MEANT:
            raise
        raise type(e)(
            e.cause,
            text("where a value was meant, write {target}.0; {next_step}", target=target, next_step=e.next_step),
        ) from e
    except UnknownTarget as e:
        if target is None or args.value is not None or set(":/") & set(target):
            raise
        hint = text(NUMBERS[setting]) if e.by_default else e.next_step
        raise UsageError(text("{target!r} is neither a number nor a target", target=target), hint) from e


def target_and_value(args: argparse.Namespace) -> tuple[str | None, float | None]:
    """The two positional words, of which one alone may be either. Raises `UsageError`."""
    target, value = args.target, args.value
    if value is None and target is not None and not target.isdigit() and _is_number(target):
        target, value = None, target
    if value is None:
        return target, None
    if not _is_number(value):
        raise UsageError(text("{value!r} is not a number", value=value), text("give a number such as 1e-4"))
    return target, float(value)


def at_most_one(wishes: dict[str, bool]) -> None:
    """Raise `UsageError` where several of `wishes`, which exclude each other, are there."""
    there = [name for name, is_there in wishes.items() if is_there]
    if len(there) > 1:
        raise UsageError(
            text("{options} exclude each other", options=text(" and ").join(there)), text("give one of them")
        )


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
