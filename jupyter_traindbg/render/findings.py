"""Verdicts as cards: how bad, what, who, where, the evidence, the cause, what to do now, how sure we are."""

from __future__ import annotations

from collections.abc import Sequence

from ..language import text
from ..model import Finding
from .blocks import Card, Inline, Pair, Pairs, Span, Tone

__all__ = ["cards"]

_TONES: dict[str, tuple[Tone, str]] = {"critical": ("bad", "✖"), "warning": ("warn", "▲"), "info": ("info", "●")}
_UNKNOWN: tuple[Tone, str] = ("info", "●")


def cards(findings: Sequence[Finding]) -> list[Card]:
    """One card per finding, in the order given (root cause first)."""
    return [_card(finding) for finding in findings]


def _card(finding: Finding) -> Card:
    tone, symbol = _TONES.get(finding.severity, _UNKNOWN)
    title: list[str | Span] = [
        Span(_severity(finding.severity), tone),
        " ",
        Span(finding.title, "strong"),
        Span(f"  {finding.code}", "muted"),
    ]
    return Card(title, [Pairs(_pairs(finding))], tone, symbol)


def _pairs(finding: Finding) -> list[Pair]:
    pairs = [
        Pair(text("who", "涉及"), [", ".join(map(str, finding.who))] if finding.who else []),
        Pair(text("where", "位置"), [Span(finding.where, "code")] if finding.where else []),
        Pair(text("evidence", "证据"), _lines(finding.evidence), "bullets"),
        Pair(text("cause", "原因"), _lines([finding.cause])),
        Pair(text("next steps", "下一步"), _lines(finding.next_steps), "numbers"),
        Pair(text("confidence", "置信度"), [_confidence(finding.confidence)]),
        Pair(text("reference", "参考"), [finding.reference] if finding.reference else []),
    ]
    return [pair for pair in pairs if pair.lines]


def _lines(texts: Sequence[str]) -> list[Inline]:
    """A text of several lines keeps them."""
    return [line for one in texts for line in str(one).splitlines() if line.strip()]


def _severity(severity: str) -> str:
    return {"critical": text("CRITICAL", "严重"), "warning": text("WARNING", "警告"), "info": text("INFO", "提示")}.get(
        severity, severity
    )


def _confidence(confidence: str) -> str:
    return {"high": text("high", "高"), "medium": text("medium", "中"), "low": text("low", "低")}.get(
        confidence, confidence
    )
