"""List what can be attached to on this host: pid, rank, framework, age, whether an agent answers, and why not where not."""

from __future__ import annotations

import argparse

from ..model import Result, Targets
from .base import Session

EXAMPLES = (("", "all of this machine"),)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(args: argparse.Namespace, session: Session) -> Result:
    from ..attach.discover import targets

    return Targets(tuple(targets()))
