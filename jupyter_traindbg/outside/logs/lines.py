"""What a line says, and who says it: without colours and without what torchrun, Ray, srun, mpirun, containers and Markdown put before it.

Pure functions on text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ...terminal_codes import plain

__all__ = ["LONGEST", "Said", "clean", "is_numbered", "pieces", "unprefixed"]

LONGEST = 4000
"""Characters of one line that are kept."""

_QUOTE = re.compile(r"^\s{0,3}(?!>>>)(?:> ?)+")
_COMMENT = re.compile(r"^# (?=\S)")
_FENCE = re.compile(r"^\s*(?:```|~~~)\w*\s*$")
_SECOND_RANK = re.compile(r"(?<=\S)(?=\[rank\d+\]:)")
_REPEATED = re.compile(r"\s{0,4}\[repeated (\d+)x across (?:the )?cluster\](?: \(Ray deduplicates.*)?$")

_ERROR = r"\s*(?:Traceback \(|File \"|[\w.]+(?:Error|Exception|Interrupt)\b)"
_ERROR_FOLLOWS = rf"(?={_ERROR})"
_RANK = re.compile(r"^\s{0,3}\[rank(?P<rank>\d+)\]:? ?|^\s{0,3}Rank ?(?P<rank2>\d+): ?" + _ERROR_FOLLOWS)
_ROLE = re.compile(r"^\[(?P<role>[A-Za-z_]\w*?)(?P<rank>\d+)\]: ?")
_MPI = re.compile(r"^\[(?P<job>\d+),(?P<rank>\d+)\](?:<std(?:out|err|diag)>)?: ?")
_TORCHRUN = re.compile(r"^\[(?P<rank>\d{1,5})\]: ?(?=\S|  )")
_NUMBER = re.compile(r"^ {0,4}(?P<rank>\d{1,5}):(?!\d\d:) ?")
"""Not the hour of a time of day."""
_NUMBER_BEFORE_ERROR = re.compile(r"^ {0,4}(?P<rank>\d{1,5}): " + _ERROR_FOLLOWS)
_RAY = re.compile(
    r"^\((?P<name>[^()\s]{0,80}(?:\([^()]{0,40}\))?[^()=\n]{0,40}?)[ ,]{0,2}pid=(?P<pid>[\d.]+)(?:, ip=(?P<ip>[\w.:]+))?\) ?"
)
_RAY_PART = re.compile(r"^\((?P<name>raylet|autoscaler|gcs_server|dashboard)(?P<more>[ ,](?!\+\d)[^()]*)?\) ?")
"""Not "(autoscaler +9m40s)": how long the job has waited is part of what is said."""
_CONTAINER_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,9}(?:Z|[+-]\d\d:\d\d)(?: std(?:out|err) [FP])? ")
_COMPOSE = re.compile(r"^(?P<name>[A-Za-z][\w.-]*[-_]\d+) +\| ?")
_POD = re.compile(r"^\[pod/(?P<name>[\w.-]+)(?:/[\w.-]+)?\] ")
_NCCL = re.compile(r"^(?P<node>[\w.-]+):(?P<pid>\d+):\d+ \[(?P<gpu>-?\d+)\] (?=NCCL |\w+/)")
_PDSH = re.compile(r"^(?P<node>(?:\d{1,3}\.){3}\d{1,3}|[a-z][\w-]{0,40}\d[\w.-]{0,40}): ?(?=\[|\d{4}-|" + _ERROR + ")")

_RANK_WITHIN = re.compile(
    r"(?i)^\W{0,4}rank[ :=#]{0,2}(\d+)\b|\[(?:PG [^\]]*)?rank[ :=]?(\d+)\]|\(rank (\d+)\)|\brank=(\d+)\b|\bRankID[:=] ?(\d+)\b"
)


@dataclass(frozen=True)
class Said:
    """A cleaned line. `repeats` is what Ray counted on other workers."""

    text: str
    rank: int | None = None
    who: str = ""
    repeats: int = 1


def pieces(line: str) -> list[str]:
    """A physical line taken apart at carriage returns, and where one rank wrote into the line of another; empty pieces left out."""
    parts = [part for part in line.split("\r") if part.strip()] if "\r" in line else [line]
    if line.count("[rank") < 2:
        return parts
    return [piece for part in parts for piece in _SECOND_RANK.split(part) if piece]


def clean(line: str, *, numbered: bool = False) -> Said:
    """What `line` says. `numbered`: the source's lines begin with the number of their task (``srun -l``), see `is_numbered`."""
    before = unprefixed(line, numbered=numbered)
    rank, who, text = before.rank, before.who, before.text
    repeats = 1
    if "across" in text and (match := _REPEATED.search(text)):
        repeats, text = int(match.group(1)), text[: match.start()]
    if rank is None and (match := _RANK_WITHIN.search(text, 0, 200)):
        rank = int(next(g for g in match.groups() if g is not None))
    if rank is not None and not who:
        who = f"rank {rank}"
    return Said(text[:LONGEST], rank, who, repeats)


def unprefixed(line: str, *, numbered: bool = False) -> Said:
    """`line` without what stands before it; whose it is only by that, not by what it says itself."""
    text = plain(line).rstrip()
    if text.startswith('{"log":"'):
        text = _docker(text)
    if _FENCE.match(text):
        return Said("")
    rank, who, text = _prefixes(_COMMENT.sub("", _QUOTE.sub("", text)), numbered)
    return Said(text, rank, who)


def is_numbered(lines: list[str]) -> bool:
    """Whether these lines begin with task numbers, ``12: text``: most do, and the numbers come again, unlike a list's."""
    numbers = [int(m.group("rank")) for line in lines if (m := _NUMBER.match(line))]
    return len(numbers) >= 4 and len(numbers) >= 0.6 * len(lines) and len(set(numbers)) <= len(numbers) / 2


def _prefixes(text: str, numbered: bool) -> tuple[int | None, str, str]:
    """Takes one prefix after the other off: a container's time, then a node, then a rank."""
    rank: int | None = None
    who = ""
    for _ in range(5):
        if not text or text[0] in "\t{":
            break
        match = _match(text, numbered)
        if match is None:
            break
        seen = match.groupdict()
        number = seen.get("rank") or seen.get("rank2")
        if number is not None:
            rank = int(number)
        who = _who(seen) or who
        text = text[match.end() :]
    return rank, who, text


def _match(text: str, numbered: bool) -> re.Match[str] | None:
    first = text.lstrip(" ")[:1]
    if first == "[":
        forms = [_RANK, _MPI, _TORCHRUN, _ROLE, _POD]
    elif first == "(":
        forms = [_RAY, _RAY_PART]
    elif first.isdigit():
        forms = [_CONTAINER_TIME, _NUMBER if numbered else _NUMBER_BEFORE_ERROR, _PDSH, _NCCL]
    elif first.isalpha():
        forms = [_RANK, _NCCL, _COMPOSE, _PDSH]
    else:
        return None
    return next((match for form in forms if (match := form.match(text))), None)


def _who(seen: dict[str, str | None]) -> str:
    if seen.get("gpu") is not None:
        return f"{seen['node']} pid {seen['pid']} GPU {seen['gpu']}"
    if seen.get("pid"):
        name = (seen.get("name") or "worker").strip()
        pid = f" pid {seen['pid']}" if (seen["pid"] or "").isdigit() else ""
        return name + pid + (f" on {seen['ip']}" if seen.get("ip") else "")
    return (seen.get("node") or seen.get("name") or "").strip()


def _docker(text: str) -> str:
    """The line within Docker's json-file format."""
    try:
        record = json.loads(text)
    except ValueError:
        return text
    said = record.get("log")
    return plain(said).rstrip() if isinstance(said, str) else text
