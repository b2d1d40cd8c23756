"""What a log tells of who belongs to the job: its ranks; which exceptions are the launcher's own, and which a crash's last words."""

from __future__ import annotations

import re

from ...model import LogError, LogEvidence, LogLine

__all__ = ["crash", "is_of_launcher", "rank_of", "ranks"]

MOST_RANKS = 4096
_CRASHES = {
    "segmentation fault": "SIGSEGV",
    "bus error": "SIGBUS",
    "illegal instruction": "SIGILL",
    "floating point exception": "SIGFPE",
    "floating-point exception": "SIGFPE",
}
"""What faulthandler calls them. After "Aborted" it is the C++ code's own message that tells."""
_LAUNCHERS_ERRORS = frozenset(("ChildFailedError", "ProcessExitedException"))
_LAUNCHERS_FILES = re.compile(
    r"accelerate[/\\](?:commands|launchers)|deepspeed[/\\]launcher|bin/(?:accelerate|deepspeed|torchrun)$"
)
_RANK_IN_TEXT = re.compile(r"(?i)\[rank ?(\d{1,9})\]")
_WORLD = re.compile(r"(?i)\b(?:world[_ ]size|nranks)\s*[:=]?\s*(\d{1,5})\b|\bMEMBER:\s*\d+/(\d{1,5})")


def crash(error: LogError) -> str:
    """The signal (``"SIGSEGV"``) whose stack Python's faulthandler printed, which the reader takes for an exception; "" for any other."""
    return _CRASHES.get(error.message.strip().lower(), "") if error.type == "Fatal Python error" else ""


def is_of_launcher(error: LogError) -> bool:
    """Whether an exception is a launcher's own, which says that a process has failed and nothing else."""
    kind = error.type.rpartition(".")[2]
    if kind == "CalledProcessError":
        return any(_LAUNCHERS_FILES.search(f.file) for f in error.frames)
    return kind in _LAUNCHERS_ERRORS


def rank_of(line: LogLine) -> int | None:
    """Whose it is: by the file or the prefix, else by what the line says itself (``[Rank 3]``)."""
    if line.rank is not None:
        return line.rank
    named = _RANK_IN_TEXT.search(line.text)
    return int(named[1]) if named else None


def ranks(evidence: LogEvidence) -> set[int]:
    """All ranks that the log tells of: who wrote it, whose (perhaps empty) files there are, whom the launcher lists, the world's size;
    and in the log of a launcher those between them, if they are the fewer. (A mere excerpt may lack whom somebody cut out.)"""
    known = {source.rank for source in evidence.sources if source.rank is not None}
    known |= {end.rank for end in evidence.ends if end.rank is not None}
    for line in evidence.lines:
        rank = rank_of(line)
        if rank is not None:
            known.add(rank)
        if world := _WORLD.search(line.text):
            known.update(range(min(int(world[1] or world[2]), MOST_RANKS)))
    between = set(range(min(known, default=0), min(max(known, default=0), MOST_RANKS))) - known
    return known | between if evidence.launchers and len(between) < len(known) else known
