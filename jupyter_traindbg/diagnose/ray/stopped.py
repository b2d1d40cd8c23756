"""Workers whose process the kernel does not let run: stopped by a signal, or held by a debugger."""

from __future__ import annotations

from ...language import text
from ...model import RayWorker
from .case import Hit, RayCase, hit
from .peers import waiting_for

__all__ = ["rule"]


def rule(case: RayCase) -> list[Hit]:
    return [_hit(case, r) for r in case.rows if r.pid and case.pace(r) == "stopped"]


def _hit(case: RayCase, row: RayWorker) -> Hit:
    view = case.view(row)
    activity = view.activity if view is not None else None
    traced = activity is not None and activity.state == "t"
    by = text("by a debugger", "（调试器）") if traced else text("by a signal", "（信号）")
    return hit(
        "ray_worker_stopped",
        "critical",
        text(f"{row.who} (pid {row.pid}) is stopped {by}", f"{row.who}（pid {row.pid}）已被停止{by}"),
        [row],
        case.where(row),
        evidence=[
            text(
                f"/proc says state {'t' if traced else 'T'} on {row.node}",
                f"/proc 状态 {'t' if traced else 'T'}，节点 {row.node}",
            ),
            *waiting_for(case, [row]),
        ],
        cause=text("It computes nothing until it is let go on.", "在恢复之前它不会执行任何计算。"),
        next_steps=[
            text("Detach the debugger.", "分离调试器。")
            if traced
            else text(f"On its node: kill -CONT {row.pid}", f"在其节点上执行：kill -CONT {row.pid}")
        ],
    )
