"""Secrets that stand behind their name: ``WANDB_API_KEY=...``, ``--token X``, ``"password": "..."``, ``X-Api-Key: ...``, YAML blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .names import is_secret, secret_kind
from .spans import Span

__all__ = ["spans"]

_TRIGGER = re.compile(
    r"pass|pwd|secret|token|key|credential|cookie|auth|dsn|webhook|connection_?string|connstr|jwt|sess|bearer|[_-]pw",
    re.IGNORECASE,
)
"""One of these is in every name that `secret_kind` knows."""
_NAME = re.compile(r"[\w.-]+")
_LONGEST_NAME = 100
_BEFORE = re.compile(r"[^\w.-]")

_QUOTED = (
    r"[bBrRuUfF]{0,2}\"(?P<double>(?:[^\"\\\n«»]|\\.){0,8000})\"|[bBrRuUfF]{0,2}'(?P<single>(?:[^'\\\n«»]|\\.){0,8000})'"
    r"|\\{1,4}\"(?P<escaped>[^\"\\\n«»]{0,8000})\\{1,4}\"|&(?:quot|\#34);(?P<markup>[^&\n«»]{0,8000})&(?:quot|\#34);"
    r"|\[(?P<several>[^\]«»]{1,4000})\]"
)
_VALUE = rf"(?:{_QUOTED}|(?P<bare>[^\s\"'«»<>\[\]][^\s\"'«»<>]*))"
_QUOTE = r"(?:\\{0,4}[\"']|&quot;|&\#34;)?\]?"
_TYPE = r"(?:str|bytes|SecretStr|Optional\[str\]|str \| None)"
_EQUALS = re.compile(rf"{_QUOTE}\s{{0,8}}(?:: ?{_TYPE} ?=|:=|=>|==?|:)\s{{0,8}}{_VALUE}")
_VALUE_OF = re.compile(rf"[\"']?,?\s{{1,40}}(?:- )?[\"']?value[\"']?\s{{0,4}}[:=]\s{{0,4}}{_VALUE}", re.IGNORECASE)
"""Behind the name in ``- name: WANDB_API_KEY`` of a pod's environment."""
_OPTION = re.compile(rf"(?:[\"'],?\s{{1,4}}|,?[ \t]{{1,4}})(?!-){_VALUE}")
_SET = re.compile(rf"[ \t]{{1,4}}{_VALUE}")
_MARKUP = re.compile(r">(?P<bare>[^<>«»]{1,8000})</")
_REST_OF_LINE = re.compile(
    r"[\"']?:[ \t]{1,8}(?P<bare>[^\s\"'«»|>&*{\[#][^\n«»]{0,8000}?)(?=[ \t]{1,20}#|[ \t]{0,20}$)", re.MULTILINE
)
_BLOCK = re.compile(r"[\"']?:[ \t]{0,8}(?:[|>][+-]?\d?)?[ \t]{0,8}\n")
_LINE_START = re.compile(r"(?P<indent>[ \t]*)(?:- )?[\"']?")
_OPTION_START = re.compile(r"[\s\"'=\[(]?--?\w")
_SET_START = re.compile(r"\s*(?:setenv|ENV)[ \t]+")
_MAPPING = re.compile(r"[\w.\"'-]+:(?:\s|$)")
_GROUPS = ("double", "single", "escaped", "markup", "several", "bare")
_WHOLE_LINE = ("password", "secret", "credentials")
_CODE = re.compile(
    r"(?:self|cls|args|opts?|options|cfg|conf|config|settings|environ|os|env|hparams|params|kwargs)\.[A-Za-z_]|[A-Za-z_][\w.]*[(\[]|[({]"
)
"""Source code: what follows is where the value comes from, and not the value."""
_NEXT_PART = re.compile(r";(?=\w+=)")
"""In connection strings of Azure's: ``AccountKey=...;EndpointSuffix=...``."""
_WORD = re.compile(r"[^\s,\"'\[\]«»]+")


def spans(text: str) -> Iterator[Span]:
    """Every value in `text` behind a name that says that it is a secret, unless it looks otherwise."""
    at = 0
    while (hit := _TRIGGER.search(text, at)) is not None:
        start, end = _name(text, hit.start(), at)
        at = max(end, hit.end())
        name = text[start:end].lstrip("-.")
        kind = secret_kind(name) if len(name) <= _LONGEST_NAME else None
        if kind is not None and not text.endswith("«redacted:", max(0, start - 10), start):
            yield from _after(text, start, end, name, kind)


def _name(text: str, hit: int, at: int) -> tuple[int, int]:
    """The name around position `hit`, not further left than `at`, and not longer than a name can be."""
    start = hit
    while start > at and hit - start <= _LONGEST_NAME and _BEFORE.match(text, start - 1) is None:
        start -= 1
    match = _NAME.match(text, start)
    assert match is not None  # a trigger is made of letters
    return start, match.end()


def _after(text: str, start: int, end: int, name: str, kind: str) -> Iterator[Span]:
    """What stands behind the name ``text[start:end]``, by the first form that fits."""
    line = text.rfind("\n", max(0, start - 200), start) + 1
    begins = _LINE_START.fullmatch(text, line, start)
    if begins is not None:
        if kind in _WHOLE_LINE and (match := _REST_OF_LINE.match(text, end)):
            yield from _bare(match, name, kind, explicit=True, whole=True)
            return
        if (match := _BLOCK.match(text, end)) is not None:
            yield from _block(text, match.end(), begins["indent"], name, kind)
            return
    if (match := _VALUE_OF.match(text, end)) is not None:
        yield from _value(match, name, kind, explicit=True)
    elif (match := _EQUALS.match(text, end)) is not None:
        yield from _value(match, name, kind, explicit=name.isupper())
    elif _OPTION_START.match(text, start - 1 if start else 0) and (match := _OPTION.match(text, end)) is not None:
        yield from _value(match, name, kind, explicit=True)
    elif text.startswith("<", start - 1) and (match := _MARKUP.match(text, end)) is not None:
        yield from _bare(match, name, kind, explicit=True, whole=True)
    elif _SET_START.fullmatch(text, line, start) and (match := _SET.match(text, end)) is not None:
        yield from _value(match, name, kind, explicit=True)


def _value(match: re.Match[str], name: str, kind: str, *, explicit: bool) -> Iterator[Span]:
    group = next(g for g in _GROUPS if match[g] is not None)
    if group == "bare":
        yield from _bare(match, name, kind, explicit=explicit)
    elif group == "several":
        yield from _words(match[group], match.start(group), name, kind)
    elif is_secret(kind, match[group], name=name, explicit=True):
        yield Span(*match.span(group), kind)


def _bare(match: re.Match[str], name: str, kind: str, *, explicit: bool, whole: bool = False) -> Iterator[Span]:
    """A value without quotes: up to a blank, less the punctuation of the text around it, and in a URL up to the next parameter."""
    value, start = match["bare"], match.start("bare")
    if not whole:
        value = value if value.endswith("==") else value.rstrip(",;:.)]}\\`")
        before = match.string[match.start() - len(name) - 1 : match.start() - len(name)]
        value = value.partition("&")[0] if before in ("?", "&") else value
        value = _NEXT_PART.split(value)[0] if kind == "key" else value
        if _CODE.match(value):
            return
    if is_secret(kind, value, name=name, explicit=explicit):
        yield Span(start, start + len(value), kind)


def _block(text: str, at: int, indent: str, name: str, kind: str) -> Iterator[Span]:
    """The lines below ``name:`` that are indented further, or items of a list, as long as they are no mapping."""
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        inner = line[len(indent) :]
        if (
            not line.startswith(indent)
            or not inner.startswith((" ", "\t", "- "))
            or _MAPPING.match(inner.strip(" \t-"))
        ):
            return
        yield from _words(line, at, name, kind)
        at = end + 1


def _words(several: str, start: int, name: str, kind: str) -> Iterator[Span]:
    for word in _WORD.finditer(several):
        if is_secret(kind, word[0], name=name, explicit=True):
            yield Span(start + word.start(), start + word.end(), kind)
