"""A log that is followed while the job writes it: what is new in it, who writes it, and what they do when it falls silent."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from ...diagnose import log as rules
from ...diagnose.hang.doing import doing, phrase
from ...diagnose.hang.words import place
from ...diagnose.log import stages
from ...errors import BadLog, TraindbgError
from ...language import text
from ...model import Finding, LogEvidence, LogFollow, LogGrowth, LogWriter
from ...outside import logs, procfs
from ...outside import stacks as outside
from ...outside.logs.following import Following
from ...outside.logs.writers import writers

__all__ = ["ask", "line"]

EVERY_S = 1.0
LOOK_EVERY_S = 5.0
"""A look at who writes takes some 50 ms of CPU and stops nobody."""
MOST_LOOKED_AT = 8
JUDGE_SHARE = 0.1
"""Of the time, that may go into judging a log that grows."""
_LOOK_S = 1.0
_READ_S = 5.0


def ask(
    target: str, *, pid: int | None = None, every_s: float = EVERY_S, for_s: float | None = None
) -> Iterator[LogFollow]:
    """The state of the log every `every_s` seconds; ends after `for_s` seconds, or when nobody has it open any more, who had.

    `pid` is the process that writes it, where that cannot be seen (another container's, a network disk's). What is appended is read
    once; it is judged anew only when something was. Raises `BadLog` where `target` is not one readable file.
    """
    began = time.monotonic()
    file = _one(target)
    log = _Log(file)
    watched = _Watched(file.path, pid)
    over = ""
    while not over:
        now = time.monotonic()
        log.read(every_s)
        pids = watched.pids()
        closed = watched.had and not pids
        over = _over(closed=closed, time_is_up=for_s is not None and now - began >= for_s)
        if over:
            log.read(every_s, last=True)  # a job that crashes writes why, and is gone
        seen = watched.look(pids, closely=stages.overdue(log.growth()))
        yield stages.follow(file.name, log.growth(seen, closed=closed), log.findings, over)
        if not over:
            time.sleep(max(0.0, now + every_s - time.monotonic()))


class _Log:
    """What is in it, judged as often as a tenth of the time allows."""

    def __init__(self, file: logs.LogFile) -> None:
        self.findings: list[Finding] = []
        self._following = Following(file, anchors=rules.anchors())
        self._evidence = LogEvidence(())
        self._news = False
        self._judge_at = 0.0

    def read(self, every_s: float, *, last: bool = False) -> None:
        began = time.monotonic()
        self._news |= self._following.more(ends=began + max(every_s, _READ_S))
        if self._news and (last or began >= self._judge_at):
            self._evidence = self._following.evidence()
            self.findings = rules.diagnose(self._evidence)
            self._news = False
            ended = time.monotonic()
            self._judge_at = ended + (ended - began) / JUDGE_SHARE

    def growth(self, seen: Sequence[LogWriter] = (), *, closed: bool = False) -> LogGrowth:
        following = self._following
        return LogGrowth(self._evidence, following.silent_s, following.arrivals, following.gaps_s, seen, closed)


class _Watched:
    """Who writes it, and what they do where that is worth a look."""

    def __init__(self, path: str, pid: int | None) -> None:
        self.had = False
        self._path, self._pid = path, pid
        self._seen: list[LogWriter] = []
        self._closely_at = float("-inf")

    def pids(self) -> list[int]:
        found = writers(self._path)
        if self._pid is not None and self._pid not in found and procfs.exists(self._pid):
            found.insert(0, self._pid)
        self.had |= bool(found)
        return found[:MOST_LOOKED_AT]

    def look(self, pids: Sequence[int], *, closely: bool) -> Sequence[LogWriter]:
        now = time.monotonic()
        if not closely:
            self._seen = [LogWriter(pid, " ".join(procfs.command(pid))) for pid in pids]
            self._closely_at = float("-inf")
        elif now - self._closely_at >= LOOK_EVERY_S:
            self._seen, self._closely_at = [_looked_at(pid) for pid in pids], now
        return self._seen


def line(seen: LogFollow) -> str:
    """The state in one line, which is another one only where there is news: a stage, a finding, the end."""
    at = f"{seen.target}:{seen.stage_line.number}: {seen.stage}" if seen.stage_line is not None else seen.target
    told = [f.code if f.code in stages.CODES else f"{f.code}: {f.title}" for f in seen.findings]
    return " · ".join([at, *told, *([seen.over] if seen.over else [])])


def _one(target: str) -> logs.LogFile:
    files = logs.find(target)
    if len(files) != 1 or files[0].path == "-" or not os.path.isfile(files[0].path):
        raise BadLog(text("one file can be followed at a time"), text("name the log that the job is writing"))
    return files[0]


def _over(*, closed: bool, time_is_up: bool) -> str:
    if closed:
        return text("nobody writes to it any more: the job has ended")
    return text("the time given is over") if time_is_up else ""


def _looked_at(pid: int) -> LogWriter:
    """From outside, without stopping it: what its main thread does, and where."""
    command = " ".join(procfs.command(pid))
    if not procfs.is_python(pid):
        return LogWriter(pid, command)
    try:
        (process, *_) = outside.dump(pid, deadline_s=_LOOK_S, children=False)
    except TraindbgError as e:
        return LogWriter(pid, command, problem=e.cause)
    seen = doing(process.threads[0] if process.threads else None, {})
    return LogWriter(pid, command, phrase(seen), place(seen.frame))
