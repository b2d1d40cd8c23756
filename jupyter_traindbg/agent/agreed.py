"""Do something at one agreed step on every rank, or on none: a two-phase commit in which the training never waits.

Every rank prepares: "after step N, at the boundary, if it is decided so". The decision is a file that is written once: whoever links it
into place first has decided; for ranks that share no file system it is a key in the store of their process group. The coordinator
writes ``commit`` once all ranks have prepared; a rank that gets to its boundary and finds no decision writes ``abort`` itself. So nobody
ever blocks, and a coordinator that dies at any moment leaves all ranks with one answer.
(The participants' part is that of the classic presumed-abort protocol: Mohan, Lindsay and Obermarck 1986.)
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, Optional

from .common_store import CommonStore
from .recorder import Recorder
from .refused import Refused
from .safepoint import Request, SafePoints
from .saying import said

COMMIT, ABORT = "commit", "abort"
IN_STORE = "store:"
"""How the name of a decision begins that is a key of the store, and no path."""
"""How a rank says that the chosen step lies behind it: choose one further ahead."""


def decide(path: str, wish: str) -> str:
    """Write `wish` as the decision at `path`, unless there is one; the decision that stands. Atomic among all who share the file system."""
    draft = f"{path}.{os.getpid()}-{threading.get_ident()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as f:
        os.fchmod(f.fileno(), 0o644)  # root may decide for another user's ranks; the directory is private anyway
        f.write(wish)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # somebody was quicker; theirs stands
    finally:
        os.unlink(draft)
    with open(path) as f:
        return f.read()


class Claim:
    """Who may begin votes at this rank. It ends by itself: a claimant may die."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claimant, self._until_s = "", 0.0

    def take(self, claimant: str, for_s: float) -> bool:
        now = time.monotonic()
        with self._lock:
            if now < self._until_s and claimant != self._claimant:
                return False
            self._claimant, self._until_s = claimant, now + for_s
            return True

    def free(self, claimant: str) -> None:
        with self._lock:
            if claimant == self._claimant:
                self._until_s = 0.0


class Pending:
    """One thing to be done at the first boundary with `after_step` or more steps behind it."""

    def __init__(self, after_step: int, decision: Optional[str], function: Callable[[], Any], exact: bool) -> None:
        self.after_step, self.decision, self.exact = after_step, decision, exact
        self.request = Request(function)
        self.at_step: Optional[int] = None
        """The steps that were behind it when it was done; None where it was not."""


class Agreed:
    """What this rank has prepared and not done yet. `boundary` is called on the training thread."""

    def __init__(self, safepoints: SafePoints, recorder: Recorder) -> None:
        self._safepoints, self._recorder = safepoints, recorder
        self._pending: Deque[Pending] = deque()
        self._passed = self._begun = -1
        """The steps that were behind the last boundary, and behind the last moment for what is `exact`."""
        self.known: Dict[str, Pending] = {}
        self.store, self.claim = CommonStore(), Claim()

    def open(self) -> None:
        self._safepoints.at_boundary.append(self._boundary)
        self._safepoints.unmarked.append(self._unmarked)

    @property
    def waiting(self) -> bool:
        return bool(self._pending)

    def prepare(
        self,
        ident: str,
        after_step: int,
        decision: Optional[str],
        function: Callable[[], Any],
        *,
        exact: bool = False,
    ) -> None:
        """Have `function` run at the first boundary after `after_step` steps, if `decision`, a path or a key of the store, says so by then.

        `function` must not fail: whatever can be checked is checked before. Raises `Refused` where that boundary lies behind us.
        `after_step` 0 is the next boundary, whichever that is. `exact`: not later than the next step, also where this rank, unlike others,
        sees no boundary before it.
        """
        if decision is not None and decision.startswith(IN_STORE):
            self.store.open()  # now, and not at the boundary
        pending = Pending(after_step, decision, function, exact)
        self._pending.append(pending)
        passed = max(self._passed, self._begun) if exact else self._passed
        if 0 < after_step <= passed and pending.at_step is None:
            self.drop(pending)
            raise Refused(
                said("step {step} was over before all ranks had agreed", step=after_step),
                said("try again: the margin grows"),
                too_late=True,
            )
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
            raise Refused(said("nothing was prepared as {name}", name=ident))
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
        self._passed = self._recorder.step
        if self._pending:
            self._come_to(self._passed, exact_only=False)

    def _unmarked(self, where: str) -> None:
        """A step begins and no boundary was seen since the last one: this rank alone has just evaluated with a DataLoader, perhaps."""
        self._begun = self._recorder.step
        if self._pending:
            self._come_to(self._begun, exact_only=True)

    def _come_to(self, step: int, *, exact_only: bool) -> None:
        due = [p for p in list(self._pending) if p.after_step <= step and (p.exact or not exact_only)]
        for pending in due:
            self.drop(pending)
            if self._decided(pending.decision) == COMMIT:
                pending.at_step = step
                pending.request.run()
            else:
                pending.request.done.set()

    def _decided(self, decision: Optional[str]) -> str:
        if decision is None:
            return COMMIT
        try:
            if decision.startswith(IN_STORE):
                return self.store.decide(decision[len(IN_STORE) :], ABORT)
            return decide(decision, ABORT)
        except (OSError, Refused):
            return ABORT  # the coordinator has cleaned up and is gone, or the job is ending
