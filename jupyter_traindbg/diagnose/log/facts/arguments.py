"""Which option was meant: the closest one in the usage that the program printed beside its complaint (``argument_meant``)."""

from __future__ import annotations

import difflib
import re

from ....model import LogEvidence
from . import Fact

__all__ = ["facts"]

_REFUSED = re.compile(
    r"(?i)(?:unrecognized arguments?:|no such option:?|not used by the HfArgumentParser: \[)\s*['\"(]*(--?[\w-]+)"
)
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]+")
REACH = 60


def facts(evidence: LogEvidence) -> list[Fact]:
    for i, line in enumerate(evidence.lines):
        match = _REFUSED.search(line.text) if "rgument" in line.text or "option" in line.text else None
        if match is None:
            continue
        given = match[1]
        near = [x.text for x in evidence.lines[max(0, i - REACH) : i] if x.source == line.source]
        offered = {o for text in near for o in _OPTION.findall(text)} | set(
            _OPTION.findall(line.text.partition("Did you mean")[2])
        )
        close = difflib.get_close_matches(given, sorted(offered - {given}), n=1, cutoff=0.75)
        return [Fact("argument_meant", line, {"given": given, "meant": close[0]})] if close else []
    return []
