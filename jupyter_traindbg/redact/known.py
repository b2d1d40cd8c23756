"""Secrets that were given away once, found again in other clothes."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .spans import Span

__all__ = ["Known"]

_COMMON = frozenset(
    ("password", "secret", "token", "credentials", "authorization", "cookie", "bearer", "basic", "default", "changeme")
)
_LONG = 16
_SHORTEST_CUT = 8
_LAST_WORD = re.compile(rf"(?P<word>[^\s\"'=:,«»]{{{_SHORTEST_CUT},}}?)(?:…|\.\.\.)?$")
"""A long line may have been cut in the middle of a secret."""
_BASE64_BEFORE = re.compile(r"[A-Za-z0-9+/=_-]{0,400}\Z")
_BASE64_AFTER = re.compile(r"[A-Za-z0-9+/=_-]*")
_VALUE_BEFORE = re.compile(r"[\"'=:@`]\Z|[=:] \Z")
_VALUE_AFTER = re.compile(r"[\"'`\s,;&@)}\]]|\Z")


@dataclass(frozen=True)
class _Form:
    """What a secret looks like: a run of base64 takes the rest of its word along; a `weak` one counts only where it is a value."""

    secret: str
    base64: bool = False
    weak: bool = False

    def span(self, text: str, start: int, end: int) -> Span | None:
        """Of the form at ``text[start:end]``; None where it is only a word like any other."""
        if self.base64:
            before = _BASE64_BEFORE.search(text, max(0, start - 400), start)
            after = _BASE64_AFTER.match(text, end)
            assert before is not None and after is not None  # noqa: PT018 - both may be empty, and are never missing
            return Span(before.start(), after.end(), "")
        if self.weak and not (_VALUE_BEFORE.search(text, max(0, start - 2), start) and _VALUE_AFTER.match(text, end)):
            return None
        return Span(start, end, "")


class Known:
    """The secrets themselves. Those that could be a word of any text count only in quotes or behind ``=`` and ``:``."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._forms: dict[str, _Form] = {}
        self._automaton: Callable[[str], Iterable[tuple[int, int, int]]] | None = None

    def add(self, secret: str, kind: str) -> bool:
        """Remember it, unless it is too short or too common; whether it is a new one."""
        if len(secret) < 5 or secret in self._kinds or secret.lower() in _COMMON:
            return False
        if secret.isdigit() and len(secret) < 10:
            return False
        mixed = any(c.isdigit() for c in secret) and any(not c.isdigit() for c in secret)
        weak = not (mixed and len(secret) >= 6) and len(secret) < _LONG
        self._kinds[secret] = kind
        forms = {form: _Form(secret, weak=weak) for form in _spellings(secret)}
        self._forms = {**{form: _Form(secret, base64=True) for form in _in_base64(secret)}, **forms, **self._forms}
        self._automaton = None
        return True

    def spans(self, text: str) -> Iterator[Span]:
        """Where they stand in `text`, however they are written."""
        if not self._forms:
            return
        forms = list(self._forms)
        if self._automaton is None:
            self._automaton = _automaton(forms)
        for index, start, end in self._automaton(text):
            span = self._forms[forms[index]].span(text, start, end)
            if span is not None:
                yield span
        cut = _LAST_WORD.search(text, max(0, len(text) - 400))
        if cut is not None and self._begun(cut["word"]) is not None:
            yield Span(*cut.span("word"), "")

    def original(self, found: str) -> tuple[str, str]:
        """The secret of which `found` is a form, with its kind; `found` itself and ``""`` where there is none."""
        form = self._forms.get(found)
        secret = found if found in self._kinds else form.secret if form is not None else None
        if secret is None:
            longer = (form.secret for words, form in self._forms.items() if words in found and not form.weak)
            secret = next(longer, None) or self._begun(found)
        return (found, "") if secret is None else (secret, self._kinds[secret])

    def _begun(self, word: str) -> str | None:
        """The secret that begins with `word`, if that is long enough to tell."""
        if len(word) < _SHORTEST_CUT:
            return None
        return next((s for s in self._kinds if s.startswith(word) and not self._forms[s].weak), None)


def _spellings(secret: str) -> list[str]:
    """`secret` as it stands in URLs, JSON, Python, HTML and hexadecimal."""
    raw = secret.encode(errors="surrogateescape")
    quoted = urllib.parse.quote(raw, safe="")
    in_json = json.dumps(secret)[1:-1]
    escaped = html.escape(secret)
    forms = [secret, quoted, quoted.lower(), urllib.parse.quote(raw), urllib.parse.quote_plus(raw), in_json]
    forms += [json.dumps(in_json)[1:-1], repr(secret)[1:-1], escaped]
    forms.append(escaped.replace("&quot;", "&#34;").replace("&#x27;", "&#39;"))
    forms += [raw.hex(), raw.hex().upper()] if len(raw) >= 8 else []
    return list(dict.fromkeys(form for form in forms if len(form) >= 5))


def _in_base64(secret: str) -> list[str]:
    """What base64 of any text around `secret` has to contain, by the three ways to fall on its grid: characters of it alone."""
    raw = secret.encode(errors="surrogateescape")
    cores: list[str] = []
    for before in range(3) if len(raw) >= 8 else ():
        coded = base64.b64encode(b"\0" * before + raw).decode()
        core = coded[(0, 2, 3)[before] : len(coded) - (0, 3, 2)[(before + len(raw)) % 3]]
        if len(core) >= 9:
            cores += [core, core.replace("+", "-").replace("/", "_")]
    return cores


def _automaton(forms: Sequence[str]) -> Callable[[str], Iterable[tuple[int, int, int]]]:
    """Finds where they stand in a text: number, start and end of each. On a host that lacks the automaton, one after the other."""
    try:
        import ahocorasick_rs
    except ModuleNotFoundError:
        return lambda text: [
            (n, found.start(), found.end())
            for n, form in enumerate(forms)
            if form in text
            for found in re.finditer(re.escape(form), text)
        ]
    find = ahocorasick_rs.AhoCorasick(forms).find_matches_as_indexes
    return lambda text: find(text, overlapping=True)
