"""What a lock, or anything else that a thread can wait at, says of itself. No code of the user's runs."""

from __future__ import annotations

import _thread
import re
import sys
from typing import Any, Optional

from .attributes import MISSING, attribute, class_name, classes

KINDS = (
    ("threading", "_RLock", "RLock"),
    ("threading", "Condition", "Condition"),
    ("threading", "Semaphore", "Semaphore"),
    ("threading", "Event", "Event"),
    ("threading", "Barrier", "Barrier"),
    ("threading", "Thread", "Thread"),
    ("queue", "Queue", "Queue"),
    ("_queue", "SimpleQueue", "Queue"),
    ("multiprocessing.queues", "Queue", "Queue"),
    ("multiprocessing.queues", "SimpleQueue", "Queue"),
    ("multiprocessing.synchronize", "SemLock", "multiprocessing lock"),
    ("concurrent.futures._base", "Future", "Future"),
)
HELD = ("Lock", "RLock", "Semaphore", "multiprocessing lock")
"""Kinds that somebody holds. What a thread waits for at the others is an event, which nobody owes it."""
_OWNER = re.compile(r" owner=(\d+) ")


def kind(what: Any) -> str:
    """``"Lock"``, ``"RLock"``, ``"Condition"``, ...; the name of its class where it is of none of these."""
    if type(what) is _thread.LockType:
        return "Lock"
    if type(what) is _thread.RLock:
        return "RLock"
    bases = classes(what)
    for module, name, called in KINDS:
        cls = vars(sys.modules[module]).get(name) if module in sys.modules else None
        if cls is not None and any(base is cls for base in bases):
            return called
    return class_name(what)


def lock_behind(what: Any) -> Any:
    """The lock of a condition; anything else is its own."""
    inner = attribute(what, "_lock") if what is not MISSING and kind(what) == "Condition" else MISSING
    return what if inner is MISSING else inner


def can_be_held(what: Any) -> bool:
    return what is not MISSING and kind(what) in HELD


def is_free(what: Any) -> bool:
    """True for a lock that nobody holds: whoever stands at it is just taking it."""
    return type(what) is _thread.LockType and not _thread.LockType.locked(what)


def owner(what: Any) -> Optional[int]:
    """The ident of the thread that holds a re-entrant lock, by the lock's own word; None where nobody does, or it does not tell."""
    if type(what) is _thread.RLock:
        said = _OWNER.search(_thread.RLock.__repr__(what))  # C code that writes down its fields
        return int(said.group(1)) or None if said else None
    ident = attribute(what, "_owner") if kind(what) == "RLock" else MISSING
    return ident if isinstance(ident, int) else None


__all__ = ["can_be_held", "is_free", "kind", "lock_behind", "owner"]
