"""The key-value store at which the ranks of a job have met: the one place that all of them can write to, on whichever hosts they are.

Asked through a connection of our own where the store can be cloned (torch's TCPStore can): the one that the training has is locked for
as long as any of its threads waits for a key. An answer takes about 10 us on one host, a round trip on the network on several.
"""

from __future__ import annotations

import datetime
import sys
import threading
from typing import Any, Optional

from .refused import Refused
from .saying import said

PATIENCE_S = 5.0
"""How long the store may take to answer, on a connection of our own."""
UNDECIDED = said("nothing was decided by this")


class CommonStore:
    """Opened with the first use. Keys are ours alone if their names are."""

    def __init__(self) -> None:
        self._opening = threading.Lock()
        self._store: Optional[Any] = None

    def open(self) -> None:
        """Raises `Refused` where this process has no such store."""
        with self._opening:
            if self._store is None:
                self._store = _own(_base())

    def decide(self, key: str, wish: str) -> str:
        """Write `wish` under `key`, unless something stands there; what stands. Atomic among all ranks. Raises `Refused`."""
        self.open()
        store = self._store
        if store is None:  # closed meanwhile
            raise Refused(said("the store of the process group is closed"), UNDECIDED)
        try:
            return bytes(store.compare_set(key, "", wish)).decode()
        except RuntimeError as e:  # the common parent of torch's store errors
            raise _silent(e) from e

    def forget(self, key: str) -> None:
        """Take `key` out again. Raises `Refused`."""
        store = self._store
        if store is not None:
            try:
                store.delete_key(key)
            except RuntimeError as e:
                raise _silent(e) from e

    def close(self) -> None:
        self._store = None


def _silent(error: RuntimeError) -> Refused:
    return Refused(said("the store of the process group does not answer: {error}", error=str(error)), UNDECIDED)


def _base() -> Any:
    """The store below all prefixes, which ranks need not share."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not c10d.is_initialized():
        raise Refused(said("this process has no process group, at whose store its ranks could agree"))
    store = c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if not hasattr(store, "compare_set"):
        kind = type(store).__name__
        raise Refused(said("the store of the process group, {kind}, cannot decide between ranks", kind=kind))
    return store


def _own(store: Any) -> Any:
    try:
        mine = store.clone()
        mine.set_timeout(datetime.timedelta(seconds=PATIENCE_S))
    except (AttributeError, NotImplementedError, RuntimeError):
        return store  # a torch, or a store, that cannot do it
    return mine
