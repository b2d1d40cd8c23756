"""The memory of a job on several hosts: one cause is told once, wherever its ranks are."""

from __future__ import annotations

from typing import Any

from several_hosts import SeveralHosts

from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.errors import DeadlineExceeded
from jupyter_traindbg.language import text
from jupyter_traindbg.model import Child, Frame, Holder, MemoryLook, NotAvailable, RankMemory
from jupyter_traindbg.questions import memory
from jupyter_traindbg.questions.memory import Grown, Sizes, SizesOfHost

PID = 9
"""On each host."""
FILE = "/home/ada/train.py"
LOSSES = Holder("graphs", "losses", "local", "main", "list", "Tensor", 412, 3.0, 9e6, 2**30, Frame(FILE, 2, "main"))
LOOKED = MemoryLook(10, 9e6, 0.0, looked=True, holders=(LOSSES,))


class There(Link):
    """A rank on another host, which has the program's file."""

    here = False

    def __init__(self, rank: int) -> None:
        super().__init__(PID, lambda s: None, rank, 2)  # type: ignore[arg-type, return-value]

    def text_of(self, file: str, deadline_s: float) -> str | None:
        return "losses = []\nlosses.append(loss)\n" if file == FILE else None


def sizes(rank: int) -> SizesOfHost:
    curve = [(1e9 + step, 2**30 + step * 2**20, None) for step in range(300)]
    seen = RankMemory(rank, PID, 2**30, 2**30, (), NotAvailable("no GPU"), [Child(20, "loader", 2**20)], curve)
    return SizesOfHost([Sizes(seen, 1, None, 0)], ())


def asked(grown: Any, **words: Any) -> Any:
    job = SeveralHosts({"sizes": [sizes(1), sizes(0)], "grown": grown}, [There(0), There(1)])
    return memory.ask(job, **words)  # type: ignore[arg-type]


def test_what_grows_on_two_hosts_at_one_line_is_one_finding_with_that_line() -> None:
    told = asked([{(1, PID): Grown(LOOKED)}, {(0, PID): Grown(LOOKED)}])
    assert [(rank.rank, rank.pid) for rank in told.ranks] == [(0, PID), (1, PID)]
    assert [rank.children[0].pid for rank in told.ranks] == [20, 20]
    (found,) = told.findings
    assert (found.code, found.ranks) == ("graphs_kept", (0, 1))
    assert [rank.growth for rank in told.ranks] == ["grows by 1000.0 MiB per 1000 steps"] * 2
    assert found.source is not None
    assert found.source.lines == ("losses = []", "losses.append(loss)")
    assert [one.rank for one in told.silent] == [9]


def test_where_nobody_looks_for_what_grows_the_sizes_are_there_and_why() -> None:
    late = asked(DeadlineExceeded(text("{name} took too long", name="it")))
    assert [str(rank.look) for rank in late.ranks] == [str(NotAvailable("it took too long"))] * 2
    assert [rank.rss_bytes for rank in late.ranks] == [2**30, 2**30]
    assert [found.ranks for found in late.findings] == [(0, 1)], "the curve's own"
    quick = asked(AssertionError("nobody is asked"), look=False)
    assert [found.code for found in quick.findings] == ["memory_growth"]
