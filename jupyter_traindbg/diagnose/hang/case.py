"""A job's evidence, with what every rule needs worked out once: what each rank does over time, who waits for whom, since when.

Who waits for other ranks is a victim; to blame is who does not: the *suspects*. A wait counts as too long only where this
job has not got over as long a one before: `Case.overdue`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property

from ...frames import phases
from ...frames.whose import inside
from ...language import text
from ...model import Beside, Collective, Finding, Frame, HostFacts, JobEvidence, NotAvailable, PolledFile, SourceLine
from ...words.durations import time_words
from ...words.ranks import ranks_words
from .doing import Doing, phrase, plural
from .motion import started_for
from .partners import Chain, chains, seen_with, with_flow
from .polls import LeftOut, left_out_of, looks
from .ranks import Role, View, training_thread, view, without_calls
from .stuck import Progress, judge
from .words import alike, short_place

__all__ = ["Case", "Hit", "Role", "View", "build", "joins_ray", "training_thread"]

STARTED_S = 2.0
"""So long before the others wait for it may a rank have started a program."""
GATHERING_S = 300.0
"""How old a job may be whose ranks are still on their way into their process group: half of NCCL's time-out."""


@dataclass(frozen=True)
class Hit:
    """A finding and the numbers of the ranks that it blames."""

    finding: Finding
    ranks: Sequence[int] = ()


@dataclass(frozen=True)
class Case:
    """What the rules are given. ``views`` are in the order of the evidence."""

    evidence: JobEvidence
    views: Sequence[View]
    progress: Progress
    by_rank: Mapping[int, View]
    left_out: Mapping[int, LeftOut] = field(default_factory=dict)
    """By the rank that looks for something again and again, what that is, and who has left it out."""
    chains: Mapping[int, Chain] = field(default_factory=dict)
    """By the rank that waits for a process outside of its job, or for another rank over a channel of its own, where that leads."""

    @property
    def overdue(self) -> bool:
        """Whether the job stands still for longer than is usual for it."""
        return self.progress.overdue

    @property
    def seen_once(self) -> bool:
        """Whether nothing tells if anybody moves. Who waits for whom is known then, and not for how long."""
        return isinstance(self.evidence.motion_shows, NotAvailable)

    @property
    def over(self) -> bool:
        """Whether nothing of the job is left: no rank runs, here or elsewhere."""
        return bool(self.views) and all(v.role == "ended" for v in self.views)

    @property
    def places(self) -> Mapping[int, tuple[str, int]]:
        """The host and the pid of each rank."""
        return {view.rank: (view.host, view.pid) for view in self.views}

    @cached_property
    def holders(self) -> Mapping[tuple[int, int], Mapping[tuple[str, int], PolledFile]]:
        """By `PolledFile.ident`, what was seen of it by whoever knows its holder, by the host and the pid of that one."""
        found: dict[tuple[int, int], dict[tuple[str, int], PolledFile]] = {}
        for seen in self.views:
            for file in seen.evidence.polled:
                if file.holder is not None and file.ident is not None:
                    found.setdefault(file.ident, {}).setdefault((seen.host, file.holder.pid), file)
        return found

    @cached_property
    def by_process(self) -> Mapping[tuple[str, int], View]:
        """The ranks by their host and their pid."""
        return {(seen.host, seen.pid): seen for seen in self.views}

    def host(self, view: View) -> HostFacts | None:
        """What is known of the machine that a rank is on."""
        return next((host for host in self.evidence.hosts if host.name == view.host), None)

    def beside(self, view: View) -> Beside:
        """What is known of the processes on the host of a rank."""
        return self.beside_on(view.host)

    def beside_on(self, host: str) -> Beside:
        """The same by the name of the host."""
        return self.evidence.beside.get(host, Beside())

    @property
    def sources(self) -> Mapping[str, SourceLine]:
        return self.evidence.sources

    def roles(self, *roles: Role) -> list[View]:
        """The ranks of which this is true."""
        return [v for v in self.views if v.role in roles]

    @property
    def waiting(self) -> list[View]:
        """The ranks that wait for other ranks."""
        return self.roles("waiting")

    @property
    def suspects(self) -> list[View]:
        """The living ranks that do not wait for others, so that the others wait for them."""
        return self.roles("still", "moving", "stopped")

    @property
    def blocked(self) -> list[View]:
        """The suspects that stand still, where that has lasted too long: the ones whose wait is a finding."""
        return self.roles("still") if self.overdue else []

    @property
    def at_ray(self) -> list[View]:
        """The blocked that wait for a result from Ray, or for Ray itself, where nothing seen of this job tells whether that is too long: it
        may be all that a driver does.
        """
        told = self.waiting or self.progress.longest_s is not None
        return [] if told else [v for v in self.blocked if v.now.kind == "ray" or joins_ray(v.now)]

    @property
    def gathering(self) -> list[View]:
        """All ranks, where they are on their way into a process group, or all that are left, where they are on their way out of it. With
        NCCL that may take a minute where there are many; in a job that has run for longer than five this is empty, and in one of which
        somebody has sent dumps.
        """
        if self.seen_once:
            return []
        ages = [v.activity.running_s for v in self.views if v.activity is not None]
        here = self.waiting if all(isinstance(a, NotAvailable) or a < GATHERING_S for a in ages) else []
        left = [v for v in self.views if v.role != "ended"]
        together = {v.now.kind for v in here} == ({"init"} if len(left) == len(self.views) else {"teardown"})
        return here if together and len(here) == len(left) else []

    @property
    def stands_still(self) -> bool:
        """Whether nobody moves, for longer than is usual for this job; not where all that is seen may well take that long."""
        if not self.overdue or self.at_ray or self.gathering or self.roles("stepping", "moving", "idle"):
            return False
        return any(v.doings for v in self.views)

    def others_wait(self, blamed: Sequence[int] = ()) -> list[str]:
        """For the evidence of a finding: in which collective the other ranks wait, since when, and where."""
        left_out = set(blamed)
        victims = [v for v in self.waiting if v.rank not in left_out]
        return [_wait_words(same) for same in alike(victims, _wait_key)[:4]]

    def source_of(self, seen: Doing) -> str:
        """The line of source at which `seen` stands; empty where it is not known."""
        return self._source(seen.frame)

    def at(self, seen: Doing) -> str:
        """For evidence: ``train.py:42 load: `return queue.get()` ``, and which library's call it is."""
        within = inside(seen.thread.frames) if seen.users is not None and seen.thread is not None else None
        return self.line(seen.frame) + (
            "" if within is None else text(", inside {short_place}", short_place=short_place(within))
        )

    def line(self, frame: Frame | None) -> str:
        """The same of a frame."""
        source = self._source(frame)
        return short_place(frame) + (f": `{source}`" if source else "")

    def _source(self, frame: Frame | None) -> str:
        line = self.sources.get(f"{frame.file}:{frame.line}") if frame is not None else None
        return line.text if line else ""


def joins_ray(seen: Doing) -> bool:
    """Whether it is in ``ray.init()``, which gives up by itself."""
    return seen.thread is not None and phases.phase_of(seen.thread.frames) is phases.JOINING_RAY


def build(evidence: JobEvidence) -> Case:
    """Work out what each rank does, and whether the job stands still for too long. Linear in the number of ranks."""
    views = without_calls([view(rank, evidence.sources) for rank in evidence.ranks])
    once = isinstance(evidence.motion_shows, NotAvailable)
    progress = judge(views, once=once)
    if progress.pause_s is not None:
        views = tuple(_with_programs(v, progress.pause_s) for v in views)
        progress = judge(views, once=once)
    left_out = left_out_of(views)
    at_work = frozenset((v.host, v.pid) for v in views if v.role == "moving")
    views = tuple(_for_others(v, left_out, at_work) for v in views)
    views = tuple(with_flow(v, evidence) for v in views)
    followed = chains(evidence, views)
    views = tuple(seen_with(v, followed[v.rank]) if v.rank in followed else v for v in views)
    return Case(evidence, views, progress, {v.rank: v for v in views}, left_out, followed)


def _with_programs(seen: View, pause_s: float) -> View:
    """One that sleeps gets on where a program does that it has started since the job stands still."""
    if seen.role != "still" or seen.now.kind != "sleep" or seen.holder is not None:
        return seen
    served = started_for(seen.evidence.children, pause_s + STARTED_S)
    return replace(seen, role="moving", served=served) if served else seen


def _for_others(seen: View, left_out: Mapping[int, LeftOut], at_work: AbstractSet[tuple[str, int]]) -> View:
    """One that looks for what another rank has left out waits for that one. For the ranks that are at work waits, as far as is known, who
    looks for a file, or for a key of a store: a lock that somebody else holds is not theirs to give.
    """
    if seen.rank in left_out:
        return replace(seen, role="waiting")
    holders = {(seen.host, file.holder.pid) for file in seen.evidence.polled if file.holder is not None}
    return replace(seen, role="waiting") if at_work and looks(seen) and holders <= at_work else seen


# --- words ---------------------------------------------------------------------------------------------------------


def _wait_key(seen: View) -> tuple[object, ...]:
    call = seen.pending
    return (seen.now.kind, seen.now.wait, call and (call.op, call.sequence, call.group), seen.now.frame)


def _wait_words(same: Sequence[View]) -> str:
    first, call = same[0], same[0].pending
    what = phrase(first.now)
    if call is not None:
        name = f"{call.op} #{call.sequence}"
        group = _group_name(first, call)
        what = text("waits in {name} ({group})", name=name, group=group)
    if len(same) > 1:
        what = plural(what)
    longest = max((v.waiting_s for v in same if v.waiting_s is not None), default=None)
    since = "" if longest is None else text(", for {longest}", longest=time_words(longest))
    at = short_place(first.now.frame)
    where = "" if first.now.frame is None else text(", at {at}", at=at)
    return f"{ranks_words(v.rank for v in same)} {what}{since}{where}"


def _group_name(seen: View, call: Collective) -> str:
    groups = seen.collectives.groups if seen.collectives is not None else ()
    group = next((g for g in groups if g.name == call.group), None)
    description = group.description if group is not None else ""
    if description == "default_pg" or not (description or call.group):
        return text("the default group")
    return text("group {description}", description=description or call.group)
