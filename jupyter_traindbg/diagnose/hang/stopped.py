"""Ranks that the kernel keeps from running: stopped by a signal, held by a debugger, frozen with their container, in uninterruptible sleep,
or busy swapping."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import Finding, Maybe, NotAvailable, rank_subjects
from ...words.ranks import ranks_words
from .case import Case, Hit, View
from .motion import flows
from .words import alike, place, short_place

EXPLAINS = {
    "rank_stopped": ("gil_held", "unequal_steps", "collective_not_issued", "straggler"),
    "uninterruptible": ("gil_held", "unequal_steps", "collective_not_issued"),
    "swapping": ("gil_held", "unequal_steps", "collective_not_issued", "cpu_phase", "straggler"),
}
FAULTS_PER_S, SWAPPED_BYTES, WRITTEN_BYTES_PER_S = 100.0, 64 * 2**20, 8 * 2**20
ROOMY_SHARE = 0.2


def rule(case: Case) -> list[Hit]:
    living = [v for v in case.views if v.activity is not None and v.role != "ended"]
    hits = [_stopped(case, same) for same in alike([v for v in living if _why_stopped(v)], _why_stopped)]
    hits += [_asleep(case, v) for v in living if case.overdue and _uninterruptible(v)]
    hits += [_swapping(case, v) for v in living if _swaps(v)]
    return hits


# --- stopped -------------------------------------------------------------------------------------------------------


def _why_stopped(view: View) -> str:
    activity = view.activity
    if activity is None:
        return ""
    if activity.state == "T":
        return "signal"
    if activity.state == "t":
        return "debugger"
    training = view.training
    wchan = "" if training is None or isinstance(training.wchan, NotAvailable) else training.wchan
    return "frozen" if "freez" in wchan or "refrigerator" in wchan else ""


def _stopped(case: Case, same: Sequence[View]) -> Hit:
    ranks, why = [v.rank for v in same], _why_stopped(same[0])
    pids = " ".join(str(v.pid) for v in same[:64])
    named, plural = ranks_words(ranks).capitalize(), len(same) > 1
    verb = "are" if plural else "is"
    titles = {
        "signal": text(
            f"{named} {verb} stopped by a signal (SIGSTOP, Ctrl-Z)", f"{named} 被信号停止（SIGSTOP 或 Ctrl-Z）"
        ),
        "debugger": text(f"{named} {verb} held by a debugger", f"{named} 被调试器暂停"),
        "frozen": text(
            f"{named} {verb} frozen with the container (cgroup freezer)", f"{named} 随容器被冻结（cgroup freezer）"
        ),
    }
    causes = {
        "signal": text(
            "A person, a scheduler that suspends jobs, or a terminal (Ctrl-Z, background writes) stopped it; it "
            "computes nothing until it is told to go on.",
            "某人、会挂起任务的调度器或终端（Ctrl-Z、后台写入）停止了它；在被恢复之前它不会执行任何计算。",
        ),
        "debugger": text(
            "A debugger or a tracer (gdb, strace, a profiler) is attached and keeps it stopped.",
            "有调试器或跟踪器（gdb、strace、性能分析器）附加在其上并使其停住。",
        ),
        "frozen": text("Somebody paused the container or the cgroup it runs in.", "有人暂停了它所在的容器或 cgroup。"),
    }
    steps = {
        "signal": text(f"Let it go on: kill -CONT {pids}", f"让它继续：kill -CONT {pids}"),
        "debugger": _leave_debugger(same),
        "frozen": text(
            "docker unpause CONTAINER, or write 0 to its cgroup.freeze.",
            "执行 docker unpause CONTAINER，或向其 cgroup.freeze 写入 0。",
        ),
    }
    frames = {v.now.frame for v in same}
    finding = Finding(
        "rank_stopped",
        "critical",
        titles[why],
        rank_subjects(ranks),
        place(same[0].now.frame)
        if len(frames) == 1 or len(ranks) == 1
        else next((place(f) for f in frames if f), None),
        [*(_stopped_words(v) for v in same[:6]), *case.others_wait(ranks)],
        causes[why],
        [
            steps[why],
            text(
                "If the others have run into the time-out of the process group by then, the job has to be started "
                "again from a checkpoint.",
                "若此时其余 rank 已触发进程组超时，则需从检查点重新启动任务。",
            ),
        ],
    )
    return Hit(finding, ranks)


def _leave_debugger(same: Sequence[View]) -> str:
    tracers = sorted({v.activity.traced_by for v in same if v.activity is not None and v.activity.traced_by})
    if not tracers:
        return text(
            "Find the debugger (`grep TracerPid /proc/PID/status`) and detach it.",
            "找到调试器（`grep TracerPid /proc/PID/status`）并将其分离。",
        )
    pids = ", ".join(map(str, tracers))
    return text(
        f"Detach the debugger, process {pids} (in gdb: `detach`); if nobody uses it any more: kill "
        f"{' '.join(map(str, tracers))}",
        f"分离调试器进程 {pids}（gdb 中执行 `detach`）；若已无人使用：kill {' '.join(map(str, tracers))}",
    )


def _stopped_words(view: View) -> str:
    activity = view.activity
    state = activity.state if activity is not None else "?"
    tracer = f", TracerPid {activity.traced_by}" if activity is not None and activity.traced_by else ""
    return text(
        f"rank {view.rank} (pid {view.pid}): state {state} in /proc{tracer}, at {short_place(view.now.frame)}",
        f"rank {view.rank}（pid {view.pid}）：/proc 中状态为 {state}{tracer}，位于 {short_place(view.now.frame)}",
    )


# --- uninterruptible sleep -----------------------------------------------------------------------------------------


def _uninterruptible(view: View) -> bool:
    training = view.training
    asleep = training is not None and training.state == "D" and training.switches == 0
    return asleep and not _why_stopped(view) and not view.served and not flows(view.now, view.activity, training)


def _asleep(case: Case, view: View) -> Hit:
    training, activity = view.training, view.activity
    assert training is not None
    assert activity is not None
    kernel = "" if isinstance(training.wchan, NotAvailable) else training.wchan
    on = f" {training.call or '?'}({training.on})" if training.on else f" {training.call}" if training.call else ""
    finding = Finding(
        "uninterruptible",
        "critical",
        text(
            f"Rank {view.rank} hangs inside the kernel in uninterruptible sleep (state D)",
            f"rank {view.rank} 在内核中处于不可中断睡眠（状态 D）",
        ),
        rank_subjects([view.rank]),
        place(view.now.frame),
        [
            text(
                f"its training thread was in state D for all of {activity.window_s:.1f} s and was never switched "
                f"in; in the kernel at {kernel or 'a place not shown'}{on}",
                f"其训练线程在 {activity.window_s:.1f} 秒内始终处于状态 D 且从未被调度；内核位置 "
                f"{kernel or '未知'}{on}",
            ),
            *_at(case, view),
            *case.others_wait([view.rank]),
        ],
        text(
            "The kernel waits for a device or a file system that does not answer (NFS, FUSE, a failing disk, a GPU "
            "driver), or for a child that it "
            "is starting. No signal reaches the process meanwhile, not even SIGKILL in most cases.",
            "内核在等待没有响应的设备或文件系统（NFS、FUSE、故障磁盘、GPU 驱动），或等待正在启动的子进程。"
            "期间信号无法送达，多数情况下连 SIGKILL 也无效。",
        ),
        [
            text(
                f"See where: `cat /proc/{view.pid}/stack` as root, `dmesg -T | tail`; check the mount or device "
                "that its line uses.",
                f"查看位置：以 root 执行 `cat /proc/{view.pid}/stack`、`dmesg -T | tail`；"
                "检查该行代码使用的挂载点或设备。",
            ),
            text(
                "Bring the file system or device back, and it goes on; else only a reboot of the host frees it.",
                "恢复该文件系统或设备后它会继续；否则只有重启主机才能释放它。",
            ),
        ],
        confidence="high" if kernel or training.call else "medium",
    )
    return Hit(finding, [view.rank])


def _at(case: Case, view: View) -> list[str]:
    if view.now.frame is None:
        return []
    return [text(f"it was called at {case.at(view.now)}", f"调用位置 {case.at(view.now)}")]


# --- swapping ------------------------------------------------------------------------------------------------------


def _known(measured: Maybe[float]) -> float:
    return 0.0 if isinstance(measured, NotAvailable) else measured


def _swaps(view: View) -> bool:
    """Pages come back from disk one after the other, or go there by the megabyte."""
    activity = view.activity
    if activity is None or _known(activity.swap_bytes) < SWAPPED_BYTES:
        return False
    read_back, written = _known(activity.major_faults_per_s), _known(activity.swap_growth_bytes_per_s)
    return read_back >= FAULTS_PER_S or written >= WRITTEN_BYTES_PER_S


def _swapping(case: Case, view: View) -> Hit:
    activity = view.activity
    assert activity is not None
    swapped = _known(activity.swap_bytes) / 2**30
    faults, grows = _known(activity.major_faults_per_s), _known(activity.swap_growth_bytes_per_s) / 2**20
    host = next((h for h in case.evidence.hosts if h.name == view.evidence.host), None)
    roomy = host is not None and host.memory_free_bytes > ROOMY_SHARE * host.memory_bytes
    finding = Finding(
        "swapping",
        "warning",
        text(f"Rank {view.rank} is swapping: its memory lies on disk", f"rank {view.rank} 正在换页：其内存位于磁盘上"),
        rank_subjects([view.rank]),
        place(view.now.frame),
        [
            text(
                f"{swapped:.1f} GiB of the process are swapped out; {faults:.0f} pages a second are read back from disk"
                + (f", and {grows:.0f} MiB/s are written there" if grows >= 1 else ""),
                f"进程有 {swapped:.1f} GiB 被换出；每秒从磁盘读回 {faults:.0f} 个页面"
                + (f"，每秒写入磁盘 {grows:.0f} MiB" if grows >= 1 else ""),
            ),
            *(
                []
                if host is None
                else [
                    text(
                        f"host {host.name}: {host.memory_free_bytes / 2**30:.1f} GiB of {host.memory_bytes / 2**30:.0f} GiB free",
                        f"主机 {host.name}：{host.memory_bytes / 2**30:.0f} GiB 中空闲 {host.memory_free_bytes / 2**30:.1f} GiB",
                    )
                ]
            ),
            *case.others_wait([view.rank]),
        ],
        text(
            "The host has memory to spare, so it is the limit of this process's container or control group that is too small for it.",
            "主机尚有空闲内存，所以是该进程所在容器（控制组）的内存上限太小。",
        )
        if roomy
        else text("The processes of this host need more memory than it has.", "该主机上的进程所需内存超过其容量。"),
        [
            text(
                "Raise that limit (`--memory` of docker, the pod's limits, Slurm's --mem), or find what needs it (`%memory`) and use "
                "fewer DataLoader workers or smaller batches.",
                "提高该上限（docker 的 `--memory`、pod 的 limits、Slurm 的 --mem），或找出占用内存者（`%memory`），"
                "减少 DataLoader worker 或 batch 大小。",
            )
            if roomy
            else text(
                "Find what needs it (`%memory`), use fewer DataLoader workers or smaller batches, or free the host "
                "of other jobs.",
                "找出占用内存者（`%memory`），减少 DataLoader worker 或 batch 大小，或清理主机上的其他任务。",
            )
        ],
    )
    return Hit(finding, [view.rank])
