"""A step that waits for its data: the line that makes it, how long a batch takes to make, and how many workers would keep up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from ...frames.whose import bare
from ...language import later, text
from ...model import (
    Finding,
    Frame,
    LoaderSetUp,
    NotAvailable,
    ProcessLooks,
    SlowCause,
    Step,
    StepPartName,
    rank_subjects,
)
from ...words.durations import duration
from ..hang.words import place, short_place
from .case import Case, Slice, View
from .cpus import beside, crowded_s, wanted_by_workers, wants
from .making import CPU_BOUND, LOADING, computing, longest, made_at
from .words import cause, matters, of_a_step

__all__ = ["EXPLAINS", "TOPIC", "rule", "words"]

TOPIC = later("data")
EXPLAINS = {"data_wait": ("data_straggler", "too_many_workers")}
LEAST_S = 0.005
"""A shorter wait is what a loader takes to hand its batch over, and is worth no word."""
START_SHARE = 0.05
"""Workers that are started again and again matter from this share of a step on."""
PIN_SHARE = 0.05
BUSY = 0.8
"""Workers that make batches for less of their time than this keep up with the training."""
AT_ONCE, OF_WAIT = 0.2, 0.6
"""They do so unevenly, where such a share of the steps has such a share of all waiting."""
WAITING_EACH = 8
"""So many workers that mostly wait may share a CPU: each of them has to hand its batches over, and memory of its own."""
MOST_OF_IT = 0.9
"""Of what workers can save: the last tenth may take many times as many of them."""
_STARTS = frozenset({"_get_iterator", "_shutdown_workers", "__del__"})
_COPIES = (".to(", ".cuda(")
_WAITS_FOR_WORK = frozenset({"get", "poll", "_poll", "wait"})


@dataclass(frozen=True)
class _Supply:
    """How a rank gets its batches. Seconds; ``batch_s``: of one worker, or of the training thread where there are none."""

    view: View
    wait_s: float
    workers: int
    batches: float
    """Taken in a step."""
    batch_s: float
    cpu_share: float
    """Of the time that a batch takes: for how much of it a CPU is used, or waited for."""
    at: Frame | None

    @property
    def work_s(self) -> float:
        """What a step takes without waiting for data."""
        return max(1e-4, self.view.step_s - self.wait_s)

    @property
    def wanted(self) -> int:
        """Workers that would make the batches of a step while it computes."""
        return self._that_bring_it_to(self.work_s)

    @property
    def worthwhile(self) -> int:
        """As many, unless less than half of them save most of the wait."""
        fewer = self._that_bring_it_to(self.work_s + (1 - MOST_OF_IT) * self.wait_s)
        return fewer if fewer < self.wanted / 2 else self.wanted

    @property
    def waits(self) -> bool:
        """Whether a worker mostly waits, for a disk, a network, a sleep."""
        return self.cpu_share < CPU_BOUND

    def _that_bring_it_to(self, step_s: float) -> int:
        return max(1, math.ceil(round(self.batch_s * self.batches / step_s, 2)))

    def step_with(self, workers: int) -> float:
        """How long a step would take with so many."""
        return max(self.work_s, self.batch_s * self.batches / workers)


def rule(case: Case) -> list[SlowCause]:
    """The loader that starves its rank, and workers that are started again for each pass."""
    return [*_starved(case), *_restarted(case), *_not_pinned(case)]


def words(case: Case) -> str:
    """The greatest share of any rank."""
    worst = max(case.stepping, key=lambda view: view.parts["data"] / view.step_s)
    return text("{share} is waiting for it", share=of_a_step(worst.parts["data"], worst.step_s))


# --- a loader that is too slow -------------------------------------------------------------------------------------


def _starved(case: Case) -> list[SlowCause]:
    found = [v for v in case.stepping if _waits_s(v) >= LEAST_S and matters(_waits_s(v), v.step_s) and _falls_short(v)]
    if not found:
        return []
    worst = _supply(max(found, key=lambda view: _waits_s(view) / view.step_s))
    crowding_s = 0.0 if worst.waits else crowded_s(case, worst.view)
    step_s = worst.view.step_s
    finding = Finding(
        "data_wait",
        "warning",
        text(
            "{share:.0%} of a step is waiting for data: {wait_s} of {step_s}",
            share=worst.wait_s / step_s,
            wait_s=duration(worst.wait_s),
            step_s=duration(step_s),
        ),
        rank_subjects(view.rank for view in found),
        place(worst.at),
        [*(_evidence(_supply(view)) for view in found[:8]), *_crowding(crowding_s)],
        _why(worst),
        _next_steps(worst, _free_cpus(case, worst, found)),
        confidence="high" if worst.at is not None else "medium",
    )
    return [cause(finding, worst.wait_s + crowding_s, step_s)]


def _waits_s(view: View) -> float:
    """Without what new workers make a step wait for, which is told apart."""
    return max(0.0, view.parts["data"] - sum(_started(view).values()))


def _falls_short(view: View) -> bool:
    """Whether it waits because batches are not made, all in all or at some of its steps, and not merely while they are handed over."""
    workers = _workers(view)
    if not workers or sum(map(_working, workers)) >= BUSY * len(workers):
        return True
    waits = sorted((step.data_wait_s or 0.0 for step in view.steps), reverse=True)
    return sum(waits[: round(AT_ONCE * len(waits))]) >= OF_WAIT * sum(waits)


def _supply(view: View) -> _Supply:
    wait_s = _waits_s(view)
    workers = _workers(view)
    batches = _batches(view)
    if not workers and (unseen := _set_up(view)):
        # on another host, or not there for long enough: all the time is theirs, or nobody would wait for them
        return _Supply(view, wait_s, unseen, batches, unseen * view.step_s / batches, 1.0, None)
    if not workers:
        slices = [one for one in view.of("data") if one not in _starting(view)]
        return _Supply(view, wait_s, 0, batches, wait_s / batches, computing(slices), made_at(view, slices))
    shares = [_working(worker) for worker in workers]
    batch_s = _batch_s(view, workers)
    used = wanted_by_workers([view])
    at = longest(pair for worker in workers for pair in worker.stacks)
    return _Supply(
        view, wait_s, len(workers), batches, batch_s, min(1.0, used / sum(shares)) if sum(shares) else 1.0, at
    )


def _batch_s(view: View, workers: Sequence[ProcessLooks]) -> float:
    """What a batch takes one worker. Workers that were started within the window have not lived through all of it."""
    steps = view.window.window_s / view.step_s
    if view.window.workers_began:
        return sum(_working(w) * w.looks * w.every_s for w in workers) / steps / _batches(view)
    return sum(map(_working, workers)) * view.step_s / _batches(view)


def _workers(view: View) -> list[ProcessLooks]:
    """Those that were seen often enough to speak of shares."""
    seen = view.window.workers
    return [] if isinstance(seen, NotAvailable) else [worker for worker in seen if worker.looks >= 5 and worker.stacks]


def _set_up(view: View) -> int:
    """How many workers its loader is to have."""
    return next((one.num_workers for one in view.window.loaders if one.num_workers), 0)


def _batches(view: View) -> float:
    """Batches that a step takes."""
    whole = {step.step for step in view.steps}
    taken = Counter(batch.step for batch in view.window.batches if batch.step in whole)
    return sum(taken.values()) / len(taken) if taken else 1.0


def _working(worker: ProcessLooks) -> float:
    """The share of its time in which a worker makes batches, and does not wait to be asked for one."""
    whole = sum(many for _, many in worker.stacks)
    idle = sum(many for frames, many in worker.stacks if _waits_to_be_asked(frames))
    return (whole - idle) / whole if whole else 0.0


def _waits_to_be_asked(frames: Sequence[Frame]) -> bool:
    """In the worker's loop itself, or at the queue that it gets its orders from: nothing of a dataset is on the stack."""
    loop = next((i for i, f in enumerate(frames) if bare(f.function) == "_worker_loop"), len(frames))
    above = [bare(f.function) for f in frames[:loop]]
    return not any(name == "fetch" for name in above) and (not above or above[-1] in _WAITS_FOR_WORK)


def _free_cpus(case: Case, supply: _Supply, starved: Sequence[View]) -> float | None:
    """The CPUs that training threads leave to the workers of one rank, once these keep up; None where that is not known. Ranks of one
    machine share them.
    """
    host = supply.view.window.host
    there = beside(case, supply.view)
    if host.cpus is None:
        return None
    return max(0.0, host.cpus - sum(map(_trains_on, there))) / max(1, sum(view in starved for view in there))


def _trains_on(view: View) -> float:
    """How many CPUs it uses apart from its data, and would use if it did not wait for that."""
    looked_s = view.looked_s or 1.0
    busy = (
        sum(one.wall_s for one in view.slices if not one.idle and one.part not in ("data", "communication")) / looked_s
    )
    activity = view.window.activity
    if not isinstance(activity, NotAvailable):
        making = sum(one.wall_s for one in view.of("data") if not one.idle) / looked_s
        busy = max(busy, wants(activity) - making)
    return busy / max(0.1, 1 - view.parts["data"] / view.step_s) if view.step_s else busy


def _room(supply: _Supply, free: float | None) -> int | None:
    """As many workers as there are CPUs for; None where nobody knows."""
    if free is None:
        return None
    if supply.waits:
        return max(1, math.floor((supply.view.window.host.cpus or 1.0) * _share_one(supply)))
    return max(1, math.floor(free / supply.cpu_share))


def _share_one(supply: _Supply) -> int:
    """So many of its workers may share a CPU."""
    return math.floor(1 / max(supply.cpu_share, 1 / WAITING_EACH))


# --- words ---------------------------------------------------------------------------------------------------------


def _evidence(supply: _Supply) -> str:
    rank, at = supply.view.rank, supply.at
    made = "" if at is None else text(", most of it at {short_place}", short_place=short_place(at))
    if not supply.workers:
        return text(
            "rank {rank}: {wait_s} of {step_s} a step, in which the training thread makes the batch itself{made}",
            rank=rank,
            wait_s=duration(supply.wait_s),
            step_s=duration(supply.view.step_s),
            made=made,
        )
    return text(
        "rank {rank}: a batch takes a worker {batch_s}{made}; {workers} of them deliver one every {every_s}, a step without waiting takes "
        "{work_s}",
        rank=rank,
        batch_s=duration(supply.batch_s),
        made=made,
        workers=supply.workers,
        every_s=duration(supply.batch_s / supply.workers),
        work_s=duration(supply.work_s),
    )


def _crowding(seconds: float) -> list[str]:
    """That its workers also take CPUs from the training."""
    if seconds < LEAST_S:
        return []
    return [
        text(
            "beside that, the training waits {took} of a step for a CPU, which its workers have", took=duration(seconds)
        )
    ]


def _why(supply: _Supply) -> str:
    if not supply.workers:
        return text("The training thread makes its batches itself: while it does, nothing is trained.")
    if supply.wanted <= supply.workers:
        return text(
            "Its workers make enough batches on average, and not evenly: some take much longer, and all wait for those."
        )
    return text("Its workers make fewer batches than the steps use up.")


def _next_steps(supply: _Supply, free: float | None) -> list[str]:
    cheaper = _cheaper(supply)
    if supply.wanted <= supply.workers:
        return [text("A larger prefetch_factor evens it out."), cheaper]
    room = _room(supply, free)
    if room is None or supply.worthwhile <= room:
        return [_enough(supply), *_bound(supply, free), cheaper]
    few = text("num_workers={wanted} would keep up, and there are CPUs for {room}.", wanted=supply.wanted, room=room)
    more = [_helps(supply, room)] if room > supply.workers else []
    return [cheaper, few, *_bound(supply, free), *more]


def _cheaper(supply: _Supply) -> str:
    at = "" if supply.at is None else text(" ({short_place})", short_place=short_place(supply.at))
    if supply.waits:
        return text(
            "Wait less where a sample is made{at}: fetch those of a batch at once (__getitems__), or keep them in memory or on a "
            "local disk.",
            at=at,
        )
    return text(
        "Make a sample cheaper where it is made{at}: decode or tokenise beforehand, read larger pieces, keep it in memory.",
        at=at,
    )


def _enough(supply: _Supply) -> str:
    if supply.worthwhile < supply.wanted:
        return _helps(supply, supply.worthwhile)
    return text("num_workers={wanted} would keep up, by these figures.", wanted=supply.wanted)


def _helps(supply: _Supply, workers: int) -> str:
    return text(
        "num_workers={workers} would bring a step from {step_s} to {to_s}.",
        workers=workers,
        step_s=duration(supply.view.step_s),
        to_s=duration(supply.step_with(workers)),
    )


def _bound(supply: _Supply, free: float | None) -> list[str]:
    """What the number of workers was held against."""
    cpus = supply.view.window.host.cpus
    if free is None or cpus is None:
        return []
    if supply.waits:
        return [
            text(
                "A worker mostly waits and uses {share:.0%} of a CPU: up to {many} of them can share one, and this job may use "
                "{cpus:.3g}.",
                share=supply.cpu_share,
                many=_share_one(supply),
                cpus=cpus,
            )
        ]
    return [
        text(
            "A worker uses {share:.0%} of a CPU: of the {cpus:.3g} that this job may use, its training leaves {free:.1f} for the workers "
            "of a rank.",
            share=supply.cpu_share,
            cpus=cpus,
            free=free,
        )
    ]


# --- workers that are started again, batches that are not pinned ---------------------------------------------------


def _starting(view: View) -> list[Slice]:
    """The looks that saw workers being started, or ended."""
    return [
        one for one in view.of("data") if any(LOADING in f.file and bare(f.function) in _STARTS for f in one.frames)
    ]


def _started(view: View) -> Mapping[StepPartName, float]:
    """How much longer the first steps of passes are than all others, where workers are started for each, in seconds of an average step: of
    the data their start and the wait for what they make first; of what is computed, what it costs that the process was copied for them.
    """
    first = {batch.step for batch in view.window.batches if batch.number == 1}
    firsts = [step for step in view.steps if step.step in first]
    others = [step for step in view.steps if step.step not in first]
    starting = _starting(view)
    if _restarts(view) is None or not firsts or not others or not starting:
        return {}
    per_step = len(firsts) / len(view.steps)

    def longer(seconds: Callable[[Step], float | None]) -> float:
        mine, usually = (mean(seconds(step) or 0.0 for step in steps) for steps in (firsts, others))
        return max(0.0, mine - usually) * per_step

    told: dict[StepPartName, float] = {
        "data": longer(lambda s: s.data_wait_s),
        "forward": longer(lambda s: s.forward_s),
        "backward": longer(lambda s: s.backward_s),
        "optimizer": longer(lambda s: s.optimizer_s),
    }
    between = [one for one in view.slices if one.look.step + 1 in first and one.recorded == "rest"]
    theirs = sum(one.wall_s for one in between if one in starting)
    told["rest"] = longer(lambda s: s.other_s) * theirs / max(1e-9, sum(one.wall_s for one in between))
    return told


def _start_s(view: View) -> float:
    """What the starts take of a step; workers that stay make the first batch of a pass, too, which takes one of them as long as ever."""
    passes = sum(batch.number == 1 for batch in view.window.batches) / max(1, len(view.steps))
    told = _started(view)
    waits_s = max(0.0, told.get("data", 0.0) - passes * _batch_s(view, _workers(view)))
    return waits_s + sum(seconds for part, seconds in told.items() if part != "data")


def _restarted(case: Case) -> list[SlowCause]:
    found = [view for view in case.stepping if _restarts(view) is not None]
    seconds = {view.rank: _start_s(view) for view in found}
    found = [view for view in found if matters(seconds[view.rank], view.step_s, START_SHARE)]
    if not found:
        return []
    worst = max(found, key=lambda view: seconds[view.rank] / view.step_s)
    took = seconds[worst.rank]
    slices = _starting(worst)
    at = next((one.frame for one in slices if one.frame is not None), None)
    finding = Finding(
        "workers_restarted",
        "warning",
        text("DataLoader workers are started anew for each pass: {share}", share=of_a_step(took, worst.step_s)),
        rank_subjects(view.rank for view in found),
        place(at),
        [
            text(
                "rank {rank}: {began} worker processes were started in {window_s}",
                rank=view.rank,
                began=view.window.workers_began,
                window_s=duration(view.window.window_s),
            )
            for view in found[:8]
        ],
        text("Each pass over a DataLoader starts its workers and ends them, unless they are to stay."),
        [text("persistent_workers=True keeps them from one pass to the next.")],
    )
    return [cause(finding, took, worst.step_s)]


def _restarts(view: View) -> LoaderSetUp | None:
    """The loader whose workers do not stay."""
    return next((one for one in view.window.loaders if one.num_workers and one.persistent_workers is False), None)


def _not_pinned(case: Case) -> list[SlowCause]:
    """On a GPU alone: copies from memory that is not pinned are waited for."""
    for view in case.stepping:
        plain = [one for one in view.window.loaders if one.pin_memory is False]
        copies = [one for one in view.slices if any(word in case.line(one.frame) for word in _COPIES)]
        seconds = view.seconds(copies)
        if view.window.host.cuda and plain and copies and matters(seconds, view.step_s, PIN_SHARE):
            at = copies[0].frame
            finding = Finding(
                "not_pinned",
                "warning",
                text("Copies to the GPU are waited for: {share}", share=of_a_step(seconds, view.step_s)),
                rank_subjects([view.rank]),
                place(at),
                [text("the DataLoader of {dataset} does not pin its batches", dataset=plain[0].dataset)],
                text("A copy from memory that is not pinned blocks the program until it is done."),
                [text("pin_memory=True in the DataLoader, and non_blocking=True in the copy.")],
                confidence="medium",
            )
            return [cause(finding, seconds, view.step_s)]
    return []
