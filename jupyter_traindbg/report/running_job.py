"""What parts that ask a job one question have in common."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Silent
from .context import Context, Part

__all__ = ["asked"]


def asked(context: Context, question: str) -> Part:
    """The answer as a part; the ranks that gave none are told as missing. Raises what `Context.ask` raises."""
    result = context.ask(question)
    silent: Sequence[Silent] = getattr(result, "silent", ())
    ranks: Sequence[object] = getattr(result, "ranks", ())
    return Part(
        f"answers of {len(ranks)} rank{'s' * (len(ranks) != 1)}",
        results=[result],
        missing=[f"rank {s.rank} (pid {s.pid}): {s.reason}" for s in silent],
    )
