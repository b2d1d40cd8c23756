"""Save a checkpoint of a running or hung job, or look at one: verify its bytes, inspect any checkpoint, compare it with a model."""

from __future__ import annotations

import argparse
import os

from ..errors import UsageError
from ..language import text
from ..model import Result, may_mean_a_target
from .base import Session
from .parser import PATH, TARGET, completed_by

LOOK = ("verify", "inspect", "compare")
SAVE = ("overwrite", "allow_mixed")

EXAMPLES = (
    ("rescue", "save the job into the new directory `rescue`, also one that hangs"),
    ("4711 rescue", "the same of the job 4711"),
    ("--verify rescue", "read it back, and compare every checksum"),
    ("--inspect last.ckpt", "what is in any checkpoint, and what it lacks for an exact resume"),
    ("--compare last.ckpt 4711", "whether its keys and shapes fit a job"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    words = parser.add_argument(
        "words",
        nargs="*",
        metavar="[TARGET] DIR",
        help="the job (none: the one attached to, else the only candidate there is) and the directory to make",
    )
    completed_by(words, TARGET, PATH)
    parser.add_argument(
        "--overwrite", action="store_true", help="DIR may exist: it is replaced once the new one is complete"
    )
    parser.add_argument(
        "--allow-mixed",
        action="store_true",
        help="also where the ranks are at different optimizer steps; the manifest says so",
    )
    look = parser.add_mutually_exclusive_group()
    verify = look.add_argument(
        "--verify", metavar="DIR", help="read a checkpoint of traindbg's again and compare every checksum"
    )
    inspect = look.add_argument(
        "--inspect",
        metavar="PATH",
        help="keys, shapes, step and what is missing for an exact resume, of any torch, safetensors or DCP checkpoint; executes nothing",
    )
    compare = look.add_argument(
        "--compare",
        nargs="+",
        metavar=("PATH", "TARGET_OR_FILE"),
        help="the keys of a checkpoint against a live job (none named: the one attached to) or another checkpoint",
    )
    for action in (verify, inspect, compare):
        completed_by(action, PATH, *([TARGET] if action is compare else []))


def run(args: argparse.Namespace, session: Session) -> Result:
    mode = next((name for name in LOOK if getattr(args, name) is not None), None)
    if mode is not None:
        _refuse_leftovers(args, mode)
        return _look(args, mode, session)
    if not 1 <= len(args.words) <= 2:
        raise UsageError(
            text("a directory to save to is missing") if not args.words else text("too many words"),
            text("`%checkpoint DIR` saves; --verify, --inspect and --compare look at one"),
        )
    target = args.words[0] if len(args.words) == 2 else None
    directory = args.words[-1]
    _refuse_a_target_for_a_directory(directory, target)
    with session.job(target, args.timeout) as job:
        return job.checkpoint(directory, overwrite=args.overwrite, allow_mixed=args.allow_mixed, timeout=args.timeout)


def _refuse_leftovers(args: argparse.Namespace, mode: str) -> None:
    given = [f"--{name.replace('_', '-')}" for name in SAVE if getattr(args, name)]
    given += args.words
    if given:
        raise UsageError(
            text("--{mode} saves nothing, so {given} says nothing", mode=mode, given=given[0]), text("leave it out")
        )


def _refuse_a_target_for_a_directory(directory: str, target: str | None) -> None:
    """``checkpoint 4711`` means the job 4711 and forgets the directory; a directory of that name can be written ``./4711``."""
    if may_mean_a_target(directory):
        raise UsageError(
            text("{directory!r} is a target, and a directory is missing", directory=directory),
            text("the target comes first: `%checkpoint TARGET DIR`")
            if target is not None
            else text("name the directory after it: `%checkpoint TARGET DIR`"),
        )


def _look(args: argparse.Namespace, mode: str, session: Session) -> Result:
    from .. import checkpoints

    if mode == "verify":
        return checkpoints.verify(args.verify)
    if mode == "inspect":
        return checkpoints.inspect(args.inspect)
    return _compare(args, session)


def _compare(args: argparse.Namespace, session: Session) -> Result:
    from .. import checkpoints

    if len(args.compare) > 2:
        raise UsageError(
            text("--compare takes a checkpoint and what to compare it with"),
            "`%checkpoint --compare PATH TARGET`",
        )
    path, other = args.compare[0], args.compare[1] if len(args.compare) == 2 else None
    if other is not None and _is_checkpoint(other):
        return checkpoints.compare(path, other)
    with session.job(other, args.timeout) as job:
        return job.compare(path, timeout=args.timeout)


def _is_checkpoint(words: str) -> bool:
    """True for a file or directory; a number is a pid, and an agent's socket is a target."""
    return not words.isdigit() and (os.path.isfile(words) or os.path.isdir(words))
