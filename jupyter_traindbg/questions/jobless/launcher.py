"""What became of the ranks of a launcher that has none."""

from __future__ import annotations

from ...model import Diagnosis, named_launcher
from ..diagnose import judged

__all__ = ["ask"]


def ask(target: str | None, *, timeout: float) -> Diagnosis | None:
    """What became of the ranks of a launcher that has none now, or why it starts none; None where `target` is no ``torchrun:PID``."""
    pid = named_launcher(target)
    return None if target is None or pid is None else judged(target, [], timeout, pid)
