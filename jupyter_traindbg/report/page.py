"""index.html: opens without anything else: no script, nothing from elsewhere, readable by eye, by keyboard and by a screen reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .._version import __version__
from ..model import Finding, Report, ReportFile, Result
from ..render.blocks import Block
from ..render.document import document
from ..render.findings import verdict
from ..render.units import size
from .context import Part
from .running import Collected, absent, drawn

__all__ = ["html"]

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class _Section:
    """One part on the page."""

    id: str
    title: str
    summary: str
    missing: Sequence[str]
    blocks: Sequence[Block]
    excerpts: Mapping[str, Sequence[str]]
    files: Sequence[ReportFile]
    folders: Mapping[str, Sequence[ReportFile]]
    """Those of its files that lie in a folder for each host, by it."""


def html(report: Report, collected: Sequence[Collected], when: str, problem: str) -> str:
    """The page. What is told is redacted already; here it is escaped."""
    from ..render.as_html import page

    return page(
        _TEMPLATES,
        "index.html.jinja",
        report=report,
        when=when,
        version=__version__,
        problem=problem,
        verdict=[verdict(report.verdict)] if report.verdict else [],
        severities=_severities(report),
        sections=[_section(one, report) for one in collected if one.part is not None],
        absent=absent(collected),
        facts=_facts(collected),
        files=[file for file in report.files if not _folder(file)],
        of_hosts=[file.size_bytes for file in report.files if _folder(file)],
        size=size,
    )


def _section(one: Collected, report: Report) -> _Section:
    assert one.part is not None
    told = _told(one, report)
    files = [file for file in report.files if file.name in one.part.texts]
    return _Section(
        id=one.name,
        title=one.title,
        summary=one.part.summary,
        missing=_missing(one.part),
        blocks=[*drawn(one), *(block for result in one.part.results for block in _drawn(result, told))],
        excerpts=one.part.excerpts,
        files=[file for file in files if not _folder(file)],
        folders={
            folder: [file for file in files if _folder(file) == folder]
            for folder in dict.fromkeys(map(_folder, files))
            if folder
        },
    )


def _folder(file: ReportFile) -> str:
    """``hosts/node1`` of a file of that host; empty for any other."""
    return "/".join(file.name.split("/")[:2]) if file.name.startswith("hosts/") else ""


def _missing(part: Part) -> list[str]:
    """What is missing, but for the ranks that are told as silent anyway."""
    silent = {s.reason for result in part.results for s in getattr(result, "silent", ())}
    return [words for words in part.missing if not any(words.endswith(reason) for reason in silent)]


def _told(one: Collected, report: Report) -> list[Finding]:
    """The findings of a part that need not be told in its place: a diagnosis has weighed what the collectives say."""
    if one.name == "collectives" and report.verdict and one.part is not None:
        return [f for result in one.part.results for f in result.findings]
    return list(report.verdict)


def _drawn(result: Result, told: Sequence[Finding]) -> list[Block]:
    """A result as its view shows it; its findings only where they are not `told` elsewhere."""
    known = {(f.code, f.title) for f in told}
    others = [f for f in result.findings if (f.code, f.title) not in known]
    return document(result, others)


def _severities(report: Report) -> list[tuple[str, int]]:
    counts = {
        severity: sum(f.severity == severity for f in report.verdict) for severity in ("critical", "warning", "info")
    }
    return [(severity, count) for severity, count in counts.items() if count]


def _facts(collected: Sequence[Collected]) -> list[tuple[str, str]]:
    """The one-line summaries that a reader wants before anything else."""
    wanted = ("gpu", "hosts", "host", "commands", "logs")
    return [(one.title, one.part.summary) for one in collected if one.part is not None and one.name in wanted]
