"""Which coroutine a rank waits for in its event loop: while they wait, coroutines are on no thread's stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...frames.whose import user_frame
from ...language import counted, later, text
from ...model import Coroutine
from .case import Case, View
from .onward import Onward
from .words import alike, short_place

__all__ = ["awaited"]

SERVES = "Queue.get"
"""What a task mostly waits in that has nothing to do."""
MOST_NAMED = 4
_WORDS: Mapping[str, str] = {
    "a future": later("a future"),
    "a function in an executor": later("a function in an executor"),
}


def awaited(case: Case, view: View) -> Onward | None:
    """Of its coroutines those at which the waits end: who awaits another one of them is not to blame. Pure; linear in their number."""
    ends = _ends(view.evidence.coroutines)
    if view.now.kind != "idle" or not ends:
        return None
    groups = alike(ends, lambda c: (user_frame(c.frames), c.waits_for))
    frame = user_frame(ends[0].frames)
    at = short_place(frame)
    return Onward(
        text("its coroutine {name} awaits {what} at {at}", name=_name(ends[0]), what=_what(ends[0]), at=at),
        [_words(case, same) for same in groups[:MOST_NAMED]],
        step=text(
            "Put asyncio.timeout() round the await at {at}, and see who should bring about what it awaits.", at=at
        ),
        frame=frame,
    )


def _ends(coroutines: Sequence[Coroutine]) -> list[Coroutine]:
    """Those that wait, with code of the user, for no other task; of these the ones for which another task waits, else those that are not
    merely without work.
    """
    ends = [c for c in coroutines if c.waits_for and not c.awaits and user_frame(c.frames) is not None]
    wanted = {ident for c in coroutines for ident in c.awaits}
    return [c for c in ends if c.id in wanted] or [c for c in ends if c.waits_for != SERVES] or ends


def _name(one: Coroutine) -> str:
    """The function of the task itself, the outermost of the user's."""
    return next((f.function for f in reversed(one.frames) if not f.library), one.name)


def _what(one: Coroutine) -> str:
    said = one.waits_for or ""
    return text(_WORDS[said]) if said in _WORDS else said


def _words(case: Case, same: Sequence[Coroutine]) -> str:
    return counted(
        "coroutine {name} awaits {what} at {at}",
        "{n} coroutines {name} await {what} at {at}",
        len(same),
        name=_name(same[0]),
        what=_what(same[0]),
        at=case.line(user_frame(same[0].frames)),
    )
