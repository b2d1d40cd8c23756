"""Findings as plain data for a page, each next step with the one thing of ours that it names, if any."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..commands import spelled
from ..errors import TraindbgError
from ..frames.whose import at_place
from ..language import later, text
from ..model import Excerpt, Finding, Silent
from ..render.blocks import Link
from ..render.clean import clean
from ..render.grouping import group_by, hosts_of
from ..render.links import attributes
from ..words.ranks import compact_ranks

__all__ = ["DOES", "cards", "leads", "refusal", "silences"]

DOES = {
    "stacks": re.compile(r"[%`]\s*(?:traindbg )?stacks\b"),
    "collectives": re.compile(r"[%`]\s*(?:traindbg )?nccl[_-]check\b"),
    "checkpoint": re.compile(r"[%`]\s*(?:traindbg )?checkpoint\b(?! --(?:verify|inspect|compare))"),
    "first_nan": re.compile(r"--first-nan\b"),
    "learning_rate": re.compile(r"[%`]\s*(?:traindbg )?lr\b"),
}
"""What a button can do of that which a next step names: only our own verbs that harm nothing, or that ask once more before they act."""

_WORDS = {"critical": later("CRITICAL"), "warning": later("WARNING"), "info": later("INFO")}


def cards(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """One card per finding, in the order given (root cause first). Texts are the trainee's in part: they are to be shown as text."""
    return [_card(finding) for finding in findings]


def _card(finding: Finding) -> dict[str, Any]:
    word = _WORDS.get(finding.severity)
    return {
        "severity": finding.severity,
        "word": finding.severity if word is None else text(word),
        "code": finding.code,
        "title": _said(finding.title),
        "who": [clean(str(who)) for who in finding.who],
        "where": None if finding.where is None else clean(finding.where),
        "link": leads(finding.source or at_place(finding.where or "")),
        "source": _source(finding.source),
        "evidence": [_said(line) for one in finding.evidence for line in one.splitlines() if line.strip()],
        "cause": _said(finding.cause),
        "next_steps": [{"text": _said(step), "does": _does(step)} for step in finding.next_steps],
        "confidence": finding.confidence,
        "reference": finding.reference,
        "reference_link": leads(finding.reference),
    }


def leads(link: Link | None) -> dict[str, str] | None:
    """The attributes of an ``<a>`` to `link`; None where there is nothing to open."""
    return (attributes(link) or None) if link else None


def _source(excerpt: Excerpt | None) -> dict[str, Any] | None:
    if excerpt is None:
        return None
    return {"line": excerpt.line, "first": excerpt.first, "lines": [clean(line) for line in excerpt.lines]}


def _said(words: str) -> str:
    return clean(spelled(words))


def refusal(error: TraindbgError) -> dict[str, str]:
    """What went wrong and what to do, as plain data for a page."""
    cause, step = error.parts()
    return {"text": clean(cause), "next_step": clean(step)}


def _does(step: str) -> str | None:
    return next((name for name, said in DOES.items() if said.search(step)), None)


def silences(silent: Sequence[Silent]) -> list[str]:
    """Who gave no answer and why, one line for all that have the same reason."""
    lines = []
    for same in group_by(
        silent, lambda s: (s.reason.replace(str(s.pid), "PID"), s.next_step.replace(str(s.pid), "PID"))
    ):
        ranks = [s.rank for s in same if s.rank is not None]
        pids = ", ".join(str(s.pid) for s in same)
        who = compact_ranks(ranks) if ranks else hosts_of(s.host for s in same) or text("pids {pids}", pids=pids)
        reason = same[0].reason if len(same) == 1 else same[0].reason.replace(str(same[0].pid), "…")
        step = text("; ") + same[0].next_step if same[0].next_step else ""
        lines.append(_said(text("{who}: no answer: {reason}", who=who, reason=reason) + step))
    return lines
