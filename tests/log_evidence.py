"""`LogEvidence` made from a few lines, without reading a file: for tests of the rules alone; and what is found in the text of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jupyter_traindbg import diagnose_log
from jupyter_traindbg.diagnose.log.knowledge import families
from jupyter_traindbg.model import Finding, LogError, LogEvidence, LogFrame, LogLine, LogSeries, LogSource

_RANK = re.compile(r"\[rank(\d+)\]:? ?")


def lines(text: str, source: int = 0, first: int = 1) -> list[LogLine]:
    """A line each; ``[rank3]: `` says who wrote it."""
    out = []
    for number, whole in enumerate(text.strip("\n").splitlines(), first):
        prefix = _RANK.match(whole)
        rank = int(prefix[1]) if prefix else None
        out.append(
            LogLine(
                source, number, whole[prefix.end() :] if prefix else whole, rank, "" if rank is None else f"rank {rank}"
            )
        )
    return out


def evidence(*texts: str, errors: Sequence[LogError] = (), series: Iterable[LogSeries] = ()) -> LogEvidence:
    """Each text is a source: ``a.log``, ``b.log``..."""
    all_lines = [line for source, text in enumerate(texts) for line in lines(text, source)]
    sources = [
        LogSource(f"{chr(97 + i)}.log", None, len(t), len(t.strip("\n").splitlines())) for i, t in enumerate(texts)
    ]
    return LogEvidence(sources, all_lines, tuple(errors), tuple(series), total_lines=len(all_lines))


def full_of_literals(count: int) -> LogEvidence:
    """`count` lines of eight ranks, each with a literal of the knowledge: the worst that a reader keeps."""
    examples = [s.example.splitlines()[0] for f in families().values() for s in f.signals if s.example]
    return evidence("\n".join(f"[rank{n % 8}]: {examples[n % len(examples)]} {n}" for n in range(count)))


def error(
    at: LogLine,
    type_: str,
    message: str = "",
    *,
    last: int = 0,
    frames: Sequence[LogFrame] = (),
    inner: LogError | None = None,
) -> LogError:
    return LogError(type_, message, tuple(frames), at, last or at.number, inner, "cause" if inner else "")


def judged(log: str) -> list[Finding]:
    return diagnose_log(log.strip("\n") + "\n")


def only(log: str, code: str) -> Finding:
    """The one finding of `log`, which is of the family `code`."""
    found = judged(log)
    assert [f.code for f in found] == [code], [f"{f.code}: {f.title}" for f in found]
    return found[0]


def said(finding: Finding) -> str:
    """All its words."""
    return " ".join([finding.title, finding.cause, *finding.next_steps])
