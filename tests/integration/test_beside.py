"""The closer look from outside on real processes: what stands still, what works, and which threads hold which locks."""

from __future__ import annotations

from support import Start

from jupyter_traindbg.diagnose.hang.locks import cycle, thread_locks
from jupyter_traindbg.diagnose.hang.ranks import view
from jupyter_traindbg.gather import beside
from jupyter_traindbg.model import RankEvidence


def test_a_busy_process_a_sleeping_one_and_one_that_is_gone(start: Start) -> None:
    busy, sleeping = start("busy.py"), start("sleeping.py")
    gone = start("sleeping.py")
    gone.stop()
    evidence = beside.watch([busy.pid, sleeping.pid, gone.pid], 0.5)
    by_pid = {rank.pid: rank for rank in evidence.ranks}
    assert view(by_pid[busy.pid], evidence.sources).role == "moving"
    assert view(by_pid[sleeping.pid], evidence.sources).role == "still"
    lost: RankEvidence = by_pid[gone.pid]
    assert lost.looks == ()
    assert "ended" in lost.problem


def test_a_lock_that_is_held_by_its_own_waiter_is_seen_without_entering_the_process(start: Start) -> None:
    program = start("hung_lock.py")
    evidence = beside.watch([program.pid], 0.5)
    seen = view(evidence.ranks[0], evidence.sources)
    assert seen.role == "still"
    threads = [thread_locks(t, evidence.sources) for t in seen.threads]
    waiting = next(t for t in threads if t.waits)
    assert waiting.waits[0][1] == "lock"
    assert cycle(waiting, threads) == [waiting]
