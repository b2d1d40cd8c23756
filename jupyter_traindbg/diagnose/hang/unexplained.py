"""A job that stands still, where nothing that we read says why: who holds it up as far as that can be seen, and what would tell."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import Finding, NotAvailable, rank_subjects
from ...words.durations import time_words
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .doing import phrase
from .words import alike, place, short_place

__all__ = ["rule"]


def rule(case: Case) -> list[Hit]:
    """Of every job that stands still. `order` leaves it out where another rule has found why: no job is called stuck without a finding."""
    if not case.stands_still:
        return []
    unseen = case.roles("not known")
    if unseen and case.waiting:
        return [_nothing_seen(case, unseen)]
    return [_stands(case, case.suspects) if case.suspects else _all_wait(case)]


# --- who holds it up is known --------------------------------------------------------------------------------------


def _nothing_seen(case: Case, unseen: Sequence[View]) -> Hit:
    ranks, others = [v.rank for v in unseen], [v.rank for v in case.waiting]
    verb = "waits" if len(others) == 1 else "wait"
    problems = [
        text(
            f"rank {v.rank} (process {v.pid}): {v.evidence.problem or 'nothing could be read'}",
            f"rank {v.rank}（进程 {v.pid}）：{v.evidence.problem or '无法读取任何信息'}",
        )
        for v in unseen[:4]
    ]
    return _hit(
        unseen,
        text(
            f"{ranks_words(others).capitalize()} {verb} for {ranks_words(ranks)}, of which nothing can be seen",
            f"{ranks_words(others)} 在等待 {ranks_words(ranks)}，而后者无法观察",
        ),
        [*problems, *case.others_wait(ranks), *_paused(case)],
        text(
            "Every rank that could be looked at waits for others, so what holds them up is where nobody could look.",
            "所有可观察的 rank 都在等待其他 rank，因此原因在无法观察的 rank 上。",
        ),
        _reading_steps(unseen),
    )


def _stands(case: Case, suspects: Sequence[View]) -> Hit:
    ranks, at = [v.rank for v in suspects], short_place(suspects[0].now.frame)
    verb = "stands" if len(ranks) == 1 else "stand"
    does = [
        text(
            f"rank {v.rank} {phrase(v.now)} at {case.at(v.now)}",
            f"rank {v.rank} {phrase(v.now)}，位于 {case.at(v.now)}",
        )
        for v in suspects[:4]
    ]
    return _hit(
        suspects,
        text(
            f"{ranks_words(ranks).capitalize()} {verb} still at {at}, and what was seen does not say why",
            f"{ranks_words(ranks)} 停在 {at}，现有观察无法说明原因",
        ),
        [*does, *case.others_wait(ranks), *_paused(case)],
        text(
            "It uses no CPU, reads and writes nothing, and is at the same place at every look.",
            "它不使用 CPU，没有读写，每次观察都在同一位置。",
        ),
        [
            text(
                f"See the native stack: py-spy dump --native --pid {suspects[0].pid}; and `traindbg stacks` for its other threads.",
                f"查看本地调用栈：py-spy dump --native --pid {suspects[0].pid}；并用 `traindbg stacks` 查看其他线程。",
            )
        ],
    )


# --- all wait for each other ---------------------------------------------------------------------------------------


def _all_wait(case: Case) -> Hit:
    waiting = case.waiting or case.views
    at_same = len(alike(waiting, lambda v: v.pending and (v.pending.group, v.pending.sequence, v.pending.op))) == 1
    call = waiting[0].pending
    unread = [v for v in case.views if isinstance(v.evidence.collectives, NotAvailable)]
    if at_same and call is not None and not unread:
        return _hit(
            waiting,
            text(
                f"All ranks have issued {call.op} #{call.sequence}, and it does not complete",
                f"所有 rank 都已发起 {call.op} #{call.sequence}，但它没有完成",
            ),
            [*case.others_wait(), *_paused(case)],
            text(
                "They agree on the call, so it is what carries it that stands still: the network, a wrong interface, "
                "peer-to-peer between GPUs, a driver.",
                "各 rank 的调用一致，因此停滞的是传输：网络、错误的网卡、GPU 之间的点对点通信或驱动。",
            ),
            _transport_steps(),
            everybody=len(waiting) == len(case.views),
            sure=True,
        )
    return _hit(
        waiting,
        text(
            "All ranks wait for each other, and the evidence does not say why",
            "所有 rank 互相等待，而现有证据无法说明原因",
        ),
        [*case.others_wait(), *_paused(case), *(_unread(v) for v in unread[:4])],
        text(
            "Without the flight recorders of all ranks nobody can tell who left a call out."
            if unread
            else "No call of theirs is known to differ.",
            "没有所有 rank 的飞行记录，无法判断谁漏掉了某次调用。" if unread else "未发现它们的调用存在差异。",
        ),
        _reading_steps(unread),
        everybody=len(waiting) == len(case.views),
        sure=not unread and call is not None,
    )


def _hit(
    blamed: Sequence[View],
    title: str,
    evidence: Sequence[str],
    cause: str,
    next_steps: Sequence[str],
    *,
    everybody: bool = False,
    sure: bool = False,
) -> Hit:
    ranks = [v.rank for v in blamed]
    finding = Finding(
        "hang_unexplained",
        "critical",
        title,
        () if everybody else rank_subjects(ranks),
        place(blamed[0].now.frame),
        evidence,
        cause,
        next_steps,
        confidence="medium" if sure else "low",
    )
    return Hit(finding, ranks)


def _unread(view: View) -> str:
    why = view.evidence.collectives
    reason = why.reason if isinstance(why, NotAvailable) else ""
    return text(
        f"rank {view.rank}: its record of collectives could not be read ({reason})",
        f"rank {view.rank}：无法读取其集合通信记录（{reason}）",
    )


def _paused(case: Case) -> list[str]:
    if case.progress.pause_s is None:
        return []
    return [
        text(
            f"nothing new for {time_words(case.progress.pause_s)}",
            f"已有 {time_words(case.progress.pause_s)} 没有新进展",
        )
    ]


def _transport_steps() -> list[str]:
    return [
        text(
            "Check the way between the hosts: `traindbg nccl-check --preflight --hosts ...`; with NCCL run once "
            "with NCCL_DEBUG=INFO, once with "
            "NCCL_P2P_DISABLE=1, once with NCCL_IB_DISABLE=1: the one that helps names the culprit.",
            "检查主机之间的链路：`traindbg nccl-check --preflight --hosts ...`；使用 NCCL 时分别以 NCCL_DEBUG=INFO、"
            "NCCL_P2P_DISABLE=1、NCCL_IB_DISABLE=1 "
            "各运行一次：起作用的那个即指出原因。",
        ),
        text(
            "See `traindbg gpu` for a GPU that does not answer, and `dmesg -T | grep -i -e xid -e nvlink`.",
            "用 `traindbg gpu` 查看是否有无响应的 GPU，并查看 `dmesg -T | grep -i -e xid -e nvlink`。",
        ),
    ]


def _reading_steps(unread: Sequence[View]) -> list[str]:
    if unread:
        return [
            text(
                f"Make {ranks_words(v.rank for v in unread)} readable (torch 2.4 or newer; ptrace permission, or "
                "TRAINDBG=1 at the start), then look again.",
                f"使 {ranks_words(v.rank for v in unread)} 可读取（torch 2.4 或更新；ptrace 权限，或启动时设置 "
                "TRAINDBG=1），然后再次诊断。",
            )
        ]
    return [
        text(
            "Compare the ranks in `traindbg nccl-check TARGET` and `traindbg stacks TARGET`.",
            "用 `traindbg nccl-check TARGET` 和 `traindbg stacks TARGET` 比较各 rank。",
        )
    ]
