"""From a candidate to a `Finding`: whom, where, by what evidence, which of the causes, and what to do, with this log's numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from ...language import either
from ...model import Finding, LogEvent, LogEvidence, LogLine, LogMark, Subject, SubjectKind
from .condition import render
from .exceptions import inner_user_frame, is_installed
from .family import Cause, Confidence, Text
from .launch import is_of_launcher
from .matching import Hit
from .order import SURE, UNKNOWN, Candidate
from .quantities import Value
from .signs import has_words

__all__ = ["events", "finding", "marks"]

MOST_EVIDENCE = 8
LONGEST = 300
"""Characters of a line that are shown."""
MOST_BLAMED, MOST_MARKS = 16, 200
DOUBTFUL = 0.3
"""The weight from which a verdict is more than a guess."""
Role = Literal["cause", "finding", "consequence"]
_RANK = re.compile(r"(?i)\b(?:global[ _]?)?rank[ =:]{0,2}(\d{1,6})\b")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_LEVELS: tuple[Confidence, ...] = ("low", "medium", "high")


def finding(candidate: Candidate, evidence: LogEvidence, seen: frozenset[str]) -> Finding:
    """The verdict for one family. `seen` are all signals of the log, as ``CODE.ID``."""
    family = candidate.family
    values = _values(candidate)
    ids = {s.removeprefix(f"{family.code}.") for s in seen if s.startswith(f"{family.code}.")} | seen
    cause = _cause(family.causes, values, ids)
    text = cause and render(cause.text.said, values)
    title = (cause and cause.title and render(cause.title.said, values)) or render(family.title.said, values)
    within = _detail(candidate)
    return Finding(
        code=family.code,
        severity=family.severity,
        title=title or family.code.replace("_", " "),
        who=_who(candidate),
        where=_where(candidate, values),
        evidence=_evidence(candidate, evidence),
        cause=" ".join(part for part in (within, text or family.about.said) if part),
        next_steps=_steps(cause.steps if cause else (), values),
        reference=f"docs/{either('failures.md', 'failures.zh.md')}#{family.code}",
        confidence=_confidence(candidate, cause),
    )


def events(candidates: Iterable[Candidate], evidence: LogEvidence) -> list[LogEvent]:
    """What the verdict rests on: the decisive line of each candidate and of what was folded into it, in the order of the log."""
    out: dict[tuple[int, int], tuple[tuple[float, ...], LogEvent]] = {}
    for candidate in candidates:
        for one in (candidate, *candidate.folded):
            line = _telling(one, evidence)
            if line is not None and (line.source, line.number) not in out:
                title = render(one.family.title.said, _values(one)) or one.family.code
                out[line.source, line.number] = one.position, LogEvent(line, title)
    return [event for _, event in sorted(out.values(), key=lambda pair: pair[0])]


def _telling(candidate: Candidate, evidence: LogEvidence) -> LogLine | None:
    """The decisive line; where that only begins a traceback, the one that names the exception, else the first with words in it."""
    line = candidate.decisive.line
    if line is None or candidate.link is None or _says_something(line):
        return line
    error = candidate.link.error
    within = range(error.line.number, error.last_number + 1)
    told = [x for x in evidence.lines if x.source == line.source and x.who == line.who and x.number in within]
    named = [x for x in told if error.type and x.text.lstrip().startswith(error.type)]
    return next(iter(named[-1:] or filter(_says_something, told)), line)


def _says_something(line: LogLine) -> bool:
    """Not a mere rule, and not the mere head of a traceback."""
    return has_words(line.text.replace("Traceback (most recent call last)", ""))


def marks(candidates: Sequence[Candidate]) -> list[LogMark]:
    """The decisive line of each candidate, and all that show what was folded into it: those are consequences."""
    out: dict[tuple[int, int], LogMark] = {}
    for place, candidate in enumerate(candidates):
        role: Role = "finding" if place else "cause"
        _mark(out, [_first_line(candidate)], candidate, role)
        for one in candidate.folded:
            _mark(out, [hit.line for hit in one.hits], one, "consequence")
    return sorted(out.values(), key=lambda mark: mark.role == "consequence")[:MOST_MARKS]


def _mark(
    out: dict[tuple[int, int], LogMark], lines: Iterable[LogLine | None], candidate: Candidate, role: Role
) -> None:
    words = render(candidate.family.title.said, _values(candidate)) or candidate.family.code
    for line in lines:
        if line is not None:
            out.setdefault((line.source, line.number), LogMark(line, words, role))


def _first_line(candidate: Candidate) -> LogLine | None:
    """The line that a finding's words name as the one where it began, else the decisive one."""
    began = str(_values(candidate).get("first_line"))
    lines = (hit.line for hit in candidate.hits if hit.line is not None and str(hit.line.number) == began)
    return next(lines, candidate.decisive.line)


# --- values and causes ---------------------------------------------------------------------------------------------


def _values(candidate: Candidate) -> dict[str, Value]:
    """Of the decisive hit first, then of those of the same writer, then of the others, hints last."""
    first = candidate.decisive
    writer = first.line.who if first.line else ""
    others = [*candidate.hits[1:], *candidate.hints]
    others.sort(key=lambda h: h.line is not None and h.line.who != writer)  # stable: best first within each
    values: dict[str, Value] = {}
    for hit in (first, *others):
        for name, value in hit.values.items():
            values.setdefault(name, value)
    return values


def _cause(causes: Sequence[Cause], values: dict[str, Value], seen: Iterable[str]) -> Cause | None:
    """The first one that holds, and whose text this log has the numbers for."""
    known = frozenset(seen)
    for cause in causes:
        if all(e.holds(values, known) for e in cause.when) and render(cause.text.said, values) is not None:
            return cause
    return None


def _steps(steps: Sequence[Text], values: dict[str, Value]) -> tuple[str, ...]:
    return tuple(step for s in steps if (step := render(s.said, values)) is not None)


def _confidence(candidate: Candidate, cause: Cause | None) -> Confidence:
    """The cause's, but no surer than the signal that shows the failure at all."""
    weight = candidate.decisive.signal.weight
    most = 2 if weight >= SURE else 1 if weight >= DOUBTFUL else 0
    said = _LEVELS.index(cause.confidence) if cause else 0
    return _LEVELS[min(most, said)]


def _detail(candidate: Candidate) -> str:
    """The exception that no family knows, told by the wrapper that it was printed in."""
    for inner in candidate.folded:
        if inner.family.code == UNKNOWN and candidate.decisive.signal.role == "wrapper":
            return render(inner.family.title.said, _values(inner)) or ""
    return ""


# --- who and where -------------------------------------------------------------------------------------------------


def _who(candidate: Candidate) -> tuple[Subject, ...]:
    """Whom the log blames by name; else those who wrote the decisive signal, the first one first; else the first rank in its words.

    Nobody by a signal whose writers are victims.
    """
    blamed = [name for hit in candidate.hits if hit.signal.blame for name in _named(hit)]
    if not candidate.decisive.signal.blame:
        return tuple(dict.fromkeys(blamed))[:MOST_BLAMED]
    if not blamed:
        same = [h for h in candidate.hits if h.signal.id == candidate.decisive.signal.id]
        blamed = [w for h in same if h.line is not None and (w := _writer(h.line))]
    if not blamed and (said := _RANK.search(candidate.decisive.near)):
        blamed = [Subject("rank", int(said[1]))]
    return tuple(dict.fromkeys(blamed))[:MOST_BLAMED]


_BLAMED: Sequence[tuple[str, SubjectKind]] = (
    ("rank", "rank"),
    ("parameter", "thing"),
    ("node", "thing"),
    ("pid", "process"),
)


def _named(hit: Hit) -> Iterator[Subject]:
    yield from hit.blamed
    if not hit.blamed:
        for group, kind in _BLAMED:
            if group in hit.values:
                value = str(hit.values[group])
                yield Subject(kind, int(value) if kind != "thing" and value.isdigit() else value)


def _writer(line: LogLine) -> Subject | None:
    if line.rank is not None and line.who in ("", f"rank {line.rank}"):
        return Subject("rank", line.rank)
    return Subject("thing", line.who) if line.who else None


def _where(candidate: Candidate, values: dict[str, Value]) -> str | None:
    """What the log names itself; else the innermost frame of the person's own code in the exception that shows it.

    Not where those stood who only waited, if somebody else is blamed.
    """
    if "file" in values and "line" in values:
        function = values.get("function", "")
        return f"{values['file']}:{values['line']} {function}".strip()
    inner = candidate.folded if candidate.decisive.signal.role == "wrapper" else ()
    wrapped = [c.link for c in inner if c.decisive.signal.blame]
    own = candidate.link if candidate.decisive.signal.blame or not _who(candidate) else None
    for link in (own, *wrapped):
        frame = inner_user_frame(link.error) if link and not is_of_launcher(link.error) else None
        if frame and not is_installed(frame.file):
            return f"{frame.file}:{frame.line} {frame.function}".strip()
    return str(values["path"]) if "path" in values else None


# --- evidence ------------------------------------------------------------------------------------------------------


def _evidence(candidate: Candidate, evidence: LogEvidence) -> tuple[str, ...]:
    """The decisive line first, then what else speaks for it, then what it explains; alike lines once, mere heads of tracebacks never."""
    wrapper = candidate.decisive.signal.role == "wrapper"
    folded = [c.decisive for c in candidate.folded if wrapper or c.family.code != UNKNOWN]
    hits = [*candidate.hits, *candidate.hints, *folded]
    shown: dict[str, str] = {}
    for hit in [hit for hit in hits if hit.line is None or _says_something(hit.line)] or hits:
        for said in _said(hit, evidence):
            shown.setdefault(_NUMBERS.sub("0", said.split(" ", 1)[-1]), said)
    return tuple(shown.values())[:MOST_EVIDENCE]


def _said(hit: Hit, evidence: LogEvidence) -> Iterator[str]:
    if hit.line is not None:
        line = hit.line
        text = line.text.strip()
        text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        again = f" (x{line.repeats})" if line.repeats > 1 else ""
        yield f"{evidence.sources[line.source].name}:{line.number} {text}{again}"
    if hit.words:
        yield hit.words
