"""An IndexError that ended the run, by its type: logs are often cut off before its message. ``index_error``."""

from __future__ import annotations

from ....model import LogEvidence
from . import Fact, uncaught

__all__ = ["facts"]

_EMBEDDING = ("torch.embedding(", "F.embedding(", "in embedding(")


def facts(evidence: LogEvidence) -> list[Fact]:
    """With ``looked_up`` = "embedding" where the line that raised it is the lookup of one."""
    if not any(link.type == "IndexError" for error in evidence.errors for link in error.chain()):
        return []
    ended = [fact for fact in uncaught.facts(evidence) if fact.values.get("type") == "IndexError"]
    if not ended or ended[0].line is None:
        return []
    first = ended[0].line
    after = (x.text for x in evidence.lines if x.source == first.source and first.number <= x.number)
    looked_up = any(word in text for text in after for word in _EMBEDDING)
    return [Fact("index_error", first, {"looked_up": "embedding"} if looked_up else {}, first.rank)]
