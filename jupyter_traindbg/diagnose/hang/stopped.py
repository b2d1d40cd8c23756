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
        "signal": text("{named} {verb} stopped by a signal (SIGSTOP, Ctrl-Z)", named=named, verb=verb),
        "debugger": text("{named} {verb} held by a debugger", named=named, verb=verb),
        "frozen": text("{named} {verb} frozen with the container (cgroup freezer)", named=named, verb=verb),
    }
    causes = {
        "signal": text(
            "A person, a scheduler that suspends jobs, or a terminal (Ctrl-Z, background writes) stopped it; "
            "it computes nothing until it is told to go on."
        ),
        "debugger": text("A debugger or a tracer (gdb, strace, a profiler) is attached and keeps it stopped."),
        "frozen": text("Somebody paused the container or the cgroup it runs in."),
    }
    steps = {
        "signal": text("Let it go on: kill -CONT {pids}", pids=pids),
        "debugger": _leave_debugger(same),
        "frozen": text("docker unpause CONTAINER, or write 0 to its cgroup.freeze."),
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
                "If the others have run into the time-out of the process group by then, the job has to be "
                "started again from a checkpoint."
            ),
        ],
    )
    return Hit(finding, ranks)


def _leave_debugger(same: Sequence[View]) -> str:
    tracers = sorted({v.activity.traced_by for v in same if v.activity is not None and v.activity.traced_by})
    if not tracers:
        return text("Find the debugger (`grep TracerPid /proc/PID/status`) and detach it.")
    pids = ", ".join(map(str, tracers))
    return text(
        "Detach the debugger, process {pids} (in gdb: `detach`); if nobody uses it any more: kill {map}",
        pids=pids,
        map=" ".join(map(str, tracers)),
    )


def _stopped_words(view: View) -> str:
    activity = view.activity
    state = activity.state if activity is not None else "?"
    tracer = f", TracerPid {activity.traced_by}" if activity is not None and activity.traced_by else ""
    return text(
        "rank {rank} (pid {pid}): state {state} in /proc{tracer}, at {short_place}",
        rank=view.rank,
        pid=view.pid,
        state=state,
        tracer=tracer,
        short_place=short_place(view.now.frame),
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
        text("Rank {rank} hangs inside the kernel in uninterruptible sleep (state D)", rank=view.rank),
        rank_subjects([view.rank]),
        place(view.now.frame),
        [
            text(
                "its training thread was in state D for all of {window_s:.1f} s and was never switched in; in "
                "the kernel at {kernel}{on}",
                window_s=activity.window_s,
                kernel=kernel or text("a place not shown"),
                on=on,
            ),
            *_at(case, view),
            *case.others_wait([view.rank]),
        ],
        text(
            "The kernel waits for a device or a file system that does not answer (NFS, FUSE, a failing disk, "
            "a GPU driver), or for a child that it is starting. No signal reaches the process meanwhile, not "
            "even SIGKILL in most cases."
        ),
        [
            text(
                "See where: `cat /proc/{pid}/stack` as root, `dmesg -T | tail`; check the mount or device that "
                "its line uses.",
                pid=view.pid,
            ),
            text("Bring the file system or device back, and it goes on; else only a reboot of the host frees it."),
        ],
        confidence="high" if kernel or training.call else "medium",
    )
    return Hit(finding, [view.rank])


def _at(case: Case, view: View) -> list[str]:
    if view.now.frame is None:
        return []
    return [text("it was called at {at}", at=case.at(view.now))]


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
    host = case.host(view)
    roomy = host is not None and host.memory_free_bytes > ROOMY_SHARE * host.memory_bytes
    finding = Finding(
        "swapping",
        "warning",
        text("Rank {rank} is swapping: its memory lies on disk", rank=view.rank),
        rank_subjects([view.rank]),
        place(view.now.frame),
        [
            text(
                "{swapped:.1f} GiB of the process are swapped out; {faults:.0f} pages a second are read back from disk",
                swapped=swapped,
                faults=faults,
            )
            + (text(", and {grows:.0f} MiB/s are written there", grows=grows) if grows >= 1 else ""),
            *(
                []
                if host is None
                else [
                    text(
                        "host {name}: {memory_free_bytes:.1f} GiB of {memory_bytes:.0f} GiB free",
                        name=host.name,
                        memory_free_bytes=host.memory_free_bytes / 2**30,
                        memory_bytes=host.memory_bytes / 2**30,
                    )
                ]
            ),
            *case.others_wait([view.rank]),
        ],
        text(
            "The host has memory to spare, so it is the limit of this process's container or control group "
            "that is too small for it."
        )
        if roomy
        else text("The processes of this host need more memory than it has."),
        [
            text(
                "Raise that limit (`--memory` of docker, the pod's limits, Slurm's --mem), or find what needs it "
                "(`%memory`) and use fewer DataLoader workers or smaller batches."
            )
            if roomy
            else text(
                "Find what needs it (`%memory`), use fewer DataLoader workers or smaller batches, or free the "
                "host of other jobs."
            )
        ],
    )
    return Hit(finding, [view.rank])
