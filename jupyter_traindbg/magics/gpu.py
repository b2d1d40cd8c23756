"""Show this host's GPUs: memory, utilisation, power, temperature, throttling, errors, processes. Never waits for a hung driver."""

from __future__ import annotations

import argparse
import os

from ..model import Result
from ..questions import gpu
from .base import Session, add_target

EXAMPLES = (
    ("", "the GPUs of the job attached to, else of this machine"),
    ("4711", "those that this job uses"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)


def run(args: argparse.Namespace, session: Session) -> Result:
    if args.target is not None or session.current is not None:
        with session.job(args.target, args.timeout) as job:
            return job.gpu(timeout=args.timeout)
    return gpu.of_machine(args.timeout, environ=os.environ)
