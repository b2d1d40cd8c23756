"""The checkpoints that this process is writing: one at a time, and none for a client that is gone."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict

from ..refused import Refused
from ..saying import said
from .arena import Arena

if TYPE_CHECKING:
    from ..core import Agent
    from .writing import Writing

SAVED = 256
IDLE_S = 10.0
"""A checkpoint whose client has been silent for so long makes way for another one."""


class Checkpoints:
    """What is under way, by its id, and the memory for snapshots, which is kept from one to the next."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._arena = Arena()
        self._active: Dict[str, Writing] = {}
        self.saved: Deque[Dict[str, Any]] = deque(maxlen=SAVED)
        """The checkpoints that were completed: ``time_s``, the last ``step`` before the end, ``directory``."""

    def __bool__(self) -> bool:
        return bool(self._active)

    def knows(self, ident: str) -> bool:
        return ident in self._active

    def get(self, ident: str) -> Writing:
        """The checkpoint `ident`. Raises `Refused` where there is none: it was given up, or never begun."""
        writing = self._active.get(ident)
        if writing is None:
            raise Refused(
                said("this rank knows nothing of that checkpoint: it was given up, or never begun"),
                said("take the checkpoint again"),
            )
        writing.heard()
        return writing

    def open(self, ident: str, directory: str) -> Writing:
        """The checkpoint `ident`, begun here where it is new. Raises `Refused` while another one is under way."""
        if ident in self._active:
            return self.get(ident)
        for other in list(self._active.values()):
            if other.silent_s < IDLE_S:
                raise Refused(said("another checkpoint of this process is under way"), said("wait until it is done"))
            self.abort(other.ident)
        from .writing import Writing  # an agent that never writes a checkpoint does without all this

        writing = self._active[ident] = Writing(self._agent, ident, directory, self._arena)
        return writing

    def abort(self, ident: str) -> bool:
        """Give `ident` up. True where there was such a one."""
        writing = self._active.pop(ident, None)
        if writing is not None and not writing.abort():
            self._arena = Arena()  # a write that hangs in the kernel keeps its memory until it ends
        return writing is not None

    def forget(self, ident: str) -> None:
        """`ident` is complete."""
        writing = self._active.pop(ident, None)
        if writing is not None:
            told = {"time_s": time.time(), "step": self._agent.recorder.step, "directory": writing.directory}
            self.saved.append(told)

    def tick(self) -> None:
        """Called about twice a second: give up what no client asks for any more."""
        for writing in list(self._active.values()):
            if writing.given_up:
                self.abort(writing.ident)

    def close(self) -> None:
        """The agent stops: give up everything, give back the memory."""
        for ident in list(self._active):
            self.abort(ident)
        self._arena.drop()
