"""What a log said, as it is shown: the log of a job whose rank 3 ran out of memory while the others waited for it, and a healthy one."""

from __future__ import annotations

from jupyter_traindbg.diagnose.log import stages
from jupyter_traindbg.model import (
    Finding,
    LogDiagnosis,
    LogEvent,
    LogEvidence,
    LogFollow,
    LogGrowth,
    LogLine,
    LogSource,
    LogStage,
    LogWriter,
    Subject,
)

START_S = 1_772_582_400.0


def log_diagnosis(files: int, *, dated: bool = True) -> LogDiagnosis:
    """`files` logs, one a rank; rank 3, or the last one, is to blame."""
    guilty = min(3, files - 1)
    oom = LogLine(
        guilty,
        41_877,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
        "1.10 GiB is free. Of the allocated memory 76.2 GiB is allocated by PyTorch",
        guilty,
        f"rank {guilty}",
        START_S if dated else None,
    )
    late = [
        LogLine(
            i,
            41_000 + i,
            "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE)",
            i,
            f"rank {i}",
            START_S + 600 + i if dated else None,
            repeats=1 + i % 3,
        )
        for i in range(files)
        if i != guilty
    ]
    finding = Finding(
        "cuda_oom",
        "critical",
        f"rank {guilty} ran out of GPU memory",
        (Subject("rank", guilty),),
        "/home/u/train.py:88 step",
        (f"rank{guilty}.log:41877 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",),
        "2 GiB were asked for where 1.1 GiB was free.",
        ("Halve the micro batch and double gradient accumulation.",),
        "docs/failures.md#cuda_oom",
    )
    return LogDiagnosis(
        "logs",
        tuple(LogSource(f"rank{i}.log", i, 2**20 * (i + 1), 42_000 + i) for i in range(files)),
        42_000 * files,
        2**20 * files,
        tuple(range(files)),
        (finding,),
        (LogEvent(oom, "out of GPU memory"), *(LogEvent(line, "waited for it") for line in late)),
        "train",
        ("torchrun",),
        files,
        ("rank0.log: read in part: the first 10 MiB, in the time given",),
        1.25,
    )


def healthy_log() -> LogDiagnosis:
    return LogDiagnosis("train.log", (LogSource("train.log", None, 1234, 20),), 20, 1234, taken_s=0.01)


def followed(processes: int) -> LogFollow:
    """A log that fell silent while its writers wait for each other."""
    entered = LogLine(0, 812, "2026-03-04 01:20:00 INFO update_weights to the engine", time_s=START_S)
    writers = [
        LogWriter(
            4000 + n, "python -m verl.trainer.main_ppo", "waits for the collective broadcast", "/home/u/sync.py:61 push"
        )
        for n in range(processes)
    ]
    growth = LogGrowth(
        LogEvidence(
            (LogSource("train.log", None, 2**20, 812),),
            (entered,),
            stages=(LogStage("sync", entered),),
            total_lines=812,
        ),
        340.0,
        gaps_s=(2.0, 12.0, 3.0, 2.5, 11.0),
        writers=writers,
    )
    return stages.follow("train.log", growth, ())


def followed_quietly() -> LogFollow:
    return LogFollow("train.log", 0, 1.0)
