"""Which signals of which families a log shows. All literals are looked for at once; patterns only near a literal that is there."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from ...model import LogEvidence, LogLine, Subject
from .facts import Fact, facts
from .family import Family, Refute, Signal
from .progress import Progress, progress_of
from .quantities import Value, captured

if TYPE_CHECKING:
    from ahocorasick_rs import AhoCorasick

__all__ = ["Hit", "hits", "matches"]

LIKELY = 0.4
"""The weight from which a signal makes its family likely."""
MOST = 50
"""A signal is looked for in so many first and so many last lines of each writer: what is printed every step tells no more later on."""
WINDOW = 6
"""A pattern sees the line of its literal and so many lines of the same writer after it."""
WRAPPED = 4
"""So many lines are tried as one that was wrapped."""
REACH = 40
"""Among so many kept lines: those of other ranks lie between in a log that several write to."""
BEFORE, AFTER, NEXT = 600, 2000, 600
"""Characters that a pattern sees: of the line before and after its literal, and of each of the next lines. Log text is hostile, and
the time that some patterns take grows with the square of its length."""
_QUOTED = re.compile(r"^[\s>#|*`]+")
_DEBUG = re.compile(r".{0,60}?\bDEBUG\b[\s:\]|]")
_WARNING = re.compile(r"\bWARN(?:ING)?\b")
LEVEL = 80
"""Within so many characters a line says that it is a warning."""
_OPTIONS = re.compile(r".{0,80}?\bNamespace\(")
MANY_OPTIONS = 20
"""So many, and it is a list of them whose beginning another rank has overwritten."""
_WIDE = re.compile(r"[ \t]{3,}")


@dataclass(frozen=True)
class Hit:
    """A signal that was seen, once."""

    family: Family
    signal: Signal
    line: LogLine | None
    values: Mapping[str, Value] = field(default_factory=dict)
    blamed: Sequence[Subject] = ()
    """Whom the computed fact blames; empty for words."""
    words: str = ""
    near: str = ""
    """The line and the next one."""
    survived: bool = False
    """The run went on well after it."""
    over: bool = False
    """The work was over before it, if the signal asks that."""

    @property
    def is_warning(self) -> bool:
        """Whether its line calls itself one: what the run got over before does no harm at its end either."""
        return self.line is not None and bool(_WARNING.search(self.line.text[:LEVEL]))


class _Text:
    """The lines of one source, and as one text in lower case in which literals are found even across a line break."""

    def __init__(self, lines: Sequence[LogLine]) -> None:
        self.lines = lines
        pieces = [_QUOTED.sub("", line.text).rstrip().lower() for line in lines]
        self.starts = [0]
        for piece in pieces:
            self.starts.append(self.starts[-1] + len(piece) + 1)
        self.flat = " ".join(pieces)
        self._after: dict[int, list[str]] = {}

    def at(self, offset: int) -> int:
        return bisect_right(self.starts, offset) - 1

    def window(self, i: int, offset: int) -> list[str]:
        """Line `i` round `offset`, and the next ones that its writer wrote, or that nobody put a name to."""
        if i not in self._after:  # most lines hold literals of several signals
            self._after[i] = list(islice(self._following(i), WINDOW))
        at = offset - self.starts[i]
        return [_narrow(self.lines[i].text[max(0, at - BEFORE) : at + AFTER]), *self._after[i]]

    def _following(self, i: int) -> Iterator[str]:
        whose = ("", self.lines[i].who)
        for line in self.lines[i + 1 : i + 1 + REACH]:
            if line.who in whose:
                yield _narrow(line.text[:NEXT])


def _narrow(text: str) -> str:
    """Columns and rulers of spaces cost patterns time and tell nothing."""
    return _WIDE.sub("  ", text) if "   " in text or "\t" in text else text


@lru_cache(maxsize=16)
def _index(anchors: tuple[tuple[str, ...], ...]) -> tuple[AhoCorasick, list[list[int]]]:
    """An automaton over the literals of all signals, and for each of its literals the signals that have it."""
    from ahocorasick_rs import AhoCorasick

    owners: dict[str, list[int]] = defaultdict(list)
    for n, of_signal in enumerate(anchors):
        for literal in dict.fromkeys(a.lower() for a in of_signal):
            owners[literal].append(n)
    return AhoCorasick(list(owners)), list(owners.values())


def matches(signal: Signal, text: str) -> bool:
    """Whether `text`, a few lines, shows `signal`."""
    lines = [LogLine(source=0, number=n, text=line) for n, line in enumerate(text.strip("\n").splitlines(), 1)]
    return any(True for _ in _found([signal], [_Text(lines)]))


def hits(evidence: LogEvidence, families: Iterable[Family]) -> list[Hit]:
    """All signals that `evidence` shows, hints included; those that are refuted, or that the run got over, are not.

    Linear in the kept lines; 20,000 lines take about half a second.
    """
    known = list(families)
    owner: dict[int, Family] = {id(s): f for f in known for s in (*f.signals, *f.refutes)}
    signals: list[Signal] = [s for f in known for s in (*f.signals, *f.refutes)]
    progress = progress_of(evidence)
    found: dict[str, list[Hit]] = defaultdict(list)
    for signal, (line, *after), values in _found([s for s in signals if s.anchors], _texts(evidence)):
        family = owner[id(signal)]
        if signal.role != "hint" and (_DEBUG.match(line.text) or _lists_options(line.text)):
            continue  # a program telling itself what it tries, or what its options are
        near = "\n".join(x.text for x in (line, *after))
        let_it_pass = (line.source, line.number) in progress.let_pass
        over = (bool(signal.unless_over) or let_it_pass) and progress.over(line, said=signal.unless_over == "said")
        found[family.code].append(
            Hit(family, signal, line, values, near=near, survived=progress.after(line), over=over)
        )
    computed = facts(evidence) if any(s.fact for s in signals) else []
    for signal in signals:
        for fact in computed if signal.fact else ():
            if fact.name == signal.fact:
                family = owner[id(signal)]
                found[family.code].append(_of_fact(family, signal, fact, progress))
    return [hit for of_family in found.values() for hit in _standing(of_family) if not _teardown(hit, progress)]


def _lists_options(text: str) -> bool:
    """Whether it is argparse's ``Namespace(batch=8, ...)``."""
    return bool(_OPTIONS.match(text)) or min(text.count("="), text.count(", ")) >= MANY_OPTIONS


def _texts(evidence: LogEvidence) -> list[_Text]:
    by_source: dict[int, list[LogLine]] = defaultdict(list)
    for line in evidence.lines:
        by_source[line.source].append(line)
    return [_Text(lines) for lines in by_source.values()]


def _found(
    signals: Sequence[Signal], texts: Iterable[_Text]
) -> Iterator[tuple[Signal, Sequence[LogLine], dict[str, Value]]]:
    """Every (signal, its line and the next one, captured values); a signal at most once a line."""
    automaton, owners = _index(tuple(tuple(s.anchors) for s in signals))
    for text in texts:
        places: dict[tuple[int, str], dict[int, int]] = defaultdict(dict)  # of each signal and writer: line -> offset
        for which, start, _ in automaton.find_matches_as_indexes(text.flat, overlapping=True):
            i = text.at(start)
            for n in owners[which]:
                places[n, text.lines[i].who].setdefault(i, start)
        for (n, _), at in sorted(places.items()):
            for i, start in _ends(list(at.items())):
                values = _read(signals[n], text, i, start)
                if values is not None:
                    yield signals[n], text.lines[i : i + 2], values


def _ends(all_of_them: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return all_of_them if len(all_of_them) <= 2 * MOST else all_of_them[:MOST] + all_of_them[-MOST:]


def _read(signal: Signal, text: _Text, i: int, offset: int) -> dict[str, Value] | None:
    """What the pattern of `signal` captures at line `i`; None where it does not match. Wrapped text is tried unwrapped as well."""
    if signal.pattern is None:
        return {}
    window = text.window(i, offset)
    match = signal.pattern.search("\n".join(window))
    if match is None and len(window) > 1:
        match = signal.pattern.search(" ".join(_QUOTED.sub("", piece).rstrip() for piece in window[:WRAPPED]))
    if match is None:
        return None
    return {name: captured(name, value.strip()) for name, value in match.groupdict().items() if value and value.strip()}


def _of_fact(family: Family, signal: Signal, fact: Fact, progress: Progress) -> Hit:
    blamed = fact.who or (() if fact.rank is None else (Subject("rank", fact.rank),))
    values = {name: captured(name, value) for name, value in fact.values.items()}
    survived = fact.line is not None and progress.after(fact.line)
    near = fact.line.text if fact.line is not None else ""
    over = (
        fact.line is not None
        and bool(signal.unless_over)
        and progress.over(fact.line, said=signal.unless_over == "said")
    )
    return Hit(family, signal, fact.line, values, blamed, fact.words, near, survived, over)


def _standing(of_family: Sequence[Hit]) -> Iterator[Hit]:
    """The hits of one family that nothing refutes."""
    refuted = _Refuted(of_family)
    got_over = {hit.signal.id for hit in of_family if hit.survived and hit.is_warning}
    for hit in of_family:
        before = hit.is_warning and hit.signal.id in got_over
        harmless = hit.over or (hit.signal.unless_progress and (hit.survived or before))
        if not (isinstance(hit.signal, Refute) or harmless or refuted(hit)):
            yield hit


class _Refuted:
    """Where each signal of a family is spoken against, so that a log full of both is judged in time."""

    def __init__(self, of_family: Iterable[Hit]) -> None:
        self._anywhere: set[str] = set()
        self._near: dict[tuple[str, int, int], list[int]] = defaultdict(list)  # signal, source, reach: lines
        self._reaches: dict[str, set[int]] = defaultdict(set)
        for by in of_family:
            if isinstance(by.signal, Refute):
                for signal in by.signal.of or ("",):
                    self._note(signal, by.signal.near, by.line)
        for lines in self._near.values():
            lines.sort()

    def _note(self, signal: str, near: int | None, line: LogLine | None) -> None:
        if near is None or line is None:
            self._anywhere.add(signal)
        else:
            self._near[signal, line.source, near].append(line.number)
            self._reaches[signal].add(near)

    def __call__(self, hit: Hit) -> bool:
        return any(self._speaks_of(signal, hit) for signal in (hit.signal.id, ""))  # "" speaks against all of them

    def _speaks_of(self, signal: str, hit: Hit) -> bool:
        if signal in self._anywhere or (hit.line is None and signal in self._reaches):
            return True
        for near in self._reaches.get(signal, ()):
            assert hit.line is not None
            lines = self._near.get((signal, hit.line.source, near), [])
            at = bisect_left(lines, hit.line.number - near)
            if at < len(lines) and lines[at] <= hit.line.number + near:
                return True
        return False


def _teardown(hit: Hit, progress: Progress) -> bool:
    """A mere consequence, or an unknown exception, after a person had stopped the run."""
    unsure = hit.signal.role in ("symptom", "wrapper") or hit.signal.weight < LIKELY
    return unsure and hit.line is not None and progress.stopped_before(hit.line)
