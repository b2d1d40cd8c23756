"""The blamed line as its process runs it, beside the verdict. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from ..model import Finding, SourceLine

__all__ = ["at_source", "places"]


def at_source(findings: Iterable[Finding], sources: Mapping[str, SourceLine]) -> list[Finding]:
    """The findings, those that name a place (``"file:line function"``) which is in `sources` (by ``"file:line"``) with its lines."""
    return [_one(finding, sources) for finding in findings]


def places(finding: Finding) -> tuple[str, str]:
    """What ``"file:line"`` of `finding` may be: all of its ``where``, or that without the function."""
    where = finding.where or ""
    return where, where.rpartition(" ")[0]


def _one(finding: Finding, sources: Mapping[str, SourceLine]) -> Finding:
    line = next((sources[place] for place in places(finding) if place in sources), None)
    return finding if line is None else dataclasses.replace(finding, source=line.excerpt)
