"""Actors that died of themselves: in their ``__init__``, of a crash, or again and again. One that was let go on purpose is no finding."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import RayDeath, RayWorker
from ..hang.words import alike
from .case import Hit, RayCase, hit
from .peers import in_words, waiting_for
from .words import names, short

__all__ = ["rule"]

RESTARTS = 3
"""Back so often and gone again: it will not stay."""


def rule(case: RayCase) -> list[Hit]:
    died = [(r, d) for r in case.states("dead", "restarting") if (d := case.death(r)) is not None]
    in_init = [(r, d) for r, d in died if d.kind == "in __init__"]
    crashed = [(r, d) for r, d in died if d.kind == "crashed" and r.kind != "task"]
    homeless = [(r, d) for r, d in died if d.kind == "unschedulable" and r.kind != "task"]
    groups = alike(in_init, lambda rd: (rd[0].job_id, rd[0].class_name, rd[1].where, rd[1].error_type))
    hits = [_in_init(case, [r for r, _ in same], same[0][1]) for same in groups]
    groups = alike(crashed, lambda rd: (rd[0].job_id, rd[0].class_name, rd[1].words))
    hits += [_crashed(case, [r for r, _ in same], same[0][1]) for same in groups]
    groups = alike(homeless, lambda rd: (rd[0].job_id, rd[0].class_name, rd[1].words))
    hits += [_homeless(case, [r for r, _ in same], same[0][1]) for same in groups]
    return hits + [h for r in case.states("restarting") if (h := _again(case, r)) is not None]


def _peers_waiting(case: RayCase, rows: Sequence[RayWorker]) -> list[RayWorker]:
    """Others of the class that stand still meanwhile, each at a wait: they may be waiting for the dead one."""
    still = [p for p in case.peers(rows[0]) if p not in rows and p.pid and case.pace(p) == "still"]
    return [p for p in still if p.state in ("running", "in __init__", "blocked")]


def _severe(case: RayCase, rows: Sequence[RayWorker]) -> bool:
    return bool(_peers_waiting(case, rows)) or case.stands_still or not case.views


def _in_init(case: RayCase, rows: Sequence[RayWorker], death: RayDeath) -> Hit:
    at = text(f" at {short(death.where)}", f"，位于 {short(death.where)}") if death.where else ""
    waiting = _peers_waiting(case, rows)
    peers = text(f", and {names(waiting)} wait for ever", f"，{names(waiting)} 仍在等待") if waiting else ""
    return hit(
        "ray_died_in_init",
        "critical" if _severe(case, rows) else "warning",
        text(
            f"{names(rows)} died in __init__{at}: {death.words}{peers}",
            f"{names(rows)} 在 __init__ 中退出{at}：{death.words}{peers}",
        ),
        rows,
        death.where,
        evidence=[
            *dict.fromkeys(r.words for r in rows[:3]),
            *(in_words(case, p) for p in waiting[:3]),
            *waiting_for(case, rows),
        ],
        cause=text(
            "An exception in __init__ ends the actor. Ray tells that only to who asks for the result of one of its calls; whoever waits "
            "for it in another way (a barrier, a queue, a rendezvous) is told nothing.",
            "__init__ 中的异常会结束 actor。Ray 只通知请求其调用结果的一方；以其他方式等待它的（屏障、队列、rendezvous）得不到任何通知。",
        ),
        next_steps=[
            text(
                "Mend the cause; the whole traceback is in the actor's log.",
                "修复原因；完整的 traceback 在该 actor 的日志中。",
            ),
            text(
                "Let the driver notice: `ray.get([w.__ray_ready__.remote() for w in workers], timeout=...)` before the work is handed out.",
                "让 driver 及时发现：分发任务前执行 `ray.get([w.__ray_ready__.remote() for w in workers], timeout=...)`。",
            ),
        ],
        explains=[*waiting, *(r for r in case.rows if r.kind == "driver")],
    )


def _crashed(case: RayCase, rows: Sequence[RayWorker], death: RayDeath) -> Hit:
    waiting = _peers_waiting(case, rows)
    verb = text("has crashed" if len(rows) == 1 else "have crashed", "")
    return hit(
        "ray_worker_died",
        "critical" if _severe(case, rows) else "warning",
        text(f"{names(rows)} {verb}: {death.words}", f"{names(rows)} 已崩溃：{death.words}"),
        rows,
        death.where,
        evidence=[death.exit_detail, *(in_words(case, p) for p in waiting[:3]), *waiting_for(case, rows)],
        cause=text(
            "Its process ended without Python's having a say: a signal (SIGSEGV, SIGKILL), `os._exit`, or a library that aborted.",
            "其进程未经 Python 正常流程而结束：信号（SIGSEGV、SIGKILL）、`os._exit`，或某个库中止了进程。",
        ),
        next_steps=[
            text(
                f"Read the end of its log: `ray logs actor --id {rows[0].actor_id}`; for SIGKILL also dmesg on its node.",
                f"查看其日志末尾：`ray logs actor --id {rows[0].actor_id}`；若为 SIGKILL，另查该节点的 dmesg。",
            ),
            text(
                "`max_restarts` brings such an actor back, `max_task_retries` its calls.",
                "`max_restarts` 使 actor 自动恢复，`max_task_retries` 使其调用重试。",
            ),
        ],
        explains=[*waiting, *(r for r in case.rows if r.kind == "driver")],
    )


def _homeless(case: RayCase, rows: Sequence[RayWorker], death: RayDeath) -> Hit:
    return hit(
        "ray_infeasible",
        "critical" if _severe(case, rows) else "warning",
        text(f"{names(rows)} could be placed nowhere: {death.words}", f"{names(rows)} 无处可放置：{death.words}"),
        rows,
        evidence=[*waiting_for(case, rows)],
        cause=text(
            "Its scheduling strategy or labels leave no node that it may run on.",
            "其调度策略或标签使得没有任何节点可以运行它。",
        ),
        next_steps=[
            text(
                "Name a node that lives (node ids change with every start of the cluster), or use `soft=True`.",
                "指定一个存活的节点（节点 id 随集群每次启动而变），或使用 `soft=True`。",
            )
        ],
        explains=[*rows, *case.drivers],
    )


def _again(case: RayCase, row: RayWorker) -> Hit | None:
    actor = case.actors.get(row.actor_id or "")
    if actor is None or actor.restarts < RESTARTS:
        return None
    death = case.death(row)
    words = death.words if death is not None else row.words
    return hit(
        "ray_worker_died",
        "critical",
        text(
            f"{row.who} dies and is restarted again and again ({actor.restarts} times): {words}",
            f"{row.who} 反复退出并被重启（{actor.restarts} 次）：{words}",
        ),
        [row],
        death.where if death is not None else None,
        evidence=[row.words, *(waiting_for(case, [row]))],
        cause=text(
            "With `max_restarts` Ray brings it back, it fails in the same way, and its callers wait meanwhile.",
            "由于 `max_restarts`，Ray 会重启它，它又以同样方式失败，调用方则一直等待。",
        ),
        next_steps=[
            text(
                "Mend the cause; a finite `max_restarts` makes it visible.",
                "修复原因；有限的 `max_restarts` 会使问题显现。",
            )
        ],
    )
