"""Stacks to be shown: of a job that waits in a collective, of two ranks or of three hundred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from render_scenes_checkpoints import JOB

from jupyter_traindbg.model import Frame, ProcessStacks, Stacks, Thread, Wait

SITE = "/opt/venv/lib/python3.11/site-packages"
STD = "/usr/lib/python3.11"


_OUTER = [
    Frame(f"{JOB}/train.py", 142, "main"),
    Frame(f"{JOB}/train.py", 171, "<module>"),
]
_COLLECTIVE = [
    Frame(f"{SITE}/torch/distributed/distributed_c10d.py", 3142, "all_reduce", library=True),
    Frame(f"{SITE}/torch/distributed/c10d_logger.py", 83, "wrapper", library=True),
    Frame(f"{JOB}/train.py", 88, "Trainer.average_loss"),
    *_OUTER,
]
_LOADER = [
    Frame(f"{STD}/threading.py", 331, "Condition.wait", library=True),
    Frame(f"{STD}/queue.py", 180, "Queue.get", library=True),
    Frame(f"{SITE}/torch/utils/data/dataloader.py", 1275, "_MultiProcessingDataLoaderIter._try_get_data", library=True),
    Frame(f"{SITE}/torch/utils/data/dataloader.py", 1444, "_MultiProcessingDataLoaderIter._next_data", library=True),
    Frame(f"{SITE}/torch/utils/data/dataloader.py", 733, "_BaseDataLoaderIter.__next__", library=True),
    Frame(f"{JOB}/train.py", 76, "Trainer.batches"),
    *_OUTER,
]
_WORKER = [
    Frame(f"{JOB}/data.py", 31, "TextDataset.__getitem__"),
    Frame(f"{SITE}/torch/utils/data/_utils/fetch.py", 54, "fetch", library=True),
    Frame(f"{SITE}/torch/utils/data/_utils/worker.py", 349, "_worker_loop", library=True),
    Frame(f"{STD}/multiprocessing/process.py", 108, "BaseProcess.run", library=True),
    *_OUTER,
]
_FEEDER = [
    Frame(f"{STD}/threading.py", 327, "Condition.wait", library=True),
    Frame(f"{STD}/multiprocessing/queues.py", 231, "Queue._feed", library=True),
    Frame(f"{STD}/threading.py", 982, "Thread.run", library=True),
]


def thread(frames: Sequence[Frame], name: str = "MainThread", **changes: Any) -> Thread:
    settings: dict[str, Any] = {"tid": 4711, "state": "waiting", "training": name == "MainThread", **changes}
    return Thread(name=name, frames=tuple(frames), **settings)


def process(rank: int, threads: Sequence[Thread], **changes: Any) -> ProcessStacks:
    settings: dict[str, Any] = {"pid": 1000 + rank, "role": "rank", "source": "agent", **changes}
    return ProcessStacks(rank=rank, threads=tuple(threads), **settings)


def stacks(ranks: int, odd: int = 1) -> Stacks:
    """All ranks wait in a collective but one, which waits for its loader; each has a feeder thread and two workers."""
    processes = []
    for rank in range(ranks):
        late = rank == odd
        frames, wait = (_LOADER, Wait("loader")) if late else (_COLLECTIVE, Wait("collective", "all_reduce"))
        feeder = thread(_FEEDER, f"QueueFeederThread-{rank}", waiting_for=Wait("idle", "sending"))
        processes.append(process(rank, [thread(frames, waiting_for=wait), feeder]))
        for w in range(2):
            state = "running" if late else "waiting"
            working = _WORKER if late else _WORKER[1:4]
            wait_words = None if late else Wait("idle", "indices")
            worker = thread(working, state=state, waiting_for=wait_words)
            processes.append(
                process(rank, [worker], pid=9000 + 2 * rank + w, role="DataLoader worker", source="py-spy")
            )
    return Stacks(tuple(processes), (), 0.0082)


def all_different(ranks: int) -> Stacks:
    """Every rank at another line: a job that runs."""
    return Stacks(
        tuple(
            process(
                rank, [thread([Frame(f"{JOB}/train.py", rank, "step"), *_OUTER], state="running", name="MainThread")]
            )
            for rank in range(ranks)
        )
    )
