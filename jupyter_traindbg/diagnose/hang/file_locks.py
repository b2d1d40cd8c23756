"""A rank, or a DataLoader worker's rank, that waits for the lock of a file, which some other process holds: in a call that locks, or in a
loop that sleeps and looks again.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...language import counted, later, text
from ...model import Finding, HostPid, LockHolder, NotAvailable, PolledFile, Subject, rank_subjects
from ...words.durations import time_words
from ...words.ranks import ranks_words
from .below import below
from .case import Case, Hit, View
from .doing import Doing, phrase, plural
from .onward import Onward
from .stop_words import holder_does, there
from .words import alike, place, short_place

__all__ = ["Held", "is_file_lock", "polled_lock", "rule", "what_it_does", "why_kept"]

_KEEPS = ("waiting", "still", "ended")
"""What a rank does that will not give its lock back."""


def is_file_lock(seen: Doing) -> bool:
    """`flock`, `lockf`, and the package ``filelock``."""
    return seen.kind == "lock" and seen.wait is not None and seen.wait.op in ("file", "lock_file")


@dataclass(frozen=True)
class Held:
    """A lock file that somebody holds: ``keeper``, where it is one of the ranks."""

    file: PolledFile
    owner: LockHolder
    keeper: View | None

    @property
    def who(self) -> str | LockHolder:
        return self.owner if self.keeper is None else text("rank {rank}", rank=self.keeper.rank)


def polled_lock(case: Case, view: View) -> Held | None:
    """The lock file that a rank looks at now and then, where somebody is known to hold it."""
    if view.now.kind != "sleep" and not is_file_lock(view.now):
        return None
    told = [held for file in view.evidence.polled for held in _told(case, view, file)]
    return next((held for held in told if held.owner.command), told[0] if told else None)


def _told(case: Case, view: View, file: PolledFile) -> Iterator[Held]:
    """Who holds it by what was seen on the rank's own host, then on others: these may have the process that one here cannot tell. Who looks
    for it as well does not hold it: a pid that is written in a file is somebody else's on each host.
    """
    elsewhere = case.holders.get(file.ident, {}) if file.ident is not None else {}
    for host, seen in ((view.host, file), *((host, one) for (host, _), one in elsewhere.items() if host != view.host)):
        keeper = case.by_process.get((host, seen.holder.pid)) if seen.holder is not None else None
        looks_too = keeper is not None and any(_is_same(file, one) for one in keeper.evidence.polled)
        if seen.holder is not None and not looks_too:
            yield Held(seen, seen.holder, keeper)


def _is_same(file: PolledFile, other: PolledFile) -> bool:
    return file is other or (file.ident is not None and file.ident == other.ident)


def rule(case: Case) -> list[Hit]:
    """Of a lock that a rank holds which gets on with something, what is said of that rank is enough."""
    free = [v for v in case.blocked if v.holder is None]
    polling = [(v, held) for v in free if (held := polled_lock(case, v)) is not None]
    ranks = {v.rank for v, _ in polling}
    alone = [(v, _by_itself(v)) for v in free if is_file_lock(v.now) and v.rank not in ranks]
    hits = [_hit(case, v) for v, file in alone if file is None]
    hits += [
        _left(case, [v for v, _ in same], file) for same in alike(alone, lambda one: one[1]) if (file := same[0][1])
    ]
    told = [one for one in polling if one[1].keeper is None or one[1].keeper.role in _KEEPS]
    return hits + [_polled(case, [v for v, _ in same], same[0][1]) for same in alike(told, lambda one: one[1].file)]


def _by_itself(view: View) -> PolledFile | None:
    """The lock file at which it looks now and then, and which nobody here is known to hold."""
    if view.now.wait is None or view.now.wait.op != "lock_file":
        return None
    return next((file for file in view.evidence.polled if file.there and file.age_s is not None), None)


def _left(case: Case, waiting: Sequence[View], file: PolledFile) -> Hit:
    """One that is a lock by being there, or that another host holds."""
    ranks, first = [v.rank for v in waiting], waiting[0]
    runs = [v.activity.running_s for v in waiting if v.activity is not None]
    age = time_words(file.age_s or 0.0)
    older = bool(runs) and all(not isinstance(s, NotAvailable) and (file.age_s or 0.0) > s for s in runs)
    finding = Finding(
        "lock_wait",
        "critical",
        counted(
            "{ranks} waits for the lock file {path}, which nobody here holds",
            "{ranks} wait for the lock file {path}, which nobody here holds",
            len(ranks),
            ranks=ranks_words(ranks).capitalize(),
            ranks2=ranks_words(ranks),
            path=file.path,
        ),
        rank_subjects(ranks),
        place(first.now.frame),
        [
            *_standing(case, waiting),
            text(
                "{path} was written {age} ago, before {ranks} began", path=file.path, age=age, ranks=ranks_words(ranks)
            )
            if older
            else text("{path} was written {age} ago", path=file.path, age=age),
            text(
                "neither the kernel's list of locks nor its content tells who holds it, and no process alone has it open"
            ),
            *case.others_wait(ranks),
        ],
        text(
            "Whoever made it has ended without removing it, as a build does that is killed; or it runs on another host."
        ),
        [
            text("If nobody on any host is at what it guards, remove it: rm {path}", path=shlex.quote(file.path)),
            text(
                "Give each host a directory of its own for what is built or cached, so that one that is killed stops only itself."
            ),
        ],
        confidence="high" if older else "medium",
    )
    return Hit(finding, ranks)


def _standing(case: Case, waiting: Sequence[View]) -> list[str]:
    return [
        text(
            "{ranks} {phrase} at {at}",
            ranks=ranks_words(v.rank for v in same),
            phrase=phrase(same[0].now) if len(same) == 1 else plural(phrase(same[0].now)),
            at=case.at(same[0].now),
        )
        for same in alike(waiting, lambda v: (v.now.kind, v.now.wait, v.now.frame))[:4]
    ]


def _not_known(view: View) -> str:
    if view.activity is None:
        return text("who holds it would be in the kernel's list of locks, on the machine where it runs")
    return text("who holds it is not in the kernel's list of this host")


def _hit(case: Case, view: View) -> Hit:
    training, owner = view.training, case.beside(view).lock_holders.get(view.pid)
    path = training.on if training is not None and training.on else ""
    named = path or text("a file")
    by = text(", which {owner} holds", owner=owner) if owner else ""
    at = short_place(view.now.frame)
    finding = Finding(
        "lock_wait",
        "critical",
        text("Rank {rank} waits for the lock of {named}{by}", rank=view.rank, named=named, by=by),
        rank_subjects([view.rank]),
        place(view.now.frame),
        [
            text("rank {rank} {phrase} at {at}", rank=view.rank, phrase=phrase(view.now), at=case.at(view.now)),
            text(
                "the kernel's list of locks names {owner}{does}",
                owner=owner,
                does=holder_does(case, (view.host, view.pid)),
            )
            if owner
            else _not_known(view),
            *case.others_wait([view.rank]),
        ],
        why_kept(),
        [
            what_it_does(("", owner.pid))
            if owner is not None and owner.command
            else text("Find the owner: fuser -v {named}", named=named),
            text("Put a time-out on the lock at {at} (LOCK_NB in a loop, or filelock's timeout=).", at=at),
        ],
        confidence="high" if owner else "medium",
    )
    return Hit(finding, [view.rank])


def what_it_does(process: HostPid) -> str:
    """What to do about a process that keeps a lock."""
    return there(
        process, text("See what it does: `traindbg stacks {pid}`; if it is a leftover: kill {pid}", pid=process[1])
    )


def why_kept() -> str:
    """The cause, where somebody keeps the lock of a file."""
    return text(
        "Another process has locked the file and does not let go: one that was left behind, or that "
        "waits itself. On a network file system it may be on another host."
    )


# --- locks that are looked at now and then -------------------------------------------------------------------------

_HOW = {
    "locked": later("the kernel's list of locks names {owner} for {path}"),
    "written": later("{path} has the pid of {owner} written in it"),
    "open": later("{path} is open in {owner} alone"),
}


def _polled(case: Case, waiting: Sequence[View], held: Held) -> Hit:
    """Who holds the lock and waits for others itself is to blame, for it did not give the lock back."""
    keeper, path, at = held.keeper, held.file.path, short_place(waiting[0].now.frame)
    ranks = [v.rank for v in waiting]
    blamed = [] if keeper is None else [keeper.rank]
    onward = below(case, keeper) if keeper is not None and keeper.role == "still" else None
    finding = Finding(
        "lock_wait",
        "critical",
        _held_title(held, ranks, at),
        rank_subjects(blamed) or (*rank_subjects(ranks), Subject("process", held.owner.pid)),
        place((keeper or waiting[0]).now.frame),
        [
            text(_HOW[held.file.how or "locked"], owner=held.who, path=path),
            *_standing(case, waiting),
            *([] if onward is None else onward.evidence),
            *case.others_wait(ranks),
        ],
        _why_held(held, onward),
        _what_to_do(held, onward, at),
        confidence="medium" if held.file.how == "open" else "high",
    )
    return Hit(finding, [*ranks, *blamed])


def _held_title(held: Held, ranks: Sequence[int], at: str) -> str:
    waiting, path = ranks_words(ranks), held.file.path
    # SQLite, say, locks its database, which is no lock file
    of_data = held.file.how == "locked" and "lock" not in path.rpartition("/")[2].lower()
    lock = text("the lock of {path}", path=path) if of_data else text("the lock file {path}", path=path)
    if held.keeper is None:
        return counted(
            "{ranks} waits for {lock}, which {owner} holds",
            "{ranks} wait for {lock}, which {owner} holds",
            len(ranks),
            ranks=waiting.capitalize(),
            ranks2=waiting,
            lock=lock,
            owner=held.owner,
        )
    return counted(
        "Rank {rank} holds {lock}, for which {ranks} waits at {at}",
        "Rank {rank} holds {lock}, for which {ranks} wait at {at}",
        len(ranks),
        rank=held.keeper.rank,
        lock=lock,
        ranks=waiting,
        at=at,
    )


def _why_held(held: Held, onward: Onward | None) -> str:
    if not held.owner.command or (held.keeper is not None and held.keeper.role == "ended"):
        return text("The process that made the lock file has ended without removing it, and nobody else will.")
    if held.keeper is None:
        return why_kept()
    if held.keeper.role == "still":
        return text(
            "Rank {rank} has the lock and does not get on itself: it {phrase} at {at}{onward}.",
            rank=held.keeper.rank,
            phrase=phrase(held.keeper.now),
            at=short_place(held.keeper.now.frame),
            onward="" if onward is None or not onward.words else text(", and {onward}", onward=onward.words),
        )
    return text(
        "Rank {rank} has taken the lock and gone on without giving it back: it returned early, or an exception passed the release.",
        rank=held.keeper.rank,
    )


def _what_to_do(held: Held, onward: Onward | None, at: str) -> list[str]:
    stands = held.keeper is None or held.keeper.role == "still"
    if onward is not None and onward.process is not None:
        first = onward.step or what_it_does(onward.process)
    elif stands and held.owner.command:
        first = what_it_does(("", held.owner.pid))
    else:
        first = text(
            "Give the lock back on every way out (`with`, or try ... finally), and end the loop at {at} after a while.",
            at=at,
        )
    last = (
        text("The kernel gives the lock back as soon as {owner} closes the file, or ends.", owner=held.who)
        if held.file.how == "locked"
        else text(
            "Removing {path} lets the others go on, where what it guards is as they expect it.", path=held.file.path
        )
    )
    return [first, last]
