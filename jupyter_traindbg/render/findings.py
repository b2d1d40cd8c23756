"""Verdicts as cards: how bad, what, who, where, the evidence, the cause, what to do now, how sure we are."""

from __future__ import annotations

from collections.abc import Sequence

from ..frames.whose import at_place
from ..language import pgettext, text
from ..model import Finding
from .blocks import SYMBOLS, Card, Cards, Inline, Pair, Pairs, Source, Span, Tone
from .grouping import named

__all__ = ["tone", "verdict"]

_TONES: dict[str, Tone] = {"critical": "bad", "warning": "warn", "info": "info"}
_WORST = ("critical", "warning", "info")


def verdict(findings: Sequence[Finding]) -> Card | Cards:
    """One card per finding, in the order given (root cause first)."""
    cards = [_card(finding) for finding in findings]
    return cards[0] if len(cards) == 1 else Cards(cards)


def tone(findings: Sequence[Finding]) -> Tone:
    """That of the worst finding; good where there is none."""
    there = {finding.severity for finding in findings}
    return next((_TONES[severity] for severity in _WORST if severity in there), "info" if there else "good")


def _card(finding: Finding) -> Card:
    tone = _TONES.get(finding.severity, "info")
    title: list[str | Span] = [
        Span(_severity(finding.severity), tone),
        " ",
        Span(finding.title, "strong"),
        Span(f"  {finding.code}", "muted"),
    ]
    return Card(title, [Pairs(_pairs(finding))], tone, SYMBOLS[tone])


def _pairs(finding: Finding) -> list[Pair]:
    source = [] if finding.source is None else [Source(finding.source)]
    pairs = [
        Pair(pgettext("of a finding", "who"), [named(finding.who)] if finding.who else []),
        Pair(text("where"), _where(finding), below=source),
        Pair(text("evidence"), _lines(finding.evidence), "bullets"),
        Pair(text("cause"), _lines([finding.cause])),
        Pair(text("next steps"), _lines(finding.next_steps), "numbers"),
        Pair(text("confidence"), [_confidence(finding.confidence)]),
        Pair(text("reference"), [Span(finding.reference, link=finding.reference)] if finding.reference else []),
    ]
    return [pair for pair in pairs if pair.lines]


def _where(finding: Finding) -> list[Inline]:
    if not finding.where:
        return []
    return [Span(finding.where, "code", link=finding.source or at_place(finding.where))]


def _lines(texts: Sequence[str]) -> list[Inline]:
    """A text of several lines keeps them."""
    return [line for one in texts for line in str(one).splitlines() if line.strip()]


def _severity(severity: str) -> str:
    return {"critical": text("CRITICAL"), "warning": text("WARNING"), "info": text("INFO")}.get(severity, severity)


def _confidence(confidence: str) -> str:
    return {"high": text("high"), "medium": text("medium"), "low": text("low")}.get(confidence, confidence)
