"""issue.md: what a maintainer wants to read first, as Markdown to paste. Short and safe: what a log says pings nobody, draws nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .._version import __version__
from ..commands import spelled
from ..model import Finding, Report
from .running import Collected, missing_of

__all__ = ["MOST", "text"]

MOST = 55_000
"""Characters; GitHub takes 65,536."""
LOG_LINES = 40
LONGEST_LINE = 300
MOST_FINDINGS = 10
_ACTIVE = re.compile(r"[\\`*_\[\]<>#|~]|@(?=\w)")


def text(report: Report, collected: Sequence[Collected], when: str, problem: str) -> str:
    """The whole text. Sections that do not fit are left out from the end, and that is said."""
    sections = [section for section in _sections(report, collected, problem) if section]
    head = f"<!-- made by jupyter-traindbg {__version__} on {when}; secrets are replaced by «redacted:…» -->\n\n"
    left = MOST - len(head) - 200
    kept = []
    for section in sections:
        if len(section) > left:
            kept.append("*More is in the bundle: it was too long for an issue.*\n")
            break
        kept.append(section)
        left -= len(section) + 1
    return head + "\n".join(kept)


def _sections(report: Report, collected: Sequence[Collected], problem: str) -> Iterator[str]:
    yield (
        f"### What is wrong\n\nAbout {_code(report.target)}{f': {_plain(problem)}' if problem else ''}\n\n"
        + _findings(report.verdict)
    )
    told = [line for one in collected if one.part is not None for line in one.part.issue]
    yield "### Where and with what\n\n" + "".join(f"- {_told(line)}\n" for line in told) if told else ""
    for one in (c for c in collected if c.name in ("logs", "hosts")):
        for caption, lines in list(one.part.excerpts.items())[:2] if one.part is not None else ():
            yield f"### {_plain(one.title)}: {_plain(caption)}\n\n{_fenced(lines[-LOG_LINES:])}"
    missing = missing_of(collected)
    if missing:
        items = "".join(f"- {_plain(line)}\n" for line in missing[:20])
        yield f"<details><summary>Not available</summary>\n\n{items}\n</details>\n"
    yield "The bundle (index.html, stacks, logs, versions, environment) can be attached; it was redacted.\n"


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "No finding: nothing wrong was seen, or it could not be judged.\n"
    return "\n".join(_finding(finding) for finding in findings[:MOST_FINDINGS])


def _finding(finding: Finding) -> str:
    lines = [
        f"**{finding.severity.upper()}: {_plain(finding.title)}** ({_code(finding.code)}, confidence {finding.confidence})",
        "",
    ]
    if finding.who:
        lines.append(f"- who: {_plain(', '.join(map(str, finding.who)))}")
    if finding.where:
        lines.append(f"- where: {_code(finding.where)}")
    lines += [f"- evidence: {_code(line)}" for line in list(finding.evidence)[:5]]
    if finding.cause:
        lines.append(f"- cause: {_plain(spelled(finding.cause))}")
    lines += [f"- next: {_plain(spelled(step))}" for step in list(finding.next_steps)[:4]]
    return "\n".join(lines) + "\n"


def _told(line: str) -> str:
    """``Label: words``, of which words between backticks are code."""
    label, colon, words = line.partition(": ")
    if colon and words.startswith("`") and words.endswith("`"):
        return f"{_plain(label)}: {_code(words[1:-1])}"
    return _plain(line)


def _one_line(words: str) -> str:
    return " ".join(words.split())


def _plain(words: str) -> str:
    """Words that stay words: no mark-up, no HTML, no mention of a person or an issue."""
    parts = re.split("(`[^`]+`)", _one_line(words)[: LONGEST_LINE * 4])
    return "".join(part if i % 2 else _ACTIVE.sub(_escaped, part) for i, part in enumerate(parts))


def _escaped(match: re.Match[str]) -> str:
    return "&#64;" if match[0] == "@" else "\\" + match[0]


def _code(words: str) -> str:
    """As code, between more backticks than there are in it."""
    words = _one_line(words)[: LONGEST_LINE * 2]
    marks = "`" * (max((len(run) for run in re.findall("`+", words)), default=0) + 1)
    space = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{marks}{space}{words}{space}{marks}"


def _fenced(lines: Sequence[str]) -> str:
    """A block of code whose fence is longer than any in it."""
    body = "\n".join(line[:LONGEST_LINE] for line in lines)
    marks = "`" * max(3, max((len(run) for run in re.findall("`+", body)), default=0) + 1)
    return f"{marks}text\n{body}\n{marks}\n"
