"""Where the wait of a rank leads: to a process below it, or to a coroutine of its event loop, which show why it lasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...model import Frame, HostPid

__all__ = ["Onward"]


@dataclass(frozen=True)
class Onward:
    """``words`` end a sentence, ``process 4711 below it sleeps at data.py:12 fetch``; empty where only `evidence` tells. ``frame``: the
    place, if that is the user's; ``cause`` and ``step`` are empty where the rank's own wait says as much. ``process``: that process,
    without a host where that is known, ``who``, how its job calls it, and ``rescue`` another step, which frees it. ``unsure``: it may get
    on with something that does not show.
    """

    words: str
    evidence: Sequence[str]
    cause: str = ""
    step: str = ""
    frame: Frame | None = None
    process: HostPid | None = None
    who: str = ""
    rescue: str = ""
    unsure: bool = False
