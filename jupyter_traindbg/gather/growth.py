"""What grows and who holds it, asked of agents: for `memory`, and for `diagnose` where a curve says that memory grows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from .. import evidence_growth
from ..attach.base import Link, ask_all
from ..frames.whose import at_place
from ..model import Finding, Frame, Maybe, MemoryLook, NotAvailable, SourceLine
from ..outside import sources
from ..tasks import Task

__all__ = ["looks", "source_lines"]

WATCH_S, LOOK_S, SOURCES_S = 0.3, 8.0, 1.0
"""How long steps are watched at first; how long what grows may be followed, where it does; how long a disk may take for a few lines."""
APART, GROWTH_APART = 3, 8
"""How many steps lie between two rounds, without and with ``growth``."""
LOOK_SHARE = 0.8


def looks(links: Sequence[Link], left_s: float, *, growth: bool, grows: bool) -> dict[int, Maybe[MemoryLook]]:
    """By pid, what the agents' probe ``growth`` says. `growth`: over more steps, among all objects, and in any case; `grows`: a curve
    has said so already.
    """
    how = {
        "watch_s": min(left_s, LOOK_S if growth else WATCH_S),
        "apart": GROWTH_APART if growth else APART,
        "deadline_s": left_s - 0.5 if growth else min(LOOK_S, left_s * LOOK_SHARE),
        "always": growth or grows,
        "thorough": growth,
    }
    asked = ask_all(links, lambda link: link.call("growth", dict(how), left_s), left_s)
    told = {link.pid: evidence_growth.look(answer) for link, answer in asked.answers}
    return {**{one.pid: NotAvailable(one.reason) for one in asked.silent if one.pid}, **told}


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
