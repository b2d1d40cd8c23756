"""What a thread does at one moment, and what it waits for, in the reader's language; the English words for waits, those of JSON, are in
`jupyter_traindbg.model.waits`.
"""

from __future__ import annotations

from ..language import pgettext, text
from ..model import Maybe, NotAvailable, ThreadState, Wait

__all__ = ["at_moment", "awaited"]


def awaited(wait: Wait) -> str:
    """What follows "waits for"; ``str(wait)`` is it in English."""
    return pgettext("a wait", wait.template, op=wait.op, on=wait.on) if wait else ""


def at_moment(state: Maybe[ThreadState], wait: Wait | None) -> str:
    """In the reader's language: ``computing``, ``waiting for data from a socket``, ``stopped by a signal``; empty where it is not known."""
    if wait is not None:
        return _waiting(wait)
    if isinstance(state, NotAvailable):
        return ""
    return {"running": text("computing"), "waiting": text("waiting")}.get(state, state)


def _waiting(wait: Wait) -> str:
    if wait.kind == "sleep":
        return text("sleeping")
    if wait.kind == "idle":
        return pgettext("a thread", wait.template)
    return text("waiting for {wait}", wait=awaited(wait))
