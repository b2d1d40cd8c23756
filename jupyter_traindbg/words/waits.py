"""What a thread does at one moment, and what it waits for, in the reader's language; the English words for waits, those of JSON, are in
`jupyter_traindbg.model.waits`.
"""

from __future__ import annotations

from ..language import later, named, pgettext, text
from ..model import Maybe, NotAvailable, ThreadState, Wait

__all__ = ["at_moment", "awaited", "state_words"]

STATES: dict[str, str] = {
    "running": later("running"),
    "waiting": later("waiting"),
    "in uninterruptible sleep": later("in uninterruptible sleep"),
    "stopped by a signal": later("stopped by a signal"),
    "stopped by a debugger": later("stopped by a debugger"),
    "ended": later("ended"),
    "idle": later("idle"),
}


def awaited(wait: Wait) -> str:
    """What follows "waits for"; ``str(wait)`` is it in English."""
    return pgettext("a wait", wait.template, op=wait.op, on=wait.on) if wait else ""


def at_moment(state: Maybe[ThreadState], wait: Wait | None) -> str:
    """In the reader's language: ``computing``, ``waiting for data from a socket``, ``stopped by a signal``; empty where it is not known."""
    if wait is not None:
        return _waiting(wait)
    if isinstance(state, NotAvailable):
        return ""
    return text("computing") if state == "running" else state_words(state)


def state_words(state: ThreadState) -> str:
    """As the kernel has it."""
    return named(STATES, state)


def _waiting(wait: Wait) -> str:
    if wait.kind == "sleep":
        return text("sleeping")
    if wait.kind == "idle":
        return pgettext("a thread", wait.template)
    return text("waiting for {wait}", wait=awaited(wait))
