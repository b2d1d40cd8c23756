"""Who ended without a word: the launcher tells a signal or an exit status of a process that printed no exception.

A crash (SIGSEGV and the like) is told in any case: what the process printed before is not what ended it. Memory's SIGKILL is a family of
its own, and so are Ray's workers, whose end Ray tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....model import LogEnd, LogError, LogEvidence, Subject, rank_subjects
from ....words.ranks import rank_list
from ..exceptions import inner_user_frame
from ..launch import crash, is_of_launcher, rank_of
from . import Fact

__all__ = ["facts"]

_CRASHES = frozenset(("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGTRAP", "SIGXCPU"))


def facts(evidence: LogEvidence) -> list[Fact]:
    """`process_crashed`, `process_exited` with `ended_rank`, `ended_code`, `ended_signal`, `ended_pid`, `ended_host`;
    or `launcher_failed`, with `told_signal` where all were told to end."""
    own = [e for e in evidence.errors if not is_of_launcher(e)]
    spoke = {rank_of(e.line) for e in own}
    stacks = [e for e in own if crash(e)] if "ray" not in evidence.launchers else []
    ended = [e for e in evidence.ends if e.by_itself]
    crashed = [e for e in ended if e.signal in _CRASHES] or [
        LogEnd(e.line, rank_of(e.line), None, crash(e)) for e in stacks
    ]
    if crashed:
        return [_fact("process_crashed", crashed, stacks)]
    if ended:
        return _without_a_word(ended, spoke)
    launchers = next((e for e in evidence.errors if is_of_launcher(e)), None)
    if launchers is None or spoke:
        return []
    return [Fact("launcher_failed", launchers.line, {"told_signal": evidence.ends[0].signal} if evidence.ends else {})]


def _without_a_word(ended: Sequence[LogEnd], spoke: set[int | None]) -> list[Fact]:
    silent = [e for e in ended if e.rank not in spoke and None not in spoke and (e.rank is not None or not spoke)]
    if not silent or any(e.signal == "SIGKILL" for e in ended):
        return []
    return [_fact("process_exited", silent[:1])]


def _fact(name: str, ended: Sequence[LogEnd], stacks: Iterable[LogError] = ()) -> Fact:
    """Of the first one, with all who ended alike; and where it was, if its stack is there."""
    end = ended[0]
    ranks = sorted({e.rank for e in ended if e.rank is not None})
    told = {
        "ended_rank": rank_list(ranks),
        "ended_code": str(end.exit_code or ""),
        "ended_signal": end.signal,
        "ended_pid": str(end.pid or ""),
        "ended_host": end.host,
    }
    stack = next((s for s in stacks if rank_of(s.line) in (end.rank, None) or end.rank is None), None)
    if stack is not None and (frame := inner_user_frame(stack)):
        told |= {"file": frame.file, "line": str(frame.line), "function": frame.function}
    who = rank_subjects(ranks) or ((Subject("process", end.pid),) if end.pid else ())
    return Fact(name, end.line, {k: v for k, v in told.items() if v}, end.rank, who)
