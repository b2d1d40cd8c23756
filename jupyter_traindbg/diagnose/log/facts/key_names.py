"""How the names that a model misses differ from those that its checkpoint has too many: by a prefix, or cut off.

``names_differ_by_prefix`` (`prefix`, `side` = "model" or "checkpoint" that has it, `pairs_count`) and ``names_cut`` (`cut_count`).
Both lists of ``load_state_dict`` have to be in the log.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from ....model import LogEvidence, LogLine
from . import Fact

__all__ = ["facts"]

_LISTS = re.compile(
    r"(?s)Missing key\(s\) in state_dict:(?P<missing>.*?)Unexpected key\(s\) in state_dict:(?P<unexpected>.*?)(?:size mismatch|$)"
)
_NAME = re.compile(r'"([\w.\-]*)"')
REACH = 60
MOST = 400
ENOUGH = 0.5
"""The share of the names that one prefix has to explain."""


def facts(evidence: LogEvidence) -> list[Fact]:
    for i, line in enumerate(evidence.lines):
        if "Missing key(s) in state_dict" in line.text:
            text = "\n".join(x.text for x in evidence.lines[i : i + REACH] if x.source == line.source)
            lists = _LISTS.search(text)
            if lists is not None:
                return _compare(line, _NAME.findall(lists["missing"])[:MOST], _NAME.findall(lists["unexpected"])[:MOST])
    return []


def _compare(line: LogLine, missing: list[str], unexpected: list[str]) -> list[Fact]:
    for long, short, side in ((missing, unexpected, "model"), (unexpected, missing, "checkpoint")):
        found = _prefix(long, [s for s in short if s])
        if found is not None:
            prefix, pairs = found
            return [
                Fact("names_differ_by_prefix", line, {"prefix": prefix, "side": side, "pairs_count": pairs}, line.rank)
            ]
    cut = _cut(missing, unexpected)
    return [Fact("names_cut", line, {"cut_count": cut}, line.rank)] if cut else []


def _prefix(long: Iterable[str], short: list[str]) -> tuple[str, int] | None:
    """The one (ending in a dot) that makes most of the `short` names into `long` ones."""
    known = set(short)
    before = Counter(name[: -len(tail)] for name in long for tail in _tails(name) if tail in known)
    if not before or not short:
        return None
    prefix, pairs = before.most_common(1)[0]
    return (prefix, pairs) if pairs >= ENOUGH * len(short) else None


def _tails(name: str) -> list[str]:
    """``b.c`` and ``c`` of ``a.b.c``."""
    return [name[m.end() :] for m in re.finditer(r"\.", name)]


def _cut(missing: list[str], unexpected: list[str]) -> int:
    """How many first characters the checkpoint's names have lost, if all have lost as many."""
    if len(missing) < 3 or len(missing) != len(unexpected):
        return 0
    lengths = {len(m) - len(u) for m, u in zip(missing, unexpected, strict=True) if u and m.endswith(u)}
    return lengths.pop() if len(lengths) == 1 and min(lengths) > 0 else 0
