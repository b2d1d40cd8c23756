"""The verdict on what was sent of a job that is not at hand: dumps of stacks, its logs and flight recorders, judged together."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...diagnose import incident, running
from ...diagnose.soundness import pairing
from ...errors import BadDump, TraindbgError
from ...gather import by_source, dumped
from ...language import counted, text
from ...model import (
    CallSites,
    Collectives,
    Diagnosis,
    DumpDiagnosis,
    DumpedProcess,
    Ending,
    Finding,
    LogDiagnosis,
    LogEvidence,
    NotAvailable,
    RankCollectives,
    RankState,
    SentFile,
    Wait,
    WaitKind,
)
from ...outside import dumped_stacks, flightrec, logs
from ...outside import sent as files
from ...outside.dumped_stacks import here, processes
from ...outside.logs.sources import ranks_of
from ...redact import Redactor
from ...words.ranks import ranks_words
from . import dumps, log

__all__ = ["ask", "diagnose_dumps", "of_text"]

DEADLINE_S = 60.0


def diagnose_dumps(
    paths_or_text: str | Path | Sequence[str | Path], timeout: float = DEADLINE_S
) -> DumpDiagnosis | LogDiagnosis:
    """What dumps of stacks say of a job: files of py-spy, pystack, faulthandler or gdb, a directory, a pattern, several of them, or the
    text of one. Logs and dumps of flight recorders among them are judged with them; of logs alone it is what `diagnose_log` goes by.

    Reads for `timeout` seconds at most, and 64 MiB of each dump. Nothing is executed. Raises `BadDump` or `BadLog`.
    """
    if isinstance(paths_or_text, str) and "\n" in paths_or_text:
        return of_text(paths_or_text)
    named = [paths_or_text] if isinstance(paths_or_text, (str, Path)) else paths_or_text
    return ask([os.fspath(one) for one in named], timeout=timeout)


def ask(targets: Sequence[str], *, timeout: float) -> DumpDiagnosis | LogDiagnosis:
    """The verdict on files, directories and patterns. What holds only logs is judged as such."""
    began = time.monotonic()
    sorted_files = files.sort(targets, ends=began + timeout)
    if sorted_files.only_logs:
        return log.judged(", ".join(targets), sorted_files.logs, timeout=max(1.0, began + timeout - time.monotonic()))[
            0
        ]
    read = _Read(began, began + timeout)
    read.stacks(sorted_files.stacks)
    read.recorders(sorted_files.recorders)
    read.logs(sorted_files.logs)
    read.files += sorted_files.unread
    if read.failure is not None and read.tells_nothing:
        raise read.failure
    written = [*map(_written_s, sorted_files.stacks), *([read.recorded.written_s] if read.recorded is not None else [])]
    return _judged(", ".join(targets), read, min(written, default=0.0))


def of_text(words: str) -> DumpDiagnosis:
    """The verdict on the text of dumps. Raises `BadDump` where there is none in it."""
    dump = dumped_stacks.read_text(words, ends=time.monotonic() + DEADLINE_S)
    if not dump.processes:
        raise BadDump(
            text("there are no stacks in the text"), text("give what py-spy, pystack, faulthandler or gdb have printed")
        )
    read = _Read(time.monotonic(), time.monotonic() + DEADLINE_S)
    read.stacks({text("text"): dump})
    return _judged("text", read, time.time())


def _written_s(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


@dataclass
class _Read:
    """What the files tell, as it is read."""

    began: float
    ends: float
    looks: list[DumpedProcess] = field(default_factory=list)
    ranks: dict[str, int] = field(default_factory=dict)
    recorded: flightrec.Recorded | None = None
    told: list[incident.Told] = field(default_factory=list)
    endings: dict[int, Ending] = field(default_factory=dict)
    files: list[SentFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failure: TraindbgError | None = None
    """Why some of the files tell nothing."""

    @property
    def records(self) -> Collectives | None:
        return None if self.recorded is None else self.recorded.collectives

    @property
    def sites(self) -> Mapping[int, CallSites]:
        return {} if self.recorded is None else self.recorded.sites

    @property
    def tells_nothing(self) -> bool:
        return all(file.kind == "unread" for file in self.files)

    def stacks(self, dumps: Mapping[str, dumped_stacks.Dump]) -> None:
        redactor = Redactor()
        names = _short(list(dumps))
        known = ranks_of(list(dumps))
        for (path, dump), rank in zip(dumps.items(), known, strict=True):
            name = names[path]
            if rank is not None:
                self.ranks[name] = rank
            found = [processes.dumped(process, name) for process in dump.processes]
            self.looks += [dataclasses.replace(one, variables=_redacted(one.variables, redactor)) for one in found]
            self.notes += [f"{name}: {note}" for note in dump.notes]
            self.files.append(SentFile(name, "stacks", _told(found, rank)))
            if dump.rest.strip():
                self.told += [incident.Told(f, [name]) for f in log.of_rest(name, dump.rest).verdict]

    def recorders(self, paths: Sequence[str]) -> None:
        if not paths:
            return
        try:
            self.recorded = flightrec.read(paths, timeout=max(1.0, self.ends - time.monotonic()))
        except BadDump as e:
            self.files += [SentFile(os.path.basename(path), "unread", e.cause) for path in paths]
            self.failure = e
            return
        for rank in self.recorded.collectives.ranks:
            words = text("rank {rank}: {calls} calls of collectives", rank=rank.rank, calls=len(rank.calls))
            self.files.append(SentFile(rank.source, "recorder", words))

    def logs(self, found: Sequence[logs.LogFile]) -> None:
        if not found:
            return
        try:
            seen, evidence = log.judged(
                ", ".join(f.name for f in found), found, timeout=max(1.0, self.ends - time.monotonic())
            )
        except TraindbgError as e:
            self.files += [SentFile(file.name, "unread", e.cause) for file in found]
            self.failure = self.failure or e
            return
        self.endings = _endings(evidence)
        names = [source.name for source in seen.sources]
        self.told += [incident.Told(f, names) for f in seen.verdict]
        for i, source in enumerate(seen.sources):
            told = sum(1 for event in seen.timeline if event.line.source == i)
            lines = counted("{n:,} line", "{n:,} lines", source.lines)
            words = text("{lines}, {told} of them in the verdict", lines=lines, told=told) if told else lines
            self.files.append(SentFile(source.name, "log", words))


def _short(paths: Sequence[str]) -> Mapping[str, str]:
    """Names as short as they can be without being alike."""
    base = {path: os.path.basename(path) for path in paths}
    if len(set(base.values())) == len(base):
        return base
    common = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    return {path: os.path.relpath(path, common) for path in paths}


def _redacted(variables: Mapping[str, str], redactor: Redactor) -> dict[str, str]:
    """By the name before it, too: ``token: "..."``."""
    return {name: redactor.text(f"{name}={value}").partition("=")[2] for name, value in variables.items()}


def _told(found: Sequence[DumpedProcess], rank: int | None) -> str:
    """``py-spy: rank 1, 2 processes, 5 threads``."""
    tools = ", ".join(dict.fromkeys(one.tool for one in found))
    ranks = sorted({r for one in found if (r := one.rank if one.rank is not None else rank) is not None})
    parts = [ranks_words(ranks)] if ranks else []
    parts.append(counted("{n} look at a process", "{n} looks at processes", len(found)))
    parts.append(counted("{n} thread", "{n} threads", sum(len(one.stacks.threads) for one in found)))
    return f"{tools}: {', '.join(parts)}"


def _endings(evidence: LogEvidence) -> dict[int, Ending]:
    """How ranks ended, as launchers tell it; the first that was said of each."""
    found: dict[int, Ending] = {}
    for end in evidence.ends:
        if end.rank is None or end.rank in found:
            continue
        nothing = NotAvailable("the log does not say")
        tail = tuple(line.text for line in evidence.tails.get(end.line.source, ()) if line.rank == end.rank)
        found[end.rank] = Ending(
            end.pid,
            exit_code=nothing if end.exit_code is None else end.exit_code,
            signal=end.signal or nothing,
            last_lines=tail,
            log=evidence.sources[end.line.source].name,
            evidence=(end.line.text.strip()[:200],),
        )
    return found


# --- the verdict ---------------------------------------------------------------------------------------------------


def _judged(target: str, read: _Read, written_s: float) -> DumpDiagnosis:
    records = {r.rank: r for r in read.records.ranks} if read.records is not None else {}
    silent = read.records.silent if read.records is not None else ()
    world = read.records.world_size if read.records is not None else None
    found = dumps.sources(read.looks, written_s, read.sites.values())
    sent = dumped.Sent(read.looks, read.ranks, records, read.sites, read.endings, world, silent)
    job = dumped.evidence(target, sent, found)
    if read.looks:
        ends = time.monotonic() + dumps.SOURCES_S
        seen = running.diagnose(by_source.compared(job.evidence, lambda _, file: found.texts.get(file), ends))
    else:
        seen = _of_records(target, read.recorded, found)
    own = [incident.Told(f, _files_of(f, read, records)) for f in seen.verdict]
    verdict = incident.merged(own, read.told)
    return DumpDiagnosis(
        target=target,
        state=incident.state(seen.state, own, read.told),
        why=seen.why,
        ranks=seen.ranks,
        verdict=tuple(verdict),
        silent=seen.silent,
        taken_s=time.monotonic() - read.began,
        files=tuple(read.files),
        missing=(*_missing(job, read), *job.notes, *read.notes),
        variables=job.variables,
    )


def _of_records(target: str, recorded: flightrec.Recorded | None, source: here.Found) -> Diagnosis:
    """Without any stacks: what the recorders alone tell, if they could be read."""
    if recorded is None:
        return Diagnosis(target, "not known", (), ())
    seen, found = recorded.collectives, dumps.judged(recorded, source)
    states = tuple(_recorded(rank) for rank in seen.ranks)
    stuck = any(finding.code not in pairing.CODES for finding in found)
    return Diagnosis(target, "stuck" if stuck else "not known", (), states, tuple(found), seen.silent)


def _recorded(rank: RankCollectives) -> RankState:
    call = next((c for c in rank.calls if c.state != "completed"), None)
    doing = text("has no call open") if call is None else text("waits in {name}", name=f"{call.op} #{call.sequence}")
    since = None if isinstance(rank.waiting_s, NotAvailable) else rank.waiting_s
    return RankState(
        rank.rank, rank.pid, "not known" if call is None else "waiting", doing, call.at if call else None, since_s=since
    )


def _files_of(finding: Finding, read: _Read, records: Mapping[int, RankCollectives]) -> list[str]:
    """The files that tell it: those of the ranks that it blames."""
    ranks = finding.ranks
    said = [one.file for one in read.looks if (one.rank if one.rank is not None else read.ranks.get(one.file)) in ranks]
    said = list(dict.fromkeys(said)) or list(dict.fromkeys(one.file for one in read.looks))
    return [*said, *(records[rank].source for rank in ranks if rank in records)]


def _missing(job: dumped.Job, read: _Read) -> list[str]:
    """What a live job would have told, and what for."""
    evidence = job.evidence
    told: list[str] = []
    if read.looks:
        if isinstance(evidence.motion_shows, NotAvailable):
            told.append(text("a second look at each process: dump them again some seconds later, and give both dumps"))
        told.append(
            text("CPU times, system calls, sockets and open files: a wait that gets on looks like one that does not")
        )
    if any(isinstance(thread.state, NotAvailable) for one in read.looks for thread in one.stacks.threads[:1]):
        told.append(text("whether threads were running: these dumps do not say (py-spy's do)"))
    joins = _waiting(read, "init")
    if read.records is None and evidence.world_size > 1 and len(joins) < len(read.looks):
        told.append(text("which collective each rank issued last: the dumps of the flight recorders would tell"))
    if any(one.stacks.threads[0].peer is None for one, _ in _waiting(read, "peer")):
        told.append(text("which rank each send or receive is for: `py-spy dump --locals` tells"))
    if any(one.making is None and one.joining is None for one, _ in joins):
        told.append(
            text(
                "which process group each rank makes, and where it was told to meet the others: `py-spy dump --locals` tells"
            )
        )
    absent = [r.rank for r in evidence.ranks if r.ending is None and not any(look.processes for look in r.looks)]
    if absent and read.looks:
        told.append(text("the stacks of {ranks}", ranks=ranks_words(absent)))
    return told


def _waiting(read: _Read, kind: WaitKind) -> list[tuple[DumpedProcess, Wait]]:
    """Whose training thread waits for something of this kind, and for what."""
    waits = [(one, one.stacks.threads[0].waiting_for) for one in read.looks if one.stacks.threads]
    return [(one, wait) for one, wait in waits if wait is not None and wait.kind == kind]
