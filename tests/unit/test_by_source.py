"""Ranks of different hosts that stand at different lines: compared by the source as one of each host has it."""

from __future__ import annotations

import dataclasses
import time

from hang_evidence import TRAIN, job, waiting

from jupyter_traindbg.attach.base import Link
from jupyter_traindbg.gather.by_source import between_hosts
from jupyter_traindbg.model import Frame, Look, RankEvidence

PROGRAM = """
def main(loader, model):
    for x in loader:
        loss = model(x)
        if loss > 0:
            average(loss)
        save(model)
"""
AVERAGE, SAVE = 6, 7


class There(Link):
    """A rank on another host, which counts who reads its files."""

    here = False

    def __init__(self, rank: int, says: str | None = PROGRAM) -> None:
        super().__init__(100 + rank, lambda s: None, rank, 4)  # type: ignore[arg-type, return-value]
        self.read: list[str] = []
        self._says = says

    def text_of(self, file: str, deadline_s: float) -> str | None:
        assert deadline_s > 0
        self.read.append(file)
        return self._says if file == TRAIN else None


def at(rank: int, line: int, host: str) -> RankEvidence:
    seen = waiting(rank)
    (process,) = seen.looks[-1].processes
    (thread,) = process.threads
    frames = (*(f for f in thread.frames if f.library), Frame(TRAIN, line, "main"))
    process = dataclasses.replace(process, threads=(dataclasses.replace(thread, frames=frames),))
    return dataclasses.replace(seen, looks=(Look(1.0, (process,)),), host=host)


def test_who_is_past_a_line_at_which_those_of_another_host_are() -> None:
    seen = job(*(at(rank, AVERAGE, "alpha") for rank in (0, 1)), *(at(rank, SAVE, "beta") for rank in (2, 3)))
    links = [There(rank) for rank in range(4)]
    told = between_hosts(seen, links, time.monotonic() + 10)
    past = {(tuple(one.ranks), tuple(one.others)): one for one in told.past}
    assert [one.words for one in past[(2, 3), (0, 1)].detours] == ["loss > 0"]
    assert [(block.kind, block.words) for block in told.blocks[TRAIN]] == [("for", "x in loader"), ("if", "loss > 0")]
    assert sorted(len(link.read) for link in links) == [0, 0, 1, 1], "one of each host reads, once"


def test_what_a_host_does_not_show_is_not_said_and_what_hosts_have_found_stays() -> None:
    seen = job(at(0, AVERAGE, "alpha"), at(1, SAVE, "beta"))
    before = between_hosts(seen, [There(0), There(1)], time.monotonic() + 10)
    assert before.past
    assert not between_hosts(seen, [There(0, None), There(1, None)], time.monotonic() + 10).past
    assert between_hosts(before, [], time.monotonic() + 10).past == before.past
