"""C code that keeps the GIL: nothing else in the process can run Python, our agent neither."""

from __future__ import annotations

from ...frames.whose import where
from ...language import text
from ...model import Finding, Thread, rank_subjects
from ...words.durations import time_words
from .case import Case, Hit, View
from .motion import busy, thread_activity
from .words import place, short_place

EXPLAINS = {"gil_held": ("unequal_steps", "collective_not_issued", "cpu_phase")}


def rule(case: Case) -> list[Hit]:
    if not case.overdue:
        return []
    return [_hit(case, view, view.holder) for view in case.views if view.holder is not None and view.role == "still"]


def _hit(case: Case, view: View, holder: Thread) -> Hit:
    frame = where(holder.frames)
    computes = busy(thread_activity(view.activity, holder, view.pid))
    does = text("and computes", "并在计算") if computes else text("and sleeps", "并在休眠")
    source = case.sources.get(f"{frame.file}:{frame.line}") if frame else None
    line = f": `{source.text}`" if source else ""
    looks = view.evidence.looks
    finding = Finding(
        "gil_held",
        "critical",
        text(
            f"Rank {view.rank}: a C call at {short_place(frame)} keeps the GIL {does}",
            f"rank {view.rank}：{short_place(frame)} 处的 C 调用一直持有 GIL {does}",
        ),
        rank_subjects([view.rank]),
        place(frame),
        [
            text(
                f"thread {holder.name} holds the GIL at every look, over {time_words(looks[-1].at_s - looks[0].at_s)}, "
                f"at {short_place(frame)}{line}",
                f"线程 {holder.name} 在 {time_words(looks[-1].at_s - looks[0].at_s)} 内的每次观察中都在 "
                f"{short_place(frame)} 持有 GIL{line}",
            ),
            text(
                f"our agent could not run in it: {view.evidence.problem}",
                f"我们的 agent 无法在其中运行：{view.evidence.problem}",
            ),
            *case.others_wait([view.rank]),
        ],
        text(
            "An extension, or a long call into the standard library such as a regular expression that backtracks, "
            "does not give the GIL back; all "
            "Python threads of this process stand still until it returns, and the other ranks with it.",
            "某个扩展，或标准库中的长时间调用（如发生回溯的正则表达式）没有释放 GIL；在它返回之前该进程的所有 "
            "Python 线程都停住，其余 rank 也随之停住。",
        ),
        [
            _next_step(computes),
            text(
                f"See the native stack: py-spy dump --native --pid {view.pid} (pauses the process for half a second).",
                f"查看本地调用栈：py-spy dump --native --pid {view.pid}（会使进程暂停约半秒）。",
            ),
        ],
        confidence="high" if len(looks) > 1 else "medium",
    )
    return Hit(finding, [view.rank])


def _next_step(computes: bool) -> str:
    if computes:
        return text(
            "Mend the call: bound what it is given (for a regular expression: an unambiguous pattern), or move it "
            "to a process of its own with a time-out.",
            "修改该调用：限制其输入（正则表达式应使用无歧义的模式），或放到带超时的独立进程中执行。",
        )
    return text(
        "Mend the extension: it has to release the GIL round a call that blocks (ctypes: CDLL instead of PyDLL), or "
        "call it in a process of its own.",
        "修改该扩展：阻塞调用期间必须释放 GIL（ctypes 用 CDLL 而非 PyDLL），或在独立进程中调用它。",
    )
