"""What launchers tell of the job: which ranks it has, and how its processes ended, the first one first.

Launchers are torchrun, torch.multiprocessing, srun, mpirun, DeepSpeed's and accelerate's, and the shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...model import LogError, LogEvidence, LogLine

__all__ = ["End", "crash", "ends", "is_of_launcher", "rank_of", "ranks"]

MOST_RANKS = 4096
_SUMMARY_RANK = re.compile(r"^\W*rank\s*:\s*(\d{1,6})\s*\(local_rank: \d+\)")
_SUMMARY_CODE = re.compile(r"^\W*exitcode\s*:\s*(-?\d{1,4})\s*\(pid: (\d+)\)")
_SUMMARY_TIME = re.compile(r"^\W*time\s*:\s*(\d{4}-\S+)")
_SUMMARY_HOST = re.compile(r"^\W*host\s*:\s*(\S+)")
_FIRST_FAILURE = re.compile(r"Root Cause(?: \(first observed failure\))?:")
_SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
    24: "SIGXCPU",
    31: "SIGSYS",
}
"""Linux's, wherever the log is read."""
_NUMBERS = {name: number for number, name in _SIGNALS.items()}
_WORDS = {
    "segmentation fault": "SIGSEGV",
    "bus error": "SIGBUS",
    "illegal instruction": "SIGILL",
    "floating point exception": "SIGFPE",
    "aborted": "SIGABRT",
    "killed": "SIGKILL",
    "terminated": "SIGTERM",
}
_CRASHES = "|".join(("segmentation fault", "bus error", "illegal instruction", "floating point exception", "aborted"))
_ONE_LINE = tuple(
    re.compile(form)
    for form in (
        r"failed \(exitcode: (?P<code>-?\d{1,4})\) local_rank: (?P<rank>\d{1,6}) \(pid: (?P<pid>\d+)\)",
        r"process (?P<rank>\d{1,6}) terminated with (?:signal (?P<name>SIG[A-Z]+)|exit code (?P<code>\d+))",
        r"srun: error: (?P<host>[\w.-]+): tasks? (?P<rank>\d{1,6})\b[\d,-]*: "
        rf"(?:Exited with exit code (?P<code>\d+)|(?P<words>(?i:{'|'.join(_WORDS)})))",
        r"process rank (?P<rank>\d{1,6}) with PID (?P<pid>\d+) on node (?P<host>\S+) exited on signal (?P<signal>\d+)",
        r"'--local_rank=(?P<rank>\d{1,6})'.{0,2000}exits with return code = (?P<code>-?\d+)",
        r"CalledProcessError: Command '.{0,2000}?' (?:died with <Signals\.(?P<name>SIG[A-Z]+)|returned non-zero exit status (?P<code>\d+))",
        rf"^\S{{0,200}}: (?:line \d+: )?\s*(?P<pid>\d+) (?P<words>(?i:{_CRASHES}))\b",
        rf"^(?P<words>(?i:{_CRASHES})) \(core dumped\)",
    )
)
_ANCHORS = ("exitcode", "terminated with", "srun: error", "exited on signal", "exits with", "calledprocess")
_ANCHORS_OF_SHELL = tuple(_CRASHES.split("|"))
_LAUNCHERS_ERRORS = frozenset(("ChildFailedError", "ProcessExitedException"))
_LAUNCHERS_FILES = re.compile(
    r"accelerate/(?:commands|launchers)|deepspeed/launcher|bin/(?:accelerate|deepspeed|torchrun)$"
)
_RANK_IN_TEXT = re.compile(r"(?i)\[rank ?(\d{1,9})\]")
_WORLD = re.compile(r"(?i)\b(?:world[_ ]size|nranks)\s*[:=]?\s*(\d{1,5})\b|\bMEMBER:\s*\d+/(\d{1,5})")


@dataclass(frozen=True)
class End:
    """A process that ended, as its launcher tells it. `code` is negative for a signal."""

    line: LogLine
    code: int
    rank: int | None = None
    pid: str = ""
    host: str = ""
    first: bool = False
    """The launcher says that it was the first of those on its host."""
    time: str = ""
    """As the summary has it, ``"2026-03-04_10:00:01"``: later ones are greater."""

    @property
    def by_itself(self) -> bool:
        """Not in order, and not because it was told to: launchers send SIGTERM to the others after the first failure."""
        return self.code != 0 and self.signal_name not in ("SIGTERM", "SIGINT")

    @property
    def signal_name(self) -> str:
        """``"SIGSEGV"``; empty where it ended with a code."""
        return _SIGNALS.get(-self.code, f"signal {-self.code}") if self.code < 0 else ""


def ends(evidence: LogEvidence) -> list[End]:
    """Of the processes that the launcher tells of, the first failure first.

    Where the launcher's summary tells ranks of all hosts, its one-line messages, which know local ranks alone, are left out.
    """
    in_summary = list(_of_summary(evidence))
    found = in_summary or list(_of_lines(evidence))
    return sorted(found, key=lambda e: (not e.first, e.time))  # stable: then as they were told


def _of_summary(evidence: LogEvidence) -> Iterator[End]:
    """torchrun's: a block for each process, the first failure at the end, under a headline of its own."""
    source, first, rank, host, time = -1, False, None, "", ""
    for line in evidence.lines:
        if line.source != source:
            source, first, rank, host, time = line.source, False, None, "", ""
        if _FIRST_FAILURE.search(line.text):
            first = True
        elif found := _SUMMARY_TIME.match(line.text):
            time = found[1]
        elif found := _SUMMARY_HOST.match(line.text):
            host = found[1]
        elif found := _SUMMARY_RANK.match(line.text):
            rank = int(found[1])
        elif rank is not None and (found := _SUMMARY_CODE.match(line.text)):
            yield End(line, int(found[1]), rank, found[2], host, first, time)
            rank = None


def _of_lines(evidence: LogEvidence) -> Iterator[End]:
    for line in evidence.lines:
        low = line.text.lower()
        if not any(x in low for x in _ANCHORS) and not any(x in low for x in _ANCHORS_OF_SHELL):
            continue
        found = next((m for form in _ONE_LINE if (m := form.search(line.text))), None)
        if found is not None:
            said = found.groupdict()
            rank = said.get("rank")
            code = _code(said)
            if code is not None:
                yield End(
                    line, code, None if rank is None else int(rank), said.get("pid") or "", said.get("host") or ""
                )


def _code(said: dict[str, str | None]) -> int | None:
    if name := said.get("name"):
        return -_NUMBERS[name] if name in _NUMBERS else None
    if words := said.get("words"):
        return -_NUMBERS[_WORDS[words.lower()]]
    if number := said.get("signal"):
        return -int(number)
    code = said.get("code")
    return None if code is None else _as_signal(int(code))


def _as_signal(code: int) -> int:
    """What a shell tells of a signal is 128 more than its number."""
    return 128 - code if code - 128 in _SIGNALS else code


def crash(error: LogError) -> End | None:
    """The crash whose stack Python's faulthandler printed, which the reader takes for an exception; None for any other."""
    words = error.message.strip().lower() if error.type == "Fatal Python error" else ""
    known = words in _WORDS and words != "aborted"
    return End(error.line, -_NUMBERS[_WORDS[words]], rank_of(error.line)) if known else None


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
    for line in evidence.lines:
        rank = rank_of(line)
        if rank is not None:
            known.add(rank)
        elif found := _SUMMARY_RANK.match(line.text):
            known.add(int(found[1]))
        if world := _WORLD.search(line.text):
            known.update(range(min(int(world[1] or world[2]), MOST_RANKS)))
    between = set(range(min(known, default=0), min(max(known, default=0), MOST_RANKS))) - known
    return known | between if evidence.launchers and len(between) < len(known) else known
