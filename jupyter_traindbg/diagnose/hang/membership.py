"""Who is to be there: ranks that never came, that came twice, or that do not expect the same number of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...language import text
from ...words.ranks import ranks_words
from .case import Case, Hit
from .joiners import Joiner, absent_ranks, connections, hit, interfaces, point_words, preflight, several_hosts
from .words import alike

__all__ = ["duplicates", "never_came", "not_each_other", "unlike_world_sizes"]


def duplicates(case: Case, joiners: Sequence[Joiner]) -> Hit | None:
    """Two processes that both say they are the same rank."""
    groups = alike([j for j in joiners if j.told.rank is not None], lambda j: j.told.rank)
    twins = next((same for same in groups if len(same) > 1), None)
    if twins is None:
        return None
    number = twins[0].told.rank
    pids = ", ".join(str(j.view.pid) for j in twins)
    blamed = [j.rank for j in twins if j.rank != number] or [j.rank for j in twins]
    absent = absent_ranks(joiners)
    return hit(
        joiners,
        blamed,
        title=text(
            f"{len(twins)} processes all join as rank {number} (pids {pids})",
            f"{len(twins)} 个进程都以 rank {number} 加入（pid {pids}）",
        ),
        evidence=[text(f"nobody joins as {ranks_words(absent)}", f"没有进程以 {ranks_words(absent)} 加入")]
        if absent
        else [],
        cause=text(
            "Each process must have a rank of its own. Over several hosts LOCAL_RANK repeats on each of them; RANK does not.",
            "每个进程的 rank 必须唯一。多机时 LOCAL_RANK 在每台机器上重复，RANK 才是全局唯一的。",
        ),
        next_steps=[
            text(
                'Leave `rank=` out of init_process_group, so that RANK counts, or pass int(os.environ["RANK"]).',
                '不要给 init_process_group 传 `rank=`（使用 RANK），或传 int(os.environ["RANK"])。',
            )
        ],
    )


def unlike_world_sizes(case: Case, joiners: Sequence[Joiner]) -> Hit | None:
    """Ranks that do not expect the same number of ranks."""
    groups = alike([j for j in joiners if j.told.world_size], lambda j: j.told.world_size)
    if len(groups) < 2:
        return None
    right = max(groups, key=lambda same: (len(same), same[0].told.world_size == case.evidence.world_size))
    wrong = [j for same in groups if same is not right for j in same]
    blamed, verb = [j.rank for j in wrong], "expect" if len(wrong) > 1 else "expects"
    return hit(
        joiners,
        blamed,
        title=text(
            f"{ranks_words(blamed)} {verb} {wrong[0].told.world_size} ranks, the others {right[0].told.world_size}",
            f"{ranks_words(blamed)} 期望 {wrong[0].told.world_size} 个 rank，其他 rank 期望 {right[0].told.world_size} 个",
        ),
        evidence=[],
        cause=text("All ranks must be given the same world size.", "所有 rank 的 world size 必须一致。"),
        next_steps=[
            text(
                "Leave `world_size=` out of init_process_group, so that WORLD_SIZE from the launcher counts.",
                "不要给 init_process_group 传 `world_size=`，使用启动器设置的 WORLD_SIZE。",
            )
        ],
    )


def never_came(case: Case, joiners: Sequence[Joiner]) -> Hit | None:
    """Fewer ranks than the world size: never started, elsewhere, or gone without a word."""
    present = {v.rank for v in case.views if v.role not in ("ended", "not seen")}
    absent = [rank for rank in absent_ranks(joiners) if rank not in present]
    if not absent:
        return None
    size = max(j.told.world_size or 0 for j in joiners)
    started = case.evidence.nproc
    if several_hosts(case, joiners):
        return _not_from_other_hosts(joiners, size, absent)
    if started is not None and started < size and len(present) == started:
        return _world_size_too_big(joiners, size, started, absent)
    return hit(
        joiners,
        absent,
        title=text(
            f"{ranks_words(absent)} never came: {len(joiners)} of {size} ranks wait in init_process_group",
            f"{ranks_words(absent)} 从未加入：{size} 个 rank 中有 {len(joiners)} 个在 init_process_group 中等待",
        ),
        evidence=[*point_words([j for j in joiners if j.stage == "store"][:1]), *_gpus(case)],
        cause=text(
            "init_process_group returns when all ranks of the world are there, and not before.",
            "init_process_group 要等到全部 rank 都加入才会返回。",
        ),
        next_steps=[
            text(
                "Start them, or make the world size what was started. See their log: they may have ended before they joined.",
                "启动缺少的 rank，或把 world size 改为实际启动的数量；查看它们的日志，可能在加入前就已退出。",
            ),
            preflight(joiners[0]),
        ],
    )


def _gpus(case: Case) -> list[str]:
    gpus = next((h.gpus for h in case.evidence.hosts if isinstance(h.gpus, int)), None)
    return [] if gpus is None else [text(f"this host has {gpus} GPUs", f"本机有 {gpus} 块 GPU")]


def _not_from_other_hosts(joiners: Sequence[Joiner], size: int, absent: Sequence[int]) -> Hit:
    """They may be on their way: a warning, and not for sure."""
    found = hit(
        joiners,
        absent,
        title=text(
            f"{ranks_words(absent)} of other hosts have not come: {len(joiners)} of {size} ranks wait for them here",
            f"其他主机上的 {ranks_words(absent)} 尚未加入：本机 {len(joiners)} 个 rank（共 {size} 个）在 init_process_group 中等待",
        ),
        evidence=point_words([j for j in joiners if j.stage == "store"][:1]),
        cause=text(
            "The ranks of this host are all there. The others were not started, have failed, or look for the job at another address.",
            "本机的 rank 都已就绪；其他主机上的 rank 未启动、已失败，或连向了别的地址。",
        ),
        next_steps=[
            text(
                "See on those hosts whether the job runs there and what it waits for: `traindbg targets`, then `traindbg diagnose`.",
                "在那些主机上检查任务是否已启动、在等什么：`traindbg targets`，然后 `traindbg diagnose`。",
            ),
            preflight(joiners[0]),
        ],
        confidence="medium",
    )
    return replace(found, finding=replace(found.finding, severity="warning"))


def _world_size_too_big(joiners: Sequence[Joiner], size: int, started: int, absent: Sequence[int]) -> Hit:
    return hit(
        joiners,
        absent,
        title=text(
            f"The world size is {size}, but {started} processes were started: {ranks_words(absent)} cannot come",
            f"world size 为 {size}，但只启动了 {started} 个进程：{ranks_words(absent)} 不可能加入",
        ),
        evidence=[
            text(f"the launcher started {started} processes on this host", f"启动器在本机启动了 {started} 个进程")
        ],
        cause=text(
            "The program gives init_process_group a world size of its own, or WORLD_SIZE was set by hand.",
            "程序自行给 init_process_group 传了 world size，或手工设置了 WORLD_SIZE。",
        ),
        next_steps=[
            text(
                f"Start {size} processes (`--nproc-per-node {size}`), or leave `world_size=` to the launcher.",
                f"启动 {size} 个进程（`--nproc-per-node {size}`），或不要传 `world_size=`。",
            )
        ],
    )


def not_each_other(case: Case, joiners: Sequence[Joiner]) -> Hit | None:
    """All are past the store and try to connect to each other."""
    trying = [
        (j, c.remote_host)
        for j in joiners
        for c in connections(j.view)
        if c.connecting and c.remote_port != j.told.port
    ]
    named = sorted({name for j in joiners for name in interfaces(j.view.evidence)})
    if not trying and not (named and all(j.stage == "mesh" for j in joiners)):
        return None
    blamed = sorted({j.rank for j, _ in trying}) or [j.rank for j in joiners]
    to = ", ".join(sorted({host for _, host in trying})[:4])
    return hit(
        joiners,
        blamed,
        title=text(
            "The ranks have found the store but cannot reach each other: wrong network interface",
            "rank 都连上了 store，但彼此无法互连：网络接口不对",
        ),
        evidence=[text(f"no answer from {to}", f"{to} 没有应答")] * bool(trying)
        + [text(f"set: {', '.join(named)}", f"已设置：{', '.join(named)}")] * bool(named),
        cause=text(
            "Each rank offers the others the address of one interface. Where that is the loopback or a bridge of containers, "
            "no other host gets there.",
            "每个 rank 向其他 rank 提供某个接口的地址；若是回环或容器网桥，其他主机无法访问。",
        ),
        next_steps=[
            text(
                "Name the interface of the network that the hosts share: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME (`ip -br addr`); "
                "the host's own name should not resolve to 127.0.1.1.",
                "用 NCCL_SOCKET_IFNAME、GLOO_SOCKET_IFNAME 指定主机之间共用网络的接口（`ip -br addr`）；主机名不应解析到 127.0.1.1。",
            )
        ],
        confidence="high" if trying else "low",
    )
