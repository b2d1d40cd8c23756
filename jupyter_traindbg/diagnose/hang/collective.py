"""What the flight recorders say: different calls under one number, different sizes, another order, a call that a rank never issued."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import Finding, NotAvailable, RankCollectives
from ..collectives import findings
from .case import Case, Hit, View
from .other_hosts import only_elsewhere
from .peers import peer_of
from .words import alike, place, ranks_words, seconds, who

_CONCLUSIVE = frozenset({"collective_mismatch", "collective_shape_mismatch", "collective_order"})
"""What these say of the past does not change by waiting."""


def rule(case: Case) -> list[Hit]:
    """In a job that steps, records taken at slightly different moments differ, and mean nothing."""
    if case.roles("stepping") or not case.waiting:
        return []
    records = [r for v in case.views if isinstance(r := v.evidence.collectives, RankCollectives)]
    hits = [_hit(case, f) for f in _compared(case, records)] if records else []
    hits = [h for h in hits if not only_elsewhere(case, h.ranks)]  # the rule for other hosts knows better
    moving = {v.rank for v in case.roles("moving")}
    kept = [h for h in hits if h.finding.code in _CONCLUSIVE or (case.overdue and not moving & set(h.ranks))]
    return kept or (_unexplained(case, hits) if case.overdue else [])


def _compared(case: Case, records: Sequence[RankCollectives]) -> list[Finding]:
    known = {r.rank for r in records}
    missing = [v.rank for v in case.views if v.rank not in known]
    where = {v.rank: at for v in case.views if (at := place(v.now.frame)) is not None}
    return findings(records, world_size=case.evidence.world_size, missing=missing, where=where)


def _hit(case: Case, finding: Finding) -> Hit:
    """Without the ranks that are late because they wait for one peer, where others are blamed as well: those are the reason."""
    ranks = [int(name.split()[1]) for name in finding.who if name.startswith("rank ") and name.split()[1].isdigit()]
    own = [rank for rank in ranks if rank not in case.by_rank or peer_of(case.by_rank[rank]) is None]
    return Hit(finding, own or ranks)


# --- nobody is to blame that we can see ----------------------------------------------------------------------------


def _unexplained(case: Case, left_out: Sequence[Hit]) -> list[Hit]:
    """Every rank waits for the others, and nothing that we read says why."""
    if left_out or case.suspects or case.roles("ended", "not seen"):
        return []
    waiting = case.waiting
    if any(v.now.kind == "init" for v in waiting):
        return []
    ranks = [v.rank for v in waiting]
    at_same = len(alike(waiting, lambda v: v.pending and (v.pending.group, v.pending.sequence, v.pending.op))) == 1
    call = waiting[0].pending
    unread = [v for v in case.views if isinstance(v.evidence.collectives, NotAvailable)]
    if at_same and call is not None and not unread:
        title = text(
            f"All ranks have issued {call.op} #{call.sequence}, and it does not complete",
            f"所有 rank 都已发起 {call.op} #{call.sequence}，但它没有完成",
        )
        cause = text(
            "They agree on the call, so it is what carries it that stands still: the network, a wrong interface, "
            "peer-to-peer between GPUs, a driver.",
            "各 rank 的调用一致，因此停滞的是传输：网络、错误的网卡、GPU 之间的点对点通信或驱动。",
        )
        confidence_settles = _transport_steps()
    else:
        title = text(
            "All ranks wait for each other, and the evidence does not say why",
            "所有 rank 互相等待，而现有证据无法说明原因",
        )
        cause = text(
            "Without the flight recorders of all ranks nobody can tell who left a call out."
            if unread
            else "No call of theirs is known to differ.",
            "没有所有 rank 的飞行记录，无法判断谁漏掉了某次调用。" if unread else "未发现它们的调用存在差异。",
        )
        confidence_settles = _reading_steps(unread)
    finding = Finding(
        "hang_unexplained",
        "critical",
        title,
        who(ranks) if len(ranks) < len(case.views) else (),
        place(waiting[0].now.frame),
        [*case.others_wait(), *_paused(case), *(_unread(v) for v in unread[:4])],
        cause,
        confidence_settles,
        confidence="low" if unread or call is None else "medium",
    )
    return [Hit(finding, ranks)]


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
        text(f"nothing new for {seconds(case.progress.pause_s)}", f"已有 {seconds(case.progress.pause_s)} 没有新进展")
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
