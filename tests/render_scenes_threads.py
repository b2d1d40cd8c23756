"""Threads to be shown: of a job that computes, of one with too many of them, of one with a deadlock; two ranks or three hundred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from render_scenes_checkpoints import JOB

from jupyter_traindbg.diagnose.threads import findings
from jupyter_traindbg.model import Frame, LockWait, Maybe, NotAvailable, ProcessThreads, Threads, ThreadUse, Wait

__all__ = ["deadlocked", "process", "threads", "use"]

STEP = Frame(f"{JOB}/train.py", 88, "Trainer.step")
SAVE, LOG = Frame(f"{JOB}/save.py", 31, "Saver.run"), Frame(f"{JOB}/log.py", 12, "Logger.flush")


def use(tid: int, name: str, cpu_share: float = 0.0, **changes: Any) -> ThreadUse:
    settings: dict[str, Any] = {"state": "running" if cpu_share else "waiting", "starved_share": 0.0, **changes}
    return ThreadUse(tid, name, cpu_share=cpu_share, **settings)


def process(rank: int, threads: Sequence[ThreadUse], locks: Maybe[bool] = True, **changes: Any) -> ProcessThreads:
    settings: dict[str, Any] = {"pid": 1000 + rank, "role": "rank", "worker": "", **changes}
    total = sum(thread.cpu_share for thread in threads)
    return ProcessThreads(rank=rank, process_cpu_share=total, locks=locks, threads=tuple(threads), **settings)


def threads(ranks: int, *, starved: bool = False, unknown: Sequence[int] = ()) -> Threads:
    """Each rank trains, with an autograd thread, a feeder, and natives that sleep; one worker each. `unknown`: ranks without an agent."""
    processes = []
    for rank in range(ranks):
        waited = 0.3 if starved else 0.0
        busy = 0.9 - 0.001 * (rank % 7)
        first = 10_000 + 100 * rank
        trains = use(first, "MainThread", busy, python=True, training=True, where=STEP, starved_share=waited)
        backward = use(first + 1, "pt_autograd_0", 0.4, starved_share=waited)
        feeder = use(first + 2, "QueueFeederThread", python=True, waiting_for=Wait("idle", "sending"))
        asleep = [use(first + 3 + n, "pt_nccl_watchdg") for n in range(3)]
        ours = use(first + 9, "traindbg", 0.01)
        locks = NotAvailable("the GIL is held") if rank in unknown else True
        processes.append(process(rank, [trains, backward, feeder, *asleep, ours], locks))
        loads = use(
            first + 50, "MainThread", 0.2, python=True, training=True, where=Frame(f"{JOB}/data.py", 9, "Text.get")
        )
        processes.append(process(rank, [loads], NotAvailable("not asked"), pid=9000 + rank, role="DataLoader worker"))
    return Threads(tuple(processes), (), 1.0, 1.04)


def deadlocked(ranks: int, *, how: str = "with") -> Threads:
    """Rank 0's saver and logger wait for each other."""

    def waits(tid: int, name: str, at: Frame, wants: str, has: str, holder: str, other: Frame) -> ThreadUse:  # noqa: PLR0917
        lock = LockWait(
            wants,
            "Lock",
            f"{at.file}:{at.line} {at.function}",
            holder,
            77,
            f"{other.file}:{other.line} {other.function}",
            how,
        )  # type: ignore[arg-type]
        return use(tid, name, python=True, waiting_for=Wait("native"), where=at, lock=lock, holds=(has,))

    saver = waits(76, "saver", SAVE, "self.log_lock", "self.lock", "logger", LOG)
    logger = waits(77, "logger", LOG, "self.lock", "self.log_lock", "saver", SAVE)
    first = process(0, [saver, logger], rings=((76, 77),))
    others = threads(ranks).processes
    return Threads((first, *others[2:]), (), 1.0, 1.04, tuple(findings([first])))
