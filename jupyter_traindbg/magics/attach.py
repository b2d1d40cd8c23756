"""Attach to a running training job and stay attached. In a notebook the other magics then ask this job."""

from __future__ import annotations

import argparse

from ..model import Result
from .base import Session, add_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)


def run(args: argparse.Namespace, session: Session) -> Result:
    return session.attach(args.target, args.timeout)
