"""Exceptions that ended the run, whatever they are: ``uncaught_exception`` with a traceback, ``bare_exception`` without one.

Not told: what the person did (Ctrl-C, an exit with status 0, a polite SIGTERM) and what the run got over.
"""

from __future__ import annotations

import re

from ....model import LogError, LogEvidence
from ..exceptions import Place, in_program, inner_user_frame
from ..launch import crash, is_of_launcher
from ..progress import ON_PURPOSE, progress_of
from ..signs import has_words
from . import Fact

__all__ = ["facts"]

MOST = 20
NEAR_THE_END = 12
"""An exception without a traceback counts only so near the end: programs print those of others and go on."""
_THREAD = "Exception in thread"
_REPORTING = re.compile(
    r"[/\\](?:wandb|mlflow|comet_ml|neptune|clearml|swanlab|tensorboardX?|sentry_sdk|aim|dvclive|trackio)[/\\]"
)
_GOT_OVER = re.compile(
    r"(?i)\bretr(?:y|ies|ying)\b|fall(?:ing|s|en)? back|\bignor|\bskipp|\bwarn|disabled|will be used instead|continuing"
    r"|\bunavailable\b|\bwithout it\b|[,;.)] (?:so |now )?using\b"
    r"|DataLoader worker \(pid|can only test a child process"
)


def facts(evidence: LogEvidence) -> list[Fact]:
    progress = progress_of(evidence)
    threads = {(x.source, x.number) for x in evidence.lines if x.text.lstrip().startswith(_THREAD)}
    caught = _raised_again(evidence)
    found: dict[tuple[str, str], Fact] = {}
    for outermost in evidence.errors:
        links = list(outermost.chain())
        innermost = links[-1]
        if is_of_launcher(outermost) or (crash(outermost) and "ray" not in evidence.launchers):
            continue
        if any(e.type.rpartition(".")[2] in ON_PURPOSE for e in links):
            continue
        said_at = max(
            e.last_number - e.message.count("\n") for e in links
        )  # what follows may be no part of the message
        if progress.completed(outermost.line, said_at) or _at(outermost) in progress.let_pass:
            continue
        if progress.over(outermost.line) and any(e.frames for e in links) and not in_program(outermost):
            continue  # a library's process or thread, as it is torn down
        if _of_reporting(outermost, threads):
            continue
        if progress.after(outermost.line, said_at):
            caught.add(_place(innermost))
            continue
        if innermost.frames and _place(innermost) in caught and not _near_the_end(outermost, evidence):
            continue  # what the run got over before
        if any(e.frames for e in links) or _ended_by(outermost, evidence):
            fact = _fact(innermost)
            found.setdefault((fact.name, f"{innermost.type}{fact.values.get('file')}{fact.values.get('line')}"), fact)
    return list(found.values())[:MOST]


def _raised_again(evidence: LogEvidence) -> set[tuple[str, str, str]]:
    """What one and the same process has raised more than once: it got over it, for nobody ends twice."""
    seen: set[tuple[str, tuple[str, str, str]]] = set()
    again = set()
    for error in evidence.errors:
        innermost = list(error.chain())[-1]
        if " pid " in error.line.who and innermost.frames:
            key = error.line.who, _place(innermost)
            if key in seen:
                again.add(key[1])
            seen.add(key)
    return again


def _at(error: LogError) -> Place:
    return error.line.source, error.line.number


def _of_reporting(error: LogError, threads: set[tuple[int, int]]) -> bool:
    """Whether it ended a thread that only sends metrics somewhere; the training goes on without it."""
    in_thread = any((error.line.source, error.line.number - n) in threads for n in range(2))
    frames = [f.file for e in error.chain() for f in e.frames if not f.file.endswith("threading.py")]
    return in_thread and bool(frames) and bool(_REPORTING.search(frames[0]))


def _place(error: LogError) -> tuple[str, str, str]:
    """What was raised, and where: the file and the function."""
    return (error.type, error.frames[-1].file, error.frames[-1].function) if error.frames else (error.type, "", "")


def _near_the_end(error: LogError, evidence: LogEvidence) -> bool:
    return evidence.sources[error.line.source].lines - error.last_number <= NEAR_THE_END


def _ended_by(bare: LogError, evidence: LogEvidence) -> bool:
    """Whether an exception without traceback seems to have ended the run: near the end, and nothing speaks of going on."""
    source = bare.line.source
    if not _near_the_end(bare, evidence):
        return False
    near = range(bare.line.number, bare.last_number + 3)
    return not any(_GOT_OVER.search(x.text) for x in evidence.lines if x.source == source and x.number in near)


def _fact(error: LogError) -> Fact:
    message = next(filter(has_words, error.message.splitlines()), "").strip()[:300]
    kind = error.type.rpartition(".")[2] or error.type
    values: dict[str, float | str] = {k: v for k, v in (("type", kind), ("message", message)) if v}  # it may be cut off
    frame = inner_user_frame(error)
    if frame:
        values |= {"file": frame.file, "line": str(frame.line), "function": frame.function}
    name = "uncaught_exception" if error.frames else "bare_exception"
    return Fact(name, error.line, values, error.line.rank, words=f"{kind}: {message}" if error.frames and kind else "")
