"""Do something at one agreed step on every rank, or on none: a two-phase commit in which the training never waits.

Every rank prepares: "after step N, at the boundary, if it is decided so". The decision is a file that is written once: whoever links it
into place first has decided. The coordinator writes ``commit`` once all ranks have prepared; a rank that gets to its boundary and finds
no decision writes ``abort`` itself. So nobody ever blocks, and a coordinator that dies at any moment leaves all ranks with one answer.
(The participants' part is that of the classic presumed-abort protocol: Mohan, Lindsay and Obermarck 1986.)
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any, Callable, Deque, Dict, Optional

from .recorder import Recorder
from .refused import Refused
from .safepoint import Request, SafePoints

COMMIT, ABORT = "commit", "abort"


def decide(path: str, wish: str) -> str:
    """Write `wish` as the decision at `path`, unless there is one; the decision that stands. Atomic among all who share the file system."""
    draft = f"{path}.{os.getpid()}-{threading.get_ident()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as f:
        f.write(wish)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # somebody was quicker; theirs stands
    finally:
        os.unlink(draft)
    with open(path) as f:
        return f.read()


class Pending:
    """One thing to be done at the first boundary with `after_step` or more steps behind it."""

    def __init__(self, after_step: int, decision: Optional[str], function: Callable[[], Any]) -> None:
        self.after_step, self.decision = after_step, decision
        self.request = Request(function)
        self.at_step: Optional[int] = None
        """The steps that were behind it when it was done; None where it was not."""


class Agreed:
    """What this rank has prepared and not done yet. `boundary` is called on the training thread."""

    def __init__(self, safepoints: SafePoints, recorder: Recorder) -> None:
        self._safepoints, self._recorder = safepoints, recorder
        self._pending: Deque[Pending] = deque()
        self._passed = -1
        self.known: Dict[str, Pending] = {}

    def open(self) -> None:
        self._safepoints.at_boundary.append(self._boundary)

    @property
    def waiting(self) -> bool:
        return bool(self._pending)

    def prepare(self, ident: str, after_step: int, decision: Optional[str], function: Callable[[], Any]) -> None:
        """Have `function` run at the first boundary after `after_step` steps, if the file `decision` says so by then (None: it does).

        `function` must not fail: whatever can be checked is checked before. Raises `Refused` where that boundary lies behind us.
        """
        pending = Pending(after_step, decision, function)
        self._pending.append(pending)
        if self._passed >= after_step and pending.at_step is None:
            self.drop(pending)
            raise Refused(f"step {after_step} was over before all ranks had agreed", "try again: the margin grows")
        self.known[ident] = pending

    def drop(self, pending: Pending) -> None:
        try:
            self._pending.remove(pending)
        except ValueError:
            pass  # its boundary has just come

    def outcome(self, ident: str, wait_s: float) -> Dict[str, Any]:
        """What became of `ident`: ``{"done": bool, "aborted": bool, "at_step": int or None, "value": ...}``. Waits at most `wait_s`."""
        pending = self.known.get(ident)
        if pending is None:
            raise Refused(f"nothing was prepared as {ident}")
        finished = pending.request.done.wait(wait_s)
        if pending.request.error is not None:
            raise pending.request.error
        aborted = finished and pending.at_step is None
        done = finished and not aborted
        return {"done": done, "aborted": aborted, "at_step": pending.at_step, "value": pending.request.value}

    def abort(self, ident: str) -> None:
        """Forget `ident`, where it has not been done yet."""
        pending = self.known.pop(ident, None)
        if pending is not None:
            self.drop(pending)

    def _boundary(self, where: str) -> None:
        step = self._recorder.step
        self._passed = step
        if not self._pending:
            return
        for pending in [p for p in list(self._pending) if p.after_step <= step]:
            self.drop(pending)
            try:
                decision = COMMIT if pending.decision is None else decide(pending.decision, ABORT)
            except OSError:
                decision = ABORT  # the coordinator has cleaned up and is gone
            if decision == COMMIT:
                pending.at_step = step
                pending.request.run()
            else:
                pending.request.done.set()
