"""A line of the user's that the training thread spends its time at, outside of the model: it waits there, writes, or computes in Python.

Told by the line of the loop that leads there; the innermost line, at which most of the time goes, is where the finding points.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ...frames.phases import phase_of
from ...frames.whose import own_frames, short_path
from ...language import later, text
from ...model import Finding, Frame, NotAvailable, SlowCause, rank_subjects
from ..hang.words import place, short_place
from .case import PYTHON_LATE_S, Case, Slice, View, by_frame
from .words import cause, matters, of_a_step, part_words

__all__ = ["EXPLAINS", "TOPIC", "hot", "rule", "words"]

TOPIC = later("the loop's own lines")
EXPLAINS: dict[str, tuple[str, ...]] = {}
LEAST_STEPS, OF_STEPS = 2, 0.1
"""In so many steps of the window at least, and in such a share of them."""
LOOP = 0.8
"""A function that is on so many of all stacks is the loop's, or what calls it."""
LEAST_OUTSIDE = 3
"""So often a line must be seen from outside to be told."""
PYTHON = 0.5
"""A place is Python's where it runs for such a share of the time."""
NEAR = 3
"""Lines of a loop that are so near to each other are one place, where Python computes."""
MOST = 4
_GC = "collect("
_LOCKS = ("acquire", "lock", "Lock", "condition", "semaphore", ".get(", ".put(", ".join(", ".result(", ".wait(")
_SYNCS = ("fsync(", "fdatasync(")
"""Lines that write, also where the disk answers so fast that nobody sleeps."""
_CALLS = {
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), "sleep"),
    **dict.fromkeys(("read", "pread64", "readv", "openat", "newfstatat", "getdents64"), "read"),
    **dict.fromkeys(("write", "pwrite64", "writev", "fsync", "fdatasync"), "write"),
    **dict.fromkeys(
        ("recvfrom", "recvmsg", "connect", "accept4", "sendto", "sendmsg", "poll", "ppoll", "epoll_wait"), "network"
    ),
    **dict.fromkeys(("wait4", "waitid"), "child"),
    **dict.fromkeys(("flock", "fcntl"), "file_lock"),
    **dict.fromkeys(("futex", "futex_waitv"), "lock"),
}
_LOGGERS = ("logging/", "wandb/", "tensorboard", "mlflow/", "swanlab/", "comet_ml/")


@dataclass(frozen=True)
class _Kind:
    """What the training thread does at a line: the finding's code and words."""

    code: str
    title: str
    cause: str
    steps: Sequence[str]


_KINDS = {
    "sleep": _Kind(
        "sleeps",
        later("The training thread sleeps at {place}: {share}"),
        later("Nothing is trained while this line waits."),
        (later("Take it out of the loop."),),
    ),
    "read": _Kind(
        "reads",
        later("The training thread reads at {place}: {share}"),
        later("Nothing is trained while this line waits."),
        (later("Read it once before the loop, or in a Dataset, by a DataLoader with workers."),),
    ),
    "write": _Kind(
        "blocking_write",
        later("The training thread writes at {place}: {share}"),
        later("Nothing is trained until it is written."),
        (later("Write less often, or from a thread beside the training."),),
    ),
    "log": _Kind(
        "blocking_log",
        later("A logger holds the training up at {place}: {share}"),
        later("Its handlers write on the training thread, and nothing is trained meanwhile."),
        (
            later(
                "Log every some steps, or through logging.handlers.QueueHandler, which writes on a thread of its own."
            ),
        ),
    ),
    "save": _Kind(
        "blocking_save",
        later("Saving holds the training up at {place}: {share}"),
        later("Nothing is trained until the checkpoint is written."),
        (
            later("Save less often."),
            later("Copy the state to memory and write it on a thread, or use torch.distributed.checkpoint.async_save."),
        ),
    ),
    "network": _Kind(
        "network_wait",
        later("The training thread waits for the network at {place}: {share}"),
        later("Nothing is trained while this line waits."),
        (later("Do it on a thread beside the training, or less often."),),
    ),
    "child": _Kind(
        "child_wait",
        later("The training thread waits for a child process at {place}: {share}"),
        later("Nothing is trained while this line waits."),
        (later("Do it on a thread beside the training, or less often."),),
    ),
    "file_lock": _Kind(
        "lock_wait",
        later("The training thread waits for a file lock at {place}: {share}"),
        later("Another process holds it meanwhile."),
        (later("Hold it for less long, or take it out of the loop."),),
    ),
    "lock": _Kind(
        "lock_wait",
        later("The training thread waits for another thread at {place}: {share}"),
        later("That thread holds the lock, or has not done yet what is waited for."),
        (
            later("`%threads` names the lock and who holds it."),
            later("Hold it for less long, or do not wait for it in the loop."),
        ),
    ),
    "python": _Kind(
        "python_work",
        later("Python code at {place}: {share}"),
        later(
            "It computes on the training thread, one sample or one number after another, and nothing is trained meanwhile."
        ),
        (
            later("Compute it on whole tensors, or in the DataLoader's workers."),
            later("If it is only to be reported, do it every some steps."),
        ),
    ),
    "work": _Kind(
        "host_work",
        later("Work outside of the model at {place}: {share}"),
        later("It is neither forward, backward nor the optimizer, and the training waits for it."),
        (later("Do it every some steps, or beside the training."),),
    ),
}


@dataclass(frozen=True)
class _Place:
    """A line of the loop, and what the looks saw there, on one rank."""

    view: View
    slices: Sequence[Slice]

    @property
    def seconds(self) -> float:
        return self.view.own_seconds(self.slices)

    @property
    def often(self) -> bool:
        steps = max(1, len(self.view.steps))
        return self.view.steps_of(self.slices) >= max(LEAST_STEPS, OF_STEPS * steps)


def rule(case: Case) -> list[SlowCause]:
    """The places of the loop at which every rank spends a share of its step."""
    by_rank = {view.rank: _places(case, view) for view in case.stepping}
    causes = []
    for site, worst in _worst(case, by_rank):
        took = case.common({rank: _seconds_at(places, site) for rank, places in by_rank.items()})
        if worst.often and matters(took, worst.view.step_s):
            causes.append(_cause(case, worst, took))
    return sorted(causes, key=lambda c: -c.saves_s)[:MOST]


def words(case: Case) -> str:
    """The greatest of any place, or that there is none."""
    found = [p for view in case.stepping for p in _places(case, view).values()]
    worst = max(found, key=lambda p: p.seconds / p.view.step_s, default=None)
    if worst is None or not matters(worst.seconds, worst.view.step_s, 0.01):
        return text("none takes a hundredth of a step")
    frame = hot(worst.view, worst.slices)
    return text(
        "{share} at {short_place}", share=of_a_step(worst.seconds, worst.view.step_s), short_place=short_place(frame)
    )


def hot(view: View, slices: Sequence[Slice]) -> Frame | None:
    """The user's innermost line that these slices saw most.

    Our own looks come when the GIL is let go of: where Python runs for a moment only between two calls of torch's, at these calls. There
    py-spy tells, which needs none, of the line of the loop that leads there.
    """
    found = next((frame for frame, _ in by_frame(slices)), None)
    python_s = sum(one.wall_s for one in slices if not one.idle and _own_code(one))
    if python_s < PYTHON * sum(one.wall_s for one in slices):
        return found
    loop = _loop(view)
    sites = {_site(one.frames, loop) for one in slices}
    seen: Counter[Frame] = Counter()
    for frames, many in view.window.outside:
        if frames and not frames[0].library and _site(frames, loop) in sites:
            seen[frames[0]] += many
    most = max(seen, key=lambda frame: seen[frame], default=None)
    return most if most is not None and seen[most] >= LEAST_OUTSIDE else found


# --- places --------------------------------------------------------------------------------------------------------

_Site = tuple[str, str, int]


def _places(case: Case, view: View) -> dict[_Site, _Place]:
    loop = _loop(view)
    by_site: defaultdict[_Site, list[Slice]] = defaultdict(list)
    for one in view.slices:
        if one.frame is not None and _counts(case, view, one):
            by_site[_site(one.frames, loop) or (one.frame.file, one.frame.function, one.frame.line)].append(one)
    return {site: _Place(view, slices) for site, slices in _near(by_site).items()}


def _site(frames: Sequence[Frame], loop: tuple[str, str] | None) -> _Site | None:
    """The line of the loop on this stack."""
    mine = (f for f in own_frames(frames) if not f.library and (f.file, f.function) == loop)
    return next(((f.file, f.function, f.line) for f in mine), None)


def _loop(view: View) -> tuple[str, str] | None:
    """The innermost of the user's functions that is on nearly all stacks: the one whose lines make up a step."""
    seen: Counter[tuple[str, str]] = Counter()
    depth: dict[tuple[str, str], int] = {}
    stacks = 0
    for one in view.slices:
        mine = list(dict.fromkeys((f.file, f.function) for f in own_frames(one.frames) if not f.library))
        stacks += bool(mine)
        seen.update(mine)
        for n, function in enumerate(reversed(mine)):
            depth[function] = n
    usual = [function for function, many in seen.items() if many >= LOOP * stacks]
    return max(usual, key=lambda function: depth[function], default=None)


def _counts(case: Case, view: View, one: Slice) -> bool:
    """Whether this is time that could be saved at its line: not a DataLoader's, nor a wait for other ranks, and no model's work."""
    if one.part in ("data", "communication") or _GC in case.line(one.frame):
        return False
    if _asked_wait(one):
        return True
    python = one.look.late_s >= PYTHON_LATE_S and _own_code(one)
    if one.part != "rest":
        return python
    return python or not view.window.host.cuda  # on a GPU a line waits for what was computed before


def _asked_wait(one: Slice) -> bool:
    """A wait in a call that the user's line, or a library that it called for that, has made; torch's own waits are told elsewhere."""
    if not one.idle or one.look.call not in _CALLS or one.frame is None:
        return False
    inner = list(own_frames(one.frames))
    above = inner[: inner.index(one.frame)]
    return not any("torch/" in f.file and "torch/serialization" not in f.file for f in above)


def _own_code(one: Slice) -> bool:
    """Whether the user's code itself, or a call of its that has no frame, is what runs."""
    return bool(one.frames) and not one.frames[0].library


def _near(by_site: dict[_Site, list[Slice]]) -> dict[_Site, list[Slice]]:
    """Lines next to each other at which nothing but Python runs are one place: the body of a loop over samples."""
    found: dict[_Site, list[Slice]] = {}
    last: _Site | None = None
    for site in sorted(by_site):
        slices = by_site[site]
        flat = all(not one.idle and _own_code(one) for one in slices)
        joins = last is not None and flat and last[:2] == site[:2] and site[2] - _last_line(found[last]) <= NEAR
        if joins and last is not None:
            found[last].extend(slices)
        else:
            found[site] = list(slices)
            last = site if flat else None
    return found


def _last_line(slices: Sequence[Slice]) -> int:
    return max(one.frame.line for one in slices if one.frame is not None)


def _worst(case: Case, by_rank: dict[int, dict[_Site, _Place]]) -> list[tuple[_Site, _Place]]:
    """Each place of any rank, with the rank that spends the most there."""
    found: dict[_Site, _Place] = {}
    for places in by_rank.values():
        for site, one in places.items():
            if site not in found or one.seconds > found[site].seconds:
                found[site] = one
    return list(found.items())


def _seconds_at(places: dict[_Site, _Place], site: _Site) -> float:
    """At a site, or at the place that its line is a part of there."""
    if site in places:
        return places[site].seconds
    file, function, line = site
    near = [p.seconds for (f, name, n), p in places.items() if (f, name) == (file, function) and abs(n - line) <= NEAR]
    return max(near, default=0.0)


# --- what it does there --------------------------------------------------------------------------------------------


def _kind_of(case: Case, slices: Sequence[Slice]) -> str:
    """What most of the time goes to at a place: a key of the kinds."""
    spent: Counter[str] = Counter()
    for one in slices:
        spent[_kind(case, one)] += round(one.wall_s * 1e6)
    return spent.most_common(1)[0][0]


def _kind(case: Case, one: Slice) -> str:
    phase = phase_of(one.frames)
    if phase is not None and phase.english.startswith("saving"):
        return "save"
    if any(word in short_path(f) for f in one.frames if f.library for word in _LOGGERS):
        return "log"
    if one.idle:
        kind = _CALLS.get(one.look.call, "work")
        if kind == "lock" and one.wait is None and not any(word in case.line(one.frame) for word in _LOCKS):
            return "work"  # it waits for threads that compute for it
        return kind
    if any(word in case.line(one.frame) for word in _SYNCS):
        return "write"
    return "python" if _own_code(one) and one.look.late_s >= PYTHON_LATE_S else "work"


def _cause(case: Case, worst: _Place, took: float) -> SlowCause:
    view = worst.view
    kind = _KINDS[_kind_of(case, worst.slices)]
    at = hot(view, worst.slices)
    ranks = [v.rank for v in case.stepping] if case.together else [view.rank]
    finding = Finding(
        kind.code,
        "warning",
        text(kind.title, place=short_place(at), share=of_a_step(took, view.step_s)),
        rank_subjects(ranks),
        place(at),
        _evidence(worst, at),
        text(kind.cause),
        [text(step) for step in kind.steps],
    )
    return cause(finding, took, view.step_s)


def _evidence(worst: _Place, at: Frame | None) -> list[str]:
    view, slices = worst.view, worst.slices
    idle = [one for one in slices if one.idle]
    known = not any(isinstance(one.look.idle_s, NotAvailable) for one in slices)
    said = text(
        "rank {rank}: seen there in {looks} of {all} looks, in {steps} steps",
        rank=view.rank,
        looks=len(slices),
        all=len(view.slices),
        steps=view.steps_of(slices),
    )
    waits = text("the CPU idle in {share:.0%} of them", share=len(idle) / len(slices))
    lines = [said, *([waits] if known else [])]
    parts = {one.part for one in slices} - {"rest"}
    if parts:
        lines.append(text("within {part}", part=", ".join(part_words(part) for part in sorted(parts))))
    others = [(f, s) for f, s in by_frame(slices) if f != at][:2]
    lines += [text("also at {short_place}", short_place=short_place(f)) for f, _ in others]
    return lines
