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
    by = text("by a debugger") if traced else text("by a signal")
    return hit(
        "ray_worker_stopped",
        "critical",
        text("{who} (pid {pid}) is stopped {by}", who=row.who, pid=row.pid, by=by),
        [row],
        case.where(row),
        evidence=[
            text("/proc says state {value} on {node}", value="t" if traced else "T", node=row.node),
            *waiting_for(case, [row]),
        ],
        cause=text("It computes nothing until it is let go on."),
        next_steps=[text("Detach the debugger.") if traced else text("On its node: kill -CONT {pid}", pid=row.pid)],
    )
