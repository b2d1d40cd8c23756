"""From a parsed TOML file to a `Family`, or a list of what is wrong with it: the file, the key, and what to write instead.

The schema is told in docs/failures.md for those who add a family; this is where it is enforced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from ..knowledge.checking import Checker
from .condition import BadCondition, Expression, parse, wanted
from .family import Cause, Confidence, Family, Guide, Over, Refute, Role, Severity, Signal, Source, Text

__all__ = ["examples_that_fail", "family"]

_KEYS = {
    "": "code severity title about explains signal refute cause question guide source",
    "signal": "id anchor regex fact role weight unless_progress unless_over blame example",
    "refute": "id anchor regex fact of near example",
    "cause": "id when title text steps confidence",
    "question": "text",
    "guide": "guide entry truth",
    "source": "url about",
}
_REQUIRED = {
    "": "code severity title about signal cause",
    "signal": "id role",
    "refute": "id",
    "cause": "id when text steps confidence",
    "question": "text",
    "guide": "guide entry truth",
    "source": "url about",
}
_FLAGS = {"unless_progress": False, "blame": True}
SHORTEST_ANCHOR = 3
"""Bytes. The reader looks for all anchors at once in every line of gigabytes: a short one stops it too often."""
_ID = re.compile(r"[a-z][a-z0-9_]*")


class _Checker(Checker):
    """With what only files of failures have."""

    def keys(self, table: Mapping[str, Any], kind: str, at: str) -> None:
        self.known(table, _KEYS[kind].split(), at)
        self.required(table, _REQUIRED[kind].split(), at)

    def both(self, value: Any, at: str) -> Text:
        """A text in both languages, whose braces can be read."""
        both = Text(*self.pair(value, at))
        for language, text in (("en", both.en), ("zh", both.zh)):
            try:
                wanted(text)
            except BadCondition as error:
                self.say(f"{at}.{language}", f"{error}")
        return both

    def tables(self, raw: Mapping[str, Any], kind: str) -> Iterator[tuple[Mapping[str, Any], str]]:
        """Every ``[[kind]]`` with a name for it in messages, its keys checked."""
        listed = raw.get(kind, [])
        if not isinstance(listed, list):
            self.say(kind, f"has to be written [[{kind}]]")
            return
        for i, table in enumerate(listed, 1):
            at = f"[[{kind}]] {table.get('id', i)}"
            self.keys(table, kind, at)
            yield table, at

    def identifier(self, table: Mapping[str, Any], taken: set[str], at: str) -> str:
        name = self.string(table, "id", f"{at} ")
        if not _ID.fullmatch(name):
            self.say(at, f"the id {name!r} has to be of a-z, 0-9 and _")
        if name in taken:
            self.say(at, f"the id {name!r} is taken in this file")
        taken.add(name)
        return name


def family(raw: Mapping[str, Any], name: str) -> Family:
    """The family in the parsed file `name` (``cuda_oom.toml``). Raises `BadKnowledge` with all that is wrong."""
    check = _Checker(name)
    check.keys(raw, "", "")
    code = check.string(raw, "code", "")
    if f"{code}.toml" != name:
        check.say("code", f"{code!r} has to be the name of the file without .toml")
    taken: set[str] = set()
    signals = tuple(_signal(check, table, at, taken) for table, at in check.tables(raw, "signal"))
    refutes = tuple(
        _refute(check, table, at, taken, {s.id for s in signals}) for table, at in check.tables(raw, "refute")
    )
    if not any(s.role != "hint" for s in signals):
        check.say("signal", "there is none that could show this failure: all are hints")
    causes = tuple(_cause(check, table, at, _Given(signals, refutes)) for table, at in check.tables(raw, "cause"))
    if causes and causes[-1].when:
        check.say(f"[[cause]] {causes[-1].id}", "the last one has to hold always: when = []")
    made = Family(
        code=code,
        severity=cast(Severity, check.one_of(raw.get("severity"), ("critical", "warning", "info"), "severity")),
        title=check.both(raw.get("title"), "title"),
        about=check.both(raw.get("about"), "about"),
        explains=check.strings(raw.get("explains", []), "explains"),
        signals=signals,
        refutes=refutes,
        causes=causes,
        questions=tuple(check.both(t.get("text"), f"{at}: text") for t, at in check.tables(raw, "question")),
        guides=tuple(_guide(check, table, at) for table, at in check.tables(raw, "guide")),
        sources=tuple(_source(check, table, at) for table, at in check.tables(raw, "source")),
    )
    if not check.wrong and (wanted(made.title.en) or wanted(made.title.zh)):
        check.say(
            "title", "has to be usable with every log; put what has {braces} into [[...]], or into a cause's title"
        )
    check.finish()
    return made


def _matcher(
    check: _Checker, table: Mapping[str, Any], at: str
) -> tuple[tuple[str, ...], re.Pattern[str] | None, str, str]:
    """Anchors, pattern, fact and example: what signals and refutes have in common."""
    anchors = check.strings(table.get("anchor", []), f"{at}: anchor")
    fact = check.string(table, "fact", f"{at}: ")
    if bool(anchors) == bool(fact):
        check.say(at, "has to have either 'anchor' (literals of the log) or 'fact' (a computed one)")
    for anchor in anchors:
        if len(anchor.strip().encode()) < SHORTEST_ANCHOR:
            check.say(
                at,
                f"the anchor {anchor!r} is too short; take at least {SHORTEST_ANCHOR} letters that are there literally",
            )
        if "\n" in anchor:
            check.say(at, f"the anchor {anchor!r} has a line break; it is looked for with breaks read as one space")
    pattern = None
    source = check.string(table, "regex", f"{at}: ")
    if source and fact:
        check.say(at, "'regex' goes with 'anchor', not with 'fact'")
    try:
        pattern = re.compile(source) if source else None
    except re.error as error:
        check.say(f"{at}: regex", f"cannot be compiled: {error}")
    example = check.string(table, "example", f"{at}: ")
    if anchors and not example.strip():
        check.say(at, "'example' is missing: one written by yourself that has to match")
    return anchors, pattern, fact, example


def _signal(check: _Checker, table: Mapping[str, Any], at: str, taken: set[str]) -> Signal:
    anchors, pattern, fact, example = _matcher(check, table, at)
    weight = table.get("weight", 0.5)
    if not isinstance(weight, (int, float)) or not 0 <= weight <= 1:
        check.say(f"{at}: weight", f"{weight!r} is not between 0 and 1")
        weight = 0.5
    flags = {key: table.get(key, default) for key, default in _FLAGS.items()}
    for key, value in flags.items():
        if not isinstance(value, bool):
            check.say(f"{at}: {key}", "has to be true or false")
    return Signal(
        id=check.identifier(table, taken, at),
        anchors=anchors,
        pattern=pattern,
        fact=fact,
        role=cast(Role, check.one_of(table.get("role"), ("root", "symptom", "wrapper", "hint"), f"{at}: role")),
        weight=float(weight),
        unless_progress=bool(flags["unless_progress"]),
        unless_over=cast(Over, check.one_of(table.get("unless_over", ""), ("", "shown", "said"), f"{at}: unless_over")),
        blame=bool(flags["blame"]),
        example=example,
    )


def _refute(check: _Checker, table: Mapping[str, Any], at: str, taken: set[str], signals: Collection[str]) -> Refute:
    anchors, pattern, fact, example = _matcher(check, table, at)
    of = check.strings(table.get("of", []), f"{at}: of")
    for name in of:
        if name not in signals:
            check.say(f"{at}: of", f"there is no signal {name!r} in this file; there are {', '.join(sorted(signals))}")
    near = table.get("near")
    if near is not None and not isinstance(near, int):
        check.say(f"{at}: near", "has to be a number of lines")
    name = check.identifier(table, taken, at)
    return Refute(id=name, anchors=anchors, pattern=pattern, fact=fact, example=example, role="hint", of=of, near=near)


class _Given:
    """What a file's conditions and texts may speak of."""

    def __init__(self, signals: Sequence[Signal], refutes: Sequence[Refute]) -> None:
        self.ids = {s.id for s in (*signals, *refutes)}
        patterns = [s.pattern for s in (*signals, *refutes) if s.pattern]
        self.names = {group for p in patterns for group in p.groupindex}
        self.open = any(s.fact for s in (*signals, *refutes))
        """Facts bring values whose names cannot be told beforehand."""


def _cause(check: _Checker, table: Mapping[str, Any], at: str, given: _Given) -> Cause:
    when = [
        e for text in check.strings(table.get("when", []), f"{at}: when") if (e := _condition(check, text, at, given))
    ]
    steps = table.get("steps", [])
    if not isinstance(steps, list) or not steps:
        check.say(f"{at}: steps", 'has to be a list of {en = "...", zh = "..."}, at least one')
        steps = []
    cause = Cause(
        id=check.string(table, "id", f"{at} "),
        when=tuple(when),
        text=check.both(table.get("text"), f"{at}: text"),
        steps=tuple(check.both(step, f"{at}: step {i}") for i, step in enumerate(steps, 1)),
        title=check.both(table["title"], f"{at}: title") if "title" in table else None,
        confidence=cast(
            Confidence, check.one_of(table.get("confidence"), ("high", "medium", "low"), f"{at}: confidence")
        ),
    )
    if not given.open:
        _texts_can_be_filled(check, cause, at, given)
    return cause


def _condition(check: _Checker, text: str, at: str, given: _Given) -> Expression | None:
    try:
        expression = parse(text)
    except BadCondition as error:
        check.say(f"{at}: when", str(error))
        return None
    for signal in sorted(expression.signals - given.ids):
        if "." not in signal:
            check.say(
                f"{at}: when", f"seen:{signal}: there is no such signal in this file (of another one: seen:CODE.ID)"
            )
    for name in sorted(expression.names - given.names) if not given.open else ():
        check.say(f"{at}: when", f"{name!r} is captured by no regex in this file: (?P<{name}>...)")
    return expression


def _texts_can_be_filled(check: _Checker, cause: Cause, at: str, given: _Given) -> None:
    for text in (cause.text, *cause.steps, *([cause.title] if cause.title else [])):
        for said in (text.en, text.zh):
            try:
                missing = wanted(said) - given.names
            except BadCondition:
                continue  # told already
            for name in sorted(missing):
                check.say(at, f"a text uses {{{name}}}, which no regex in this file captures: (?P<{name}>...)")


def _guide(check: _Checker, table: Mapping[str, Any], at: str) -> Guide:
    number = check.string(table, "guide", f"{at}: ")
    if not re.fullmatch(r"00[0-4]", number):
        check.say(at, f"guide {number!r} has to be one of 000 to 004")
    return Guide(number, check.string(table, "entry", f"{at}: "), check.both(table.get("truth"), f"{at}: truth"))


def _source(check: _Checker, table: Mapping[str, Any], at: str) -> Source:
    url = check.string(table, "url", f"{at}: ")
    if not url.startswith("https://"):
        check.say(f"{at}: url", f"{url!r} does not begin with https://")
    return Source(url, check.string(table, "about", f"{at}: "))


def examples_that_fail(known: Family) -> list[str]:
    """What is wrong with the examples: every signal's own example has to match it, and cost no time on hostile text."""
    from .matching import matches

    return [
        f"{known.code}.toml: {signal.id}: its example does not match: {signal.example.strip()[:80]!r}"
        for signal in (*known.signals, *known.refutes)
        if signal.anchors and not matches(signal, signal.example)
    ]
