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
    problems = [_problem(v) for v in unseen[:4]]
    return _hit(
        unseen,
        text(
            "{others} {verb} for {ranks}, of which nothing can be seen",
            others=ranks_words(others).capitalize(),
            verb=verb,
            ranks=ranks_words(ranks),
            others2=ranks_words(others),
        ),
        [*problems, *case.others_wait(ranks), *_paused(case)],
        text("Every rank that could be looked at waits for others, so what holds them up is where nobody could look."),
        _reading_steps(unseen),
    )


def _why_still(case: Case, first: View) -> str:
    if case.seen_once:
        return text("Where it is does not say what it waits for, or whether it waits at all, and it was seen once.")
    if first.activity is None:
        return text("It is at the same place at every look; whether it computes there, or waits, is not known.")
    return text("It uses no CPU, reads and writes nothing, and is at the same place at every look.")


def _problem(view: View) -> str:
    problem = view.evidence.problem or text("nothing could be read")
    if not view.pid:
        return text("rank {rank}: {problem}", rank=view.rank, problem=problem)
    return text("rank {rank} (process {pid}): {problem}", rank=view.rank, pid=view.pid, problem=problem)


def _stands(case: Case, suspects: Sequence[View]) -> Hit:
    ranks, at = [v.rank for v in suspects], short_place(suspects[0].now.frame)
    verb = "stands" if len(ranks) == 1 else "stand"
    does = [
        text("rank {rank} {phrase} at {at}", rank=v.rank, phrase=phrase(v.now), at=case.at(v.now)) for v in suspects[:4]
    ]
    return _hit(
        suspects,
        text(
            "{ranks} {verb} still at {at}, and what was seen does not say why",
            ranks=ranks_words(ranks).capitalize(),
            verb=verb,
            at=at,
            ranks2=ranks_words(ranks),
        ),
        [*does, *case.others_wait(ranks), *_paused(case)],
        _why_still(case, suspects[0]),
        [
            text(
                "See the native stack: py-spy dump --native --pid {pid}; and `traindbg stacks` for its other threads.",
                pid=suspects[0].pid or "PID",
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
                "All ranks have issued {op} #{sequence}, and it does not complete", op=call.op, sequence=call.sequence
            ),
            [*case.others_wait(), *_paused(case)],
            text(
                "They agree on the call, so it is what carries it that stands still: the network, a wrong "
                "interface, peer-to-peer between GPUs, a driver."
            ),
            _transport_steps(),
            everybody=len(waiting) == len(case.views),
            sure=True,
        )
    return _hit(
        waiting,
        text("All ranks wait for each other, and the evidence does not say why"),
        [*case.others_wait(), *_paused(case), *(_unread(v) for v in unread[:4])],
        (
            text("Without the flight recorders of all ranks nobody can tell who left a call out.")
            if unread
            else text("No call of theirs is known to differ.")
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
    return text("rank {rank}: its record of collectives could not be read ({reason})", rank=view.rank, reason=reason)


def _paused(case: Case) -> list[str]:
    if case.progress.pause_s is None:
        return []
    return [text("nothing new for {pause_s}", pause_s=time_words(case.progress.pause_s))]


def _transport_steps() -> list[str]:
    return [
        text(
            "Check the way between the hosts: `traindbg nccl-check --preflight --hosts ...`; with NCCL run "
            "once with NCCL_DEBUG=INFO, once with NCCL_P2P_DISABLE=1, once with NCCL_IB_DISABLE=1: the one "
            "that helps names the culprit."
        ),
        text("See `traindbg gpu` for a GPU that does not answer, and `dmesg -T | grep -i -e xid -e nvlink`."),
    ]


def _reading_steps(unread: Sequence[View]) -> list[str]:
    if unread and all(v.activity is None for v in unread):
        return [
            text(
                "Take a dump of {rank}, too, where it runs (`py-spy dump --pid PID`), and judge it together with these.",
                rank=ranks_words(v.rank for v in unread),
            )
        ]
    if unread:
        return [
            text(
                "Make {rank} readable (torch 2.4 or newer; ptrace permission, or TRAINDBG=1 at the start), then "
                "look again.",
                rank=ranks_words(v.rank for v in unread),
            )
        ]
    return [text("Compare the ranks in `traindbg nccl-check TARGET` and `traindbg stacks TARGET`.")]
