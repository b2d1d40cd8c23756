"""Diagnoses as results: a stuck job, a healthy one, one of which nothing is known. For the tests of rendering."""

from __future__ import annotations

from jupyter_traindbg.model import Diagnosis, Finding, RankState, Silent


def stuck(ranks: int, odd: int = 1) -> Diagnosis:
    """`odd` is stuck in its loader; the rest wait for it, some have ended or are stopped where there are many."""
    others = [
        RankState(
            n, 4000 + n, "waiting", "waits in all_reduce #57", "/home/ada/train.py:42 train_step", 56, 12.5 + n / 10
        )
        for n in range(ranks)
        if n != odd
    ]
    blamed = RankState(odd, 4000 + odd, "waiting", "waits for the next batch", "/home/ada/train.py:30 epoch", 56)
    if ranks > 10:
        others[5] = RankState(5, 0, "ended", "killed by SIGKILL")
        others[6] = RankState(
            6, 4006, "stopped", "stopped: the kernel does not let it run", "/home/ada/train.py:42 train_step"
        )
    finding = Finding(
        "dataloader_worker_stuck",
        "critical",
        f"Rank {odd} waits for a batch: its DataLoader worker 5012 is stuck at data.py:17 __getitem__",
        (f"rank {odd}", "worker 5012"),
        "/home/ada/data.py:17 Shards.__getitem__",
        ["worker 5012 waits for data from the file /mnt/nfs/shard-7", "rank 0 waits in all_reduce #57, for 12 s"],
        "The file does not come.",
        ["Check /mnt/nfs/shard-7 and its mount."],
    )
    why = (f"rank {odd}: at the same place at every look", "nothing new for 12 s")
    silent = (Silent(odd, 4000 + odd, "the agent gave no answer in 1 s", "give a longer --timeout"),)
    return Diagnosis("torchrun:99", "stuck", why, (*others, blamed), (finding,), silent, 2.9)


def healthy() -> Diagnosis:
    """Every rank steps."""
    ranks = [
        RankState(n, 4000 + n, "stepping", "in its backward pass", "/home/ada/train.py:40 step", 100 + n)
        for n in range(4)
    ]
    return Diagnosis(
        "torchrun:99", "healthy", ("ranks 0-3: up to 5 optimizer steps during the look",), ranks, taken_s=2.5
    )


def unknown() -> Diagnosis:
    return Diagnosis("12", "not known", (), ())
