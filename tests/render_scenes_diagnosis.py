"""Diagnoses as results: a stuck job, a healthy one, one of which nothing is known. For the tests of rendering."""

from __future__ import annotations

import dataclasses

from jupyter_traindbg.model import (
    Check,
    Diagnosis,
    DumpDiagnosis,
    Finding,
    RankState,
    SentFile,
    Silent,
    Subject,
    rank_subjects,
    things,
)


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
        (Subject("rank", odd), Subject("loader_worker", 5012)),
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
        "torchrun:99",
        "healthy",
        ("ranks 0-3: up to 5 steps during the look",),
        ranks,
        taken_s=2.5,
        checks=SOUND,
    )


SOUND = (
    Check("loss", "fine", "finite: 2.31 at step 812", "steps"),
    Check("gradients", "fine", "125, all finite, norm 0.42 at the step", "grads"),
    Check("memory", "not known", "too early to tell: 36 of 168 steps recorded", "memory"),
)


def unsound(ranks: int) -> Diagnosis:
    """Every rank steps, and the loss is NaN."""
    finding = Finding(
        "nonfinite_loss",
        "critical",
        "The loss is NaN since step 812",
        rank_subjects(range(ranks)),
        evidence=["rank 0: 10 of the last 40 losses are not finite; 2.31 at step 811"],
        cause="Weights or activations have overflowed or hold NaN.",
        next_steps=["Go back to the last checkpoint before that step."],
    )
    lost = (Check("loss", "trouble", "see above", "steps"), *SOUND[1:])
    job = dataclasses.replace(healthy(), state="unsound", verdict=(finding,), checks=lost)
    return dataclasses.replace(
        job, ranks=[dataclasses.replace(job.ranks[0], rank=n, pid=4000 + n) for n in range(ranks)]
    )


def unknown() -> Diagnosis:
    return Diagnosis("12", "not known", (), ())


def of_dumps(ranks: int) -> DumpDiagnosis:
    """What four files of stacks and a log told; each process was seen once."""
    seen = stuck(ranks)
    files = (
        *(
            SentFile(f"rank{n}.txt", "stacks", f"py-spy: rank {n}, 1 look at a process, 2 threads")
            for n in range(ranks)
        ),
        SentFile("nccl_trace_rank_0", "recorder", "rank 0: 57 calls of collectives"),
        SentFile("train.log", "log", "1,200 lines, 1 of them in the verdict"),
        SentFile("core.4711", "unread", "core.4711 is not text"),
    )
    return DumpDiagnosis(
        "dumps/",
        "not known",
        ("each process was seen once: where it was is known, and not whether it moves",),
        tuple(dataclasses.replace(rank, steps=None, since_s=None) for rank in seen.ranks),
        seen.verdict,
        (),
        0.12,
        files=files,
        missing=("a second look at each process: dump them again some seconds later, and give both dumps",),
        variables={0: {"step": "57", "path": '"/mnt/nfs/shard-7"'}},
    )


def dumps_of_nothing() -> DumpDiagnosis:
    """One process that computed, seen once."""
    ranks = [RankState(0, 0, "computing", "computes", "train.py:20 prepare")]
    return DumpDiagnosis(
        "text", "not known", ("each process was seen once",), ranks, files=(SentFile("text", "stacks", "gdb"),)
    )


def ray_job(workers: int) -> Diagnosis:
    """Of `workers` collectors one is deadlocked inside and one stuck in its ``__init__``; the others play, some are idle."""
    at = "/home/ada/selfplay/collector.py"
    play = [
        RankState(n, 7000 + n, "computing", "runs run", f"{at}:31 Engine.step", 3, 4.0 + n / 10, f"Collector[{n}]")
        for n in range(2, workers)
    ]
    bad = [
        RankState(0, 7000, "waiting", "runs run, waits for a lock", f"{at}:20 Engine.step", 3, 26.0, "Collector[0]"),
        RankState(
            1,
            7001,
            "starting",
            "in __init__, waits for a socket",
            f"{at}:12 Collector.__init__",
            None,
            41.0,
            "Collector[1]",
        ),
        RankState(
            workers,
            6999,
            "waiting",
            "waits for results of Collector[0, 1]",
            "/home/ada/train.py:40 main",
            None,
            60.0,
            "driver",
        ),
        RankState(workers + 1, 6998, "idle", "idle", None, 12, None, "replay buffer"),
    ]
    finding = Finding(
        "ray_worker_deadlock",
        "critical",
        "Deadlock inside Collector[0]: threads MainThread and stats wait for each other's locks",
        things(["Collector[0]"]),
        f"{at}:20 Engine.step",
        ["thread MainThread waits for self.b at collector.py:20 Engine.step: `with self.b:`, holding self.a"],
        "Locks are taken in different orders.",
        ["Give up this call and keep the actor: `traindbg ray-rescue --interrupt Collector[0]`."],
    )
    why = ("Collector[0]: at the same place at every look",)
    return Diagnosis("ray:auto", "stuck", why, (*bad, *play), (finding,), taken_s=4.1)
