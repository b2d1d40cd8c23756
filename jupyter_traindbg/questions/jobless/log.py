"""The verdict on a log: which lines are of interest (`outside.logs`), judged by the knowledge (`diagnose.log`)."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...diagnose import log as rules
from ...diagnose.at_source import at_source, places
from ...errors import BadLog
from ...language import text
from ...model import Ending, Finding, JobEvidence, LogDiagnosis, LogEvidence, SourceLine
from ...outside import logs, sources
from ...tasks import Task

__all__ = ["ask", "diagnose_log", "judged", "of_rest", "of_text", "with_last_words"]

DEADLINE_S = 60.0
"""For a program that asks; a person at a terminal gives `--timeout`."""
SOURCES_S = 1.0
_NOTHING_MORE = frozenset({"uncaught_exception", "process_ended", "peer_lost"})
"""What a log shows of any process that ended: that it did."""


def diagnose_log(path_or_text: str | Path, timeout: float = DEADLINE_S) -> list[Finding]:
    """What is wrong according to a log, root cause first; ``[]`` where nothing is.

    A `Path` is a file or a directory of logs. A string is that too if there is such a file or it is a pattern that some match;
    otherwise, if it has white space in it, it is the text of a log. Reads for `timeout` seconds at most, 100 MB/s and more, and takes
    some 100 MB of memory at most. Raises `BadLog` where there is no such file, or it is empty, not readable or no text.
    """
    return list(_of(path_or_text, timeout).verdict)


def ask(targets: str | Sequence[str], *, timeout: float) -> LogDiagnosis:
    """The verdict on a file, ``-``, a directory, a pattern, or several of them, read as the ranks of one job. Raises `BadLog`."""
    named = [targets] if isinstance(targets, str) else list(targets)
    return judged(", ".join(named), [file for target in named for file in logs.find(target)], timeout=timeout)[0]


def judged(name: str, files: Sequence[logs.LogFile], *, timeout: float) -> tuple[LogDiagnosis, LogEvidence]:
    """The verdict on these files, and what it goes by, for whoever knows more of the incident. Raises `BadLog`."""
    began = time.monotonic()
    evidence = logs.read(files, anchors=rules.anchors(), timeout=timeout)
    return _judged(name, evidence, began), evidence


def of_rest(name: str, words: str) -> LogDiagnosis:
    """The verdict on what else stands in a text: a dump, for instance, that somebody has pasted between lines of a log."""
    return _judged(name, logs.read_text(words, anchors=rules.anchors(), name=name), time.monotonic())


def with_last_words(job: JobEvidence) -> JobEvidence:
    """The same, with what the last lines of each rank that has ended show. Some 0.3 s where there is one, else nothing."""
    ranks = [dataclasses.replace(r, ending=_understood(r.ending)) if r.ending is not None else r for r in job.ranks]
    return dataclasses.replace(job, ranks=tuple(ranks))


def _understood(ending: Ending) -> Ending:
    if not ending.last_lines:
        return ending
    found = of_rest(ending.log or "", "\n".join(ending.last_lines)).verdict
    known = (f for f in found if f.severity == "critical" and f.code not in _NOTHING_MORE)
    return dataclasses.replace(ending, failure=next(known, None))


def of_text(text: str) -> LogDiagnosis:
    """The verdict on the text of a log. Raises `BadLog` where it is blank."""
    began = time.monotonic()
    return _judged("text", logs.read_text(text, anchors=rules.anchors()), began)


def _of(path_or_text: str | Path, timeout: float) -> LogDiagnosis:
    if isinstance(path_or_text, Path):
        return ask(os.fspath(path_or_text), timeout=timeout)
    words = path_or_text
    spaced = any(c.isspace() for c in words)
    if "\n" not in words and (not spaced or _is_there(words)):
        return ask(words, timeout=timeout)
    if spaced:
        return of_text(words)
    raise BadLog(text("the text is empty"))


def _is_there(words: str) -> bool:
    """Whether a string with spaces in it names something all the same."""
    try:
        return os.path.exists(words) or (logs.is_pattern(words) and bool(logs.find(words)))
    except (OSError, ValueError, BadLog):  # too long for a name, a NUL in it, or nothing matches
        return False


def _judged(target: str, evidence: LogEvidence, began: float) -> LogDiagnosis:
    verdict = rules.judge(evidence)
    ranks = {line.rank for line in evidence.lines if line.rank is not None}
    ranks |= {source.rank for source in evidence.sources if source.rank is not None}
    notes = [f"{source.name}: {source.note}" for source in evidence.sources if source.note]
    if evidence.dropped:
        notes.append(f"{evidence.dropped:,} further lines of kinds that are shown were counted, not kept")
    notes += verdict.remarks
    return LogDiagnosis(
        target=target,
        sources=tuple(evidence.sources),
        lines_read=evidence.total_lines,
        bytes_read=evidence.total_bytes,
        ranks=tuple(sorted(ranks)),
        verdict=tuple(at_source(verdict.findings, _sources(evidence, verdict.findings))),
        timeline=verdict.timeline,
        stage=evidence.stages[-1].name if evidence.stages else None,
        launchers=tuple(evidence.launchers),
        errors=len(evidence.errors),
        notes=tuple(notes),
        _course=rules.course(evidence, verdict.marks),
        taken_s=time.monotonic() - began,
    )


def _sources(evidence: LogEvidence, findings: Sequence[Finding]) -> Mapping[str, SourceLine]:
    """The blamed lines that the log's tracebacks quote, from files here: it may be of another machine, and a disk may not answer."""
    blamed = {place for finding in findings for place in places(finding)}
    frames = [frame for outer in evidence.errors for error in outer.chain() for frame in error.frames]
    printed = dict.fromkeys((f.file, f.line, f.code) for f in frames if f.code and f"{f.file}:{f.line}" in blamed)
    if not printed:
        return {}
    return Task(lambda: sources.as_printed(printed), "sources").in_time(time.monotonic() + SOURCES_S) or {}
