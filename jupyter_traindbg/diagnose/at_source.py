"""The blamed line as its process runs it, beside the verdict. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from ..frames.whose import line_of
from ..model import Finding, SourceLine

__all__ = ["at_source", "places"]


def at_source(findings: Iterable[Finding], sources: Mapping[str, SourceLine]) -> list[Finding]:
    """The findings, those that name a place (``"file:line function"``) which is in `sources` (by ``"file:line"``) with its lines."""
    known = {**sources, **_cells(sources.values())}
    return [_one(finding, known) for finding in findings]


def _cells(lines: Iterable[SourceLine]) -> dict[str, SourceLine]:
    """Those of cells by what findings call them (``"In [4], line 11"``), but for what two notebooks have alike."""
    named: dict[str, list[SourceLine]] = {}
    for line in lines:
        if line.excerpt is not None and line.excerpt.cell is not None:
            named.setdefault(line_of(line.excerpt), []).append(line)
    return {name: same[0] for name, same in named.items() if len(same) == 1}


def places(finding: Finding) -> tuple[str, str]:
    """What ``"file:line"`` of `finding` may be: all of its ``where``, or that without the function."""
    where = finding.where or ""
    return where, where.rpartition(" ")[0]


def _one(finding: Finding, sources: Mapping[str, SourceLine]) -> Finding:
    line = next((sources[place] for place in places(finding) if place in sources), None)
    return finding if line is None else dataclasses.replace(finding, source=line.excerpt)
