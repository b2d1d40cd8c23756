"""What grows and who holds it, asked of agents: for `memory`, and for `diagnose` where a curve says that memory grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .. import evidence_growth
from ..attach.base import Link, ask_all
from ..frames.whose import at_place
from ..model import Finding, Frame, Maybe, MemoryLook, NotAvailable, Silent, SourceLine
from ..outside import sources
from ..tasks import Task

__all__ = ["Ask", "look", "looks", "source_lines"]

WATCH_S, LOOK_S, SOURCES_S = 0.3, 8.0, 1.0
"""How long steps are watched at first; how long what grows may be followed, where it does; how long a disk may take for a few lines."""
APART, GROWTH_APART = 3, 8
"""How many steps lie between two rounds, without and with ``growth``."""
LOOK_SHARE = 0.8

Ask = Callable[[Mapping[str, Any], float], tuple[Sequence[tuple[int, Any]], Sequence[Silent]]]
"""Asks the agents' probe ``growth`` with these parameters, in so many seconds: answers by pid, and who gave none."""


def looks(ask: Ask, left_s: float, *, growth: bool, grows: bool) -> dict[int, Maybe[MemoryLook]]:
    """By pid. `growth`: over more steps, among all objects, and in any case; `grows`: a curve has said so already."""
    how = {
        "watch_s": min(left_s, LOOK_S if growth else WATCH_S),
        "apart": GROWTH_APART if growth else APART,
        "deadline_s": left_s - 0.5 if growth else min(LOOK_S, left_s * LOOK_SHARE),
        "always": growth or grows,
        "thorough": growth,
    }
    answers, silent = ask(how, left_s)
    told = {pid: evidence_growth.look(answer) for pid, answer in answers}
    return {**{one.pid: NotAvailable(one.reason) for one in silent if one.pid}, **told}


def look(links: Sequence[Link], left_s: float) -> dict[int, Maybe[MemoryLook]]:
    """By pid, of processes whose curve has said that memory grows."""

    def ask(how: Mapping[str, Any], deadline_s: float) -> tuple[Sequence[tuple[int, Any]], Sequence[Silent]]:
        asked = ask_all(links, lambda link: link.call("growth", dict(how), deadline_s), deadline_s)
        return [(link.pid, answer) for link, answer in asked.answers], asked.silent

    return looks(ask, left_s, growth=False, grows=True)


def source_lines(verdict: Sequence[Finding], links: Iterable[Link], ends: float) -> Mapping[str, SourceLine]:
    """The lines that findings name, by place, as the process of that rank runs them; nothing where a disk does not answer by then."""
    of_rank = {link.rank: link for link in links}
    wanted = [
        (of_rank[f.ranks[0]], frame) for f in verdict if f.ranks and (frame := at_place(f.where or "")) is not None
    ]
    reading = Task(lambda: _read(wanted), "sources")
    return reading.in_time(min(ends, time.monotonic() + SOURCES_S)) or {}


def _read(wanted: Sequence[tuple[Link, Frame]]) -> dict[str, SourceLine]:
    found = {}
    for link, frame in wanted:
        rows = link.text_of(frame.file, SOURCES_S)
        for line, seen in sources.source_lines(rows or "", [frame.line], frame.file).items():
            found[f"{frame.file}:{line}"] = seen
    return found
