"""A rank that waits for its own GPU, which does not finish: a kernel that never ends, or a GPU in trouble."""

from __future__ import annotations

from ...language import text
from ...model import Finding, rank_subjects
from ...words.durations import time_words
from .case import Case, Hit, View
from .words import place, short_place

EXPLAINS = {"gpu_wait": ("unequal_steps", "collective_not_issued")}


def rule(case: Case) -> list[Hit]:
    """Only by the job's own history: a GPU may have long work, and without one nobody knows how long is too long."""
    progress = case.progress
    if not progress.overdue or progress.pause_s is None or progress.longest_s is None:
        return []
    return [
        _hit(case, v, progress.pause_s, progress.longest_s)
        for v in case.roles("moving", "still")
        if v.now.kind == "gpu"
    ]


def _hit(case: Case, view: View, pause_s: float, longest_s: float) -> Hit:
    at, since = short_place(view.now.frame), time_words(pause_s)
    finding = Finding(
        "gpu_wait",
        "critical",
        text(
            f"Rank {view.rank} waits at {at} for its GPU, which has not finished what it was given for {since}",
            f"rank {view.rank} 在 {at} 等待 GPU，而 GPU 已有 {since} 未完成交给它的工作",
        ),
        rank_subjects([view.rank]),
        place(view.now.frame),
        [
            text(
                f"rank {view.rank} stands at {case.at(view.now)} at every look, and its GPU had work left each time",
                f"rank {view.rank} 每次观察都停在 {case.at(view.now)}，且其 GPU 每次都有未完成的工作",
            ),
            text(
                f"nothing new for {since}; before, this job never paused for more than {time_words(longest_s)}",
                f"已有 {since} 没有新进展；此前该任务的停顿从未超过 {time_words(longest_s)}",
            ),
            *case.others_wait([view.rank]),
        ],
        text(
            "A kernel that does not end: a loop without end in a kernel of one's own, a collective whose other ranks did not come and "
            "that no flight recorder knows, or a GPU in trouble.",
            "某个 kernel 不结束：自写 kernel 中的死循环、其他 rank 未参与且没有 flight recorder 记录的集合通信，或 GPU 故障。",
        ),
        [
            text(
                f"`traindbg gpu {view.pid}`: 100 % busy at little power is a kernel that spins; a lost GPU, or an Xid, the hardware.",
                f"`traindbg gpu {view.pid}`：占用 100% 但功耗很低说明 kernel 在空转；GPU 丢失或出现 Xid 则是硬件问题。",
            ),
            text(
                f"Save what there is: `traindbg checkpoint {view.pid} DIR` reads the weights beside that kernel.",
                f"先保存：`traindbg checkpoint {view.pid} DIR` 可在该 kernel 运行时读取权重。",
            ),
            text(
                "Which kernel: run again with CUDA_LAUNCH_BLOCKING=1, and the hang is at the line that starts it.",
                "找出 kernel：用 CUDA_LAUNCH_BLOCKING=1 重新运行，程序会卡在启动它的那一行。",
            ),
        ],
        confidence="high" if view.training is not None else "medium",
    )
    return Hit(finding, [view.rank])
