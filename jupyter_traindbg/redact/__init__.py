"""Take secrets out of what is to be handed on: by the name that stands before them, by their shape, and by having been seen elsewhere.

`Redactor` replaces each by ``«redacted:KIND#N»``; the same secret gets the same words everywhere, so that a log stays readable. What one
place gives away by its name (``WANDB_API_KEY=...`` in an environment) is then found without it in all others, also URL-encoded, escaped
or in base64. Pure: reads nothing, writes nothing, and remembers the secrets only as long as the `Redactor` lives.

A redacted text is a fixed point: redacting it again changes nothing. Counts of tokens, names of tokenizers and ``<pad>`` are no secrets
(`names`). A secret without a shape, without a name, and never named elsewhere cannot be known.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from . import assigned, shapes
from .known import Known
from .names import is_secret, secret_kind
from .spans import PLACEHOLDER, Span, apart

__all__ = ["PLACEHOLDER", "Redacted", "Redactor", "redact"]

T = TypeVar("T")

ROUNDS = 6
"""So often a text is gone through at most: what was hidden by one replacement may show something next to it."""
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{16,}")
_NAME = re.compile(r"[\w.-]{1,100}")
"""A key of plain data that names something; a caption or a path is none."""
_FIGURES = (int, float, bool)
_OPENING = "«redacted:"


@dataclass(frozen=True)
class Redacted:
    """`times` that secret number `number` of `kind` was taken out of `where`. The secret itself is nowhere."""

    kind: str
    number: int
    where: str
    times: int


class Redactor:
    """Redacts many texts that belong together. Let it `learn_from` all of them before the first is redacted. Not for several threads."""

    def __init__(self) -> None:
        self._known = Known()
        self._placeholders: dict[str, str] = {}
        self._times: dict[tuple[str, int, str], int] = {}
        self._learning = False
        self._clean: set[str] = set()
        """Texts without secrets, as far as is known: most strings of a report come hundreds of times."""
        self._mute: set[str] = set()
        """Texts that give no secret away by themselves; one that was given away elsewhere may stand in them."""

    @property
    def found(self) -> tuple[Redacted, ...]:
        """What was taken out, where, and how often, in the order of the secrets' numbers."""
        rows = (Redacted(kind, number, where, times) for (kind, number, where), times in self._times.items())
        return tuple(sorted(rows, key=lambda r: (r.number, r.where)))

    def learn(self, secret: str, kind: str = "secret") -> None:
        """`secret` is one, wherever it stands. Too short or too common a word is looked for only in quotes or behind ``=`` and ``:``."""
        if PLACEHOLDER.search(secret):
            return
        lines = _KEY_LINE.findall(secret) if kind == "private-key" else []  # a log is also shown line by line
        new = [self._known.add(one.strip(), kind) for one in (secret, *lines)]
        if any(new):
            self._clean.clear()

    def learn_from(self, value: Any) -> None:
        """Go through `value` (as for `value`) only for the secrets that its names and shapes give away."""
        self._learning = True
        try:
            self.value(value)
        finally:
            self._learning = False

    def text(self, text: str, where: str = "") -> str:
        """`text` without secrets. `where` is for the list of what was redacted. About 4 MB/s."""
        if text in self._clean:
            return text
        if self._learning:
            return self._read(text)
        if text in self._mute and next(self._known.spans(text), None) is None:
            self._clean.add(text)
            return text
        for _ in range(ROUNDS):
            redacted = self._once(text, where)
            if redacted == text:
                self._clean.add(text)
                break
            text = redacted
        return text

    def value(self, value: T, where: str = "") -> T:
        """Plain data (mappings, sequences, dataclasses, strings) without secrets: keys are names, and so are ``--options`` in a list."""
        walked: T = self._walk(value, where)
        return walked

    # --- plain data

    def _walk(self, value: Any, where: str) -> Any:
        if _is_figure(value):
            return value
        if isinstance(value, str):
            return self.text(value, where)
        if isinstance(value, Mapping):
            named = value.get("name") if "value" in value else None  # as in the environment of a pod
            return {
                self._walk(k, where): self._under(named if named and k == "value" else k, v, where)
                for k, v in value.items()
            }
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(self._sequence(value, where))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            walked = {
                f.name: self._walk(old, where)
                for f in dataclasses.fields(value)
                if not _is_figure(old := getattr(value, f.name))
            }
            changed = copy.copy(value)
            for name, new in walked.items():
                object.__setattr__(changed, name, new)
            return changed
        return value

    def _under(self, name: Any, value: Any, where: str) -> Any:
        """The value of the key `name`: all strings below a secret's name are secrets."""
        kind = secret_kind(name) if isinstance(name, str) and _NAME.fullmatch(name) else None
        if kind is None or value is None or isinstance(value, bool):
            return self._walk(value, where)
        if isinstance(value, Mapping):
            return {self._walk(k, where): self._under(name, v, where) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._under(name, v, where) for v in value)
        words = str(value)
        if PLACEHOLDER.search(words) or not is_secret(kind, words, name=str(name), explicit=True):
            return self._walk(value, where)
        return self._replaced(words, kind, where)

    def _sequence(self, values: Iterable[Any], where: str) -> Iterator[Any]:
        """Items; one that follows a word like ``--api-key`` is a secret."""
        option = ""
        for value in values:
            if not isinstance(value, str) or (option and not value.startswith("--")):
                yield self._under(option, value, where)
                option = ""
                continue
            name, equals, rest = value.partition("=")
            option = name.lstrip("-") if name.startswith("-") and secret_kind(name.lstrip("-")) else ""
            if option and equals:
                yield f"{name}={self._under(option, rest, where)}"
                option = ""
            else:
                yield self._walk(value, where)

    # --- text

    def _read(self, text: str) -> str:
        """Learn the secrets of `text`, and leave it as it is."""
        if text in self._mute:
            return text
        found = [s for s in (*shapes.spans(text), *assigned.spans(text)) if s.end > s.start]
        for span in found:
            if span.learn:
                self.learn(text[span.start : span.end], span.kind)
        if not found:
            self._mute.add(text)
        return text

    def _once(self, text: str, where: str) -> str:
        kept = [match.span() for match in PLACEHOLDER.finditer(text)]
        spans = [s for s in (*shapes.spans(text), *assigned.spans(text)) if s.end > s.start and not _touches(s, kept)]
        for span in spans:
            if span.learn:
                self.learn(text[span.start : span.end], span.kind)
        seen = [s for s in self._known.spans(text) if not _touches(s, kept)]
        pieces, at = [], 0
        for span in apart([*spans, *seen]):
            pieces += [text[at : span.start], self._replaced(text[span.start : span.end], span.kind, where)]
            at = span.end
        return "".join([*pieces, text[at:]])

    def _replaced(self, secret: str, kind: str, where: str) -> str:
        secret = secret.strip()
        words = self._placeholders.get(secret)
        if words is None:
            original, known_kind = self._known.original(secret)
            words = self._placeholders.get(original)
            if words is None:
                number = len(set(self._placeholders.values())) + 1
                said = (known_kind or kind or "secret").removesuffix("-by-value")
                words = f"{_OPENING}{said}#{number}»"
            self._placeholders[original] = self._placeholders[secret] = words
        if self._learning:
            self.learn(secret, kind)
        else:
            said, _, number_said = words[len(_OPENING) : -1].partition("#")
            key = (said, int(number_said), where)
            self._times[key] = self._times.get(key, 0) + 1
        return words


def _is_figure(value: Any) -> bool:
    return value is None or type(value) in _FIGURES


def _touches(span: Span, kept: Sequence[tuple[int, int]]) -> bool:
    """Whether `span` overlaps one of `kept`, which are in order and apart."""
    at = bisect_right(kept, (span.start, len(kept) and kept[-1][1])) - 1
    before = at >= 0 and kept[at][1] > span.start
    return before or (at + 1 < len(kept) and kept[at + 1][0] < span.end)


def redact(text: str) -> str:
    """One text without secrets. Raises nothing."""
    return Redactor().text(text)
