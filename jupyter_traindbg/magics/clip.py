"""Clip the gradients at a norm before each step, until --release or --undo; without a norm, show what is in force."""

from __future__ import annotations

import argparse

from ..actions import tuning as actions
from ..model import Result
from . import tuning
from .base import Session

EXAMPLES = (
    ("", "what is in force"),
    ("1.0", "clip at norm 1, from one step on, on all ranks"),
    ("--release", "back to what the training's own code does"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    tuning.add_value(parser, "the L2 norm, over all gradients of an optimizer, to clip at")
    tuning.add_taking_back(parser, "the gradients")
    tuning.add_optimizer(parser)


def run(args: argparse.Namespace, session: Session) -> Result:
    target, norm = tuning.target_and_value(args)
    tuning.at_most_one({"a norm": norm is not None, "--release": args.release, "--undo": args.undo})
    tuning.at_most_one({"--undo": args.undo, "--optimizer": args.optimizer is not None})
    if norm is not None:
        actions.clip(norm, args.optimizer)
    actions.release("clip_norm", None, args.optimizer)
    with tuning.job_of(args, session, target, "clip_norm") as job:
        if norm is not None:
            return job.clip(norm, optimizer=args.optimizer, timeout=args.timeout)
        if args.release:
            return job.release("clip_norm", optimizer=args.optimizer, timeout=args.timeout)
        if args.undo:
            return job.undo("clip_norm", timeout=args.timeout)
        return job.lr(setting="clip_norm", timeout=args.timeout)
